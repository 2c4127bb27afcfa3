"""The demo on real tables: every table with classes that comes with the installed packages, with cells that we make blank.

Nothing is missing in them, so 30 % of the training cells are hidden at random; the models then have to predict the other
half of the rows without blanks and with 30 % and 70 % of their cells blank.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from gauge.data.files import write_text
from gauge.reports.page import Estimate, Row, Section, ranked
from gauge.tabular.estimator import GaugeClassifier
from gauge.training.metrics import ACCURACY

BLANK = 0.3  # of the training cells
RATES = (0.0, BLANK, 0.7)
Predicted = Mapping[float, Mapping[str, np.ndarray]]
"""Class probabilities by the share of blank cells and by model."""


@dataclass(frozen=True)
class DemoTable:
    """Labelled rows. `text` is the column that is a text, if there is one; `kinds` corrects guesses that would be wrong."""

    question: str
    rows: pd.DataFrame
    target: str
    text: str | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)

    def divided(self, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Training rows with blanks, and test rows without."""
        labels = self.rows[self.target]
        train, test = train_test_split(self.rows, test_size=0.5, stratify=labels, random_state=seed)
        return self.with_blanks(train, BLANK, seed=seed), test

    def with_blanks(self, rows: pd.DataFrame, rate: float, *, seed: int) -> pd.DataFrame:
        """The rows with this share of the cells missing; each keeps its label and at least one value."""
        draw = np.random.default_rng(seed)
        features = rows.drop(columns=self.target)
        hidden = draw.random(features.shape) < rate
        empty = np.flatnonzero(hidden.all(1))
        hidden[empty, draw.integers(features.shape[1], size=len(empty))] = False
        return features.mask(hidden).assign(**{self.target: rows[self.target]})


def cars() -> DemoTable:
    """Auto MPG (Quinlan 1993, UCI): 392 cars with seven numbers and a name."""
    origins = {1: "USA", 2: "Europe", 3: "Japan"}
    try:
        import mlxtend.data
    except ImportError as error:
        raise ValueError("the demo needs mlxtend; install it with: pip install 'gauge-ml[demo]'") from error
    path = Path(mlxtend.data.__file__).parent / "data" / "autompg.csv.gz"
    names = ["cylinders", "displacement", "horsepower", "weight", "acceleration", "year", "origin", "name", "mpg"]
    rows = pd.read_csv(path, header=None, names=names)
    kinds = {"name": "text", "cylinders": "number", "year": "number"}
    return DemoTable("where was it built", rows.assign(origin=rows["origin"].map(origins)), "origin", "name", kinds)


def of_scikit_learn(load: Callable[..., Bunch], question: str) -> DemoTable:
    loaded = load(as_frame=True)
    names = dict(enumerate(map(str, loaded.target_names)))
    return DemoTable(question, loaded.data.assign(target=loaded.target.map(names)), "target")


TABLES: dict[str, Callable[[], DemoTable]] = {  # Auto MPG, and all tables with classes that come with scikit-learn
    "cars": cars,
    "irises": partial(of_scikit_learn, load_iris, "which species is it"),
    "wines": partial(of_scikit_learn, load_wine, "who made it"),
    "tumours": partial(of_scikit_learn, load_breast_cancer, "is it malignant"),
}


class Rivals:
    """Boosted trees and a logistic regression on the same rows, with a column for every word of a text."""

    def __init__(self, table: DemoTable, train: pd.DataFrame, *, seed: int) -> None:
        from lightgbm import LGBMClassifier

        self.table = table
        self.words = None
        if table.text:
            self.words = CountVectorizer(binary=True, min_df=2).fit(train[table.text].dropna())
        self.models = {
            "Boosted trees": LGBMClassifier(random_state=seed, n_jobs=1, verbosity=-1),
            "Logistic regression": make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=1000)),
        }
        for model in self.models.values():
            model.fit(self.columns(train), train[table.target])

    def columns(self, rows: pd.DataFrame) -> np.ndarray:
        """Numbers, and words that are missing where the text is."""
        text = self.table.text
        numbers = rows.drop(columns=[self.table.target, *([text] if text else [])]).to_numpy(float)
        if self.words is None:
            return numbers
        words = self.words.transform(rows[text].fillna("")).toarray().astype(float)
        words[rows[text].isna()] = np.nan
        return np.hstack([numbers, words])

    def predictions(self, rows: pd.DataFrame) -> dict[str, np.ndarray]:
        columns = self.columns(rows)
        return {name: model.predict_proba(columns) for name, model in self.models.items()}


