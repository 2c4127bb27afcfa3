"""audit(): is the evidence any good? What scores and gates of a trained GAUGE tell, beside what is true.

Four questions, on test samples under one protocol: do Taylor scores rank units as exact effects do; are imputed units
gated lower than observed ones; are imputed units of the wrong class gated lower than those of the right one, as a
classifier that knows real values judges them; and does the gate change predictions for the better or for the worse.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import torch
from jaxtyping import Bool, Float, Int
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


@dataclass(frozen=True)
class Audit:
    """What was found; shares and means from 0 to 1, None where nothing could be compared.

    `accuracy` holds that of the prediction without gates and with them, with all imputed units hidden instead, and with
    those hidden that show a wrong class: what gates that knew the truth would bring. `separation` holds, for the gate and
    for every kind of score, the AUC with which it tells imputed units of the right class from those of the wrong one: 0.5
    is a coin, and below it wrong content gets the larger values.
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

    def lines(self) -> list[str]:
        """The findings in words."""
        said = [
            f"{self.samples} samples under {self.protocol}; τ = {self.threshold:.3f}, ρ = {self.log_temperature:.3f}",
            f"rank correlation of Taylor scores with exact effects: {self.rank_correlation:.3f} (mean over samples)",
            f"mean gate of observed units {self.gate_observed:.3f}, of imputed ones {_shown(self.gate_imputed)}",
            f"the gate changes {self.changed} predictions: {self.better} for the better, {self.worse} for the worse",
            "accuracy: " + ", ".join(f"{name} {100 * value:.2f} %" for name, value in self.accuracy.items()),
        ]
        if self.imputed_right is not None:
            said += [
                f"imputed modalities show the right class in {100 * self.imputed_right:.1f} % of cases; right and wrong "
                f"ones stand side by side in {100 * (self.mixed_samples or 0):.1f} % of the samples",
                f"mean gate of imputed units of the right class {_shown(self.gate_right)}, of a wrong one "
                f"{_shown(self.gate_wrong)}",
                "AUC for telling right from wrong imputed units (0.5 is a coin): "
                + ", ".join(f"{name} {value:.3f}" for name, value in self.separation.items()),
                f"the same for the gate, within samples that hold both: {_shown(self.separation_within_mixed)}",
            ]
        return said

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


@dataclass(frozen=True)
class _Seen:
    """One batch: per-unit values and per-sample outcomes, on the CPU."""

    values: dict[str, Float[Tensor, "b n"]]
    exact: Float[Tensor, "b n"]
    observed: Bool[Tensor, "b n"]
    right: Bool[Tensor, "b n"] | None
    correct: dict[str, Bool[Tensor, "b"]]
    changed: Bool[Tensor, "b"]


@torch.no_grad()
def audit(
    method: Gauge, data: Dataset, protocol: str, *, judge: Judge | None = None, samples: int | None = None
) -> Audit:
    """Look at `samples` of the split (all when None). `judge` says which class each modality of a completed batch shows,
    as logits; without one that part is left out."""
    if method.gating.granularity not in ("unit", "modality"):
        raise ValueError(f"granularity {method.gating.granularity!r} gives no scored gates to audit; train gauge or v3")
    method.eval()
    chosen = torch.arange(len(data))
    if samples is not None and samples < len(data):  # spread over the split, which may be ordered by class
        chosen = torch.linspace(0, len(data) - 1, samples).long()
    size = 2048 if data.device.type == "cuda" else 256
    batches = masked_batches(data, parse_protocol(protocol), size, chosen)
    seen = _joined([_look(method, batch, judge) for batch in batches])
    gates, observed = seen.values["gate"], seen.observed
    before, after = seen.correct["without gates"], seen.correct["with gates"]
    found = Audit(
        protocol=protocol,
        samples=len(chosen),
        threshold=float(method.gate.threshold),
        log_temperature=float(method.gate.log_temperature),
        rank_correlation=float(_rank_correlation(seen.values["taylor"], seen.exact.abs()).mean()),
        gate_observed=float(gates[observed].mean()),
        gate_imputed=float(gates[~observed].mean()) if bool((~observed).any()) else None,
        changed=int(seen.changed.sum()),
        better=int((after & ~before).sum()),
        worse=int((before & ~after).sum()),
        accuracy={name: float(rows.float().mean()) for name, rows in seen.correct.items()},
    )
    return found if seen.right is None or bool(observed.all()) else _judged(found, seen)


