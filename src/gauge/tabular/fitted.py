"""Fitted: a classifier after training, as one value that predicts, explains itself, and is written to a folder.

The folder has weights (safetensors), everything else (JSON), the losses of training and a model card. None of it is code.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, Unpack

import numpy as np
import pandas as pd
import torch

from gauge import __version__
from gauge.choices import pick
from gauge.reports.card import model_card
from gauge.reports.evidence import RowEvidence
from gauge.tabular.classifier import TableClassifier, saved_classes, typed_classes
from gauge.tabular.ensemble import Ensemble, combined_scores, expert_weights
from gauge.tabular.evidence.advice import Advice, absent, advice_table, check_costs
from gauge.tabular.evidence.audit import CellAudit, audit_cells
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
from gauge.tabular.evidence.measures import Answered, large_class_note
from gauge.tabular.evidence.reader import Reader
from gauge.tabular.evidence.thresholds import HeldOut, choose_threshold
from gauge.tabular.experts import Saved, Training, with_prefix
from gauge.tabular.experts._recipe import tuned_columns
from gauge.tabular.prediction_sets import COVERAGE, PredictionSets
from gauge.tabular.saved import CARD as CARD
from gauge.tabular.saved import (
    FORMAT,
    HISTORY,
    METADATA,
    TOKENIZERS,
    WEIGHTS,
    checksum,
    file_record,
    json_options,
    read_description,
    read_history,
    usable,
)
from gauge.tabular.table.arrays import column_of
from gauge.tabular.table.columns import Column, ImageFiles
from gauge.tabular.table.inputs import as_pandas, group_numbers, is_frame, labels_of
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Encoded, Schema
from gauge.training import checkpoint
from gauge.training.device import pick_device
from gauge.training.metrics import ACCURACY

logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Fitted(TableClassifier):
    """All that training has left: the `schema` of the table, the `ensemble` of experts, the `trust` in cells if it was
    learned, the `advice` on missing values if rows were held out, the `leaderboard` of experts on them, the record of the
    network's `training`, and the `options` of the estimator. `n_rows` counts the rows of training, those of them that were
    held out to validate, and those without values; `missing_rates` are the shares of missing values by column, and
    `largest_class` is the most frequent one and its share. `prediction_sets` and `held_out` are what rows held out say of
    its answers. `groups` is the column whose rows were kept together, if any, `profile` is what the training rows looked
    like, and `left_out` says what the time limit was too short for."""

    schema: Schema
    ensemble: Ensemble
    classes: np.ndarray
    class_weight: np.ndarray
    named: bool
    target: str | None
    trust: CellTrust | None
    advice: Advice | None
    leaderboard: pd.DataFrame
    training: Training
    n_rows: Mapping[str, int]
    missing_rates: Mapping[str, float]
    largest_class: tuple[str, float]
    prediction_sets: PredictionSets | None
    held_out: HeldOut | None
    groups: str | None
    profile: Profile | None
    options: Mapping[str, Any]
    files: ImageFiles
    left_out: Sequence[str] = ()

    @property
    def columns(self) -> Sequence[Column]:
        return self.schema.columns

    @property
    def names(self) -> Sequence[str]:
        return self.schema.names

    @property
    def experts(self) -> tuple[str, ...]:
        """The names of the experts."""
        return tuple(self.ensemble.experts)

    def read(self, X: Any) -> tuple[pd.DataFrame, Rows]:
        """Rows as given and as the experts read them."""
        frame = self.frame(X)
        encoded = self.schema.encode(frame, self.files)
        _report_empty(encoded)
        return frame, Rows.from_frame(self.schema, frame, encoded)

    def predict_with_observed(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        rows = self.read(X)[1]
        return self.ensemble.predict(rows), rows.observed()

    def predict_row_with_observed(self, row: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        encoded = self.schema.encode_row(row, self.files)
        _report_empty(encoded)
        rows = Rows.from_columns(self.schema, lambda column: column_of(column, [row[column.name]]), encoded)
        return self.ensemble.predict(rows), rows.observed()

    def record(self) -> None:
        for expert in self.ensemble.experts.values():
            expert.record()
        self._try()  # so that no later row waits for the recording

    def explain(self, X: Any, y: Any = None, *, exact: bool = False, keep: Sequence[str] = ()) -> Explanation:
        """See `GaugeClassifier.explain`."""
        frame, rows = self.read(X)
        labels = None if y is None else shown_labels(self.classes, labels_of(X, y, len(rows)))
        known = as_pandas(X) if is_frame(X) else frame
        names = {name: name for name in map(str, known)}
        ids = known[[pick(names, each, "column to keep") for each in keep]] if keep else None
        reader = Reader(
            *(self.schema, self.ensemble, self.classes.tolist(), self.class_weight, self.trust, self.advice)
        )
        evidence = reader.rows(frame, rows, labels=labels, ids=ids, exact=exact)
        if self.prediction_sets is not None:
            sets = self.sets(self.ensemble.predict(rows), rows.observed(), COVERAGE)
            words = self.classes.astype(str)
            pairs = zip(evidence, sets, strict=True)
            evidence = tuple(replace(row, plausible=tuple(words[held].tolist())) for row, held in pairs)
        gains = {} if self.advice is None else self.advice.column_gains()
        return Explanation(evidence, self.facts(), gains)

    def evidence(self, X: Any) -> Sequence[RowEvidence]:
        return self.explain(X).rows

    def importance(self, X: Any, y: Any = None) -> pd.DataFrame:
        """See `GaugeClassifier.importance`."""
        _, rows = self.read(X)
        labels = None
        if y is not None:
            rows, labels = self._labelled(X, y, rows)
        return importance(self.ensemble, rows, self.class_numbers(self.ensemble.predict(rows)), labels)

    def advise(self, X: Any, *, costs: Mapping[str, Any] | None = None, worth: Any = None) -> pd.DataFrame:
        """See `GaugeClassifier.advise`."""
        names = [column.name for column in self.columns]
        prices = check_costs(costs, names)
        frame, rows = self.read(X)
        if self.advice is None:
            raise ValueError("this classifier has no advice, which takes rows held out; fit it on at least 50 rows")
        gains = self.advice.gains(self.ensemble, self.trust, rows, absent(frame, rows))
        return advice_table(gains, names, frame.index, prices, worth)

    def evaluate(self, X: Any, y: Any = None, **choices: Unpack[Choices]) -> Evaluation:
        """See `GaugeClassifier.evaluate`."""
        _, rows = self.read(X)
        known = as_pandas(X) if is_frame(X) else pd.DataFrame(index=range(len(rows)))
        chosen, labels = self._known_labels(X, self.target if y is None else y, rows)
        groups = choices.get("groups", self.groups if self.groups in known else None)
        numbers = group_numbers(known, groups, len(rows))
        columns, classes = {str(name): name for name in known}, self.classes.tolist()
        by = [pick(columns, name, "column for subgroups") for name in choices.get("by", ())]
        positive = positive_class(classes, choices.get("positive"), choices.get("threshold"))
        rows = hide(rows.take(chosen), choices.get("protocol"))
        probabilities = self.ensemble.predict(rows)
        models = {"classifier": probabilities, "class shares": np.tile(self.ensemble.prior, (len(rows), 1))}
        if "trees" in self.experts:
            models["boosted trees"] = self.ensemble.alone("trees").predict(rows)
        grouped = None if numbers is None else numbers[chosen]
        decided = self.class_numbers(probabilities)
        rule, other = choices.get("threshold"), choices.get("against")
        weights = self.class_weight.tolist()
        return evaluate(
            Answered(models, labels, decided, classes, rows.observed(), grouped, positive, class_weight=weights),
            threshold=None if rule is None else choose_threshold(rule, self.held_out, positive or 0),
            sets=self.prediction_sets,
            by=known.reset_index(drop=True)[by].iloc[chosen],
            other=None if other is None else others(other, X, classes, choices.get("protocol"))[chosen],
            held_out=self.held_out,
            leaderboard=self.leaderboard,
            facts=self.facts(),
        )

    def _labelled(self, X: Any, y: Any, rows: Rows) -> tuple[Rows, np.ndarray]:
        """The rows that have a label, and the numbers of their classes."""
        known, numbers = self._known_labels(X, y, rows)
        return (rows, numbers) if len(known) == len(rows) else (rows.take(known), numbers)

    def _known_labels(self, X: Any, y: Any, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Which rows have a label, and the numbers of their classes."""
        if y is None:
            raise ValueError("there are no labels to compare with; give y, or the name of their column")
        numbers = label_numbers(self.classes, labels_of(X, y, len(rows)))
        known = np.flatnonzero(numbers >= 0)
        return known, numbers[known]

    def drift(self, X: Any) -> Drift:
        """See `GaugeClassifier.drift`."""
        frame, rows = self.read(X)
        return measure_drift(self.profile, frame, rows, self.missing_rates, self.n_rows["train"])

    def audit(self, X: Any, *, seed: int = 0) -> CellAudit:
        """See `GaugeClassifier.audit`."""
        _, rows = self.read(X)
        if self.trust is None:
            raise ValueError(
                "this classifier has no trust to audit; fit it with trust=True on at least 50 rows with two columns of "
                "numbers or categories"
            )
        return audit_cells(self.trust, rows, self.ensemble.network, seed=seed)

    @property
    def gates_answer(self) -> bool:
        """Whether gates change the answer of the network."""
        network = self.ensemble.network
        return network is not None and network.gating.gates_units and network.gating.answers

    @property
    def verdict(self) -> str:
        """The validation score of the network, and what the gates do."""
        training = self.training
        if self.ensemble.network is None:
            return f"without the network: {' and '.join(self.experts)}"
        if training.score is None:
            return "too few rows to validate the network"
        text = f"the network alone, with values hidden: {training.metric} {100 * training.score:.1f} %"
        if training.metric == str(ACCURACY):
            label, share = self.largest_class
            text += f"; always predicting {label!r} would give {100 * share:.1f} %"
        for stage, (done, planned) in training.cut_short.items():
            text += f"; the time limit ended {stage!r} after {done} of {planned} epochs"
        return text + training.gates_in_words(self.gates_answer)

    @property
    def rare_rates(self) -> dict[str, float]:
        """The share of rare values among those of training, for columns that have any."""
        return {} if self.profile is None else self.profile.rare_rates(self.schema)

    def notes(self) -> list[str]:
        """That accuracy says little where one class is frequent, which columns have rare values, and what the time limit was
        too short for."""
        notes = large_class_note(*self.largest_class)
        notes += [
            f"column {name!r}: {100 * share:.0f} % of its values are rare; they are read, and do not count as missing"
            for name, share in self.rare_rates.items()
        ]
        return [*notes, f"the time limit left out: {', '.join(self.left_out)}"] if self.left_out else notes

    def facts(self) -> dict[str, str]:
        """How the model was trained, for reports and the card."""
        weights = expert_weights(self.leaderboard)
        tuned = tuned_columns(self.options.get("tune", "head"), self.schema)
        encoders = ", ".join(
            f"{column}: {source}" + (f" (fine-tuned: {tuned[column]})" if column in tuned else "")
            for column, source in self.schema.encoders.items()
        )
        size, seed = self.options["size"], self.options.get("random_state")
        rare = ", ".join(f"{100 * share:.0f} % of {name}" for name, share in self.rare_rates.items())
        return {
            "Predicts": self.target or "the label",
            "Model": f"gauge-ml {__version__}, size {size!r}, random_state {seed}",
            "Experts": ", ".join(f"{name} {100 * weight:.0f} %" for name, weight in weights.items()),
            "Network": self.verdict,
            "On rows held out": combined_scores(self.leaderboard),
            "Trained on": f"{self.n_rows['train']} rows, {self.n_rows['val']} of them held out to validate",
            "Missing in training": f"{100 * np.mean(list(self.missing_rates.values())):.0f} % of all cells",
            **({"Rare in training": rare} if rare else {}),
            **({"Left out for the time limit": ", ".join(self.left_out)} if self.left_out else {}),
        } | ({"Pretrained encoders": encoders} if encoders else {})

    def card(self) -> str:
        """The README of the saved model."""
        versions = {"Versions": f"torch {torch.__version__}, format {FORMAT}"}
        columns: list[tuple[str, str, str]] = [
            (each.name, each.kind, f"{100 * self.missing_rates[each.name]:.0f} %") for each in self.columns
        ]
        columns += [(name, f"ignored: {reason}", "") for name, reason in self.schema.ignored.items()]
        target, history = self.target or "the label", self.training.history
        return model_card(target, self.classes.tolist(), self.facts() | versions, history, columns)

    def save(self, folder: Path) -> None:
        """Write the weights first and `model.json` last: a folder that has it is complete."""
        saved, classes = self.ensemble.save(), saved_classes(self.classes)
        tensors = {f"experts.{name}": tensor for name, tensor in saved.tensors.items()}
        trust = None
        if self.trust is not None:
            own, trust = self.trust.save()
            tensors |= {f"trust.{name}": tensor for name, tensor in own.items()}
        if self.held_out is not None:
            tensors |= {f"held_out.{name}": tensor for name, tensor in self.held_out.tensors().items()}
        if self.profile is not None:
            tensors |= {f"profile.{name}": tensor for name, tensor in self.profile.tensors().items()}
        training = asdict(self.training)
        history = training.pop("history")
        metadata: dict[str, Any] = {
            "format": FORMAT,
            "version": __version__,
            "schema": self.schema.to_json(),
            "ensemble": saved.metadata,
            **classes,
            "class_weight": self.class_weight.tolist(),
            "named": self.named,
            "target": self.target,
            "trust": trust,
            "advice": None if self.advice is None else self.advice.to_json(),
            "leaderboard": json.loads(self.leaderboard.to_json(orient="records", double_precision=15)),
            "training": training,
            "n_rows": dict(self.n_rows),
            "missing_rates": dict(self.missing_rates),
            "largest_class": self.largest_class,
            "groups": self.groups,
            "prediction_sets": None if self.prediction_sets is None else self.prediction_sets.to_json(),
            "left_out": list(self.left_out),
            "options": dict(json_options(self.options)) | {"encoders": self.schema.encoders or None},
        }
        checkpoint.save(folder / WEIGHTS, tensors, {"classifier": FORMAT})
        self.schema.save_files(folder / TOKENIZERS)
        checkpoint.write_text(folder / HISTORY, "".join(f"{json.dumps(epoch)}\n" for epoch in history))
        checkpoint.write_text(folder / CARD, self.card())
        metadata |= file_record(folder)
        metadata["sha256"] = checksum(metadata)
        checkpoint.write_text(folder / METADATA, json.dumps(metadata, indent=1) + "\n")

    @classmethod
    def load(
        cls,
        folder: Path,
        *,
        device: str | None = None,
        files: ImageFiles | None = None,
        trusted: Path | str | None = None,
    ) -> "Fitted":
        """The value that `save` wrote to a folder, ready to predict with images in `files`. It has answered a row of its own
        before it is returned, so that what cannot answer is refused here. `trusted` is the public key, or its file, that
        has to have signed it."""
        saved, history, path = read_description(folder, trusted), read_history(folder), folder / WEIGHTS
        tensors, _ = checkpoint.load(path)
        with usable(folder):
            schema = Schema.from_json(saved.table.model_dump(), folder / TOKENIZERS)
            broken = [name for name, tensor in tensors.items() if not tensor.isfinite().all()]
            if broken:
                raise ValueError(f"{path} has values that are NaN or infinite, first in {broken[0]!r}")
            experts = Saved(with_prefix("experts.", tensors), saved.ensemble.model_dump(), path)
            trust, sets = None, saved.prediction_sets
            if sets is not None and sets.columns != len(schema.columns):
                raise ValueError(f"its prediction sets are for {sets.columns} columns, it has {len(schema.columns)}")
            if saved.trust is not None:
                trust = CellTrust.load(with_prefix("trust.", tensors), saved.trust.model_dump(), schema)
            fitted = cls(
                schema=schema,
                ensemble=Ensemble.load(experts, schema),
                classes=typed_classes(saved.classes, saved.class_type),
                class_weight=np.array(saved.class_weight),
                named=saved.named,
                target=saved.target,
                trust=trust,
                advice=None if saved.advice is None else Advice.from_json(saved.advice),
                leaderboard=pd.DataFrame([row.model_dump(exclude_unset=True) for row in saved.leaderboard]),
                training=Training(**saved.training.record(), history=history),
                n_rows={str(name): count for name, count in saved.n_rows.items()},
                missing_rates=saved.missing_rates,
                largest_class=(str(saved.largest_class[0]), float(saved.largest_class[1])),
                prediction_sets=None if sets is None else PredictionSets.from_json(sets.model_dump()),
                held_out=HeldOut.load(with_prefix("held_out.", tensors), len(saved.classes)),
                groups=saved.groups,
                profile=Profile.load(with_prefix("profile.", tensors), schema),
                options=saved.options,
                files=files or ImageFiles(),
                left_out=saved.left_out,
            )
            fitted._try()
        for expert in fitted.ensemble.experts.values():
            expert.to(pick_device(device))
        return fitted

    def _try(self) -> None:
        """Answer a row in which every column is observed, and judge its cells."""
        frame = pd.DataFrame({column.name: [None] for column in self.columns}, dtype=object)
        blank = self.schema.encode(frame)
        observed = {name: torch.ones_like(flags) for name, flags in blank.observed.items()}
        rows = Rows.from_frame(self.schema, frame, replace(blank, observed=observed, empty=np.zeros(1, bool)))
        answers = self.ensemble.predict(rows)
        if answers.shape != (1, len(self.classes)):
            raise ValueError(f"its experts answer with {answers.shape[1]} classes, it has {len(self.classes)}")
        if self.trust is not None:
            missing = np.full_like(rows.cells, np.nan)
            judged = self.trust.observed(rows.cells), self.trust.imputed(missing, self.trust.guesses(missing))
            if not all(np.isfinite(each).all() for each in judged):
                raise ValueError("the trust in its cells is NaN")


def _report_empty(encoded: Encoded) -> None:
    if encoded.empty.any():
        logger.warning("%d rows have no values and get the class prior", encoded.empty.sum())
