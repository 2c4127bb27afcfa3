"""Fitting: every expert in folds and with several seeds, and their weights from rows held out, within a time limit."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from gauge.model.combination import Combination
from gauge.registry import EXPERTS
from gauge.tabular.ensemble import Ensemble, make_folds
from gauge.tabular.experts import Expert, Folds, Lesson, Task, Training
from gauge.tabular.experts._bag import Bag, OutOfFold, bag
from gauge.tabular.options import Preset
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.splits import Splits
from gauge.tabular.teaching import (
    MAX_TAUGHT_ROWS,
    Unlabelled,
    calibrated_losses,
    row_weights,
    shift,
    taught_rows,
    temperatures,
    tempered,
)
from gauge.tabular.weighing import unscored, weigh
from gauge.training.distributed import broadcast
from gauge.training.metrics import log_losses, pays

logger = logging.getLogger(__name__)

MIN_ROWS = 50  # of a smaller table none are held out for validation
REFIT_SHARE = 0.25  # of the time that training took
PARTS = 5  # of the rows of a single fold
MIN_TAUGHT = 0.1  # rows that are taught, over those with a label, from which on learning from them is tried
MAX_HARM_ALONE, MAX_HARM = 1.0, 2.0  # standard errors that students, alone or in a bag, may be worse on rows held out
TOO_FEW = "there are too few labelled rows to tell whether learning from them pays, so they are not used for it"
FEW_MORE = (
    f"those that are taught, {MAX_TAUGHT_ROWS:,} at most, would be too few beside the labelled rows to bring anything"
)
NO_TIME = "the time limit left no time to learn from them"
NO_STUDENTS = "columns are read from them too, but linear models gain nothing from learning what they say themselves"

Cross = dict[str, list[Expert]]
"""By the name of an expert, for every fold one that has not seen the rows which it holds out."""


@dataclass(frozen=True)
class FittedEnsemble:
    """All experts, what each scores and weighs, the number of `labelled` rows that they learned from, and the record of the
    network's training, or of none. `validated` has experts each of which answers rows that it did not learn from, these
    rows, and their labels. `unlabelled` is what rows without a label brought, if there were any, and `left_out` says what
    the time limit was too short for."""

    ensemble: Ensemble
    leaderboard: pd.DataFrame
    labelled: int
    training: Training
    validated: tuple[Ensemble, Rows, np.ndarray]
    unlabelled: Unlabelled | None
    left_out: Sequence[str]

    @property
    def held_out(self) -> int:
        """The number of rows that were held out from some of the experts."""
        return len(self.validated[2])


def fit_ensemble(
    task: Task, names: Sequence[str], *, prior: np.ndarray, validation: float, preset: Preset
) -> FittedEnsemble:
    """Every expert, and their combination from rows held out: about `validation` of them in each fold. Trees and linear
    models learn from all rows in the end. Where it pays, all of them learn from rows without a label as well."""
    folds = _folds(task, validation)
    if not folds:
        logger.warning(
            "%d rows of %d classes are too few to validate (it takes %d, and as many held out as there are classes): the "
            "experts have equal weights and default settings, and no score says how good they are",
            *(len(task.rows), task.classes, MIN_ROWS),
        )
    outputs = 1 if task.classes == 2 else task.classes
    tried = folds if len(task.rows) * outputs <= preset.max_rows else folds[:1]
    experts, cross, left_out = _fit_experts(task, tried, names, preset)
    unlabelled = None
    if task.every is not None:
        experts, cross, unlabelled = _teach(task, tried, experts, cross)
    ensemble = Ensemble(experts, Combination(len(experts), 1).double(), prior, 1 / len(task.rows))
    board, validated, part = unscored(ensemble), *_validated(task, tried, ensemble, cross)
    if len(part):
        slow = [name for name in experts if not EXPERTS.get(name).cross_fitted]
        board = weigh(*validated, part, rate=task.recipe.rate, slow=slow)
    labelled = len(task.rows)
    if task.streamed is not None:  # a sample of those that the network learned from
        learned = (expert.training.labelled for expert in experts.values() if expert.training is not None)
        labelled = max([labelled, *(rows + len(part) for rows in learned)])
    ensemble, more = _refit(task, ensemble)
    records = [expert.training for expert in ensemble.experts.values() if expert.training is not None]
    training = records[0] if records else Training(rows=len(task.rows))
    return FittedEnsemble(ensemble, board, labelled, training, validated, unlabelled, [*left_out, *more])


def _refit(task: Task, ensemble: Ensemble) -> tuple[Ensemble, list[str]]:
    """Experts that have a weight, after they learned from the rows that were held out from them, too, if there is time."""
    experts, left_out = dict(ensemble.experts), []
    for (name, expert), used in zip(ensemble.experts.items(), ensemble.used, strict=True):
        if isinstance(expert, Bag):  # every row is one that most of its members have seen
            continue
        taken = 0.0 if expert.training is None else sum(epoch["seconds"] for epoch in expert.training.history)
        if used and task.has_time_for(REFIT_SHARE * taken):
            experts[name] = expert.refit(task)
        elif used:
            left_out.append(f"learning of {name!r} from the rows held out")
    return replace(ensemble, experts=experts), left_out


def _fit_experts(
    task: Task, folds: Folds, names: Sequence[str], preset: Preset
) -> tuple[dict[str, Expert], Cross, list[str]]:
    """The experts in the order of their names, the quick ones first, each with several seeds where these matter; then those
    of every fold, and what was left out because the time was over."""
    fitted: dict[str, tuple[list[Expert], list[list[Expert]]]] = {}
    left_out = []
    for name in reversed(names):
        kind = EXPERTS.get(name)
        if fitted and not task.has_time_for(0.0):
            left_out.append(f"expert {name!r}")
            continue
        count = 1 if task.streamed is not None else preset.network_folds
        own = folds if kind.cross_fitted else folds[:count]
        seeds = preset.seeds if kind.seeded else 1
        runs = []
        for number in range(seeds):
            started = task.seconds_used
            whole, cross = kind.fit(task.with_seed(number), own)
            runs.append((whole, cross))
            if len(cross) < len(own):
                left_out.append(f"{len(own) - len(cross)} of {len(own)} folds of {name!r}")
            if number + 1 < seeds and not task.has_time_for(task.seconds_used - started):
                left_out.append(f"{seeds - number - 1} of {seeds} seeds of {name!r}")
                break
        runs = [run for run in runs if len(run[1]) == len(runs[0][1])]
        fitted[name] = (
            [whole for whole, _ in runs],
            [list(each) for each in zip(*(cross for _, cross in runs), strict=True)],
        )
    experts = {name: bag(fitted[name][0]) for name in names if name in fitted}
    return experts, {name: [bag(each) for each in fitted[name][1]] for name in experts}, left_out


def _validated(
    task: Task, folds: Folds, ensemble: Ensemble, cross: Cross
) -> tuple[tuple[Ensemble, Rows, np.ndarray], np.ndarray]:
    """Experts that answer the rows of the folds which all of them have, each row by those that have not seen it; then the
    part of these rows that each belongs to, with those that stay together."""
    count = min(len(each) for each in cross.values())
    held_out = [rows for _, rows in folds[:count]]
    rows = np.concatenate([np.arange(0), *held_out])
    number = np.repeat(np.arange(count), [len(each) for each in held_out])
    labels, part = task.labels[rows], number
    experts: dict[str, Expert] = dict(ensemble.experts)
    if count:
        experts = {name: OutOfFold(each[:count]) for name, each in cross.items()}
    if count == 1:
        groups = None if task.splits is None else task.splits.groups
        splits = None if groups is None else Splits(groups[rows])
        part = np.full(len(rows), -1)
        for index, (_, own) in enumerate(make_folds(labels, PARTS, task.recipe.seed, splits)):
            part[own] = index
    validated = replace(ensemble, experts=experts), replace(task.rows.take(rows), fold=number), labels
    return validated, part


def _teach(
    task: Task, folds: Folds, experts: dict[str, Expert], cross: Cross
) -> tuple[dict[str, Expert], Cross, Unlabelled]:
    """Students in place of their experts, or beside them in a bag if that is better, or the given experts if both harm on
    labelled rows held out: students learn from rows without a label what all experts together say about these. Then those of
    every fold, and the record. The teachers are those of the folds. Experts that are not cross-fitted learn again only if
    it pays for the others."""
    count = len(task.all_rows) - len(task.rows)
    rows = taught_rows(len(task.rows), count)
    slow = [name for name in experts if not EXPERTS.get(name).cross_fitted]
    quick = [name for name in experts if name not in slow]
    pupils = [name for name in quick if EXPERTS.get(name).has_students] or slow
    if reason := _not_taught(task, folds, rows, pupils):
        return experts, cross, Unlabelled(count, reason=reason)
    asked = [name for name in experts if name in {*quick, *pupils}]
    folds = folds[: min(len(cross[name]) for name in asked)]
    new = task.all_rows.take(rows)
    labels = [task.labels[val] for _, val in folds]
    given = [{name: cross[name][number] for name in asked} for number in range(len(folds))]
    teachers = [_equal(task, each, train) for each, (train, _) in zip(given, folds, strict=True)]
    without = _held_out(task, folds, given)
    betas = temperatures(without, labels)
    answers = [tempered(each.predict(new), beta) for each, beta in zip(teachers, betas[:-1], strict=True)]
    ratios, shifted = shift(np.mean(answers, 0), np.concatenate(without), teachers[0].prior)
    lessons = [_lesson(rows, each, ratios) for each in answers]
    students = [
        {name: EXPERTS.get(name).learn_again(task, fold, lesson) for name in pupils}
        for fold, lesson in zip(folds, lessons, strict=True)
    ]
    base = calibrated_losses(without, labels)
    for alone, limit in ((True, MAX_HARM_ALONE), (False, MAX_HARM)):
        taught = [_beside(own, each, alone) for own, each in zip(given, students, strict=True)]
        losses = calibrated_losses(_held_out(task, folds, taught), labels)
        if not (harms := broadcast(pays(losses - base, limit))):
            break
    record = Unlabelled(count, (), len(base), float(losses.mean()), float(base.mean()), shifted=shifted)
    better = broadcast(pays(base - losses))
    if harms or (pupils == slow and not better):
        return experts, cross, record
    every = np.arange(len(task.rows)), np.arange(0)
    lesson = _lesson(rows, tempered(_equal(task, experts, every[0]).predict(new), betas[-1]), ratios)
    learned = {name: EXPERTS.get(name).learn_again(task, every, lesson) for name in pupils if name not in slow}
    whole = {name: each for name, each in _beside(experts, learned, alone).items() if name in learned}
    again = {name: [each[name] for each in taught] for name in learned}
    kept = []
    for name in slow if better else ():
        slowly = _learned_again(task, name, cross[name], list(zip(folds, lessons, strict=True)), students[0].get(name))
        if slowly:
            whole[name], again[name] = bag(slowly), slowly
        else:
            kept.append(f"{name} did not gain on {len(labels[0])} of them and learned from labelled rows only")
    record = replace(record, experts=tuple(name for name in experts if name in whole), reason="; ".join(kept))
    return experts | whole, cross | again, record


def _not_taught(task: Task, folds: Folds, rows: np.ndarray, pupils: Sequence[str]) -> str:
    """Why nobody learns from these rows without a label; empty if somebody may."""
    if not folds:
        return TOO_FEW
    if len(rows) < MIN_TAUGHT * len(task.rows):
        return FEW_MORE
    if not task.has_time_for(task.seconds_used):
        return NO_TIME
    return "" if pupils else NO_STUDENTS


def _held_out(task: Task, folds: Folds, experts: Sequence[Mapping[str, Expert]]) -> list[np.ndarray]:
    """What the experts of every fold together say about the rows that it holds out."""
    return [
        _equal(task, each, train).predict(task.rows.take(val))
        for each, (train, val) in zip(experts, folds, strict=True)
    ]


def _beside(experts: Mapping[str, Expert], students: Mapping[str, Expert], alone: bool) -> dict[str, Expert]:
    """All experts with students in place of those that have one, or in a bag with them."""
    return dict(experts) | {name: each if alone else bag([experts[name], each]) for name, each in students.items()}


def _learned_again(
    task: Task,
    name: str,
    given: Sequence[Expert],
    lessons: Sequence[tuple[tuple[np.ndarray, np.ndarray], Lesson]],
    first: Expert | None,
) -> list[Expert]:
    """Experts that take long after lessons, one for each fold that there is a `given` one for; none unless the `first` is
    better on the rows that its fold holds out."""
    kind, (train, val) = EXPERTS.get(name), lessons[0][0]
    first = first or kind.learn_again(task, *lessons[0])
    answers = [_equal(task, {name: each}, train).predict(task.rows.take(val)) for each in (first, given[0])]
    with_lesson, without = (log_losses(each, task.labels[val]).mean() for each in answers)
    if not broadcast(bool(with_lesson < without)):
        return []
    return [first, *(kind.learn_again(task, *each) for each in lessons[1 : len(given)])]


def _lesson(rows: np.ndarray, answers: np.ndarray, ratios: np.ndarray) -> Lesson:
    return Lesson(rows, answers, row_weights(answers, ratios))


def _equal(task: Task, experts: Mapping[str, Expert], train: np.ndarray) -> Ensemble:
    """Experts that have learned from some of the rows, with equal weights."""
    prior = np.bincount(task.labels[train], task.weights[train], task.classes)
    return Ensemble(experts, Combination(len(experts), 1).double(), prior / prior.sum(), 1 / len(train))


def _folds(task: Task, validation: float) -> Folds:
    """None if there are too few rows, or if the rows held out would be fewer than the classes."""
    folds = make_folds(task.labels, max(2, round(1 / validation)), task.recipe.seed, task.splits)
    enough = len(task.labels) >= MIN_ROWS and all(len(held_out) >= task.classes for _, held_out in folds)
    return folds if enough and len(np.unique(task.labels)) > 1 else []
