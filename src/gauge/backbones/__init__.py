"""Backbones: (sequence [b, s, c] with CLS first, attn_bias broadcastable to [b, h, s, s] or None) -> [b, s, c]."""
