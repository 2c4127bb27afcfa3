"""Independent parts of a step side by side: small networks leave most of a GPU idle when they run one after the other."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

T = TypeVar("T")

_streams: list[torch.cuda.Stream] = []
_open: set[int] = set()


def side_by_side(calls: Sequence[Callable[[], T]]) -> list[T]:
    """The results of calls that do not depend on each other.

    While a step is recorded as a CUDA graph each call gets a stream of its own, and so does its backward pass: the replay
    overlaps them. At all other times they run one after the other.
    """
    if not torch.cuda.is_available() or not torch.cuda.is_current_stream_capturing():
        return [call() for call in calls]
    while len(_streams) < len(calls):
        _streams.append(torch.cuda.Stream())
    main, results = torch.cuda.current_stream(), []
    for place, call in enumerate(calls):
        _streams[place].wait_stream(main)
        _open.add(place)
        with torch.cuda.stream(_streams[place]):
            results.append(call())
    join()
    return results


def join() -> None:
    """Let the current stream wait for all that was started side by side; called again after a backward pass."""
    for place in _open:
        torch.cuda.current_stream().wait_stream(_streams[place])


def forget() -> None:
    """At the end of a recording: the next one starts with streams that take no part in it yet."""
    _open.clear()
