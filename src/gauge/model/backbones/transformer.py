"""The backbone that all methods share: pre-norm blocks, no qkv bias, no dropout, no final norm."""

from jaxtyping import Float
from torch import Tensor, nn

from gauge.model.nn.attention import Block, PullBack, pays_off
from gauge.types import Backbone, Differentiated


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
        return self.cls_from(self.entry(sequence), attn_bias)

    def entry(self, sequence: Float[Tensor, "b s c"]) -> tuple[Tensor, ...]:
        """The sequence, and what the attention of the first block computes before the bias."""
        return sequence, *self._block(0).entry(sequence, self._reads(0))

    def cls_from(self, entry: tuple[Tensor, ...], attn_bias: Tensor | None = None) -> Float[Tensor, "b c"]:
        sequence = self._block(0).finish(*entry, attn_bias=attn_bias)
        for index in range(1, len(self.blocks)):
            sequence = self.blocks[index](sequence, attn_bias, self._reads(index))
        return sequence.squeeze(1)

    def with_pull_back(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None) -> Differentiated | None:
        if not pays_off(sequence):
            return None
        state, entries, backs = sequence, list[tuple[Tensor, ...]](), list[PullBack]()
        for index in range(len(self.blocks)):
            state, entry, back = self._block(index).with_pull_back(state, attn_bias, self._reads(index))
            entries.append(entry)
            backs.append(back)

        def pull_back(gradient: Tensor) -> Tensor:
            gradient = gradient[:, None]
            for back in reversed(backs):
                gradient = back(gradient)
            return gradient

        return Differentiated(state.squeeze(1), (sequence, *entries[0]), pull_back)

    def attention(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b h s s"]:
        for block in self.blocks[:-1]:
            sequence = block(sequence, attn_bias)
        last = self._block(-1)
        return last.attention.weights(last.attention_norm(sequence), attn_bias)

    def _block(self, index: int) -> Block:
        block = self.blocks[index]
        assert isinstance(block, Block)
        return block

    def _reads(self, index: int) -> int | None:
        """How many positions of a block are read: the last one's CLS, all of the others."""
        return 1 if index == len(self.blocks) - 1 else None
