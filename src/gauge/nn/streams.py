"""Independent parts of a step run side by side: one after the other, small networks leave most of a GPU idle."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

T = TypeVar("T")

_streams: list[torch.cuda.Stream] = []
_open: set[int] = set()


def side_by_side(calls: Sequence[Callable[[], T]]) -> list[T]:
    """The results of calls that do not depend on each other. While a step is recorded as a CUDA graph, each call and its
    backward pass get their own stream, so that the replay overlaps them; otherwise they run one after the other."""
    if not torch.cuda.is_available() or not torch.cuda.is_current_stream_capturing():
        return [call() for call in calls]
    while len(_streams) < len(calls):
        _streams.append(torch.cuda.Stream())
    main, results = torch.cuda.current_stream(), []
    for index, call in enumerate(calls):
        _streams[index].wait_stream(main)
        _open.add(index)
        with torch.cuda.stream(_streams[index]):
            results.append(call())
    join()
    return results


def join() -> None:
    """Makes the current stream wait for all calls that run side by side; needed again after a backward pass."""
    for index in _open:
        torch.cuda.current_stream().wait_stream(_streams[index])


def forget() -> None:
    """Called at the end of a recording, so that the next one starts without open streams."""
    _open.clear()
