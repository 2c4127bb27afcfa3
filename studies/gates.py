"""Gates and attention of single samples, and mean gates of observed and imputed units, as in the paper's figure of gating.

    python studies/gates.py leaf99 gamma=0.9 --data DIR --runs runs/leaf99 [--seeds 3] [--config FILE]

Models are taken from the workspace of `gauge benchmark`, or trained there. Writes studies/results/gates-BENCHMARK.json and
the figure docs/gates-BENCHMARK.svg. The samples shown are the first two of the test split.
"""

import argparse
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from gauge.data import Dataset
from gauge.masks import parse_protocol
from gauge.paper.explain import explain
from gauge.paper.gauge import Gauge
from gauge.reports.figures import draw_gates
from gauge.training.inference import masked_batches
from gauge.training.progress import stage_progress
from gauge_lab.benchmarks import Overrides
from gauge_lab.experiment import Experiment
from gauge_lab.recording import origin, write_record
from gauge_lab.workspace import Workspace

ROOT = Path(__file__).parent.parent
BINS = 20


def shown(method: Gauge, data: Dataset, protocol: str, samples: int) -> list[dict[str, Any]]:
    """Every unit of the first samples of the split: its modality, whether it was observed, its gate, and the attention of
    CLS to it without and with gates."""
    (batch,) = masked_batches(data, parse_protocol(protocol), samples, torch.arange(samples))
    explanation = explain(method, batch)
    columns = {"gate": explanation.gates, "before": explanation.attention_before, "after": explanation.attention_after}
    names = list(method.encoder.unit_counts)
    return [
        {
            "sample": sample,
            "label": int(data.labels[sample]),
            "without_gates": int(explanation.evidence.logits[sample].argmax()),
            "with_gates": int(explanation.logits[sample].argmax()),
            "modality": [names[index] for index in explanation.units.modality.tolist()],
            "observed": explanation.units.observed[sample].tolist(),
        }
        | {name: [round(value, 5) for value in values[sample].tolist()] for name, values in columns.items()}
        for sample in range(samples)
    ]


def means(method: Gauge, data: Dataset, protocol: str) -> dict[str, Any]:
    """Over all samples of the split: the mean gate and its distribution, and the share of CLS's attention to units that
    falls on imputed ones without and with gates."""
    batches = masked_batches(data, parse_protocol(protocol), 256, torch.arange(len(data)))
    parts = []
    for batch in batches:
        explanation = explain(method, batch)
        attention = torch.stack([explanation.attention_before, explanation.attention_after])
        shares = (attention * ~explanation.units.observed).sum(-1) / attention.sum(-1)
        parts.append((explanation.gates.cpu(), explanation.units.observed.cpu(), shares.T.cpu()))
    gate, seen, shared = map(torch.cat, zip(*parts, strict=True))
    before, after = shared.mean(0).tolist()
    kinds = {"observed": gate[seen], "imputed": gate[~seen]}
    return {
        "mean": {name: round(float(values.mean()), 4) for name, values in kinds.items()},
        "deviation": {name: round(float(values.std()), 4) for name, values in kinds.items()},
        "deviation_within_imputed": round(float(_deviation(gate, ~seen).nanmean()), 4),
        "histogram": {name: torch.histc(values, BINS, 0, 1).long().tolist() for name, values in kinds.items()},
        "attention_on_imputed": {"before": round(before, 4), "after": round(after, 4)},
    }


def _deviation(gate: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """The deviation of the chosen gates within each sample; NaN for fewer than two."""
    count = chosen.sum(1)
    centred = torch.where(chosen, gate - ((gate * chosen).sum(1) / count)[:, None], 0.0)
    return (centred.square().sum(1) / (count - 1)).sqrt().where(count > 1, torch.nan)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark")
    parser.add_argument("protocol")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device")
    parser.add_argument("--reuse", action="store_true", help="use models although the code has changed since")
    arguments = parser.parse_args()
    overrides = Overrides.load(arguments.config) if arguments.config else Overrides()
    source = None if arguments.data is None else str(arguments.data.resolve())
    with stage_progress() as on_epoch:
        workspace = Workspace(
            arguments.runs or Path("runs") / arguments.benchmark, arguments.device, on_epoch, arguments.reuse
        )
        records: list[dict[str, Any]] = []
        samples: list[dict[str, Any]] = []
        for seed in range(arguments.seeds):
            job = workspace.job(Experiment(benchmark=arguments.benchmark, seed=seed, data=source, overrides=overrides))
            method, record = workspace.method(job)
            assert isinstance(method, Gauge)
            samples = samples or shown(method, job.test, arguments.protocol, 2)
            records.append(
                {"seed": seed, "scalars": record.get("scalars"), "trained": record["trained"]}
                | means(method, job.test, arguments.protocol)
            )
    kinds = ("observed", "imputed")
    content = {
        "benchmark": arguments.benchmark,
        "protocol": arguments.protocol,
        "overrides": overrides.model_dump(mode="json", exclude_unset=True),
        "test_samples": len(job.test),
        "mean": {name: round(mean(record["mean"][name] for record in records), 4) for name in kinds},
        "seeds": records,
        "samples": samples,
    }
    path = ROOT / "studies" / "results" / f"gates-{arguments.benchmark}.json"
    write_record(path, origin(arguments, job.test.device) | content)
    draw_gates(content, ROOT / "docs" / f"gates-{arguments.benchmark}.svg")


if __name__ == "__main__":
    main()
