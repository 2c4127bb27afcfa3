"""The backbone that all methods share: pre-norm blocks, no qkv bias, no dropout, no final norm."""

from jaxtyping import Float
from torch import Tensor, nn

from gauge.model.nn.attention import Block
from gauge.types import Backbone


class Transformer(Backbone):
    """`depth` blocks that all receive the same attention bias.

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
        for block in self.blocks[:-1]:
            sequence = block(sequence, attn_bias)
        return self.blocks[-1](sequence, attn_bias, reads=1)[:, 0]

    def attention(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b h s s"]:
        for block in self.blocks[:-1]:
            sequence = block(sequence, attn_bias)
        last = self.blocks[-1]
        assert isinstance(last, Block)
        return last.attention.weights(last.attention_norm(sequence), attn_bias)
