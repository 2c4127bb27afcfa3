"""Text as word numbers -> one unit per word: its embedding, and its neighbours through a convolution (notes, titles)."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from gauge.types import Encoder

__all__ = ["Tokens"]

UNKNOWN = 1  # the number of words not seen in training


class Tokens(Encoder):
    """Reads word numbers below `words`; 0 pads short texts.

    >>> Tokens((24,), 32, words=500).units
    24
    """

    example_shape = (6,)

    def __init__(self, shape: Sequence[int], width: int, words: int = 64) -> None:
        super().__init__()
        if len(shape) != 1:
            raise ValueError(f"a text has shape [words], not {list(shape)}; give the number of each word")
        (self.units,), self.width, self.words = shape, width, words
        # 0 is the number of positions after the end of a text
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.neighbours = nn.Conv1d(width, width, 3, padding=1)

    def forward(self, x: Tensor, observed: Tensor) -> Float[Tensor, "b n c"]:
        word = self.embedding(x.long().clamp(0, self.words - 1))
        return word + self.neighbours(word.transpose(1, 2)).relu().transpose(1, 2)
