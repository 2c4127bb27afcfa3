"""The device that work runs on, and the number of its threads. torch is imported where a device is picked."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_threads = ContextVar("threads", default=0)  # while torch is not imported; 0 is what OpenMP chooses


def pick_device(name: "torch.device | str | None", gpus: int | None = None) -> "torch.device":
    """The device of that name; without a name or with "auto", a GPU if there is one, under torchrun one for each process.
    `gpus` is the number of GPUs, by default as torch counts them.

    >>> pick_device("auto", gpus=0), pick_device(None, gpus=2), pick_device("cuda:1", gpus=2)
    (device(type='cpu'), device(type='cuda'), device(type='cuda', index=1))
    """
    import torch

    # this process on its machine
    local_index = f":{os.environ['LOCAL_RANK']}" if "LOCAL_RANK" in os.environ else ""
    gpus = torch.cuda.device_count() if gpus is None else gpus
    if name is None or name == "auto":
        name = f"cuda{local_index}" if gpus else "cpu"
    device_names = "use auto, cpu, cuda, cuda:NUMBER or mps"
    if not re.fullmatch(r"cpu|mps|cuda(:\d+)?", str(name)):
        raise ValueError(f"there is no device {str(name)!r}; {device_names}")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= gpus:
        raise ValueError(f"{device} was asked for, but torch sees {gpus} GPUs; use cpu")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError("mps was asked for, but this machine or this build of torch has none; use cpu")
    return device


@contextmanager
def cpu_threads(count: int | None, *, small: bool = False) -> Iterator[None]:
    """Set the number of threads for tensors and trees; -1 is one for each core.

    None leaves the number unchanged, but `small` work gets one thread: several of them wait for each other after every
    operation, which takes ten times as long beside another busy process and is hardly faster alone. What the user has set,
    with OMP_NUM_THREADS or `torch.set_num_threads`, stays.
    """
    before = num_threads()
    usual = 1 if small and not threads_are_set() else before
    _set_threads(usual if count is None else (os.cpu_count() or 1) if count == -1 else count)
    try:
        yield
    finally:
        _set_threads(before)


def num_threads() -> int:
    """Return the number of threads for trees: that of torch, where it is imported."""
    torch = sys.modules.get("torch")
    return _threads.get() if torch is None else int(torch.get_num_threads())


def _set_threads(count: int) -> None:
    _threads.set(count)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(count or os.cpu_count())


def threads_are_set() -> bool:
    """Whether the user has chosen a number of threads: in the environment, or one that torch itself would not choose."""
    thread_variables = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    cores = os.cpu_count() or 1  # torch chooses that of all or, where two share a core, of half of them
    return any(name in os.environ for name in thread_variables) or num_threads() not in (
        *(0, cores, cores // 2),
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores,
    )


def device_of_job(name: str | None, number: int, gpus: int | None = None) -> str | None:
    """The device of one of several parallel jobs, which take turns on all GPUs unless one of them is named.

    >>> [device_of_job("auto", number, gpus=2) for number in range(3)], device_of_job("cuda:1", 2, gpus=2)
    (['cuda:0', 'cuda:1', 'cuda:0'], 'cuda:1')
    >>> device_of_job(None, 1, gpus=0), device_of_job("cpu", 1, gpus=2)
    (None, 'cpu')
    """
    import torch

    gpus = torch.cuda.device_count() if gpus is None else gpus
    return f"cuda:{number % gpus}" if name in (None, "auto", "cuda") and gpus > 1 else name
