"""The demo on a real table: Auto MPG, 392 cars with seven numbers and a text, and cells that we make blank.

The table (Quinlan 1993, UCI) comes with mlxtend. Nothing is missing in it, so 30 % of the training cells are hidden at
random; the models then have to answer test rows without blanks and with 30 % and 70 % of their cells blank.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gauge.data.files import write_text
from gauge.reports.page import Estimate, Row, Section, ranked
from gauge.tabular.estimator import GaugeClassifier
from gauge.training.metrics import ACCURACY

TARGET, TEXT = "origin", "name"
COLUMNS = ["cylinders", "displacement", "horsepower", "weight", "acceleration", "year", TARGET, TEXT, "mpg"]
ORIGINS = {1: "USA", 2: "Europe", 3: "Japan"}
BLANK = 0.3  # of the training cells
RATES = (0.0, BLANK, 0.7)
KINDS = {TEXT: "text", "cylinders": "number", "year": "number"}  # where a guess would be wrong
SHOWN = 12  # rows on the page of evidence
NOTES = {
    "GaugeClassifier": "a network, boosted trees and a linear model, combined by weights learned on rows held out",
    "Boosted trees": "LightGBM with its defaults, on the numbers and the words of the name",
    "Logistic regression": "on the same columns, blanks filled with the mean",
}


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


class Rivals:
    """Boosted trees and a logistic regression on the same rows, with a column for every word of the name."""

    def __init__(self, train: pd.DataFrame, *, seed: int) -> None:
        from lightgbm import LGBMClassifier

        self.words = CountVectorizer(binary=True, min_df=2).fit(train[TEXT].dropna())
        self.models = {
            "Boosted trees": LGBMClassifier(random_state=seed, n_jobs=1, verbosity=-1),
            "Logistic regression": make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=1000)),
        }
        for model in self.models.values():
            model.fit(self.columns(train), train[TARGET])

    def columns(self, rows: pd.DataFrame) -> np.ndarray:
        """Numbers, and words that are missing where the name is."""
        words = self.words.transform(rows[TEXT].fillna("")).toarray().astype(float)
        words[rows[TEXT].isna()] = np.nan
        return np.hstack([rows.drop(columns=[TARGET, TEXT]).to_numpy(float), words])

    def answers(self, rows: pd.DataFrame) -> dict[str, np.ndarray]:
        columns = self.columns(rows)
        return {name: model.predict_proba(columns) for name, model in self.models.items()}


def run(
    out: Path, *, seed: int = 0, epochs: int | None = None, device: str | None = None, verbose: bool = True
) -> tuple[Section, Path]:
    """Fit on rows with blanks and evaluate on rows with few and many. Returns the section of the report and the path of the
    evidence page; tables and model are beside it."""
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
    rivals, classes = Rivals(train, seed=seed), model.classes_.tolist()
    assert all(each.classes_.tolist() == classes for each in rivals.models.values())
    labels = np.array([classes.index(label) for label in test[TARGET]])
    answers = {
        rate: {"GaugeClassifier": model.predict_proba(blanked)} | rivals.answers(blanked)
        for rate, blanked in tests.items()
    }
    return section(answers, labels), page


def section(answers: dict[float, dict[str, np.ndarray]], labels: np.ndarray) -> Section:
    """The question with its answers: class probabilities by the share of blank cells and by model."""
    hardest = max(answers)
    best, findings = ranked(
        answers[hardest], labels, ACCURACY.compare, f"With {100 * hardest:.0f} % of the cells blank"
    )
    _, complete = ranked(answers[0.0], labels, ACCURACY.compare, "With no cell blank")

    def estimate(probabilities: np.ndarray) -> Estimate:
        low, high = ACCURACY.interval(probabilities, labels)
        return 100 * ACCURACY.score(probabilities, labels), 100 * low, 100 * high

    return Section(
        title="A table with gaps",
        asked="Where was the car built: in the USA, Europe or Japan?",
        missing=f"{100 * BLANK:.0f} % of the cells in training, up to {100 * hardest:.0f} % of them in the test.",
        best=best,
        text="Auto MPG (UCI, 1993), a real table of 392 cars with seven numbers and a name, which often tells. "
        f"Cells are blank at random, the same ones for all models; {len(labels)} cars are the test.",
        columns=tuple(f"{100 * rate:.0f} % blank" for rate in answers),
        rows=tuple(
            Row(
                name, note, tuple(estimate(each[name]) for each in answers.values()), featured=name == "GaugeClassifier"
            )
            for name, note in NOTES.items()
        ),
        findings=(*findings, *complete),
    )
