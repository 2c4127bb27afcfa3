"""What GaugeClassifier costs on a table: CPU seconds to fit, rows answered per CPU second, peak memory; or its latency.

python perf/classifier.py [--rows 10000] [--columns 10] [--no-gates] [--out perf/results]
python perf/classifier.py --latency after [--rows 10000]
python perf/classifier.py --fits after [--only small evaluate large digits]

With `--latency NAME` the file latency-cpu.json gets a record of that name beside those it has, such as "before": CPU
milliseconds of one row, with torch, after `record`, with LightGBM alone and with the exported file, CPU seconds of the
export and of the command `gauge predict`, rows per CPU second at once and in parts, also after `record`, and LightGBM's own
`predict` on the same rows; the same for a table of 1,000 columns and for one of 50 classes. `load` is the load average of
the machine at the start: other work on it slows all of this down, so that ratios mean more.

With `--fits NAME` the file fits-cpu.json gets a record of that name: CPU seconds to fit small tables with the presets
"default" and "fast" and their medians, two tables of many classes with missing cells and their log loss, digits as 64
columns, 100,000 rows x 20 columns, and to evaluate a model of 40 classes.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.metrics import log_loss

from gauge import ExportedClassifier, GaugeClassifier, export
from gauge.tabular.experts.trees import Trees
from gauge.tabular.fitted import Fitted
from gauge.training.device import pick_device
from gauge_lab.recording import origin, write_record

ROWS = 10_000
CATEGORICAL = 3  # of the columns
MISSING = 0.2
PARTS = (100, 1000, 10_000)  # rows of a part
PREDICTED, PREDICTED_CELLS = 20_000, 2_000_000  # rows, at most as many as have so many cells, at once and in parts
CALLS = 200  # of one row
LATENCY_COLUMNS = 15  # of one row
COMMAND_ROWS = 600  # that the command predicts
LARGE_ROWS = 100_000
SMALL_TABLES = {"200 x 10": (200, 10), "600 x 12": (600, 12), "1500 x 15": (1500, 15)}  # made here
EVALUATED_CLASSES = 40  # of the model that is evaluated
WIDE_ROWS, WIDE_COLUMNS = 600, 1000  # of a table of many columns
CLASSES = 50  # of a table of many classes


def table(rows: int, columns: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers that tell three classes apart, some words that do not, missing cells everywhere."""
    draw = np.random.default_rng(0)
    numbers = columns - CATEGORICAL
    values, labels = make_classification(rows, numbers, n_informative=numbers // 2, n_classes=3, random_state=0)
    frame = pd.DataFrame(values, columns=[f"number{index}" for index in range(numbers)])
    words = {f"word{index}": draw.choice(list("abcdef"), rows) for index in range(CATEGORICAL)}
    frame = pd.concat([frame, pd.DataFrame(words)], axis=1)
    return frame.mask(draw.random(frame.shape) < MISSING), labels


def many(rows: int, columns: int, classes: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers of which a few tell the classes apart, some cells missing."""
    shape = {"n_informative": min(columns, 20), "n_redundant": 0, "n_repeated": 0, "n_clusters_per_class": 1}
    values, labels = make_classification(rows, columns, n_classes=classes, random_state=0, **shape)
    frame = pd.DataFrame(values, columns=[f"number{index}" for index in range(columns)])
    return frame.mask(np.random.default_rng(0).random(frame.shape) < MISSING / 2), labels


def with_date(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with one more column, dates as text."""
    days = np.random.default_rng(1).integers(0, 1500, len(frame))
    return frame.assign(day=pd.Series(np.datetime64("2020-01-01") + days).dt.strftime("%Y-%m-%d"))


def seconds(call: Callable[..., Any], *arguments: Any, **options: Any) -> float:
    """CPU seconds of a call."""
    started = time.process_time()
    call(*arguments, **options)
    return time.process_time() - started


def latency(rows: int) -> dict[str, Any]:
    """All experts as they are by default."""
    torch.set_num_threads(1)
    options: dict[str, Any] = {"random_state": 0, "trust": False, "verbose": False, "n_jobs": 1}
    frame, labels = table(rows, LATENCY_COLUMNS - 1)
    frame = with_date(frame)
    model = GaugeClassifier(**options).fit(frame, labels)
    booster, cells = _booster(model), model.fitted_.read(frame[:CALLS])[1].cells
    result: dict[str, Any] = {
        "load": round(os.getloadavg()[0], 1),
        "one_row_ms_p50": median_ms(model.predict_proba, [frame.iloc[[row]] for row in range(CALLS)]),
        "one_row_lightgbm_ms_p50": median_ms(booster.predict, [cells[[row]] for row in range(CALLS)]),
        **exported(model, frame),
    }
    frame, labels = table(rows, 10)
    result["no_gates"] = throughput(GaugeClassifier(**options).fit(frame, labels), frame)
    large = {"many_columns": many(WIDE_ROWS, WIDE_COLUMNS, 2), "many_classes": many(rows, 10, CLASSES)}
    for name, (frame, labels) in large.items():
        model = GaugeClassifier(**options).fit(frame, labels)
        one_row = {"one_row_ms_p50": median_ms(model.predict_proba, [frame.iloc[[row]] for row in range(CALLS)])}
        sizes = {"columns": frame.shape[1], "classes": len(model.classes_), "experts": list(model.ensemble_.experts)}
        result[name] = sizes | one_row | throughput(model, frame)
    return result


FIT_OPTIONS: dict[str, Any] = {"random_state": 0, "verbose": False, "n_jobs": 1}


def fit_small() -> dict[str, Any]:
    """What it costs to fit small tables with two presets; the first fit of the process, which also imports, is left out."""
    small = {name: table(*size) for name, size in SMALL_TABLES.items()}
    small |= {load.__name__.removeprefix("load_"): load(return_X_y=True) for load in (load_breast_cancer, load_wine)}
    GaugeClassifier(**FIT_OPTIONS).fit(*small["200 x 10"])
    result: dict[str, Any] = {}
    for preset in ("default", "fast"):
        cost = {name: seconds(GaugeClassifier(preset=preset, **FIT_OPTIONS).fit, *each) for name, each in small.items()}
        result[preset] = {name: round(each, 1) for name, each in cost.items()}
        result[f"{preset}_median"] = round(float(np.median(list(cost.values()))), 1)
    return result


def evaluate_many() -> dict[str, Any]:
    """What it costs to evaluate a model of many classes."""
    shape: dict[str, Any] = {
        "n_features": 20,
        "n_informative": 12,
        "n_clusters_per_class": 1,
        "n_classes": EVALUATED_CLASSES,
    }
    values, labels = make_classification(2000, random_state=0, **shape)
    model = GaugeClassifier(preset="fast", trust=False, **FIT_OPTIONS).fit(values, labels)
    rows = values[:COMMAND_ROWS], labels[:COMMAND_ROWS]
    return {"evaluate_seconds": round(seconds(model.evaluate, *rows), 1)}


def fit_classes() -> dict[str, Any]:
    """What it costs to fit tables of many classes with missing cells, and their log loss: a network that learns too shortly
    is quick."""
    values, labels = load_digits(return_X_y=True)
    drawn = many(1000, 20, 8)
    result = {}
    for name, (frame, own) in {"digits": (pd.DataFrame(values)[:1000], labels[:1000]), "eight": drawn}.items():
        frame = frame.mask(np.random.default_rng(1).random(frame.shape) < MISSING)
        model, half = GaugeClassifier(**FIT_OPTIONS), len(frame) // 2
        cost = seconds(model.fit, frame[:half], own[:half])
        loss = log_loss(own[half:], model.predict_proba(frame[half:]))
        result[name] = {"seconds": round(cost, 1), "log_loss": round(loss, 4)}
    return {"classes": result}


FITS: dict[str, Callable[[], dict[str, Any]]] = {
    "classes": fit_classes,
    "small": fit_small,
    "evaluate": evaluate_many,
    "large": lambda: {"large_seconds": round(seconds(GaugeClassifier(**FIT_OPTIONS).fit, *table(LARGE_ROWS, 20)), 1)},
    "digits": lambda: {
        "digits_seconds": round(seconds(GaugeClassifier(**FIT_OPTIONS).fit, *load_digits(return_X_y=True)), 1)
    },
}


def median_ms(call: Callable[[Any], Any], rows: list[Any]) -> float:
    """The median CPU milliseconds of a call, over rows."""
    return round(1000 * float(np.median([seconds(call, row) for row in rows])), 2)


def exported(model: GaugeClassifier, frame: pd.DataFrame) -> dict[str, Any]:
    """What the export takes, one row with the written file, and the whole command with the folder and with the file."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, file, table_file = (Path(temporary, name) for name in ("model", "model.onnx", "table.csv"))
        model.save(folder)
        result: dict[str, Any] = {"export_seconds": round(seconds(export, model, file), 1)}
        classifier = ExportedClassifier(file)
        known = frame[:CALLS].astype(object)
        rows = known.where(known.notna(), None).to_dict("records")
        result["one_row_onnx_ms_p50"] = median_ms(classifier.predict_row, rows)
        frame[:COMMAND_ROWS].to_csv(table_file, index=False)
        for name, path in (("folder", folder), ("onnx", file)):
            result[f"command_{name}_seconds"] = round(command_seconds(path, table_file, Path(temporary, "out.csv")), 2)
    return result


def command_seconds(model: Path, table_file: Path, out: Path) -> float:
    """CPU seconds of `gauge predict` as a process of its own, the less of two."""
    command = [sys.executable, "-m", "gauge", "predict", str(model), str(table_file), "--out", str(out)]
    cost = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cost.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(cost)


def _booster(model: GaugeClassifier) -> Any:
    """LightGBM's own model of the trees."""
    trees = model.ensemble_.experts["trees"]
    assert isinstance(trees, Trees)
    return trees.forest.booster()


def throughput(model: GaugeClassifier, frame: pd.DataFrame) -> dict[str, Any]:
    """Rows a second at once and in parts, beside LightGBM alone on the same cells."""
    count = min(PREDICTED, PREDICTED_CELLS // frame.shape[1])
    frame = pd.concat([frame] * -(-count // len(frame)), ignore_index=True)[:count]
    model.predict_proba(frame[:1000])
    whole = min(seconds(model.predict_proba, frame) for _ in range(3))
    cells, booster = model.fitted_.read(frame)[1].cells, _booster(model)
    own = min(seconds(booster.predict, cells, num_threads=1) for _ in range(3))
    sizes = [size for size in PARTS if size < count]
    return {
        "rows_per_second": round(len(frame) / whole),
        "lightgbm_rows_per_second": round(len(frame) / own),
        "speed_over_lightgbm": round(own / whole, 2),
        "speed_of_parts_over_whole": {str(size): _in_parts(model.fitted_, frame, size, whole) for size in sizes},
    }


def _in_parts(model: Fitted, frame: pd.DataFrame, size: int, whole: float) -> float:
    """The speed in parts of this size over that at once."""
    parts = [frame[start : start + size] for start in range(0, len(frame), size)]
    model.predict_proba(parts[0])
    return round(whole / sum(seconds(model.predict_proba, part) for part in parts), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--latency", metavar="NAME", help='the name of the record in latency-cpu.json, e.g. "after"')
    parser.add_argument("--fits", metavar="NAME", help="the name of the record in fits-cpu.json")
    parser.add_argument("--only", nargs="*", choices=FITS, default=list(FITS), help="parts of --fits; others are kept")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    if name := options.latency or options.fits:
        path = options.out / ("latency-cpu.json" if options.latency else "fits-cpu.json")
        known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if options.latency:
            result = latency(options.rows)
        else:
            torch.set_num_threads(1)
            result = dict(known.get(name, {})) | {"load": round(os.getloadavg()[0], 1)}
            for part in options.only:
                result |= FITS[part]()
        write_record(path, known | {name: result | origin(options)})
        print(result, f"written to {path}")
        return
    frame, labels = table(options.rows, options.columns)
    started = time.process_time()
    model = GaugeClassifier(random_state=0).fit(frame, labels)
    fitted = time.process_time()
    model.predict(frame)
    done = time.process_time()
    cost = {
        "fit_seconds": round(fitted - started, 1),
        "predicted_rows_per_second": round(len(frame) / (done - fitted)),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    sizes = {"rows": options.rows, "columns": options.columns}
    size = "" if options.rows == ROWS else f"-{options.rows}"
    path = options.out / f"classifier-{pick_device(None).type}{size}.json"
    write_record(path, origin(options, pick_device(None)) | sizes | cost)
    print(cost, f"written to {path}")


if __name__ == "__main__":
    main()
