"""The demo on a real table: Auto MPG, 392 cars with seven numbers and a text, and cells that we make blank.

The table (Quinlan 1993, UCI) comes with mlxtend. Nothing is missing in it, so 30 % of the training cells are hidden at
random; the model then has to answer test rows without blanks and with 30 % and 70 % of their cells blank.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from gauge.data.files import write_text
from gauge.tabular.estimator import GaugeClassifier

TARGET = "origin"
COLUMNS = ["cylinders", "displacement", "horsepower", "weight", "acceleration", "year", TARGET, "name", "mpg"]
ORIGINS = {1: "USA", 2: "Europe", 3: "Japan"}
BLANK = 0.3  # of the training cells
RATES = (0.0, BLANK, 0.7)
KINDS = {"name": "text", "cylinders": "number", "year": "number"}  # where a guess would be wrong
SHOWN = 12  # rows on the page of evidence
ABOUT = (
    "Auto MPG (UCI, 1993), 392 cars: where was each built? Accuracy on 118 test rows; boosted trees do not read the column "
    "name, which is a text. Cells are blank at random, 30 % of them in training."
)


def cars() -> pd.DataFrame:
    """The table, with the names of its columns and of the three origins."""
    try:
        import mlxtend.data
    except ImportError as error:
        raise ValueError("the demo needs mlxtend; install it with: pip install 'gauge-ml[demo]'") from error
    path = Path(mlxtend.data.__file__).parent / "data" / "autompg.csv.gz"
    rows = pd.read_csv(path, header=None, names=COLUMNS)
    return rows.assign(**{TARGET: rows[TARGET].map(ORIGINS)})


def with_blanks(rows: pd.DataFrame, rate: float, *, seed: int) -> pd.DataFrame:
    """The rows with this share of the cells missing; each keeps its label and at least one value."""
    draw = np.random.default_rng(seed)
    features = rows.drop(columns=TARGET)
    hidden = draw.random(features.shape) < rate
    empty = np.flatnonzero(hidden.all(1))
    hidden[empty, draw.integers(features.shape[1], size=len(empty))] = False
    return features.mask(hidden).assign(**{TARGET: rows[TARGET]})


def run(
    out: Path, *, seed: int = 0, epochs: int | None = None, device: str | None = None, verbose: bool = True
) -> tuple[str, Path]:
    """Fit on rows with blanks and evaluate on rows with few and many. Returns the results as a Markdown table and the path
    of the evidence page; tables and model are beside it."""
    rows = cars()
    train, test = train_test_split(rows, test_size=0.3, stratify=rows[TARGET], random_state=seed)
    train = with_blanks(train, BLANK, seed=seed)
    tests = {rate: with_blanks(test, rate, seed=seed + 1) for rate in RATES}
    write_text(out / "train.csv", train.to_csv(index=False))
    for rate, blanked in tests.items():
        write_text(out / f"test-{100 * rate:.0f}.csv", blanked.to_csv(index=False))
    model = GaugeClassifier(columns=KINDS, epochs=epochs, random_state=seed, device=device, verbose=verbose)
    model.fit(train, TARGET).save(out / "model")
    page = out / "evidence.html"
    model.explain(tests[BLANK][:SHOWN], TARGET).to_html(page)
    lines = ["| test cells blank | model | accuracy, % | 95 % interval |", "|---|---|---|---|"]
    for rate, blanked in tests.items():
        for each in model.evaluate(blanked).to_json()["scores"]:
            if each["metric"] == "accuracy":
                value, low, high = (f"{100 * each[key]:.1f}" for key in ("value", "low", "high"))
                lines.append(f"| {100 * rate:.0f} % | {each['model']} | {value} | {low} – {high} |")
    return "\n".join(lines) + "\n", page
