"""What GaugeClassifier costs on a table: CPU seconds to fit, rows answered per CPU second, peak memory.

python perf/classifier.py [--rows 10000] [--columns 10] [--no-gates] [--out perf/results]
"""

import argparse
import resource
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification

from gauge import GaugeClassifier
from gauge.experiments.recording import origin, write_record
from gauge.training.device import pick_device

ROWS = 10_000
CATEGORICAL = 3  # of the columns
MISSING = 0.2


def table(rows: int, columns: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers that tell three classes apart, some words that do not, missing cells everywhere."""
    draw = np.random.default_rng(0)
    numbers = columns - CATEGORICAL
    values, labels = make_classification(rows, numbers, n_informative=numbers // 2, n_classes=3, random_state=0)
    frame = pd.DataFrame(values, columns=[f"number{index}" for index in range(numbers)])
    words = {f"word{index}": draw.choice(list("abcdef"), rows) for index in range(CATEGORICAL)}
    frame = pd.concat([frame, pd.DataFrame(words)], axis=1)
    return frame.mask(draw.random(frame.shape) < MISSING), labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--no-gates", action="store_true", help="GaugeClassifier(gates=False)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    frame, labels = table(options.rows, options.columns)
    started = time.process_time()
    model = GaugeClassifier(random_state=0, gates=not options.no_gates).fit(frame, labels)
    fitted = time.process_time()
    model.predict(frame)
    done = time.process_time()
    cost = {
        "fit_seconds": round(fitted - started, 1),
        "predicted_rows_per_second": round(len(frame) / (done - fitted)),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    sizes = {"rows": options.rows, "columns": options.columns, "gates": not options.no_gates}
    size = "" if options.rows == ROWS else f"-{options.rows}"
    gates = "-no-gates" if options.no_gates else ""
    path = options.out / f"classifier-{pick_device(None).type}{size}{gates}.json"
    write_record(path, origin(options, pick_device(None)) | sizes | cost)
    print(cost, f"written to {path}")


if __name__ == "__main__":
    main()
