"""IDX files, the format of MNIST: a magic number, big-endian sizes, bytes."""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

UNSIGNED_BYTE = 8  # the format's code for the type of the entries


def read_idx(path: Path, axes: int) -> UInt8[np.ndarray, "..."]:
    """The array in the file at `path`, or in `path`.gz if only that exists."""
    path, content = _content(path)
    header = 4 + 4 * axes
    magic = struct.pack(">HBB", 0, UNSIGNED_BYTE, axes)
    if content[:4] != magic:
        raise ValueError(
            f"{path} starts with the bytes {content[:4].hex()}, an IDX file of {axes} axes with {magic.hex()}; "
            "give the official file"
        )
    if len(content) < header:
        raise ValueError(f"{path} ends inside its header, after {len(content)} of {header} bytes; download it again")
    shape = struct.unpack_from(f">{axes}I", content, 4)
    size, expected = len(content) - header, math.prod(shape)
    if size != expected:
        raise ValueError(
            f"{path} holds {size:,} bytes of data, but its header says {list(shape)}, which is {expected:,}; "
            "download it again"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _content(path: Path) -> tuple[Path, bytes]:
    packed = path.with_name(f"{path.name}.gz")
    if path.is_file():
        return path, path.read_bytes()
    if not packed.is_file():
        raise ValueError(f"there is neither {path} nor {packed.name}; put one of them in {path.parent}")
    try:
        return packed, gzip.decompress(packed.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{packed} is damaged ({error}); download it again") from error
