"""What `gauge serve` answers in a second, and what an exported model takes: torch beside ONNX, batching beside none.

    python perf/serving.py [--seconds 4] [--clients 1 32] [--out perf/results]

`export`: `predict_proba` of a classifier and of its exported file, in this process, on CPU. `serving`: the command as a
process of its own, to which this one sends one row after the other, over one connection and over 32. Ratios are within this
one run. Other work on the machine slows all of it down: `load` is its load average at the start.
"""

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gauge import ExportedClassifier, GaugeClassifier, export
from gauge.experiments.recording import origin, write_record

ROWS, COLUMNS = 500, 12
BATCHES = {"batched": 1024, "one by one": 1}  # rows that the server predicts together
COUNTS = (1, 64, 1024)  # rows of a call, without a server


def train(folder: Path) -> tuple[GaugeClassifier, pd.DataFrame]:
    """A saved classifier of a small table, a network alone, and the table."""
    draw = np.random.default_rng(0)
    values = draw.normal(size=(ROWS, COLUMNS))
    table = pd.DataFrame(values, columns=[f"number{index}" for index in range(COLUMNS)])
    labels = (values[:, :3].sum(1) > 0).astype(int)
    model = GaugeClassifier(experts=["network"], epochs=2, random_state=0, device="cpu", verbose=False)
    model.fit(table.mask(draw.random(table.shape) < 0.2), labels).save(folder)
    return model, table


def compare(model: GaugeClassifier, exported: ExportedClassifier, table: pd.DataFrame) -> list[dict[str, float]]:
    """The milliseconds of a call with each number of rows, with torch and with ONNX in turn."""
    rows = []
    for count in COUNTS:
        part = pd.concat([table] * (1 + count // len(table)))[:count]
        cost: dict[str, list[float]] = {"torch": [], "onnx": []}
        for _ in range(12):
            for name, classifier in (("torch", model), ("onnx", exported)):
                started = time.perf_counter()
                classifier.predict_proba(part)
                cost[name].append(1000 * (time.perf_counter() - started))
        own, other = (statistics.median(values[2:]) for values in cost.values())
        apart = float(np.abs(model.predict_proba(part) - exported.predict_proba(part)).max())
        rows.append(
            {"rows": count, "torch_ms": own, "onnx_ms": other, "torch_over_onnx": own / other, "difference": apart}
        )
    return rows


@contextmanager
def serving(path: Path, batch: int) -> Iterator[int]:
    """The port of a server process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "gauge.cli", "serve", str(path), "--port", str(port), "--max-batch", str(batch)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not _listens(port):
            if server.poll() is not None:
                raise RuntimeError(f"{' '.join(command)} ended with status {server.returncode}")
            time.sleep(0.05)
        yield port
    finally:
        server.terminate()
        server.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ask(port: int, body: bytes, seconds: float) -> list[float]:
    """The seconds of each request over one connection, until the time is over."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    cost, end = [], time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        connection.request("POST", "/predict", body, {"content-type": "application/json"})
        response = connection.getresponse()
        response.read()
        assert response.status == 200, response.status
        cost.append(time.perf_counter() - started)
    connection.close()
    return cost


def load(port: int, body: bytes, seconds: float, clients: int) -> dict[str, float]:
    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        parts = list(pool.map(lambda _: ask(port, body, seconds), range(clients)))
    elapsed, cost = time.perf_counter() - started, np.concatenate(parts)
    p50, p99 = (1000 * float(np.quantile(cost, level)) for level in (0.5, 0.99))
    return {"clients": clients, "p50_ms": p50, "p99_ms": p99, "requests_per_second": len(cost) / elapsed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement of a server")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    record = origin(options) | {"load": os.getloadavg()[0], "columns": COLUMNS, "rows_per_request": 1}
    with tempfile.TemporaryDirectory() as folder:
        saved, file = Path(folder, "model"), Path(folder, "model.onnx")
        model, table = train(saved)
        started = time.perf_counter()
        export(model, file)
        record["export_seconds"] = time.perf_counter() - started
        record["export"] = compare(model, ExportedClassifier(file), table)
        print(json.dumps(record), flush=True)
        body = json.dumps({"rows": [{str(name): value for name, value in table.iloc[0].items()}]}).encode()
        record["serving"] = []
        for (engine, path), (mode, batch) in (
            (e, b) for e in (("torch", saved), ("onnx", file)) for b in BATCHES.items()
        ):
            with serving(path, batch) as port:
                load(port, body, 1.0, 4)  # to warm up
                for clients in options.clients:
                    row = {"engine": engine, "mode": mode, **load(port, body, options.seconds, clients)}
                    record["serving"].append(row)
                    print(row, flush=True)
    write_record(options.out / "serving.json", _rounded(record))
    print(json.dumps(_rounded(record), indent=2))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
