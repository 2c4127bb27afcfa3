"""Fitting: every expert in folds, and their weights from rows held out, within a time limit."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from gauge.registry import EXPERTS
from gauge.tabular.experts import Expert, Folds, Member, Task, Training
from gauge.tabular.experts._ensemble import Ensemble, Weights
from gauge.tabular.experts._weighing import unscored, weigh
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.splits import Splits

logger = logging.getLogger(__name__)

MIN_ROWS = 50  # of a smaller table none are held out for validation

Cross = dict[str, list[Expert]]
"""By the name of an expert, for every fold one that has not seen the rows which it holds out."""


@dataclass(frozen=True)
class FittedEnsemble:
    """All experts, what each scores and weighs, the number of `labelled` rows that they learned from, and the record of the
    network's training, or of none. `validated` has experts each of which predicts rows that it did not learn from, these
    rows, and their labels; `left_out` says what the time limit was too short for."""

    ensemble: Ensemble
    leaderboard: pd.DataFrame
    labelled: int
    training: Training
    validated: tuple[Ensemble, Rows, np.ndarray]
    left_out: Sequence[str]

    @property
    def held_out(self) -> int:
        """The number of rows that were held out from some of the experts."""
        return len(self.validated[2])


class OutOfFold(Member):
    """Each row is predicted by the expert of its fold, which has not seen it."""

    def __init__(self, members: Sequence[Expert]) -> None:
        self.members = tuple(members)
        self.network = members[0].network

    def predict(self, rows: Rows) -> np.ndarray:
        if len(self.members) == 1:
            return self.members[0].predict(rows)
        assert rows.fold is not None
        parts = [np.flatnonzero(rows.fold == number) for number in range(len(self.members))]
        every = [member.predict(rows.take(part)) for member, part in zip(self.members, parts, strict=True)]
        return np.concatenate(every)[np.argsort(np.concatenate(parts))]


def fit_ensemble(task: Task, names: Sequence[str], *, prior: np.ndarray, validation: float) -> FittedEnsemble:
    """Every expert, and their combination from rows held out: about `validation` of them in each fold. Trees and linear
    models learn from all rows in the end."""
    folds = _folds(task, validation)
    if not folds:
        logger.warning(
            "%d rows of %d classes are too few to validate (it takes %d, and as many held out as there are classes): the "
            "experts have equal weights and default settings, and no score says how good they are",
            *(len(task.rows), task.classes, MIN_ROWS),
        )
    max_rows, outputs = 5000, 1 if task.classes == 2 else task.classes
    tried = folds if len(task.rows) * outputs <= max_rows else folds[:1]
    experts, cross, left_out = _fit_experts(task, tried, names)
    ensemble = Ensemble(experts, Weights.equal(len(experts)), prior, 1 / len(task.rows))
    if not folds:
        _warn_of_ignorance(task, experts)
    board, validated, part, counts = unscored(ensemble), *_validated(task, tried, ensemble, cross)
    if len(part):
        slow = [name for name in experts if not EXPERTS.get(name).cross_fitted]
        board = weigh(*validated, part, counts, rate=task.recipe.rate, slow=slow)
    labelled = len(task.rows)
    if task.streamed is not None:  # a sample of those that the network learned from
        learned = (expert.training.rows for expert in experts.values() if expert.training is not None)
        labelled = max([labelled, *(rows + len(part) for rows in learned)])
    records = [expert.training for expert in ensemble.experts.values() if expert.training is not None]
    training = records[0] if records else Training(rows=len(task.rows))
    return FittedEnsemble(ensemble, board, labelled, training, validated, left_out)


def _warn_of_ignorance(task: Task, experts: Mapping[str, Expert]) -> None:
    """Warn of experts that are mostly wrong about the rows that they learned from, as no row held out shows it."""
    rows, labels = task.rows.take(np.arange(min(len(task.rows), 1000))), task.labels[:1000]
    for name, expert in experts.items():
        right = float((expert.predict(rows).argmax(1) == labels).mean())
        if right < 0.5:
            logger.warning(
                "expert %r is right about %.0f %% of the rows that it learned from, of %d classes; leave it out (experts=), "
                "join rare classes, or give more rows of each",
                *(name, 100 * right, task.classes),
            )


def _fit_experts(task: Task, folds: Folds, names: Sequence[str]) -> tuple[dict[str, Expert], Cross, list[str]]:
    """The experts in the order of their names, the quick ones fitted first; then those of every fold, and what was left out
    because the time was over. An expert that takes long has a single fold."""
    fitted: dict[str, tuple[Expert, list[Expert]]] = {}
    left_out = []
    for name in reversed(names):
        kind = EXPERTS.get(name)
        if fitted and not task.has_time_for(0.0):
            left_out.append(f"expert {name!r}")
            continue
        fitted[name] = kind.fit(task, folds if kind.cross_fitted else folds[:1])
    experts = {name: fitted[name][0] for name in names if name in fitted}
    return experts, {name: fitted[name][1] for name in experts}, left_out


def _validated(
    task: Task, folds: Folds, ensemble: Ensemble, cross: Cross
) -> tuple[tuple[Ensemble, Rows, np.ndarray], np.ndarray, np.ndarray]:
    """Experts that predict the rows of the folds which all of them have, each row by those that have not seen it; then the
    part of these rows that each belongs to, with those that stay together, and what each row counts."""
    count = min(len(each) for each in cross.values())
    held_out = [rows for _, rows in folds[:count]]
    rows = np.concatenate([np.arange(0), *held_out])
    number = np.repeat(np.arange(count), [len(each) for each in held_out])
    labels, part = task.labels[rows], number
    experts: dict[str, Member] = dict(ensemble.experts)
    if count:
        experts = {name: OutOfFold(each[:count]) for name, each in cross.items()}
    if count == 1:
        splits = Splits(task.splits.take(rows).groups)
        part = np.full(len(rows), -1)
        # a single fold is divided into five parts
        for index, (_, own) in enumerate(splits.folds(labels, 5, task.recipe.seed)):
            part[own] = index
    validated = replace(ensemble, experts=experts), replace(task.rows.take(rows), fold=number), labels
    return validated, part, task.weights[rows]


def _folds(task: Task, validation: float) -> Folds:
    """None if there are too few rows, or if the rows held out would be fewer than the classes."""
    folds = task.splits.folds(task.labels, max(2, round(1 / validation)), task.recipe.seed)
    enough = len(task.labels) >= MIN_ROWS and all(len(held_out) >= task.classes for _, held_out in folds)
    return folds if enough and len(np.unique(task.labels)) > 1 else []
