"""Store: the classifier of a server and its predictions for rows; it is loaded again when its files change."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gauge.deploy.exported import load_classifier
from gauge.deploy.requests import Limits, Promise, RequestReader, RowCells, notes
from gauge.reports.evidence import RowEvidence
from gauge.reports.form import FormPage, render_form
from gauge.tabular.saved.classifier import TableClassifier
from gauge.tabular.table.guard import watched

logger = logging.getLogger(__name__)

FileState = tuple[tuple[str, int, int, int], ...]  # path, time, size and inode of every file of a model


@dataclass(frozen=True)
class Loaded:
    """A classifier, the reader of its requests, and the state of its files when they were read."""

    classifier: TableClassifier
    reader: RequestReader
    state: FileState

    @cached_property
    def page(self) -> tuple[str, str]:
        """The page for people, made for the columns of the classifier, and its content security policy."""
        lead = (
            "Fill in what is known about one case and leave the rest empty: the model was made for missing values. The "
            "prediction says what it relied on, and which value to ask for next."
        )
        questions = {column.name: column.question() for column in self.classifier.columns}
        title = f"Predicting {self.classifier.target or 'the label'}"
        return render_form(FormPage(title, lead, questions, self.classifier.facts()))

    def frame(self, rows: Sequence[RowCells]) -> pd.DataFrame:
        """The rows of requests with all columns of training."""
        names, positions = self._positions
        cells = np.full((len(rows), len(names)), None, object)
        cells[:, positions] = rows
        return pd.DataFrame(cells, columns=names)

    @cached_property
    def _positions(self) -> tuple[pd.Index, list[int]]:
        """The columns of training, and where those of requests are among them."""
        names = pd.Index(self.classifier.names)
        return names, names.get_indexer(pd.Index(list(self.reader.names))).tolist()

    def predictions(self, requested: Sequence[tuple[RowCells, Promise | None]]) -> list[dict[str, Any]]:
        """The class of each row, the probability of every class, notes on values that count as missing and, for rows with a
        promise, the classes of their prediction sets."""
        rows = [cells for cells, _ in requested]
        with watched(quiet=True) as watch:
            if len(rows) == 1:
                only = dict(zip(self.reader.names, rows[0], strict=True))
                probabilities, observed = self.classifier.predict_row_with_observed(only)
            else:
                probabilities, observed = self.classifier.predict_with_observed(self.frame(rows))
        names = [str(label) for label in self.classifier.classes.tolist()]
        predictions = [
            {"prediction": predicted, "probabilities": dict(zip(names, row, strict=True)), "notes": noted}
            for predicted, row, noted in zip(
                self.classifier.decide(probabilities).tolist(),
                probabilities.astype(float).round(6).tolist(),
                notes(self.classifier.columns, rows, observed, watch),
                strict=True,
            )
        ]
        for promise in {each for _, each in requested if each is not None}:
            sets = self.classifier.sets(probabilities, observed, promise.coverage, by_class=promise.by_class)
            for (_, asked), held, prediction in zip(requested, sets, predictions, strict=True):
                if asked == promise:
                    prediction["set"] = self.classifier.classes[held].tolist()
        return predictions

    def explanations(self, rows: Sequence[RowCells]) -> list[dict[str, Any]]:
        """The prediction for each row, its units, and notes on values that count as missing."""
        with watched(quiet=True) as watch:
            evidence = self.classifier.evidence(self.frame(rows))
        read = [{unit.column for unit in row.units if unit.state == "observed"} for row in evidence]
        observed = np.array([[column.name in names for column in self.classifier.columns] for names in read])
        by_row = notes(self.classifier.columns, rows, observed, watch)
        classes = {str(label): label for label in self.classifier.classes.tolist()}
        return [_evidence(row, classes) | {"notes": each} for row, each in zip(evidence, by_row, strict=True)]


@dataclass
class Store:
    """The classifier in use. A replaced file is loaded beside it, and used once it is complete; until then, and if it cannot
    be read, the old one stays in use."""

    path: Path
    limits: Limits
    device: str | None = None
    reloads: int = 0
    problem: str | None = None
    current: Loaded = field(init=False)
    tried: FileState = ()

    def __post_init__(self) -> None:
        self.current = self._load(self._state())

    def refresh(self) -> None:
        """Load the file again if it has changed; a damaged one is tried once."""
        try:
            state = self._state()
            if state == self.current.state:
                self.problem = None
            elif state != self.tried:
                self.tried = state
                self.current = self._load(state)
                self.reloads, self.problem = self.reloads + 1, None
                logger.info("loaded the changed model %s", self.path)
        except Exception as error:  # whatever is wrong with a new model, the old one stays in use
            if str(error) != self.problem:
                logger.warning("the changed model is not used: %s", error)
            self.problem = str(error)

    def _load(self, state: FileState) -> Loaded:
        classifier = load_classifier(self.path, device=self.device)
        if self._state() != state:
            raise ValueError(f"{self.path} is being written; it is loaded once it is complete")
        classifier.record()
        return Loaded(classifier, RequestReader(classifier.columns, self.limits, classifier.known_names), state)

    def _state(self) -> FileState:
        """Changes whenever a file of the model is replaced."""
        if not self.path.exists():
            raise ValueError(f"there is no model {self.path}; give what `gauge fit` or `gauge export` wrote")
        files = sorted(self.path.rglob("*")) if self.path.is_dir() else [self.path]
        states = ((str(file), file.stat()) for file in files if file.is_file())
        return tuple((name, each.st_mtime_ns, each.st_size, each.st_ino) for name, each in states)


def _evidence(row: RowEvidence, classes: Mapping[str, Any]) -> dict[str, Any]:
    name, probability = row.prediction
    predicted = {"prediction": classes[name], "probability": round(probability, 6)}
    columns = {"effects": dict(row.effects), "helpful": {name: gain.to_json() for name, gain in row.helpful.items()}}
    return predicted | columns | {"units": [asdict(unit) for unit in row.units]}
