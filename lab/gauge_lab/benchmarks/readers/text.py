"""Text as one-hot rows over the alphabet of 71 symbols that the published benchmarks share."""

import logging
from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789-,;.!?:'\"\\/|_@#$%^&*~`+-=<>()[]{} \n"  # with '-' twice
UNKNOWN = len(ALPHABET)

logger = logging.getLogger(__name__)


def one_hot(texts: Sequence[str], length: int) -> UInt8[np.ndarray, "n {length} 71"]:
    """The first `length` characters of each text; zero rows after its end and for characters outside the alphabet.

    A symbol that is in the alphabet twice has its first index.

    >>> one_hot(["ba"], 3)[0, :, :3].tolist()
    [[0, 255, 0], [255, 0, 0], [0, 0, 0]]
    """
    codes = np.array(texts, dtype=f"U{length}").reshape(-1, 1).view(np.uint32)
    symbols = _symbols()[codes.clip(max=127)]
    unknown = (symbols == UNKNOWN) & (codes != 0)  # 0: after the end
    if unknown.any():
        examples = "".join(dict.fromkeys(map(chr, codes[unknown][:1000])))[:10]
        message = "%d characters of %d texts are outside the alphabet and become zero rows, such as %r"
        logger.warning(message, unknown.sum(), len(texts), examples)
    rows = np.zeros((UNKNOWN + 1, len(ALPHABET)), np.uint8)
    np.fill_diagonal(rows, 255)  # a Dataset reads bytes as numbers from 0 to 1
    return rows[symbols]


def _symbols() -> np.ndarray:
    """The index in the alphabet of each ASCII code."""
    indices = np.full(128, UNKNOWN, dtype=np.uint8)
    for index, symbol in reversed(list(enumerate(ALPHABET))):
        indices[ord(symbol)] = index
    return indices
