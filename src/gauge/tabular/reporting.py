"""What a fitted classifier says about its answers: explanations, importance, evaluation, and an audit of its trust."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from gauge import __version__
from gauge.choices import pick
from gauge.tabular.evidence.audit import CellAudit, audit_cells
from gauge.tabular.evidence.cell_trust import Trust
from gauge.tabular.evidence.effects import importance
from gauge.tabular.evidence.evaluation import Evaluation, evaluate, label_numbers, shown_labels
from gauge.tabular.evidence.explanation import Explanation
from gauge.tabular.evidence.reader import Reader
from gauge.tabular.experts.ensemble import Ensemble, Network, expert_weights
from gauge.tabular.experts.network import Recipe, Strategy, strategy_scores
from gauge.tabular.table.inputs import as_pandas, is_frame, labels_of
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema
from gauge.training.metrics import ACCURACY


class Reporting(ABC):
    """The methods of a classifier that look at its answers. What they read is set by `fit`, or by loading."""

    gates: bool
    size: str
    experts: str | Sequence[str]
    random_state: Any
    classes_: np.ndarray
    class_prior_: np.ndarray
    class_weight_: list[float]
    ensemble_: Ensemble
    experts_: Sequence[str]
    schema_: Schema
    trust_: Trust | None
    recipe_: Recipe
    strategy_: Strategy
    target_: str | None
    leaderboard_: pd.DataFrame
    validation_scores_: dict[Strategy, float | None]
    largest_class_: tuple[str, float]
    cut_short_: dict[str, tuple[int, int]]
    missing_rates_: dict[str, float]
    n_rows_: dict[str, int]
    donor_rows_: list[str]

    @abstractmethod
    def _read(self, X: Any) -> tuple[pd.DataFrame, Rows]: ...

    def _decide(self, probabilities: np.ndarray) -> np.ndarray:
        return (probabilities * self.class_weight_).argmax(1)

    def explain(self, X: Any, y: Any = None, *, exact: bool = False, keep: Sequence[str] = ()) -> Explanation:
        """Every unit of every row with its value, score, gate and attention in the network, how much each cell is used (how
        far the probability of the predicted class, by all experts, falls when the cell is missing), and how far it is
        trusted (the probability that it is right, from how well it fits the others). `exact` adds the effects of words and
        of parts of images. Without a network that has gates there are no scores, gates and attention. `y`, labels or the
        name of their column, is shown beside the predictions; `keep` are columns of X to recognise the rows by.
        """
        check_is_fitted(self, "ensemble_")
        frame, rows = self._read(X)
        labels = None if y is None else shown_labels(self.classes_, labels_of(X, y, len(rows)))
        known = as_pandas(X) if is_frame(X) else frame
        names = {name: name for name in map(str, known)}
        ids = known[[pick(names, each, "column to keep") for each in keep]] if keep else None
        about = self.schema_, self.ensemble_, self.classes_.tolist(), np.array(self.class_weight_)
        reader = Reader(*about, self.trust_, self.donor_rows_)
        return Explanation(reader.rows(frame, rows, labels=labels, ids=ids, exact=exact), self._facts())

    def importance(self, X: Any, y: Any = None) -> pd.DataFrame:
        """What each column does for the answers of all experts, the most important first, with a 95 % interval.

        With labels, or the name of their column, it is the increase of the log loss when the column is missing; without them
        the mean absolute effect on the probability of the predicted class.
        """
        _, rows = self._read(X)
        labels = None
        if y is not None:
            rows, labels = self._labelled(X, y, rows)
        return importance(self.ensemble_, rows, self._decide(self.ensemble_.predict(rows)), labels)

    def evaluate(self, X: Any, y: Any = None) -> Evaluation:
        """Accuracy, log loss, AUC and calibration error on labelled rows, with 95 % intervals, and the confusion matrix;
        beside them the class shares of the training rows and, where they are among the experts, the boosted trees alone.

        `y` are labels or the name of their column, by default that of training. Rows without a label are left out.
        """
        _, rows = self._read(X)
        rows, labels = self._labelled(X, self.target_ if y is None else y, rows)
        probabilities = self.ensemble_.predict(rows)
        models = {"classifier": probabilities, "class shares": np.tile(self.class_prior_, (len(rows), 1))}
        if "trees" in self.experts_:
            models["boosted trees"] = self.ensemble_.alone("trees").predict(rows)
        return evaluate(models, labels, self._decide(probabilities), self.classes_.tolist())

    def _labelled(self, X: Any, y: Any, rows: Rows) -> tuple[Rows, np.ndarray]:
        """The rows that have a label, and the numbers of their classes."""
        if y is None:
            raise ValueError("there are no labels to compare with; give y, or the name of their column")
        numbers = label_numbers(self.classes_, labels_of(X, y, len(rows)))
        known = np.flatnonzero(numbers >= 0)
        return (rows, numbers) if len(known) == len(rows) else (rows.take(known), numbers[known])

    def audit(self, X: Any, *, seed: int = 0) -> CellAudit:
        """How far the trust in cells can be believed, on rows that need no labels: some of their known values are hidden and
        imputed, others swapped with another row's, and the trust is compared with the truth."""
        _, rows = self._read(X)
        if self.trust_ is None:
            raise ValueError(
                "this classifier has no trust to audit; fit it with trust=True on at least 50 rows with two columns of "
                "numbers or categories"
            )
        network = self.ensemble_.experts.get("network")
        return audit_cells(self.trust_, rows, network.model if isinstance(network, Network) else None, seed=seed)

    @property
    def verdict_(self) -> str:
        """The strategy that was chosen, and the validation score of each."""
        if "network" not in self.experts_:
            return f"without the network: {' and '.join(self.experts_)}"
        text = strategy_scores(self.validation_scores_, self.strategy_)
        if not text:
            return f"strategy {self.strategy_!r}; too few rows to validate"
        if self.recipe_.metric is ACCURACY:
            label, share = self.largest_class_
            text += f"; always predicting {label!r} would give {100 * share:.1f} %"
        for stage, (done, planned) in self.cut_short_.items():
            text += f"; the time limit ended {stage!r} after {done} of {planned} epochs"
        return f"strategy {self.strategy_!r}: validation {self.recipe_.metric} {text}"

    def _facts(self) -> dict[str, str]:
        """How the model was trained, for reports and the card."""
        weights = expert_weights(self.leaderboard_)
        encoders = ", ".join(f"{column}: {source}" for column, source in self.schema_.encoders.items())
        return {
            "Predicts": self.target_ or "the label",
            "Model": f"gauge-ml {__version__}, size {self.size!r}, random_state {self.random_state}",
            "Experts": ", ".join(f"{name} {100 * weight:.0f} %" for name, weight in weights.items()),
            "Strategy": self.verdict_,
            "On rows held out": self._held_out(),
            "Trained on": f"{self.n_rows_['train']} rows, {self.n_rows_['val']} more to validate",
            "Missing in training": f"{100 * np.mean(list(self.missing_rates_.values())):.0f} % of all cells",
        } | ({"Pretrained encoders": encoders} if encoders else {})

    def _held_out(self) -> str:
        """What all experts together score on the rows held out."""
        lines = self.leaderboard_[self.leaderboard_["expert"] == "combined"]
        if not len(lines):
            return "not validated: too few rows"
        best = lines.iloc[0]
        auc = "" if np.isnan(best["auc"]) else f", AUC {best['auc']:.3f}"
        return f"accuracy {100 * best['accuracy']:.1f} %{auc}, log loss {best['log_loss']:.3f}"
