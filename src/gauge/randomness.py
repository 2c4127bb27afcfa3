"""Random numbers that are pure functions of integers: the same draw on every device, in every batch, after every restart.

With a stateful generator, masks and noise would change with the batch size, the device or a restart. Here each number is a
hash (the finaliser of SplitMix64) of a key and a position. Keys are arrays of NumPy or tensors; torch is imported for these.
"""

import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int

if TYPE_CHECKING:
    import torch
    from torch import Tensor as Tensor

    Array = TypeVar("Array", np.ndarray, Tensor)
else:
    Tensor = Array = Any

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64  # SplitMix64's constants, written as signed 64-bit integers
_MIX1 = 0xBF58476D1CE4E5B9 - 2**64
_MIX2 = 0x94D049BB133111EB - 2**64
KEYS_AT_ONCE = 2**17
_SEEDED = threading.RLock()


def _mix(state: Array) -> Array:
    for shift, factor in ((30, _MIX1), (27, _MIX2)):
        state = (state ^ _logical_shift(state, shift)) * factor
    return state ^ _logical_shift(state, 31)


def _logical_shift(state: Array, bits: int) -> Array:
    return (state >> bits) & ((1 << (64 - bits)) - 1)


def derive(key: Int[Array, "b"], *parts: int | str) -> Int[Array, "b"]:
    """New keys from old ones: streams of different parts are independent, equal parts give equal streams.

    >>> key = np.arange(3)
    >>> bool((derive(key, "masks", 7) == derive(key, "masks", 7)).all()), bool((derive(key, 1) == derive(key, 2)).any())
    (True, False)
    """
    for part in parts:
        number = zlib.crc32(part.encode()) if isinstance(part, str) else part
        step = ((number + 1) * _GOLDEN + 2**63) % 2**64 - 2**63  # as a 64-bit integer that wraps around
        key = _mix(key + step)
    return key


def key_of(seed: int, *parts: int | str) -> int:
    """One integer key for draws that belong to no sample."""
    return int(derive(np.array([seed], np.int64), *parts)[0])


def sample_keys(index: Int[Array, "b"], seed: int, *parts: int | str) -> Int[Array, "b"]:
    """The keys of the samples at `index`, for example for one epoch: `sample_keys(index, seed, "train", epoch)`."""
    return _mix(index * _GOLDEN + key_of(seed, *parts))


def uniform(key: Int[Array, "b"], count: int) -> Float[Array, "b {count}"]:
    """`count` numbers in (0, 1) for every key."""
    if isinstance(key, np.ndarray):
        bits = _logical_shift(_mix(key[:, None] + np.arange(1, count + 1) * _GOLDEN), 41)
        return (bits.astype(np.float32) + 0.5) * 2.0**-23
    import torch

    # torch.compile takes a multiple of an arange for an index, of 32 bits on a GPU; what XOR gives it multiplies in 64
    positions = (torch.arange(1, count + 1, device=key.device) ^ 0) * _GOLDEN
    bits = _logical_shift(_mix(key[:, None] + positions), 41)  # 23 bits: plus a half they still fit a float32
    return (bits.float() + 0.5) * 2.0**-23


def normal(key: Int[Tensor, "b"], count: int) -> Float[Tensor, "b {count}"]:
    """`count` standard normal numbers for every key."""
    import torch

    return torch.special.ndtri(uniform(key, count))


def choose(key: Int[Tensor, "b"], among: Bool[Tensor, "b f"], counts: Int[Tensor, "n"]) -> Bool[Tensor, "b f"]:
    """A random `counts[n]` of the n marked entries of every row."""
    draws = uniform(key, among.shape[1]).masked_fill(~among, 2.0)
    return draws.argsort(1).argsort(1) < counts[among.sum(1)][:, None]


def permutation(size: int, seed: int, *parts: int | str, device: "torch.device | str" = "cpu") -> Int[Tensor, "{size}"]:
    """A random order of 0 .. size - 1."""
    import torch

    every = torch.arange(size, device=device)
    keys = torch.cat([sample_keys(index, seed, *parts) for index in every.split(KEYS_AT_ONCE)])
    del every
    # no two keys are equal, so every way to sort them gives this order; on a CPU NumPy's takes the least memory
    return torch.from_numpy(keys.numpy().argsort()) if keys.device.type == "cpu" else keys.argsort()


@contextmanager
def seeded(seed: int, *parts: int | str) -> Iterator[None]:
    """Seeds torch's own draws (weight initialisation, dropout) inside the block, and leaves its generators as they were.

    Modules draw from generators that all threads of a process share, so one thread at a time is inside such a block: fits in
    threads wait for each other, epoch by epoch, and learn what each learns alone. Draws that a thread makes outside of such
    blocks still come in between. Nothing else in the library seeds a generator that others use.
    """
    import torch

    number, gpus = key_of(seed, *parts) & (2**63 - 1), range(torch.cuda.device_count())
    with _SEEDED, torch.random.fork_rng(gpus):
        torch.default_generator.manual_seed(number)  # `torch.manual_seed` takes milliseconds where there is no GPU
        if gpus:
            torch.cuda.manual_seed_all(number)
        if torch.backends.mps.is_available():
            torch.mps.manual_seed(number)
        yield
