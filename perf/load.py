"""Minutes of load on `gauge serve`, with hostile requests among the others: no wrong answer, none lost, no growth.

    python perf/load.py [--minutes 10] [--clients 16] [--hostile 0.01] [--out perf/results]

Clients send rows to a server process over connections that they keep. Every answer is compared with the prediction of the
same model in this process. Some rows are sent in a way that is odd but legal: in chunks, slowly, in HTTP/1.0, or with an
offer of HTTP/2. A share of the requests is hostile: broken, oversized or half-sent ones, floods of values, numbers and texts
that are none, wrong lengths and types, and clients that leave. Each has to be refused or dropped, and the answers to others
must not change. Memory is that of the server process at the end of each tenth of the time; growth compares the last with the
third, when all that is allocated once is there.
"""

import argparse
import json
import os
import random
import socket
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from serving import SENT, answer, requests, serving, table, train

from gauge import GaugeClassifier
from gauge_lab.recording import origin, write_record

TOLERANCE = 2e-6  # of a probability; answers are rounded to six digits
PERIODS = 10  # in which memory is looked at
MAX_GROWTH = 1.1
PAUSE_SECONDS = 0.005  # between parts of a request
MAX_HELD = 20  # half-sent requests of a client
TIMEOUT_SECONDS = 120.0
HEAD = b"POST /predict HTTP/1.1\r\nHost: load\r\nContent-Type: application/json\r\n"


def _post(body: bytes, *, length: int | None = None) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % (len(body) if length is None else length) + body


def _chunked(chunks: bytes) -> bytes:
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks


HOSTILE: dict[str, tuple[bytes, tuple[int, ...]]] = {
    "no JSON": (_post(b'{"rows": ['), (422,)),
    "unknown column": (_post(b'{"rows": [{"agee": 3}]}').replace(b"/predict", b"/predict?strict=true"), (422,)),
    "repeated key": (_post(b'{"rows": [{"number0": 1, "number0": 2}]}'), (422,)),
    "deep": (_post(b"[" * 20_000), (422,)),
    "flood of keys": (_post(b'{"rows": [{' + b",".join(b'"%d": 1' % key for key in range(300_000)) + b"}]}"), (413,)),
    "too large": (_post(b" " * 17_000_000), (413,)),
    "not HTTP": (b"\x16\x03\x01 hello\r\n\r\n", (400,)),
    "endless header": (b"GET /health HTTP/1.1\r\nx: " + b"x" * 400_000, (431,)),
    "half a header": (HEAD, ()),
    "half a body": (_post(b'{"rows"', length=1000), ()),
    "gone before its answer": (_post(b'{"rows": [{}]}'), ()),
    "NaN": (_post(b'{"rows": [{"number0": NaN}]}'), (422,)),
    "an infinite number": (_post(b'{"rows": [{"number0": 1e999}]}'), (422,)),
    "an integer of a million digits": (_post(b'{"rows": [{"number0": ' + b"7" * 1_000_000 + b"}]}"), (422,)),
    "half a surrogate pair": (_post(b'{"rows": [{"number0": "\\ud800"}]}'), (422,)),
    "NUL": (_post(b'{"rows": [{"number0": "\\u0000"}]}'), (422,)),
    "deep objects": (_post(b'{"rows": ' + b'{"a": ' * 20_000 + b"1" + b"}" * 20_000 + b"}"), (422,)),
    "a wrong content type": (_post(b"{}").replace(b"application/json", b"text/plain"), (415,)),
    "many parts of a form": (
        _post(b"--x\r\n\r\n1\r\n" * 10_000).replace(b"application/json", b"multipart/form-data; boundary=x"),
        (415,),
    ),
    "compressed": (_post(b"\x1f\x8b").replace(b"Host:", b"Content-Encoding: gzip\r\nHost:"), (415,)),
    "a chunk without a size": (_chunked(b"zz\r\n{}"), (400,)),
    "a chunk of too large a size": (_chunked(b"f" * 20 + b"\r\n{}"), (400,)),
    "a chunk that never ends": (_chunked(b"7fffffff\r\n{"), ()),
    "two lengths": (HEAD + b"Content-Length: 2\r\n" + _post(b"{}")[len(HEAD) :], (400,)),
    "a request and nonsense": (_post(b'{"rows": [{}]}') + b"\x16\x03\r\n\r\n", ()),
    "HTTP/1.0 without a length": (HEAD.replace(b"1.1", b"1.0") + b"\r\n{}", (422,)),
    "another route": (b"GET /predict/ HTTP/1.1\r\nHost: load\r\n\r\n", (404,)),
}


def _in_chunks(head: bytes, body: bytes) -> list[bytes]:
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")]
    parts = [b"%x\r\n%b\r\n" % (len(body[at : at + 50]), body[at : at + 50]) for at in range(0, len(body), 50)]
    return [b"\r\n".join([*lines, b"Transfer-Encoding: chunked", b"", b""]), *parts, b"0\r\n\r\n"]


def _slowly(head: bytes, body: bytes) -> list[bytes]:
    whole = head + b"\r\n\r\n" + body
    return [whole[at : at + 40] for at in range(0, len(whole), 40)]


