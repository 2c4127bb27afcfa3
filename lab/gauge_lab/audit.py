"""audit(): compare the scores, gates and trust of a trained GAUGE with the truth.

Six questions, on test samples under one protocol: do the model's scores rank units as exact effects do; are imputed units
gated lower than observed ones; are imputed units of the wrong class gated lower than those of the right one, as judged by a
classifier trained on real values; are swapped or noised units gated lower than sound ones; when the learned trust in a unit
is 0.8, is it right in 80 % of the cases; and does the gate improve predictions?
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score, roc_curve
from torch import Tensor

from gauge.data import Dataset
from gauge.masks import parse_protocol
from gauge.paper.gauge import Gate, Gauge, Reading, displacement, normalize_scores, ungated_gradient
from gauge.paper.network import hiding_bias
from gauge.paper.scoring.exact import exact_effects
from gauge.plus.gauge_plus import GaugePlus
from gauge.plus.trust import TrustHead, rightness
from gauge.plus.trust import per_unit as per_unit_values
from gauge.registry import SCORERS
from gauge.training.inference import masked_batches
from gauge.training.metrics import reliability
from gauge.types import ScoreOptions
from gauge.values import Batch, Prediction

Judge = Callable[[Batch], Tensor]  # a completed batch -> [b, m, k]
Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Audit:
    """The findings; shares and means from 0 to 1, None where there is nothing to compare.

    `accuracy` is given without gates, with gates, with all imputed units hidden, and with those hidden that show a wrong
    class, as perfect gates would do. A separation is, for the gate, for the learned trust if there is any and for every
    score, an AUC: 0.5 is chance, and below it wrong content gets the larger values. `separation` tells imputed units of the
    right class from those of a wrong one, `separation_cells` imputed cells with an error below the median of their column
    (or the right category) from others, in columns that are right in 20 to 80 % of the cases, `separation_observed` sound
    observed units from wrong ones, and `separation_modalities` the same for the mean of a modality's units. `curves` has
    the shares of right units that are found where 0, 2, ... 100 % of the wrong ones are taken for right. With learned
    trust, which takes the place of the gate, `gate` is the paper's gate on the same network before training. `calibration`
    has, for observed units, the expected calibration error and for each of its bins the mean trust, the share that is right
    and the count (see `reliability`).
    """

    protocol: str
    samples: int
    threshold: float | None
    log_temperature: float | None
    rank_correlation: float
    gate_observed: float
    gate_imputed: float | None
    changed: int
    better: int
    worse: int
    accuracy: dict[str, float] = field(default_factory=dict)
    imputed_right: float | None = None
    separation: dict[str, float] = field(default_factory=dict)
    gate_right: float | None = None
    gate_wrong: float | None = None
    separation_cells: dict[str, float] = field(default_factory=dict)
    observed_wrong: float | None = None
    separation_observed: dict[str, float] = field(default_factory=dict)
    separation_modalities: dict[str, float] = field(default_factory=dict)
    calibration: dict[str, Any] = field(default_factory=dict)
    curves: dict[str, dict[str, list[float]]] = field(default_factory=dict)


@torch.no_grad()
def audit(
    method: Gauge | GaugePlus, data: Dataset, protocol: str, *, judge: Judge | None = None, samples: int | None = None
) -> Audit:
    """The findings on `samples` of the split (all when None). `judge` gives class logits for each modality of a completed
    batch; without it, imputed modalities are not judged. For GAUGE+, the network is audited, not the votes of its heads."""
    gauge = method.gauge if isinstance(method, GaugePlus) else method
    if not gauge.gating.gates_units:
        raise ValueError(f"granularity {gauge.gating.granularity!r} gives no scored gates to audit; train gauge or v3")
    method.eval()
    chosen = torch.arange(len(data))
    if samples is not None and samples < len(data):  # spread over the split, which may be ordered by class
        chosen = torch.linspace(0, len(data) - 1, samples).long()
    size = 2048 if data.device.type == "cuda" else 256
    batches = masked_batches(data, parse_protocol(protocol), size, chosen, truth=True)
    per_unit, per_sample = map(_joined, zip(*(_look(method, gauge, batch, judge) for batch in batches), strict=True))
    facts, values = Facts(**{name: per_unit.pop(name) for name in Facts._fields}), per_unit
    gates, labels = values["gate"], per_sample.pop("labels")
    correct = {name: classes == labels for name, classes in per_sample.items()}
    before, after = correct["without gates"], correct["with gates"]
    gate = gauge.gate if isinstance(gauge.gate, Gate) else None
    findings = Audit(
        protocol=protocol,
        samples=len(chosen),
        threshold=None if gate is None else float(gate.threshold),
        log_temperature=None if gate is None else float(gate.log_temperature),
        rank_correlation=_rank_correlation(facts.scores, values["exact, signed"].abs()),
        gate_observed=float(gates[facts.observed].mean()),
        gate_imputed=float(gates[~facts.observed].mean()) if bool((~facts.observed).any()) else None,
        changed=int((per_sample["without gates"] != per_sample["with gates"]).sum()),
        better=int((after & ~before).sum()),
        worse=int((before & ~after).sum()),
        accuracy={name: float(rows.float().mean()) for name, rows in correct.items()},
        calibration=_calibration(facts, values["trust"]) if "trust" in values else {},
    )
    findings = _wrong_evidence(findings, facts, values, gauge.encoder.modality.cpu())
    findings = _imputed_cells(findings, facts, values, data, gauge)
    return findings if judge is None or bool(facts.observed.all()) else _judged(findings, values, facts)


class Facts(NamedTuple):
    """What is known of every unit: the model's score, whether it was observed and is visible to the network, how right it is
    and whether that is known, and the error of an imputed cell (NaN elsewhere)."""

    scores: Float[Tensor, "s n"]
    observed: Bool[Tensor, "s n"]
    visible: Bool[Tensor, "s n"]
    right: Float[Tensor, "s n"]
    known: Bool[Tensor, "s n"]
    error: Float[Tensor, "s n"]


def _joined(parts: Sequence[Tensors]) -> Tensors:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _look(method: Gauge | GaugePlus, gauge: Gauge, batch: Batch, judge: Judge | None) -> tuple[Tensors, Tensors]:
    """For one batch, on the CPU: what is known of every unit, and the labels and predicted classes of every sample."""
    reading = method.read(batch.check())
    prediction = gauge.decide(reading)
    labels, observed = reading.completed.labels, reading.units.observed
    assert prediction.evidence is not None
    assert labels is not None

    def class_from(visible: Bool[Tensor, "b n"]) -> Tensor:
        """The class that the network predicts, without gates, from these units alone."""
        return reading.classifier(reading.units.keep(visible).tokens, hiding_bias(visible)).argmax(1)

    shown = None if judge is None else judge(reading.completed).argmax(-1) == labels[:, None]
    completed = None if gauge.imputer is None else reading.completed
    right, known = rightness(gauge.encoder, batch)
    if completed is not None and shown is not None:  # what is imputed is right if it shows the class
        whole = torch.tensor([flags.ndim == 1 for flags in batch.observed.values()], device=observed.device)
        judged = ~observed & whole[reading.units.modality]
        right = torch.where(judged, shown[:, reading.units.modality].float(), right)
        known = known | judged
    per_unit = {name: values.float() for name, values in _values(gauge, reading, prediction).items()}
    per_unit |= {
        "scores": prediction.evidence.scores,
        "observed": observed,
        "visible": torch.ones_like(observed) if reading.visible is None else reading.visible,
        "right": right,
        "known": known,
        "error": _errors(gauge, batch, completed),
    }
    per_sample = {
        "labels": labels,
        "without gates": prediction.evidence.logits.argmax(1),
        "with gates": prediction.logits.argmax(1),
        "imputed hidden": class_from(observed),
    }
    if shown is not None:
        per_sample["wrong ones hidden"] = class_from(observed | shown[:, reading.units.modality])
    return {name: tensor.cpu() for name, tensor in per_unit.items()}, {
        name: tensor.cpu() for name, tensor in per_sample.items()
    }


def _values(method: Gauge, reading: Reading, prediction: Prediction) -> Tensors:
    """The gate, the trust, every registered score, and two of them with their sign: positive where a unit supports the
    prediction."""
    assert prediction.gates is not None
    tokens, reference, objective = reading.units.tokens, method.gating.reference, method.gating.objective
    options: ScoreOptions = {"reference": reference, "objective": objective, "key": reading.completed.key}
    values = {"gate": prediction.gates}
    for name in ("taylor", *(name for name in SCORERS.names() if name != "taylor")):
        values[name] = SCORERS.get(name)(reading.classifier, tokens, **options).scores
    if isinstance(method.gate, TrustHead):
        values["gate"] = torch.sigmoid(normalize_scores(values["taylor"], visible=reading.visible))
        values["trust"] = prediction.gates
    _, gradient = ungated_gradient(reading.classifier, tokens, objective)
    values["taylor, signed"] = (gradient * displacement(tokens, reference)).sum(-1)
    values["exact, signed"] = exact_effects(reading.classifier, tokens, **options)
    return values


def _errors(method: Gauge, batch: Batch, completed: Batch | None) -> Float[Tensor, "b n"]:
    """The absolute error of every imputed cell whose true value is known; NaN for all other units, also for the whole of a
    table."""
    errors = {}
    for name, observed in batch.observed.items():
        errors[name] = torch.full(observed.shape, torch.nan, device=observed.device)
        if completed is not None and observed.ndim == 2 and batch.truth is not None:
            imputed = batch.truth.known[name] & ~observed
            error = (completed.inputs[name] - batch.inputs[name]).abs().reshape(*observed.shape, -1).mean(-1)
            errors[name] = torch.where(imputed, error.float(), torch.nan)
    per_unit = per_unit_values(method.encoder, errors)
    ends = torch.tensor(list(method.encoder.unit_counts.values())).cumsum(0) - 1
    for end, name in zip(ends.tolist(), method.encoder.unit_counts, strict=True):
        if method.encoder.has_whole(name):
            per_unit[:, end] = torch.nan
    return per_unit


def _judged(findings: Audit, values: Tensors, facts: Facts) -> Audit:
    right = facts.right.round().bool()
    imputed = ~facts.observed & facts.known & facts.visible
    gates = values["gate"]
    right_units, wrong_units = imputed & right, imputed & ~right
    if not imputed.any():
        return findings
    return replace(
        findings,
        imputed_right=float(right[imputed].float().mean()),
        separation=_separation(values, right, imputed),
        gate_right=float(gates[right_units].mean()) if right_units.any() else None,
        gate_wrong=float(gates[wrong_units].mean()) if wrong_units.any() else None,
    )


def _separation(values: Tensors, right: Bool[Tensor, "s n"], among: Bool[Tensor, "s n"]) -> dict[str, float]:
    """The AUC of every value for telling right from wrong among these units; nothing where there is one kind only."""
    labels = right[among].numpy()
    if labels.all() or not labels.any():
        return {}
    return {name: float(roc_auc_score(labels, value[among].numpy())) for name, value in values.items()}


def _curves(values: Tensors, right: Bool[Tensor, "s n"], among: Bool[Tensor, "s n"]) -> dict[str, list[float]]:
    """The points of the curves of gate and trust that belong to `_separation`, where that found two kinds."""
    labels = right[among].numpy()
    curves = {name: roc_curve(labels, values[name][among].numpy())[:2] for name in ("gate", "trust") if name in values}
    return {name: np.interp(np.linspace(0, 1, 51), fpr, tpr).round(4).tolist() for name, (fpr, tpr) in curves.items()}


def _wrong_evidence(findings: Audit, facts: Facts, values: Tensors, modality: Tensor) -> Audit:
    """How well sound observed units are separated from swapped or noised ones, by unit and by the mean of each modality."""
    sound, among = facts.right == 1, facts.observed & facts.visible & ((facts.right == 0) | (facts.right == 1))
    apart = _separation(values, sound, among)
    if not apart:
        return findings
    member = (modality[:, None] == torch.arange(int(modality.max()) + 1)).float()
    count = among.float() @ member
    means = {name: (value * among).float() @ member / count.clamp_min(1) for name, value in values.items()}
    right = (sound & among).float() @ member == count
    whole = _separation(means, right, count > 0)
    return replace(
        findings,
        observed_wrong=float((~sound[among]).float().mean()),
        separation_observed=apart,
        separation_modalities=whole,
        curves={"observed": _curves(means, right, count > 0) if whole else {}},
    )


def _imputed_cells(findings: Audit, facts: Facts, values: Tensors, data: Dataset, method: Gauge) -> Audit:
    """How well imputed cells with an error below the median of their column, or of the right category, are separated from
    others."""
    imputed = ~facts.error.isnan()
    spread = per_unit_values(method.encoder, {name: spread.cpu()[None] for name, spread in data.spreads.items()})
    largest = torch.where(spread > 0, facts.error.nanmedian(0, keepdim=True).values, 0.5)
    right = facts.error < largest
    share = (right & imputed).sum(0) / imputed.sum(0).clamp_min(1)
    imputed = imputed & (share >= 0.2) & (share <= 0.8)  # in other columns there is little to tell apart
    if not imputed.any():
        return findings
    return replace(findings, separation_cells=_separation(values, right, imputed))


def _calibration(facts: Facts, trust: Tensor) -> dict[str, Any]:
    """How often observed units with a given trust are right."""
    among = facts.observed & facts.visible & facts.known
    return {"observed": reliability(trust[among].numpy(), facts.right[among].numpy())} if among.any() else {}


def _rank_correlation(first: Tensor, second: Tensor) -> float:
    """Spearman's over the units of a sample, as a mean over samples. A sample whose values are all equal has none."""
    pairs = [
        pair for pair in zip(first.numpy(), second.numpy(), strict=True) if all(np.ptp(values) > 0 for values in pair)
    ]
    return float(np.mean([spearmanr(*pair).statistic for pair in pairs])) if pairs else float("nan")
