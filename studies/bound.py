"""How tight the paper's bounds are on a trained model: Theorem 1 and its corollary, unit by unit.

    python studies/bound.py leaf99 gamma=0.9 --data DIR --runs runs/leaf99 [--samples 16] [--units 24]

For a unit with displacement d, first-order term a, score TE and exact effect c: |c - a| <= H/2 ‖d‖² (Theorem 1) and
|c| <= TE + H/2 ‖d‖² (its corollary), where H bounds the operator norm of the Hessian between the unit and its replacement. H
is measured: the largest norm at 13 points of that segment, each by power iteration, so the true H is larger still.
"""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import trained
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from gauge.masks import parse_protocol
from gauge.paper.gauge import Gauge, displacement, saliency, ungated_gradient
from gauge.paper.scoring.exact import exact_effects
from gauge.training.inference import masked_batches
from gauge.training.progress import stage_progress
from gauge_lab.recording import origin, write_record

POINTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
ITERATIONS = 12


def curvature(value: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """The operator norm of the Hessian of each sample's value: [b]; `value` maps [b, c] to [b]."""
    point = at.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(value(point).sum(), point, create_graph=True)
    direction = torch.nn.functional.normalize(torch.ones_like(at) + 0.1 * torch.arange(at.shape[1]).to(at), dim=1)
    norm = torch.zeros(len(at), device=at.device, dtype=at.dtype)
    for _ in range(ITERATIONS):
        (product,) = torch.autograd.grad((gradient * direction).sum(), point, retain_graph=True)
        norm = product.norm(dim=1)
        direction = product / norm.clamp_min(1e-30)[:, None]
    return norm.detach()


def largest_curvature(classifier: Any, tokens: Tensor, target: Tensor, unit: int, step: Tensor) -> dict[float, Tensor]:
    """The norm at each point of the segment from the unit to its replacement."""

    def value(content: Tensor) -> Tensor:
        replaced = torch.cat([tokens[:, :unit], content[:, None], tokens[:, unit + 1 :]], 1)
        return saliency(classifier(replaced, None), target, "logit")

    return {share: curvature(value, tokens[:, unit] + share * step) for share in POINTS}


def measured(method: Gauge, batch: Any, units: list[int]) -> list[dict[str, Any]]:
    """One record for every sample and chosen unit; units are encoded as usual and classified in double precision."""
    with torch.no_grad():
        reading = method.eval().read(batch)
    tokens, classifier, records = reading.units.tokens.double(), method.classifier.double(), []
    with sdpa_kernel(SDPBackend.MATH):  # the only kernel that can be differentiated twice
        logits, gradient = ungated_gradient(classifier, tokens, "logit")
        steps = displacement(tokens, None)
        effects, signed = exact_effects(classifier, tokens), (gradient * steps).sum(-1)
        scores = (gradient * steps).abs().sum(-1)
        for unit in units:
            norms = largest_curvature(classifier, tokens, logits.argmax(1), unit, steps[:, unit])
            along = torch.stack(list(norms.values()))
            half = along.amax(0) / 2 * steps[:, unit].square().sum(1)
            for sample in range(len(tokens)):
                records.append(
                    {
                        "unit": unit,
                        "observed": bool(reading.units.observed[sample, unit]),
                        "exact": float(effects[sample, unit]),
                        "first_order": float(signed[sample, unit]),
                        "score": float(scores[sample, unit]),
                        "remainder_bound": float(half[sample]),
                        "largest_at": POINTS[int(along[:, sample].argmax())],
                        "at_the_unit": float(norms[0.0][sample] / 2 * steps[sample, unit].square().sum()),
                    }
                )
    return records


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of how much of each bound is used, and how often the score alone bounds the effect."""

    def used(top: Callable[[dict], float], bottom: Callable[[dict], float]) -> float:
        return median(abs(top(record)) / max(abs(bottom(record)), 1e-30) for record in records)

    return {
        "count": len(records),
        "theorem": used(lambda r: r["exact"] - r["first_order"], lambda r: r["remainder_bound"]),
        "theorem_at_the_unit": used(lambda r: r["exact"] - r["first_order"], lambda r: r["at_the_unit"]),
        "corollary": used(lambda r: r["exact"], lambda r: r["score"] + r["remainder_bound"]),
        "score_part": used(lambda r: r["score"], lambda r: r["score"] + r["remainder_bound"]),
        "cancelled": used(lambda r: r["first_order"], lambda r: r["score"]),
        "remainder_of_effect": used(lambda r: r["exact"] - r["first_order"], lambda r: r["exact"]),
        "effect_within_score": sum(abs(r["exact"]) <= r["score"] for r in records) / len(records),
        "violations": sum(abs(r["exact"] - r["first_order"]) > r["remainder_bound"] for r in records),
        "largest_at": median(r["largest_at"] for r in records),
    }


def main() -> None:
    options = trained.parser(__doc__)
    options.add_argument("--samples", type=int, default=16)
    options.add_argument("--units", type=int, default=24)
    arguments = options.parse_args()
    with stage_progress() as on_epoch:
        workspace = trained.workspace(arguments, "cpu", on_epoch)
        job = workspace.job(trained.experiment(arguments))
        method, record = workspace.method(job)
    assert isinstance(method, Gauge)
    chosen = torch.linspace(0, len(job.test) - 1, arguments.samples).long()
    (batch,) = masked_batches(job.test, parse_protocol(arguments.protocol), arguments.samples, chosen)
    names, modality = list(method.encoder.unit_counts), method.encoder.modality
    units = torch.linspace(0, len(modality) - 1, min(arguments.units, len(modality))).long().tolist()
    records = [record | {"modality": names[int(modality[record["unit"]])]} for record in measured(method, batch, units)]
    groups = {
        f"{name}, {kind}": part
        for name in names
        for kind, seen in (("observed", True), ("imputed", False))
        if (part := [record for record in records if record["modality"] == name and record["observed"] == seen])
    }
    content = {
        "benchmark": arguments.benchmark,
        "protocol": arguments.protocol,
        "samples": arguments.samples,
        "units": units,
        "trained": record["trained"],
        "all": summary(records),
        "groups": {name: summary(part) for name, part in groups.items()},
    }
    path = Path(__file__).parent / "results" / f"bound-{arguments.benchmark}.json"
    write_record(path, origin(arguments, job.test.device) | content)
    print(json.dumps(content["all"], indent=1))


if __name__ == "__main__":
    main()
