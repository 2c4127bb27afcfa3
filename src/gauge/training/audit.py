"""audit(): compare the scores and gates of a trained GAUGE with the truth.

Four questions, on test samples under one protocol: do Taylor scores rank units as exact effects do; are imputed units
gated lower than observed ones; are imputed units of the wrong class gated lower than those of the right one, as judged by a
classifier trained on real values; and does the gate improve predictions?
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float
from sklearn.metrics import roc_auc_score
from torch import Tensor

from gauge.data import Dataset
from gauge.masks import parse_protocol
from gauge.model.gates import hiding_bias
from gauge.model.gauge import Gauge, Reading
from gauge.model.scoring._ungated import displacement, ungated_gradient
from gauge.model.scoring.exact import exact_effects
from gauge.registry import SCORERS
from gauge.training.inference import masked_batches
from gauge.types import Batch, Prediction

Judge = Callable[[Batch], Tensor]  # a completed batch -> [b, m, k]
Tensors = dict[str, Tensor]


@dataclass(frozen=True, repr=False)
class Audit:
    """The findings; shares and means from 0 to 1, None where there is nothing to compare.

    `accuracy` is given without gates, with gates, with all imputed units hidden, and with those hidden that show a wrong
    class, as perfect gates would do. `separation` is, for the gate and for every score, the AUC of telling imputed units of
    the right class from those of a wrong one: 0.5 is chance, and below it wrong content gets the larger values.
    """

    protocol: str
    samples: int
    threshold: float
    log_temperature: float
    rank_correlation: float
    gate_observed: float
    gate_imputed: float | None
    changed: int
    better: int
    worse: int
    accuracy: dict[str, float] = field(default_factory=dict)
    imputed_right: float | None = None
    mixed_samples: float | None = None
    separation: dict[str, float] = field(default_factory=dict)
    separation_within_mixed: float | None = None
    gate_right: float | None = None
    gate_wrong: float | None = None

    def __repr__(self) -> str:
        return "\n".join(["Audit", *(f"  {line}" for line in self.lines())])

    def lines(self) -> list[str]:
        """The findings in words."""
        lines = [
            f"{self.samples} samples under {self.protocol}; τ = {self.threshold:.3f}, ρ = {self.log_temperature:.3f}",
            f"rank correlation of Taylor scores with exact effects: {self.rank_correlation:.3f} (mean over samples)",
            f"mean gate of observed units {self.gate_observed:.3f}, of imputed ones {_shown(self.gate_imputed)}",
            f"the gate changes {self.changed} predictions: {self.better} for the better, {self.worse} for the worse",
            "accuracy: " + ", ".join(f"{name} {100 * value:.2f} %" for name, value in self.accuracy.items()),
        ]
        if self.imputed_right is not None:
            lines += [
                f"imputed modalities show the right class in {100 * self.imputed_right:.1f} % of cases; "
                f"{100 * (self.mixed_samples or 0):.1f} % of the samples have both right and wrong ones",
                f"mean gate of imputed units of the right class {_shown(self.gate_right)}, of a wrong one "
                f"{_shown(self.gate_wrong)}",
                "AUC for telling right from wrong imputed units (0.5 is chance): "
                + ", ".join(f"{name} {value:.3f}" for name, value in self.separation.items()),
                f"the same for the gate, within samples that have both: {_shown(self.separation_within_mixed)}",
            ]
        return lines


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


@torch.no_grad()
def audit(
    method: Gauge, data: Dataset, protocol: str, *, judge: Judge | None = None, samples: int | None = None
) -> Audit:
    """The findings on `samples` of the split (all when None). `judge` gives class logits for each modality of a completed
    batch; without it, imputed content is not judged."""
    if method.gating.granularity not in ("unit", "modality"):
        raise ValueError(f"granularity {method.gating.granularity!r} gives no scored gates to audit; train gauge or v3")
    method.eval()
    chosen = torch.arange(len(data))
    if samples is not None and samples < len(data):  # spread over the split, which may be ordered by class
        chosen = torch.linspace(0, len(data) - 1, samples).long()
    size = 2048 if data.device.type == "cuda" else 256
    batches = masked_batches(data, parse_protocol(protocol), size, chosen)
    per_unit, per_sample = map(_joined, zip(*(_look(method, batch, judge) for batch in batches), strict=True))
    gates, observed, labels = per_unit["gate"], per_unit.pop("observed"), per_sample.pop("labels")
    correct = {name: classes == labels for name, classes in per_sample.items()}
    before, after = correct["without gates"], correct["with gates"]
    right = per_unit.pop("right", None)
    findings = Audit(
        protocol=protocol,
        samples=len(chosen),
        threshold=float(method.gate.threshold),
        log_temperature=float(method.gate.log_temperature),
        rank_correlation=float(_rank_correlation(per_unit["taylor"], per_unit["exact, signed"].abs()).mean()),
        gate_observed=float(gates[observed].mean()),
        gate_imputed=float(gates[~observed].mean()) if bool((~observed).any()) else None,
        changed=int((per_sample["without gates"] != per_sample["with gates"]).sum()),
        better=int((after & ~before).sum()),
        worse=int((before & ~after).sum()),
        accuracy={name: float(rows.float().mean()) for name, rows in correct.items()},
    )
    return findings if right is None or bool(observed.all()) else _judged(findings, per_unit, ~observed, right)


def _joined(parts: Sequence[Tensors]) -> Tensors:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _look(method: Gauge, batch: Batch, judge: Judge | None) -> tuple[Tensors, Tensors]:
    """For one batch, on the CPU: what is known of every unit, and the labels and predicted classes of every sample."""
    reading = method.read(batch.check())
    prediction = method.decide(reading)
    labels, observed = reading.completed.labels, reading.units.observed
    assert prediction.evidence is not None
    assert labels is not None

    def class_from(visible: Bool[Tensor, "b n"]) -> Tensor:
        """The class that the network predicts, without gates, from these units alone."""
        return reading.classifier(reading.units.keep(visible).tokens, hiding_bias(visible)).argmax(1)

    per_unit = {name: values.float() for name, values in _values(method, reading, prediction).items()}
    per_unit["observed"] = observed
    per_sample = {
        "labels": labels,
        "without gates": prediction.evidence.logits.argmax(1),
        "with gates": prediction.logits.argmax(1),
        "imputed hidden": class_from(observed),
    }
    if judge is not None:
        per_unit["right"] = (judge(reading.completed).argmax(-1) == labels[:, None])[:, reading.units.modality]
        per_sample["wrong ones hidden"] = class_from(observed | per_unit["right"])
    return {name: each.cpu() for name, each in per_unit.items()}, {
        name: each.cpu() for name, each in per_sample.items()
    }


def _values(method: Gauge, reading: Reading, prediction: Prediction) -> Tensors:
    """The gate, every registered score, and two of them with their sign: positive where a unit supports the prediction."""
    assert prediction.gates is not None
    tokens, reference = reading.units.tokens, method.reference(reading.units)
    values = {"gate": prediction.gates}
    for name in ("taylor", *(name for name in SCORERS.names() if name != "taylor")):
        score = SCORERS.get(name)
        values[name] = score(reading.classifier, tokens, reference=reference, key=reading.completed.key).scores
    _, gradient = ungated_gradient(reading.classifier, tokens, "logit")
    values["taylor, signed"] = (gradient * displacement(tokens, reference)).sum(-1)
    values["exact, signed"] = exact_effects(reading.classifier, tokens, reference=reference)
    return values


def _judged(findings: Audit, values: Tensors, imputed: Bool[Tensor, "s n"], right: Bool[Tensor, "s n"]) -> Audit:
    gates, labels = values["gate"], right[imputed].numpy()
    right_units, wrong_units = imputed & right, imputed & ~right
    mixed = right_units.any(1) & wrong_units.any(1)
    both = 0 < labels.mean() < 1
    return replace(
        findings,
        imputed_right=float(labels.mean()),
        mixed_samples=float(mixed.float().mean()),
        separation={name: float(roc_auc_score(labels, each[imputed].numpy())) for name, each in values.items() if both},
        separation_within_mixed=_within(gates[mixed], right_units[mixed], wrong_units[mixed]) if mixed.any() else None,
        gate_right=float(gates[right_units].mean()) if right_units.any() else None,
        gate_wrong=float(gates[wrong_units].mean()) if wrong_units.any() else None,
    )


def _within(values: Tensor, right: Tensor, wrong: Tensor) -> float:
    """The mean over samples of the AUC within each: how often a right unit has a larger value than a wrong one."""
    pairs = right[:, :, None] & wrong[:, None, :]
    wins = (values[:, :, None] > values[:, None, :]).float() + 0.5 * (values[:, :, None] == values[:, None, :]).float()
    return float(((wins * pairs).sum((1, 2)) / pairs.sum((1, 2))).mean())


def _rank_correlation(first: Tensor, second: Tensor) -> Float[Tensor, "b"]:
    """Spearman's, for each sample over its units."""
    ranks = [values.argsort(1).argsort(1).double() for values in (first, second)]
    ranks = [rank - rank.mean(1, keepdim=True) for rank in ranks]
    return (ranks[0] * ranks[1]).sum(1) / (ranks[0].norm(dim=1) * ranks[1].norm(dim=1))
