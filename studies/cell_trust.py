"""How well the trust in cells tells right from wrong, on a planted table and on public ones.

    pip install 'gauge-ml[rivals]'
    python studies/cell_trust.py [--seeds 3] [--only planted wine]

Trust is learned from 70 % of the rows of each table and audited on the others, as by `gauge audit`. The records go to
studies/results/cell_trust.json; `docs/generate.py` makes the table of docs/results-tables.md from them.
"""

import argparse
import json
import logging
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn import datasets
from tables import read

from gauge.tabular.evidence.audit import audit_cells
from gauge.tabular.evidence.cell_trust import CellTrust
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema
from gauge_lab.recording import origin, write_lines

RESULTS = Path(__file__).parent / "results" / "cell_trust.json"
LEARNED = 0.7  # share of the rows
SMALL = ("iris", "wine")  # of scikit-learn
NAMES = ("planted", "iris", "wine", "breast_cancer", "anes96", "pima", "mroz", "hdma", "pbc", "mpg")


def planted(rows: int = 1000) -> pd.DataFrame:
    """Two causes, columns that depend on them linearly, as a product and as their signs, and one that is noise."""
    draw = np.random.default_rng(0)
    first, second = draw.normal(size=(2, rows))
    frame = pd.DataFrame(
        {"a": first, "b": first + 0.3 * draw.normal(size=rows), "product": first * second, "c": second}
    )
    frame["noise"] = draw.normal(size=rows)
    signs = np.array([["--", "-+"], ["+-", "++"]])
    return frame.assign(signs=signs[(first > 0).astype(int), (second > 0).astype(int)])


def measure(name: str, seed: int) -> dict[str, object]:
    if name in SMALL:
        frame = getattr(datasets, f"load_{name}")(as_frame=True).data
    else:
        frame = planted() if name == "planted" else read(name)[0]
    order = np.random.default_rng(seed).permutation(len(frame))
    learned, new = np.split(order, [round(LEARNED * len(frame))])
    schema = Schema.from_frame(frame.iloc[learned])
    rows = Rows.from_frame(schema, frame, schema.encode(frame))
    started = time.process_time()
    trust = CellTrust.fit(rows.take(learned), seed)
    seconds = time.process_time() - started
    assert trust is not None
    audit = audit_cells(trust, rows.take(new), seed=seed)
    every = audit.iloc[0]  # all columns together
    return {
        "table": name,
        "seed": seed,
        "rows": len(learned),
        "columns": len(schema.table),
        "swapped": every["auc_swapped"],
        "imputed": every["auc_imputed"],
        "within_columns": audit["auc_imputed"][1:].mean(),
        "imputed_right": every["imputed_right"],
        "error_observed": every["error_observed"],
        "error_imputed": every["error_imputed"],
        "seconds": seconds,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--only", nargs="*", default=NAMES)
    given = options.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("gauge").setLevel(logging.ERROR)
    records = []
    for name in given.only:
        records += [measure(name, seed) | origin(given) for seed in range(given.seeds)]
        print(json.dumps(records[-1]), flush=True)
        write_lines(RESULTS, records)


if __name__ == "__main__":
    main()