ODD: dict[str, Callable[[bytes, bytes], list[bytes]]] = {  # legal ways to send a request, in parts
    "in chunks": _in_chunks,
    "slowly": _slowly,
    "in HTTP/1.0": lambda head, body: [head.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n\r\n" + body],
    "offering HTTP/2": lambda head, body: [head + b"\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + body],
}


class Tally:
    """What the clients have seen, counted under one lock."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.seconds: list[float] = []
        self.lock = threading.Lock()

    def add(self, name: str, *, problem: str = "", seconds: float | None = None) -> None:
        with self.lock:
            self.counts[name] += 1
            if problem:
                self.problems.append(problem)
            if seconds is not None:
                self.seconds.append(seconds)


class Client(threading.Thread):
    """Sends rows over one connection until the time is over, and now and then something hostile over another one."""

    def __init__(self, port: int, expected: np.ndarray, tally: Tally, *, seed: int, hostile: float, end: float) -> None:
        super().__init__()
        self.port, self.expected, self.tally, self.hostile, self.end = port, expected, tally, hostile, end
        self.draw, self.sent = random.Random(seed), requests()
        self.held: deque[socket.socket] = deque()  # half-sent requests

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def run(self) -> None:
        connection = self.connect()
        while time.monotonic() < self.end:
            chance, row = self.draw.random(), self.draw.randrange(SENT)
            if chance < self.hostile:
                self.attack(self.draw.choice(list(HOSTILE)))
            elif chance < 2 * self.hostile:
                way = self.draw.choice(list(ODD))
                with self.connect() as other:
                    self.ask(other, row, ODD[way](*self.sent[row].split(b"\r\n\r\n", 1)))
                self.tally.add(f"odd: {way}")
            elif not self.ask(connection, row, [self.sent[row]]):
                connection.close()
                connection = self.connect()
        for each in (connection, *self.held):
            each.close()

    def ask(self, connection: socket.socket, row: int, parts: list[bytes]) -> bool:
        """Send a row and compare the answer; False if there is none."""
        started = time.perf_counter()
        try:
            for number, part in enumerate(parts):
                time.sleep(PAUSE_SECONDS if number else 0)
                connection.sendall(part)
            status, body = answer(connection)
        except OSError as error:
            self.tally.add("lost", problem=f"row {row} was lost: {error!r}")
            return False
        seconds = time.perf_counter() - started
        if status != 200:
            self.tally.add("refused", problem=f"row {row} was refused with {status}: {body[:200]!r}")
            return False
        got = list(json.loads(body)["predictions"][0]["probabilities"].values())
        apart = float(np.abs(np.array(got) - self.expected[row]).max())
        problem = f"row {row} has probabilities that differ by {apart:.2g}" if apart > TOLERANCE else ""
        self.tally.add("wrong" if problem else "right", problem=problem, seconds=seconds)
        return True

    def attack(self, name: str) -> None:
        """Send something hostile; its answer, if one is due, has to be the refusal."""
        content, expected = HOSTILE[name]
        connection, status = self.connect(), 0
        with suppress(OSError):  # the server may close the connection before all is sent
            connection.sendall(content)
            if expected:
                status, _ = answer(connection)
        accepted = status and status not in expected
        self.tally.add(f"hostile: {name}", problem=f"{name!r} was answered with {status}" if accepted else "")
        if name.startswith("half"):
            self.held.append(connection)
        else:
            connection.close()
        if len(self.held) > MAX_HELD:
            self.held.popleft().close()


def memory_mb(process: int) -> float:
    """What a process holds in memory, on Linux."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def run(port: int, process: int, expected: np.ndarray, options: argparse.Namespace) -> dict[str, Any]:
    """Load on a server, and what came of it."""
    tally, started, seconds = Tally(), time.monotonic(), 60 * options.minutes
    end = started + seconds
    attacks = {"hostile": options.hostile, "end": end}
    clients = [Client(port, expected, tally, seed=seed, **attacks) for seed in range(options.clients)]
    for client in clients:
        client.start()
    memory = []
    for period in range(1, PERIODS + 1):
        time.sleep(max(0.0, started + seconds * period / PERIODS - time.monotonic()))
        memory.append(memory_mb(process))
        print(f"{period}/{PERIODS}: {memory[-1]:.0f} MB, {dict(tally.counts)}", flush=True)
    for client in clients:
        client.join()
    hostile = sum(count for name, count in tally.counts.items() if name.startswith("hostile"))
    total = sum(count for name, count in tally.counts.items() if not name.startswith("odd"))
    p50, p99 = (1000 * float(np.quantile(tally.seconds, level)) for level in (0.5, 0.99))
    return {
        "requests": total,
        "hostile_share": hostile / total,
        **{name: tally.counts[name] for name in ("right", "wrong", "lost", "refused")},
        **{
            kind: {
                name.partition(": ")[2]: count for name, count in sorted(tally.counts.items()) if name.startswith(kind)
            }
            for kind in ("odd", "hostile")
        },
        "problems": tally.problems[:20],
        "requests_per_second": total / (time.monotonic() - started),
        "p50_ms": p50,
        "p99_ms": p99,
        "memory_mb": memory,
        "growth": memory[-1] / memory[2],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--hostile", type=float, default=0.01, help="share of hostile requests")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    record = origin(options) | {"load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        train(path)
        expected = GaugeClassifier.load(path, device="cpu").predict_proba(table()[0][:SENT])
        with serving(path, 1024) as (port, process):
            record |= run(port, process, expected, options)
    write_record(options.out / "load.json", record)
    print(json.dumps(record, indent=1))
    if record["problems"] or record["growth"] > MAX_GROWTH:
        raise SystemExit("wrong or lost answers, or memory that grows")


if __name__ == "__main__":
    main()
