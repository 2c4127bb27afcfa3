"""Gates and attention of single samples, and mean gates of observed and imputed units, as in the paper's figure of gating.

    python studies/gates.py leaf99 gamma=0.9 --data DIR --runs runs/leaf99 [--seeds 3] [--config FILE]

Models are taken from the workspace of `gauge benchmark`, or trained there. Writes studies/results/gates-BENCHMARK.json and
the figure docs/gates-BENCHMARK.svg. The samples shown are the first two of the test split.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
import trained

from gauge.data import Dataset
from gauge.masks import parse_protocol
from gauge.paper.explain import explain
from gauge.paper.gauge import Gauge
from gauge.reports.figures import COLOURS
from gauge.training.inference import masked_batches
from gauge.training.progress import stage_progress
from gauge_lab.recording import origin, write_record

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


def draw_gates(content: Mapping[str, Any], path: Path) -> None:
    """Write a figure of what is recorded: for each sample the gates of its units and the attention of CLS to
    them without and with gates, and beside them how the gates of observed and imputed units are distributed."""
    import matplotlib
    from matplotlib.figure import Figure

    colours = {True: COLOURS[0][0], False: COLOURS[1][0]}
    names = {True: "observed", False: "imputed"}
    samples = content["samples"]
    with matplotlib.rc_context({"svg.hashsalt": "gauge", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9.6, 1.4 + 1.7 * len(samples)), layout="constrained")
        grid = figure.add_gridspec(len(samples), 3, width_ratios=(5, 5, 3))
        for row, sample in enumerate(samples):
            units = np.arange(len(sample["gate"]))
            shades = [colours[seen] for seen in sample["observed"]]
            gates, attention = (figure.add_subplot(grid[row, column]) for column in (0, 1))
            gates.bar(units, sample["gate"], 1.0, color=shades)
            gates.set(ylim=(0, 1), ylabel=f"gate, sample {sample['sample']}")
            attention.bar(units, sample["before"], 1.0, color=shades, alpha=0.35)
            attention.bar(units, sample["after"], 1.0, edgecolor=shades, fill=False, linewidth=0.9)
            attention.set_ylabel("attention of CLS")
            for axes in (gates, attention):
                axes.set_xticks(*_modality_ticks(sample["modality"]))
                axes.margins(x=0.01)
        gates.set_xlabel("units")
        attention.set_xlabel("units; filled without gates, outlined with them")
        spread = figure.add_subplot(grid[:, 2])
        for seen, name in names.items():
            counts = np.sum([record["histogram"][name] for record in content["seeds"]], axis=0)
            edges, mean = np.linspace(0, 1, len(counts) + 1), content["mean"][name]
            spread.stairs(
                counts / counts.sum(),
                edges,
                color=colours[seen],
                label=f"{name}, mean {mean:.2f}",
                fill=True,
                alpha=0.5,
            )
            spread.axvline(mean, color=colours[seen], linestyle="--")
        spread.set(xlabel="gate", ylabel="share of units", title=f"{content['test_samples']:,} test samples")
        spread.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), frameon=False)
        figure.suptitle(f"{content['benchmark']}, {content['protocol']}")
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _modality_ticks(modality: Sequence[str]) -> tuple[list[float], list[str]]:
    """Return the middle of the units of each modality, and its name."""
    names = list(dict.fromkeys(modality))
    return [float(np.mean([index for index, own in enumerate(modality) if own == name])) for name in names], names


def main() -> None:
    options = trained.parser(__doc__)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--device")
    arguments = options.parse_args()
    with stage_progress() as on_epoch:
        workspace = trained.workspace(arguments, arguments.device, on_epoch)
        records: list[dict[str, Any]] = []
        samples: list[dict[str, Any]] = []
        for seed in range(arguments.seeds):
            job = workspace.job(trained.experiment(arguments, seed))
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
        "overrides": job.experiment.overrides.model_dump(mode="json", exclude_unset=True),
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
