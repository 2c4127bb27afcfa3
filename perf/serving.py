"""What `gauge serve` answers in a second: latency and throughput over HTTP, alone and under load.

python perf/serving.py [--requests 400] [--clients 1 8 32] [--out perf/results]
"""

import argparse
import http.client
import json
import socket
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import uvicorn

from gauge import GaugeClassifier
from gauge.deploy.serve import create_app
from gauge.training.provenance import commit, hardware

ROWS, COLUMNS = 500, 12


def train(folder: Path) -> dict[str, float]:
    """A saved classifier of a small table, and a row for it."""
    draw = np.random.default_rng(0)
    values = draw.normal(size=(ROWS, COLUMNS))
    table = pd.DataFrame(values, columns=[f"number{index}" for index in range(COLUMNS)])
    labels = (values[:, :3].sum(1) > 0).astype(int)
    model = GaugeClassifier(epochs=2, strategy="mask", random_state=0, verbose=False)
    model.fit(table.mask(draw.random(table.shape) < 0.2), labels).save(folder)
    return {str(name): float(value) for name, value in table.iloc[0].items()}


def ask(port: int, body: bytes, count: int) -> list[float]:
    """The seconds of each of `count` requests over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    seconds = []
    for _ in range(count):
        started = time.perf_counter()
        connection.request("POST", "/predict", body, {"content-type": "application/json"})
        response = connection.getresponse()
        response.read()
        assert response.status == 200
        seconds.append(time.perf_counter() - started)
    connection.close()
    return seconds


def load(port: int, body: bytes, requests: int, clients: int) -> dict[str, float]:
    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        parts = list(pool.map(lambda _: ask(port, body, requests // clients), range(clients)))
    elapsed, seconds = time.perf_counter() - started, np.concatenate(parts)
    p50, p99 = (round(1000 * float(np.quantile(seconds, level)), 2) for level in (0.5, 0.99))
    return {"clients": clients, "p50_ms": p50, "p99_ms": p99, "requests_per_second": round(len(seconds) / elapsed, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        row = train(Path(folder))
        server = uvicorn.Server(uvicorn.Config(create_app(Path(folder), device="cpu"), port=0, log_level="warning"))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        body = json.dumps({"rows": [row]}).encode()
        load(port, body, 50, 1)  # to warm up
        results = [load(port, body, options.requests, clients) for clients in options.clients]
        server.should_exit = True
        thread.join()
    record = {
        "date": date.today().isoformat(),
        "commit": commit(),
        "hardware": hardware(torch.device("cpu")),
        "columns": COLUMNS,
        "rows_per_request": 1,
        "note": "server and clients in one process on the same cores",
        "load": results,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=2) + "\n"
    (options.out / "serving.json").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
