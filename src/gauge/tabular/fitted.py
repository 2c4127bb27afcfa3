"""Fitted: a classifier after training, as one value that predicts, explains itself, and is written to a folder.

The folder has weights (safetensors), everything else (JSON), the losses of training and a model card. None of it is code.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from gauge import __version__
from gauge.choices import as_names, pick
from gauge.reports.card import model_card
from gauge.reports.evidence import RowEvidence
from gauge.tabular.evidence.advice import absent, advice_table, check_costs, expected_gains
from gauge.tabular.evidence.audit import audit_cells
from gauge.tabular.evidence.cell_trust import CellTrust
from gauge.tabular.evidence.drift import Drift, Profile, measure_drift
from gauge.tabular.evidence.effects import importance
from gauge.tabular.evidence.evaluation import (
    Choices,
    Evaluation,
    evaluate,
    hide,
    label_numbers,
    others,
    positive_class,
    shown_labels,
)
from gauge.tabular.evidence.explanation import Explanation
from gauge.tabular.evidence.measures import EvaluatedRows
from gauge.tabular.evidence.reader import Reader
from gauge.tabular.evidence.thresholds import HeldOut, choose_threshold, threshold_weights
from gauge.tabular.experts import Saved, with_prefix
from gauge.tabular.experts._ensemble import Ensemble, expert_weights, scores_in_words
from gauge.tabular.saved.classifier import TableClassifier
from gauge.tabular.saved.description import (
    FORMAT,
    Description,
    Record,
    SavedEnsemble,
    SavedSchema,
    SavedTrust,
    read_description,
)
from gauge.tabular.saved.files import (
    CARD,
    HISTORY,
    METADATA,
    TOKENIZERS,
    WEIGHTS,
    file_record,
    json_options,
    read_history,
    usable,
)
from gauge.tabular.table.arrays import column_of
from gauge.tabular.table.columns import Column, ImageFiles
from gauge.tabular.table.guard import Training, watched
from gauge.tabular.table.inputs import as_pandas, group_numbers, is_frame, labels_of
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema
from gauge.training import checkpoint

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitted(Record, TableClassifier):
    """All that training has left: the `schema` of the table, the `ensemble` of experts, the `trust` in cells if it was
    learned, `held_out` and `profile`: what it predicted for rows held out and what the training rows looked like. `files` is
    where images lie. Of its record, `advice` is that on missing values and `prediction_sets` hold the right class, both if
    rows were held out, `leaderboard` scores the experts on them, `training` is that of the network, and `options` are those
    of the estimator. `n_rows` counts the rows of training, those of them that were held out to validate, and those without
    values; `missing_rates` are the shares of missing values by column, `largest_class` is the most frequent one and its
    share, `groups` is the column whose rows were kept together, if any, and `left_out` says what the time limit was too
    short for. Methods are described in `GaugeClassifier`, which has the same ones."""

    schema: Schema
    ensemble: Ensemble
    trust: CellTrust | None
    held_out: HeldOut | None
    profile: Profile | None
    files: ImageFiles

    @property
    def columns(self) -> Sequence[Column]:
        return self.schema.columns

    @property
    def names(self) -> Sequence[str]:
        return self.schema.names

    @property
    def experts(self) -> tuple[str, ...]:
        return tuple(self.ensemble.experts)

    @cached_property
    def _training(self) -> Training:
        return Training(self.columns, self.missing_rates, self.n_rows["train"])

    def read(self, X: Any) -> tuple[pd.DataFrame, Rows]:
        """Return rows as given and as the experts read them."""
        with watched() as watch:
            frame = self.frame(X)
            rows = Rows.from_frame(self.schema, frame, self.schema.encode(frame, self.files))
            watch.add_rows(rows.observed(), self._training)
        return frame, rows

    def predict_with_observed(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        rows = self.read(X)[1]
        return self.ensemble.predict(rows), rows.observed()

    def predict_row_with_observed(self, row: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        with watched() as watch:
            encoded = self.schema.encode_row(row, self.files)
            rows = Rows.from_columns(self.schema, lambda column: column_of(column, [row[column.name]]), encoded)
            watch.add_rows(rows.observed(), self._training)
        return self.ensemble.predict(rows), rows.observed()

    def record(self) -> None:
        for expert in self.ensemble.experts.values():
            expert.record()
        self._try()  # so that no later row waits for the recording

    def explain(self, X: Any, y: Any = None, *, exact: bool = False, keep: Sequence[str] = ()) -> Explanation:
        frame, rows = self.read(X)
        labels = None if y is None else shown_labels(self.classes, labels_of(X, y, len(rows)))
        known = as_pandas(X) if is_frame(X) else frame
        names = {name: name for name in map(str, known)}
        ids = known[[pick(names, each, "column to keep") for each in as_names(keep)]] if keep else None
        reader = Reader(
            *(self.schema, self.ensemble, self.classes.tolist(), self.class_weight),
            *(self.trust, self.advice, self.prediction_sets),
        )
        evidence = reader.rows(frame, rows, labels=labels, ids=ids, exact=exact)
        gains = {} if self.advice is None else self.advice.column_gains()
        return Explanation(evidence, self.facts(), gains)

    def evidence(self, X: Any) -> Sequence[RowEvidence]:
        return self.explain(X).rows

    def importance(self, X: Any, y: Any = None) -> pd.DataFrame:
        _, rows = self.read(X)
        labels = None
        if y is not None:
            known, labels = self._known_labels(X, y, rows)
            rows = rows.take(known)
        return importance(self.ensemble, rows, self.class_numbers(self.ensemble.predict(rows)), labels)

    def feature_importances(self) -> np.ndarray:
        if self.advice is None:
            raise AttributeError(
                "importances take rows held out; fit on at least 50 rows, or use importance(rows, labels)"
            )
        gains = self.advice.column_gains()
        return np.array([gains[name].gain if name in gains else 0.0 for name in self.names])

    def advise(self, X: Any, *, costs: Mapping[str, Any] | None = None, worth: Any = None) -> pd.DataFrame:
        names = [column.name for column in self.columns]
        prices = check_costs(costs, names)
        frame, rows = self.read(X)
        if self.advice is None:
            raise ValueError("this classifier has no advice, which takes rows held out; fit it on at least 50 rows")
        gains = expected_gains(self.advice, self.ensemble, self.trust, rows, absent(frame, rows))
        return advice_table(gains, names, frame.index, prices, worth)

    def evaluate(self, X: Any, y: Any = None, **choices: Unpack[Choices]) -> Evaluation:
        _, rows = self.read(X)
        known = as_pandas(X) if is_frame(X) else pd.DataFrame(index=range(len(rows)))
        chosen, labels = self._known_labels(X, self.target if y is None else y, rows)
        groups = choices.get("groups", self.groups if self.groups in known else None)
        numbers = group_numbers(known, groups)
        columns, classes = {str(name): name for name in known}, self.classes.tolist()
        by = [pick(columns, name, "column for subgroups") for name in as_names(choices.get("by", ()))]
        positive = positive_class(classes, choices.get("positive"), choices.get("threshold"))
        rows = hide(rows.take(chosen), choices.get("protocol"))
        probabilities = self.ensemble.predict(rows)
        models = {"classifier": probabilities, "class shares": np.tile(self.ensemble.prior, (len(rows), 1))}
        for name in self._compared:
            models["boosted trees" if name == "trees" else f"{name} alone"] = self.ensemble.only([name]).predict(rows)
        grouped = None if numbers is None else numbers[chosen]
        if grouped is not None and len(np.unique(grouped)) < 2:
            problem = "all labelled rows are of one group, and nothing says how far others differ"
            if "groups" in choices:
                raise ValueError(f"{problem}; give rows of several, or groups=None")
            logger.warning("%s: no interval but that of the accuracy", problem)  # the groups are those of training
        decided = self.class_numbers(probabilities)
        rule, other = choices.get("threshold"), choices.get("against")
        weights = self.class_weight.tolist()
        return evaluate(
            EvaluatedRows(models, labels, decided, classes, rows.observed(), grouped, positive, class_weight=weights),
            threshold=None if rule is None else choose_threshold(rule, self.held_out, positive or 0),
            sets=self.prediction_sets,
            by=known.reset_index(drop=True)[by].iloc[chosen],
            other=None if other is None else others(other, X, classes, choices.get("protocol"))[chosen],
            held_out=self.held_out,
            leaderboard=self.leaderboard,
            facts=self.facts(),
        )

    @property
    def _compared(self) -> list[str]:
        """The experts to evaluate alone: the best one on rows held out, and the trees."""
        board = self.leaderboard[self.leaderboard["expert"] != "combined"].dropna(subset="log_loss")
        best = board.nsmallest(1, "log_loss")["expert"].tolist() if len(self.experts) > 1 else []
        return list(dict.fromkeys([*best, *(["trees"] if "trees" in self.experts else [])]))

    def with_threshold(self, threshold: str | float, positive: Any) -> "Fitted":
        number = positive_class(self.classes.tolist(), positive, threshold)
        assert number is not None  # it was given
        return replace(self, class_weight=threshold_weights(threshold, self.held_out, number, len(self.classes)))

    def _known_labels(self, X: Any, y: Any, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows have a label, and the numbers of their classes."""
        if y is None:
            raise ValueError("there are no labels to compare with; give y, or the name of their column")
        numbers = label_numbers(self.classes, labels_of(X, y, len(rows)))
        known = np.flatnonzero(numbers >= 0)
        return known, numbers[known]

    def drift(self, X: Any) -> Drift:
        frame, rows = self.read(X)
        return measure_drift(self.profile, frame, rows, self.missing_rates, self.n_rows["train"])

    def audit(self, X: Any, *, seed: int = 0) -> pd.DataFrame:
        _, rows = self.read(X)
        if self.trust is None:
            raise ValueError(
                "this classifier has no trust to audit; fit it with trust=True on at least 50 rows with two columns of "
                "numbers or categories"
            )
        return audit_cells(self.trust, rows, seed=seed)

    @property
    def rare_rates(self) -> dict[str, float]:
        """The share of rare values among those of training, for columns that have any."""
        return {} if self.profile is None else self.profile.rare_rates(self.schema)

    def notes(self) -> list[str]:
        """Return that accuracy says little where one class is frequent, and prediction sets little of a rare one, which
        columns have rare values, and what the time limit was too short for."""
        label, share = self.largest_class
        warning = f"always predicting {label!r} gives an accuracy of {100 * share:.1f} %: look at AUC and log loss"
        notes = [warning] if share > 0.8 else []
        rarest = int(self.ensemble.prior.argmin())
        if self.prediction_sets is not None and self.ensemble.prior[rarest] < 0.1:
            notes.append(
                f"{100 * self.ensemble.prior[rarest]:.1f} % of the rows are {self.classes[rarest]!s}: prediction sets "
                "promise to cover them with by_class=True only"
            )
        notes += [
            f"column {name!r}: {100 * share:.0f} % of its values are rare; they are read, and do not count as missing"
            for name, share in self.rare_rates.items()
        ]
        notes += [
            f"the time limit ended {stage!r} of the network after {done} of {planned} epochs"
            for stage, (done, planned) in self.training.cut_short.items()
        ]
        return [*notes, f"the time limit left out: {', '.join(self.left_out)}"] if self.left_out else notes

    def facts(self) -> dict[str, str]:
        weights = expert_weights(self.leaderboard)
        encoders = ", ".join(f"{column}: {source}" for column, source in self.schema.encoders.items())
        size, seed = self.options["size"], self.options.get("random_state")
        rare = ", ".join(f"{100 * share:.0f} % of {name}" for name, share in self.rare_rates.items())
        facts = {
            "Predicts": self.target or "the label",
            "Model": f"gauge-ml {__version__}, size {size!r}, random_state {seed}",
            "Experts": ", ".join(f"{name} {100 * weight:.0f} %" for name, weight in weights.items()),
            "On rows held out": scores_in_words(self.leaderboard, "combined"),
            "Trained on": f"{self.n_rows['train']} rows; {self.n_rows['val']} of them were held out to weigh the experts",
            "Missing in training": f"{100 * np.mean(list(self.missing_rates.values())):.0f} % of all cells",
            "Rare in training": rare,
            "Decides": self._decision,
            "Left out for the time limit": ", ".join(self.left_out),
            "Pretrained encoders": encoders,
        }
        return {name: value for name, value in facts.items() if value}

    @property
    def _decision(self) -> str:
        """How classes are chosen where not every class counts the same."""
        weights, names = self.class_weight.tolist(), self.classes.tolist()
        if len(set(weights)) == 1:
            return ""
        if len(names) == 2:
            return f"{names[int(np.argmax(weights))]} from a probability of {min(weights) / sum(weights):.3g} on"
        return "probabilities times " + ", ".join(
            f"{weight:.3g} ({name})" for name, weight in zip(names, weights, strict=True)
        )

    def card(self) -> str:
        """Return the README of the saved model."""
        versions = {"Versions": f"torch {version('torch')}, format {FORMAT}"}
        columns: list[tuple[str, str, str]] = [
            (each.name, each.kind, f"{100 * self.missing_rates[each.name]:.0f} %") for each in self.columns
        ]
        columns += [(name, f"ignored: {reason}", "") for name, reason in self.schema.ignored.items()]
        target, history = self.target or "the label", self.training.history
        return model_card(target, self.classes.tolist(), self.facts() | versions, history, columns)

    def save(self, folder: Path) -> None:
        """Write the weights first and `model.json` last: a folder that has it is complete."""
        _check_own(folder)
        experts = self.ensemble.save()
        trust, saved_trust = ({}, None) if self.trust is None else self.trust.save()
        parts = {"experts": experts.tensors, "trust": trust}
        parts["held_out"] = {} if self.held_out is None else self.held_out.tensors()
        parts["profile"] = {} if self.profile is None else self.profile.tensors()
        tensors = {f"{part}.{name}": tensor for part, own in parts.items() for name, tensor in own.items()}
        checkpoint.save_arrays(folder / WEIGHTS, tensors, {"classifier": FORMAT})
        self.schema.save_files(folder / TOKENIZERS)
        history = "".join(f"{json.dumps(epoch)}\n" for epoch in self.training.history)
        checkpoint.write_text(folder / HISTORY, history)
        checkpoint.write_text(folder / CARD, self.card())
        options = dict(json_options(self.options)) | {"encoders": self.schema.encoders or None}
        description = Description(
            **self.record_fields() | {"options": options},
            version=__version__,
            schema=SavedSchema(**self.schema.to_json()),
            ensemble=SavedEnsemble(**experts.metadata),
            trust=None if saved_trust is None else SavedTrust(**saved_trust),
            files=file_record(folder),
        )
        checkpoint.write_text(folder / METADATA, description.to_json())

    @classmethod
    def load(cls, folder: Path, *, device: str | None = None, files: ImageFiles | None = None) -> "Fitted":
        """Return the value that `save` wrote to a folder, ready to predict with images in `files`. It has predicted a row of
        its own before it is returned, so that what cannot predict is refused here."""
        saved, history, path = read_description(folder), read_history(folder), folder / WEIGHTS
        tensors, _ = checkpoint.load_arrays(path)
        with usable(folder):
            schema = Schema.from_json(vars(saved.schema), folder / TOKENIZERS)
            broken = [name for name, tensor in tensors.items() if not np.isfinite(tensor).all()]
            if broken:
                raise ValueError(f"{path} has values that are NaN or infinite, first in {broken[0]!r}")
            experts = Saved(with_prefix("experts.", tensors), vars(saved.ensemble), path)
            trust = None
            if saved.trust is not None:
                trust = CellTrust.load(with_prefix("trust.", tensors), vars(saved.trust), schema)
            fitted = cls(
                **saved.record_fields() | {"training": replace(saved.training, history=history)},
                schema=schema,
                ensemble=Ensemble.load(experts, schema),
                trust=trust,
                held_out=HeldOut.load(with_prefix("held_out.", tensors), len(saved.classes)),
                profile=Profile.load(with_prefix("profile.", tensors), schema),
                files=files or ImageFiles(),
            )
            fitted._try()
        for expert in fitted.ensemble.experts.values():
            expert.to(device)
        return fitted

    def _try(self) -> None:
        """Predict a row in which every column is observed, and judge its cells."""
        frame = pd.DataFrame({column.name: [None] for column in self.columns}, dtype=object)
        rows = Rows.from_frame(self.schema, frame, self.schema.blank(1))
        probabilities = self.ensemble.predict(rows)
        if probabilities.shape != (1, len(self.classes)):
            raise ValueError(f"its experts have {probabilities.shape[1]} classes, it has {len(self.classes)}")
        if self.trust is not None:
            missing = np.full_like(rows.cells, np.nan)
            judged = self.trust.observed(rows.cells), self.trust.imputed(missing, self.trust.guesses(missing))
            if not all(np.isfinite(each).all() for each in judged):
                raise ValueError("the trust in its cells is NaN")


def _check_own(folder: Path) -> None:
    """An error if saving to the folder would replace files that are not of a saved classifier."""
    found = [name for name in (WEIGHTS, TOKENIZERS, HISTORY, CARD, METADATA) if (folder / name).exists()]
    with suppress(ValueError):
        if found and "classifier" in checkpoint.read_metadata(folder / WEIGHTS):
            return
    if found or folder.is_file():
        what = f"has a {found[0]!r} of something else, which would be replaced" if found else "is a file"
        raise ValueError(f"{folder.resolve()} {what}; name a new folder for the classifier")
