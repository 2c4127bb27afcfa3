"""Requests that are answered together: clients that ask again are waited for, one alone is not."""

import asyncio
import time

from gauge.deploy.batching import LINGER, MAX_LINGER, Batcher

SECONDS = 0.1  # of a prediction
DELAYS = (0.0, 0.002, 0.004, 0.006)  # of each client, before it asks again


def predict(rows):
    time.sleep(SECONDS)
    return [2 * row for row in rows]


def sizes_of_batches(delays, rounds):
    """The rows of each batch, when a client with each of the delays asks so often."""
    sizes = []

    async def ask(batcher, delay):
        for number in range(rounds):
            assert await batcher.predict(predict, [number]) == [2 * number]
            await asyncio.sleep(delay)

    async def serve():
        batcher = Batcher(rows=100, on_batch=sizes.append)
        running = asyncio.create_task(batcher.run())
        await asyncio.gather(*(ask(batcher, delay) for delay in delays))
        running.cancel()
        batcher.thread.shutdown()

    asyncio.run(serve())
    return sizes


def test_clients_that_were_answered_together_are_answered_together_again():
    sizes = sizes_of_batches(DELAYS, rounds=4)
    assert sum(sizes) == 4 * len(DELAYS)
    assert len(DELAYS) in sizes[1:], "whoever asks first waits for the others"


def test_a_client_alone_never_waits():
    started = time.monotonic()
    batcher = Batcher(rows=100, on_batch=lambda rows: None)
    batcher.last = (1, 10.0)
    asyncio.run(batcher._linger())
    assert time.monotonic() - started < MAX_LINGER / 2


def test_clients_that_are_gone_are_waited_for_once_and_shortly():
    batcher = Batcher(rows=100, on_batch=lambda rows: None)
    batcher.last = (32, 0.02)
    started = time.monotonic()
    asyncio.run(batcher._linger())
    assert time.monotonic() - started >= LINGER * 0.02
