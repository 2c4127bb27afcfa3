"""Random numbers that are pure functions of integers: the same draw on every device, in every batch, after every restart.

With a stateful generator, masks and noise would change with the batch size, the device or a restart. Here each number is a
hash (the finaliser of SplitMix64) of a key and a position.
"""

import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64  # SplitMix64's constants, written as signed 64-bit integers
_MIX1 = 0xBF58476D1CE4E5B9 - 2**64
_MIX2 = 0x94D049BB133111EB - 2**64
KEYS_AT_ONCE = 2**17
NEW = "rand randn randint randperm normal bernoulli multinomial poisson"
IN_PLACE = "bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_"
START = (
    "uniform_ normal_ trunc_normal_ xavier_uniform_ xavier_normal_ kaiming_uniform_ kaiming_normal_ orthogonal_ sparse_"
)
LAYERS = "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout rrelu gumbel_softmax"
ATTENTION = "scaled_dot_product_attention multi_head_attention_forward"
INITIALISERS = {name for name in dir(nn.init) if name.endswith("_") and not name.startswith("_")}
TAKE_GENERATOR = {
    *(getattr(torch, name) for name in NEW.split()),
    *(getattr(Tensor, name) for name in ["bernoulli", "multinomial", *IN_PLACE.split()]),
    *(getattr(nn.init, name) for name in START.split()),
}
DRAWS = TAKE_GENERATOR | {  # what draws from torch's generator unless it is given one
    *(getattr(F, name) for name in f"{LAYERS} {ATTENTION}".split()),
    *(
        torch.rand_like,
        torch.randn_like,
        torch.randint_like,
        torch.binomial,
        torch.rrelu,
        torch.dropout,
        torch.dropout_,
    ),
    *(torch.alpha_dropout, torch.feature_dropout, torch.native_dropout, torch.rnn_tanh, torch.rnn_relu),
    *(torch.lstm, torch.gru),
}


def _mix(state: Tensor) -> Tensor:
    for shift, factor in ((30, _MIX1), (27, _MIX2)):
        state = (state ^ _logical_shift(state, shift)) * factor
    return state ^ _logical_shift(state, 31)


def _logical_shift(state: Tensor, bits: int) -> Tensor:
    return (state >> bits) & ((1 << (64 - bits)) - 1)


def derive(key: Int[Tensor, "b"], *parts: int | str) -> Int[Tensor, "b"]:
    """New keys from old ones: streams of different parts are independent, equal parts give equal streams.

    >>> key = torch.arange(3)
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
    return int(derive(torch.tensor([seed]), *parts)[0])


def sample_keys(index: Int[Tensor, "b"], seed: int, *parts: int | str) -> Int[Tensor, "b"]:
    """The keys of the samples at `index`, for example for one epoch: `sample_keys(index, seed, "train", epoch)`."""
    return _mix(index * _GOLDEN + key_of(seed, *parts))


def uniform(key: Int[Tensor, "b"], count: int) -> Float[Tensor, "b {count}"]:
    """`count` numbers in (0, 1) for every key."""
    # torch.compile takes a multiple of an arange for an index, of 32 bits on a GPU; what XOR gives it multiplies in 64
    positions = (torch.arange(1, count + 1, device=key.device) ^ 0) * _GOLDEN
    bits = _logical_shift(_mix(key[:, None] + positions), 41)  # 23 bits: plus a half they still fit a float32
    return (bits.float() + 0.5) * 2.0**-23


def normal(key: Int[Tensor, "b"], count: int) -> Float[Tensor, "b {count}"]:
    """`count` standard normal numbers for every key."""
    return torch.special.ndtri(uniform(key, count))


def choose(key: Int[Tensor, "b"], among: Bool[Tensor, "b f"], counts: Int[Tensor, "n"]) -> Bool[Tensor, "b f"]:
    """A random `counts[n]` of the n marked entries of every row."""
    draws = uniform(key, among.shape[1]).masked_fill(~among, 2.0)
    return draws.argsort(1).argsort(1) < counts[among.sum(1)][:, None]


def permutation(size: int, seed: int, *parts: int | str, device: torch.device | str = "cpu") -> Int[Tensor, "{size}"]:
    """A random order of 0 .. size - 1."""
    every = torch.arange(size, device=device)
    keys = torch.cat([sample_keys(index, seed, *parts) for index in every.split(KEYS_AT_ONCE)])
    del every
    # no two keys are equal, so every way to sort them gives this order; on a CPU NumPy's takes the least memory
    return torch.from_numpy(keys.numpy().argsort()) if keys.device.type == "cpu" else keys.argsort()


class _OwnDraws(TorchFunctionMode):
    """Torch's draws on the CPU, of this thread and inside the block, from a generator of their own. The numbers are those
    that `torch.manual_seed` gives.

    Modules draw from the one generator of the process, which other threads advance, too. What can be given a generator is
    given one. For the rest (dropout of channels, dropout in attention) the state of the process's generator is swapped for
    that draw, under a lock: there, and only there, a draw of a thread outside such a block could come in between.
    """

    lock = threading.RLock()
    drawing = threading.local()

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # transformers puts functions of its own in place of torch's initialisers while it builds a model
        draws = func in DRAWS or getattr(func, "__name__", None) in INITIALISERS
        if not draws or kwargs.get("generator") is not None or getattr(self.drawing, "now", False):
            return func(*args, **kwargs)
        self.drawing.now = True  # a block inside a block draws from its own
        try:
            if func in TAKE_GENERATOR and _on_cpu(args, kwargs):
                return func(*args, **kwargs | {"generator": self.generator})
            if func is F.dropout and _on_cpu(args, kwargs):
                return self._dropout(*args, **kwargs)
            return self._swapped(func, args, kwargs)
        finally:
            self.drawing.now = False

    def _dropout(self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        if not training or not 0 < p < 1:
            return F.dropout(input, p, training, inplace)
        noise = torch.empty_like(input).bernoulli_(1 - p, generator=self.generator).div_(1 - p)
        return input.mul_(noise) if inplace else input * noise

    def _swapped(self, func: Any, args: Any, kwargs: Any) -> Any:
        with self.lock:
            process = torch.default_generator.get_state()
            torch.default_generator.set_state(self.generator.get_state())
            try:
                return func(*args, **kwargs)
            finally:
                self.generator.set_state(torch.default_generator.get_state())
                torch.default_generator.set_state(process)


def _on_cpu(args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether a draw fills a tensor on the CPU."""
    first = args[0] if args else kwargs.get("tensor", kwargs.get("input"))
    given = first.device if isinstance(first, Tensor) else kwargs.get("device")
    return torch.device(torch.get_default_device() if given is None else given).type == "cpu"


@contextmanager
def seeded(seed: int, *parts: int | str) -> Iterator[None]:
    """Seeds torch's own draws (weight initialisation, dropout) inside the block, and leaves its generators as they were.

    On a CPU threads do not disturb each other: the same block gives the same numbers whatever others draw. Threads that
    share a GPU share its generator.
    """
    number = key_of(seed, *parts) & (2**63 - 1)
    states = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    if states:
        torch.cuda.manual_seed_all(number)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(number)
    try:
        with _OwnDraws(number):
            yield
    finally:
        if states:
            torch.cuda.set_rng_state_all(states)
