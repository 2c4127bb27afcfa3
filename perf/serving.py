"""What `gauge serve` answers in a second, and what an exported model takes: torch beside ONNX, batching beside none.

    python perf/serving.py [--before ../older/src] [--engines torch onnx] [--batches 1024 1] [--clients 1 32] [--seconds 4]

`export`: `predict_proba` of a classifier and of its exported file, in this process, on CPU. `serving`: the command as a
process of its own, to which this one sends one row after the other, over one connection and over 32. With `--before`, the
sources of an older version are measured in the same way; with `--device cuda` the server predicts on a GPU.
`over_lightgbm` is the median time of an answer over that of
LightGBM's own `predict` for the same rows, one at a time; `server_cpu_ms` is the CPU time of the server for each request.
Ratios are within this one run. Other work on the machine slows all of it down: `load` is its load average at the start.
"""

import argparse
import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gauge import ExportedClassifier, GaugeClassifier, export
from gauge_lab.recording import origin, write_record

ROWS, NUMBERS, CATEGORIES = 800, 10, 4  # and a date
COUNTS = (1, 64, 1024)  # rows of a call, without a server
SENT = 200  # different rows that are sent
WARM_UP_SECONDS = 1.0


def table() -> tuple[pd.DataFrame, np.ndarray]:
    """Rows with a fifth of their values missing, and their labels."""
    draw = np.random.default_rng(0)
    columns: dict[str, Any] = {f"number{index}": draw.normal(size=ROWS).round(3) for index in range(NUMBERS)}
    columns |= {f"category{index}": draw.choice(list("abcdef"), ROWS) for index in range(CATEGORIES)}
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(draw.integers(0, 900, ROWS), unit="D")
    rows = pd.DataFrame(columns | {"seen": days.strftime("%Y-%m-%d")})
    labels = np.where(rows["number0"] + rows["number1"] + (rows["category0"] == "a") > 0.3, "ill", "well")
    return rows.mask(draw.random(rows.shape) < 0.2), labels


def train(folder: Path) -> GaugeClassifier:
    """A saved classifier of the table with all experts, as it is fitted by default."""
    rows, labels = table()
    model = GaugeClassifier(random_state=0, device="cpu", verbose=False).fit(rows, labels)
    model.save(folder)
    return model


def lightgbm_ms() -> float | None:
    """The median milliseconds of LightGBM's own `predict` for one row, on one thread; None where it is not installed."""
    try:
        import lightgbm
    except ImportError:
        return None
    rows, labels = table()
    numbers = rows.apply(lambda column: column if column.dtype.kind == "f" else pd.factorize(column)[0]).to_numpy(float)
    booster = lightgbm.LGBMClassifier(n_estimators=100, n_jobs=1, verbose=-1).fit(numbers, labels).booster_
    cost = []
    for row in range(SENT):
        started = time.perf_counter()
        booster.predict(numbers[row : row + 1], num_threads=1)
        cost.append(1000 * (time.perf_counter() - started))
    return statistics.median(cost)


