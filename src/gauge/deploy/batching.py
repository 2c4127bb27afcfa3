"""Batcher: rows of requests that arrive during a prediction are predicted together."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, TypeVar

PredictRows = Callable[[Sequence[Any]], Sequence[Any]]  # one result for each row
T = TypeVar("T")

LINGER, MAX_LINGER = 0.25, 0.02  # of the time of the last batch, and seconds, that a batch waits for requests


@dataclass(frozen=True)
class Waiting:
    predict: PredictRows
    rows: Sequence[Any]
    result: "asyncio.Future[Sequence[Any]]"


class Batcher:
    """Predicts in one thread: a batch takes the requests that arrived during the last one, up to `rows` rows. It waits for
    as many requests as the last one had, since clients that just got a response ask again, but no longer than a part of the
    time that the last one took; a client alone never waits. An error concerns only the request that caused it."""

    def __init__(self, *, rows: int, on_batch: Callable[[int], None]) -> None:
        self.rows, self.on_batch = rows, on_batch
        self.queue: asyncio.Queue[Waiting] = asyncio.Queue()
        self.thread = ThreadPoolExecutor(1, "predict")
        self.last = (1, 0.0)  # requests of the last batch, and its seconds

    async def predict(self, predict: PredictRows, rows: Sequence[Any]) -> Sequence[Any]:
        """The predictions for the rows."""
        waiting = Waiting(predict, rows, asyncio.get_running_loop().create_future())
        self.queue.put_nowait(waiting)
        return await waiting.result

    async def run(self) -> None:
        """Predict until cancelled."""
        while True:
            group = [await self.queue.get()]
            await self._linger()
            started, count = time.monotonic(), len(group[0].rows)
            while not self.queue.empty() and count < self.rows:
                group.append(self.queue.get_nowait())
                count += len(group[-1].rows)
            for predict in dict.fromkeys(each.predict for each in group):
                same = [each for each in group if each.predict == predict and not each.result.done()]
                await self._predict(predict, same)
            self.last = len(group), time.monotonic() - started

    async def _linger(self) -> None:
        """Wait for the clients of the last batch, who are likely to ask again."""
        requests, seconds = self.last
        end = time.monotonic() + min(LINGER * seconds, MAX_LINGER)
        while 1 + self.queue.qsize() < requests and time.monotonic() < end:
            await asyncio.sleep(0.0005)  # seconds

    async def in_thread(self, call: Callable[[], T]) -> T:
        """The result of a call that must not run beside predictions."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, call)

    async def _predict(self, predict: PredictRows, group: list[Waiting]) -> None:
        if not group:
            return
        rows = list(chain.from_iterable(each.rows for each in group))
        try:
            results = await self.in_thread(lambda: predict(rows))
        except Exception as error:
            if len(group) > 1:
                for each in group:
                    await self._predict(predict, [each])
            elif not group[0].result.done():
                group[0].result.set_exception(error)
            return
        self.on_batch(len(results))
        ends = accumulate(len(each.rows) for each in group)
        for each, end in zip(group, ends, strict=True):
            if not each.result.done():
                each.result.set_result(results[end - len(each.rows) : end])
