"""Batcher: requests that arrive while others are answered are answered together."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, TypeVar

Predict = Callable[[Sequence[Any]], Sequence[Any]]  # an answer for each row
T = TypeVar("T")


@dataclass(frozen=True)
class Waiting:
    predict: Predict
    rows: Sequence[Any]
    answer: "asyncio.Future[Sequence[Any]]"


class Batcher:
    """Predicts in one thread. Nobody waits for a batch to fill: it takes the requests that arrived during the last one, up
    to `rows` rows. An error concerns only the request that caused it."""

    def __init__(self, *, rows: int, on_batch: Callable[[int], None]) -> None:
        self.rows, self.on_batch = rows, on_batch
        self.queue: asyncio.Queue[Waiting] = asyncio.Queue()
        self.thread = ThreadPoolExecutor(1, "predict")

    async def predict(self, predict: Predict, rows: Sequence[Any]) -> Sequence[Any]:
        """The answers for the rows."""
        waiting = Waiting(predict, rows, asyncio.get_running_loop().create_future())
        self.queue.put_nowait(waiting)
        return await waiting.answer

    async def run(self) -> None:
        """Answer requests until cancelled."""
        while True:
            group = [await self.queue.get()]
            count = len(group[0].rows)
            while not self.queue.empty() and count < self.rows:
                group.append(self.queue.get_nowait())
                count += len(group[-1].rows)
            for predict in dict.fromkeys(each.predict for each in group):
                same = [each for each in group if each.predict == predict and not each.answer.done()]
                await self._answer(predict, same)

    async def in_thread(self, call: Callable[[], T]) -> T:
        """The result of a call that must not run beside predictions."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, call)

    async def _answer(self, predict: Predict, group: list[Waiting]) -> None:
        if not group:
            return
        rows = list(chain.from_iterable(each.rows for each in group))
        try:
            answers = await self.in_thread(lambda: predict(rows))
        except Exception as error:
            if len(group) > 1:
                for each in group:
                    await self._answer(predict, [each])
            elif not group[0].answer.done():
                group[0].answer.set_exception(error)
            return
        self.on_batch(len(answers))
        ends = accumulate(len(each.rows) for each in group)
        for each, end in zip(group, ends, strict=True):
            if not each.answer.done():
                each.answer.set_result(answers[end - len(each.rows) : end])