def compare(model: GaugeClassifier, exported: ExportedClassifier) -> list[dict[str, float]]:
    """The milliseconds of a call with each number of rows, with torch and with ONNX in turn."""
    rows = []
    for count in COUNTS:
        part = pd.concat([table()[0]] * (1 + count // ROWS))[:count]
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
def serving(path: Path, batch: int, source: Path | None = None, device: str = "cpu") -> Iterator[tuple[int, int]]:
    """The port and the number of a server process, of the version whose sources are given."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "gauge.cli", "serve", str(path), "--port", str(port), "--max-batch", str(batch)]
    command += [] if path.suffix == ".onnx" else ["--device", device]
    server = subprocess.Popen(command, env=_environment(source), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not _listens(port):
            if server.poll() is not None:
                raise RuntimeError(f"{' '.join(command)} ended with status {server.returncode}")
            time.sleep(0.05)
        yield port, server.pid
    finally:
        server.terminate()
        server.wait()


def _environment(source: Path | None) -> dict[str, str]:
    """The variables of a process that imports gauge from these sources."""
    paths = [str(source.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])] if source else []
    return dict(os.environ) | ({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def requests(count: int = SENT) -> list[bytes]:
    """Requests for a prediction of one row each."""
    rows = table()[0][:count].astype(object)
    bodies = [json.dumps({"rows": [row]}).encode() for row in rows.where(rows.notna(), None).to_dict("records")]
    head = b"POST /predict HTTP/1.1\r\nHost: perf\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return [head % len(body) + body for body in bodies]


def answer(connection: socket.socket) -> tuple[int, bytes]:
    """The status and the body of the next answer."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += _received(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    while len(body) < length:
        body += _received(connection)
    return int(head.split(b" ", 2)[1]), body


def _received(connection: socket.socket) -> bytes:
    part = connection.recv(65_536)
    if not part:
        raise ConnectionError("the server has closed the connection")
    return part


def load(port: int, seconds: float, clients: int) -> dict[str, float]:
    """How long answers take over that many connections, and how many there are in a second. One thread serves all of these:
    threads of their own would wait for each other longer than for the server."""
    sent, cost, asked = requests(), list[float](), dict[socket.socket, float]()

    def send(connection: socket.socket) -> None:
        asked[connection] = time.perf_counter()
        connection.sendall(sent[(len(cost) + len(asked)) % len(sent)])

    started = time.perf_counter()
    with selectors.DefaultSelector() as ready, ExitStack() as opened:
        for _ in range(clients):
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ready.register(connection, selectors.EVENT_READ)
            send(connection)
        while asked:
            for key, _ in ready.select():
                assert isinstance(key.fileobj, socket.socket)
                status, body = answer(key.fileobj)
                assert status == 200, body
                cost.append(time.perf_counter() - asked.pop(key.fileobj))
                if time.perf_counter() < started + seconds:
                    send(key.fileobj)
    elapsed = time.perf_counter() - started
    p50, p99 = (1000 * float(np.quantile(cost, level)) for level in (0.5, 0.99))
    counts = {"requests": len(cost), "requests_per_second": len(cost) / elapsed}
    return {"clients": clients, "p50_ms": p50, "p99_ms": p99, **counts}


def cpu_seconds(process: int) -> float:
    """The CPU time that a process has taken, on Linux."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def measure(path: Path, options: argparse.Namespace, **labels: str) -> Iterator[dict[str, Any]]:
    """A line for each size of batches and number of clients, with these labels."""
    source = options.before if labels["version"] == "before" else None
    for batch in options.batches:
        with serving(path, batch, source, options.device) as (port, process):
            for clients in options.clients:
                load(port, WARM_UP_SECONDS, clients)
                single, before = lightgbm_ms(), cpu_seconds(process)
                line = load(port, options.seconds, clients)
                line["server_cpu_ms"] = 1000 * (cpu_seconds(process) - before) / line.pop("requests")
                mode = "one by one" if batch == 1 else "batched"
                yield {**labels, "mode": mode, **line, **beside(line["p50_ms"], single)}


def beside(median: float, lightgbm: float | None) -> dict[str, float]:
    return {} if lightgbm is None else {"lightgbm_ms": lightgbm, "over_lightgbm": median / lightgbm}


def train_before(source: Path, folder: Path) -> None:
    """A classifier that the older version has trained and saved."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import serving; from pathlib import Path; "
    command = [sys.executable, "-c", f"{code}serving.train(Path({str(folder)!r}))"]
    subprocess.run(command, env=_environment(source), check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--before", type=Path, help="folder `src` of an older version to compare with")
    parser.add_argument("--engines", nargs="+", choices=["torch", "onnx"], default=["torch", "onnx"])
    parser.add_argument("--batches", type=int, nargs="+", default=[1024, 1], help="rows that are predicted together")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement of a server")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    columns = NUMBERS + CATEGORIES + 1
    record = origin(options, options.device) | {
        "load": os.getloadavg()[0],
        "columns": columns,
        "rows_per_request": 1,
        "serving": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        saved, file, older = (Path(folder, name) for name in ("model", "model.onnx", "older"))
        model = train(saved)
        runs = [("after", engine, {"torch": saved, "onnx": file}[engine]) for engine in options.engines]
        if options.before:
            train_before(options.before, older)
            runs = [("before", "torch", older), *runs]
        if "onnx" in options.engines:
            started = time.perf_counter()
            export(model, file)
            record["export_seconds"] = time.perf_counter() - started
            record["export"] = compare(model, ExportedClassifier(file))
        for version, engine, path in runs:
            for line in measure(path, options, version=version, engine=engine):
                record["serving"].append(line)
                print(line, flush=True)
    write_record(
        options.out / ("serving.json" if options.device == "cpu" else f"serving-{options.device}.json"),
        _rounded(record),
    )
    print(json.dumps(_rounded(record), indent=2))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
