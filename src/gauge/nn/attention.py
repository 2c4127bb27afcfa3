"""The Transformer of all methods: pre-norm blocks whose attention takes an additive bias (Eq. 8)."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gauge.types import Backbone


class Attention(nn.Module):
    """softmax(Q Kᵀ / √c + bias) V in several heads (Eq. 8): one qkv projection without bias, an output projection with one,
    no dropout."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"dim {dim} cannot be split over {heads} heads; make it a multiple")
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.project = nn.Linear(dim, dim)

    def forward(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b s c"]:
        query, key, value = self._split(sequence)
        if attn_bias is not None:
            attn_bias = attn_bias.to(query.dtype)  # float32 beside half precision is misread
        gathered = F.scaled_dot_product_attention(query, key, value, attn_bias)
        return self.project(gathered.transpose(1, 2).flatten(2))

    def first(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b 1 c"]:
        """The output at the first position alone.

        With a single query q, its scores q · (W_k x) are (q W_k) · x, and a mean of values W_v x is W_v times the mean of x:
        nothing of the size of all keys and values is computed.
        """
        to_query, to_key, to_value = self.qkv.weight.unflatten(0, (3, self.heads, -1))
        query = F.linear(sequence[:, 0], to_query.flatten(0, 1) * to_query.shape[1] ** -0.5)
        # heads first: the products below are then one batched matrix product for each head
        by_head = query.unflatten(-1, (self.heads, -1)).transpose(0, 1)
        logits = (by_head @ to_key).transpose(0, 1) @ sequence.transpose(1, 2)
        if attn_bias is not None:  # of the first query, where queries differ
            logits += attn_bias[..., 0, :].to(logits.dtype)
        mean = logits.softmax(-1) @ sequence
        values = (mean.transpose(0, 1) @ to_value.transpose(1, 2)).transpose(0, 1)
        return self.project(values.flatten(1))[:, None]

    def weights(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b h s s"]:
        """The attention of each position to every other, after the softmax."""
        query, key, _ = self._split(sequence)
        logits = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
        if attn_bias is not None:
            logits = logits + attn_bias.to(logits.dtype)
        return logits.softmax(-1)

    def _split(self, sequence: Float[Tensor, "b s c"]) -> tuple[Tensor, ...]:
        return split_heads(self.heads, *self.qkv(sequence).chunk(3, -1))


def split_heads(heads: int, *parts: Float[Tensor, "b _ c"]) -> tuple[Float[Tensor, "b {heads} _ _"], ...]:
    """Each part with an axis for its heads, before that of the positions."""
    return tuple(part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in parts)


class Block(nn.Module):
    """x + Attention(LN(x)), then x + MLP(LN(x)) with an exact GELU.

    >>> import torch
    >>> Block(128, heads=4)(torch.zeros(2, 21, 128)).shape
    torch.Size([2, 21, 128])
    """

    def __init__(self, dim: int, heads: int, mlp_ratio: int = 4) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(dim), Attention(dim, heads)
        self.mlp_norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp_ratio * dim), nn.GELU(), nn.Linear(mlp_ratio * dim, dim))

    def forward(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b s c"]:
        return self._finish(sequence + self.attention(self.attention_norm(sequence), attn_bias))

    def first(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b 1 c"]:
        """The new state of the first position alone."""
        return self._finish(sequence[:, :1] + self.attention.first(self.attention_norm(sequence), attn_bias))

    def _finish(self, state: Tensor) -> Tensor:
        return state + self.mlp(self.mlp_norm(state))


class Transformer(Backbone):
    """`depth` blocks that all receive the same attention bias; no qkv bias, no dropout, no final norm.

    >>> sum(p.numel() for p in Transformer(128, heads=4, depth=2).parameters())
    395776
    """

    def __init__(self, dim: int, *, heads: int, depth: int, mlp_ratio: int = 4) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim, heads, mlp_ratio) for _ in range(depth))

    def forward(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b s c"]:
        for block in self.blocks:
            sequence = block(sequence, attn_bias)
        return sequence

    def cls(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b c"]:
        """The first position of `forward`; the last block computes no other."""
        sequence, last = self._before_last(sequence, attn_bias)
        return last.first(sequence, attn_bias).squeeze(1)

    def attention(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b h s s"]:
        sequence, last = self._before_last(sequence, attn_bias)
        return last.attention.weights(last.attention_norm(sequence), attn_bias)

    def _before_last(self, sequence: Tensor, attn_bias: Tensor | None) -> tuple[Tensor, Block]:
        *blocks, last = self.blocks
        assert isinstance(last, Block)
        for block in blocks:
            sequence = block(sequence, attn_bias)
        return sequence, last
