"""GAUGE+: heads, their combination with the network, trust, and pre-training."""