def run(
    out: Path,
    names: Sequence[str] = ("cars",),
    *,
    seed: int = 0,
    epochs: int | None = None,
    device: str | None = None,
    verbose: bool = True,
) -> tuple[Section, Path]:
    """Fit tables with blanks and evaluate on rows with few and many. Returns the section of the report and the path of the
    evidence page of the first table; its rows and its model are beside the page."""
    by_table, page = {}, out / "evidence.html"
    for name in names:
        table = TABLES[name]()
        train, test = table.divided(seed)
        model = GaugeClassifier(
            columns=dict(table.kinds), epochs=epochs, random_state=seed, device=device, verbose=verbose
        )
        model.fit(train, table.target)
        tests = {rate: table.with_blanks(test, rate, seed=seed + 1) for rate in RATES}
        if name == names[0]:
            write_text(out / "train.csv", train.to_csv(index=False))
            for rate, rows in tests.items():
                write_text(out / f"test-{100 * rate:.0f}.csv", rows.to_csv(index=False))
            model.save(out / "model")
            model.explain(tests[BLANK][:12], table.target).to_html(page)  # rows on the page of evidence
        rivals, classes = Rivals(table, train, seed=seed), model.classes_.tolist()
        assert all(each.classes_.tolist() == classes for each in rivals.models.values())
        labels = np.array([classes.index(label) for label in test[table.target]])
        predicted = {
            rate: {"GaugeClassifier": model.predict_proba(rows)} | rivals.predictions(rows)
            for rate, rows in tests.items()
        }
        by_table[name] = predicted, labels
    return section(by_table), page


def section(by_table: Mapping[str, tuple[Predicted, np.ndarray]]) -> Section:
    """The predictions for each table and its labels; the test rows of all tables are counted together."""
    developed = (
        "GaugeClassifier was developed on such tables, some of these among them; the documentation (Results, Tables) has a "
        "comparison on tables that nobody looked at before."
    )
    predicted, labels = pooled([*by_table.values()])
    hardest = max(predicted)
    best, findings = ranked(
        predicted[hardest], labels, ACCURACY.compare, f"With {100 * hardest:.0f} % of the cells blank"
    )
    _, complete = ranked(predicted[0.0], labels, ACCURACY.compare, "With no cell blank")

    def estimate(probabilities: np.ndarray) -> Estimate:
        low, high = ACCURACY.interval(probabilities, labels)
        return 100 * ACCURACY.score(probabilities, labels), 100 * low, 100 * high

    def alone(name: str) -> str:
        given, own = by_table[name]
        right = (f"{model} {100 * ACCURACY.score(each, own):.1f}" for model, each in given[hardest].items())
        return f"The {len(own)} {name} alone, {100 * hardest:.0f} % blank: {', '.join(right)}."

    several = len(by_table) > 1
    which = (
        "Real tables: Auto MPG (UCI, 1993) and those with classes that come with scikit-learn, whose digits are images. "
        "The test rows of all are counted together."
        if several
        else "Auto MPG (UCI, 1993), a real table of 392 cars with seven numbers and a name, which often tells."
    )
    halves = f"half of the rows, {len(labels)}, are the test"
    notes = {
        "GaugeClassifier": "a network, boosted trees and a linear model, combined by weights learned on rows held out",
        "Boosted trees": "LightGBM with its defaults, on the same columns, with one more for every word of a text",
        "Logistic regression": "the same columns, blanks filled with the mean",
    }
    cells = {name: tuple(estimate(each[name]) for each in predicted.values()) for name in notes}
    return Section(
        title="Tables with gaps" if several else "A table with gaps",
        asked=" ".join(f"{name.capitalize()}: {TABLES[name]().question}?" for name in by_table),
        missing=f"{100 * BLANK:.0f} % of the cells in training, up to {100 * hardest:.0f} % of them in the test.",
        best=best,
        text=f"{which} Cells are blank at random, the same ones for all models; {halves}. {developed}",
        columns=tuple(f"{100 * rate:.0f} % blank" for rate in predicted),
        rows=tuple(Row(name, note, cells[name], featured=name == "GaugeClassifier") for name, note in notes.items()),
        findings=(*findings, *complete, *(map(alone, by_table) if several else ())),
    )


def pooled(by_table: Sequence[tuple[Predicted, np.ndarray]]) -> tuple[dict[float, dict[str, np.ndarray]], np.ndarray]:
    """The predictions and labels of several tables, one after the other; classes that a table lacks have probability 0."""
    classes = max(
        each.shape[1] for predicted, _ in by_table for models in predicted.values() for each in models.values()
    )

    def padded(probabilities: np.ndarray) -> np.ndarray:
        return np.pad(probabilities, ((0, 0), (0, classes - probabilities.shape[1])))

    whole = {
        rate: {name: np.concatenate([padded(predicted[rate][name]) for predicted, _ in by_table]) for name in models}
        for rate, models in by_table[0][0].items()
    }
    return whole, np.concatenate([labels for _, labels in by_table])