def _look(method: Gauge, batch: Batch, judge: Judge | None) -> _Seen:
    reading = method.read(batch.check())
    prediction = method.decide(reading)
    labels, units = reading.completed.labels, reading.units
    assert prediction.evidence is not None
    assert labels is not None
    answers = {"without gates": prediction.evidence.logits.argmax(1), "with gates": prediction.logits.argmax(1)}
    answers["imputed hidden"] = _answer_from(units.observed, reading)
    right = None
    if judge is not None:
        verdict = judge(reading.completed).argmax(-1) == labels[:, None]
        right = verdict[:, units.modality]
        answers["wrong ones hidden"] = _answer_from(units.observed | right, reading)
        right = right.cpu()
    exact = exact_effects(reading.classifier, units.tokens, reference=method.reference(units))
    return _Seen(
        {name: values.float().cpu() for name, values in _values(method, reading, prediction, exact).items()},
        exact.float().cpu(),
        units.observed.cpu(),
        right,
        {name: (answer == labels).cpu() for name, answer in answers.items()},
        (answers["without gates"] != answers["with gates"]).cpu(),
    )


def _answer_from(visible: Bool[Tensor, "b n"], reading: Reading) -> Int[Tensor, "b"]:
    """The class that the network predicts, without gates, from these units alone."""
    return reading.classifier(reading.units.keep(visible).tokens, hiding_bias(visible)).argmax(1)


def _values(method: Gauge, reading: Reading, prediction: Prediction, exact: Tensor) -> dict[str, Tensor]:
    """The gate, every registered score, and two of them with their sign: positive where a unit supports the prediction."""
    assert prediction.gates is not None
    tokens, reference = reading.units.tokens, method.reference(reading.units)
    found = {"gate": prediction.gates}
    for name in ("taylor", *(name for name in SCORERS.names() if name != "taylor")):
        score = SCORERS.get(name)
        found[name] = score(reading.classifier, tokens, reference=reference, key=reading.completed.key).scores
    _, gradient = ungated_gradient(reading.classifier, tokens, "logit")
    found["taylor, signed"] = (gradient * displacement(tokens, reference)).sum(-1)
    found["exact, signed"] = exact
    return found


def _judged(found: Audit, seen: _Seen) -> Audit:
    assert seen.right is not None
    imputed = ~seen.observed
    right = seen.right[imputed].numpy()
    gates = seen.values["gate"]
    some_right, some_wrong = (imputed & seen.right).any(1), (imputed & ~seen.right).any(1)
    mixed = some_right & some_wrong
    both = 0 < right.mean() < 1
    more = {
        "imputed_right": float(right.mean()),
        "mixed_samples": float(mixed.float().mean()),
        "separation": {
            name: float(roc_auc_score(right, values[imputed].numpy())) for name, values in seen.values.items() if both
        },
        "separation_within_mixed": _within(gates[mixed], seen.right[mixed], imputed[mixed]) if mixed.any() else None,
        "gate_right": float(gates[imputed & seen.right].mean()) if some_right.any() else None,
        "gate_wrong": float(gates[imputed & ~seen.right].mean()) if some_wrong.any() else None,
    }
    return Audit(**{**asdict(found), **more})


def _within(values: Tensor, right: Tensor, imputed: Tensor) -> float:
    """The mean over samples of the AUC within each: how often a right unit has a larger value than a wrong one."""
    pairs = (imputed & right)[:, :, None] & (imputed & ~right)[:, None, :]
    wins = (values[:, :, None] > values[:, None, :]).float() + 0.5 * (values[:, :, None] == values[:, None, :]).float()
    return float(((wins * pairs).sum((1, 2)) / pairs.sum((1, 2))).mean())


def _rank_correlation(first: Tensor, second: Tensor) -> Float[Tensor, "b"]:
    """Spearman's, for each sample over its units."""
    ranks = [values.argsort(1).argsort(1).double() for values in (first, second)]
    ranks = [rank - rank.mean(1, keepdim=True) for rank in ranks]
    return (ranks[0] * ranks[1]).sum(1) / (ranks[0].norm(dim=1) * ranks[1].norm(dim=1))


def _joined(seen: list[_Seen]) -> _Seen:
    def cat(name: str) -> Tensor:
        return torch.cat([getattr(each, name) for each in seen])

    values = {name: torch.cat([each.values[name] for each in seen]) for name in seen[0].values}
    right = None if seen[0].right is None else cat("right")
    correct = {name: torch.cat([each.correct[name] for each in seen]) for name in seen[0].correct}
    return _Seen(values, cat("exact"), cat("observed"), right, correct, cat("changed"))
