"""The demo: GAUGE, the same network without gates or imputer, and GAUGE+; a table, a verdict and report.html."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import torch

from gauge.experiments.benchmarks import Overrides
from gauge.experiments.experiment import Experiment, Row
from gauge.experiments.plans import plan_of
from gauge.experiments.results import load_predictions
from gauge.experiments.runner import Runner
from gauge.experiments.tables import result_table
from gauge.experiments.workspace import Job, Workspace
from gauge.masks import RandomModalities
from gauge.model.explain import explain
from gauge.model.gauge import Gauge
from gauge.reports import page
from gauge.reports.page import Curves, Estimate, ModalityEvidence, Report, SampleEvidence, render_report
from gauge.training.checkpoint import write_text
from gauge.training.inference import masked_batches
from gauge.training.metrics import ACCURACY
from gauge.training.stages import OnEpoch, silent

GAUGE = Row("gauge", "gauge")
ROWS = {
    Row("gauge", "masked"): "Masked only",
    Row("gauge", "v2"): "Fine-tuned, ungated (v2)",
    GAUGE: "GAUGE",
    Row("gauge_plus", "gauge_plus"): "GAUGE+",
}
CURVE = {"complete": 0.0, "eta=0.2": 0.2, "eta=0.4": 0.4, "eta=0.6": 0.6, "eta=0.8": 0.8}
PROTOCOL_TITLES = {"complete": "η = 0", "eta=0.6": "η = 0.6", "eta=0.8": "η = 0.8"}
HARDEST = "eta=0.8"
SAMPLES = 5

# Real images from another sample are recognisable after a minute of training; those of the benchmark's imputer are not.
SETTINGS = Overrides.parse(
    {
        "imputer_options": {"name": "contrastive"},
        "imputer": {"epochs": 5},
        "backbone": {"epochs": 10},
        "finetune": {"epochs": 2},
        "plus": {"epochs": 4},
    },
    "the demo",
)


def run(
    out: Path,
    benchmark: str = "polymnist5k",
    *,
    seed: int = 0,
    overrides: Overrides = SETTINGS,
    device: str | None = None,
    on_epoch: OnEpoch = silent,
    jobs: int = 1,
) -> tuple[str, list[str], Path]:
    """Train and evaluate all rows. Returns the table as Markdown, the verdict on it, and the path of the report."""
    started = time.perf_counter()
    shared = Experiment(benchmark=benchmark, seed=seed, overrides=overrides)
    experiments = {row: shared.model_copy(update=row._asdict()) for row in ROWS}
    runner = Runner(out, device, jobs, on_epoch=on_epoch)
    finished = {
        row: {result.protocol: (result, path) for result, path in results}
        for row, results in zip(experiments, runner.run([*experiments.values()], tuple(CURVE)), strict=True)
    }
    workspace = runner.workspace(on_epoch)
    verdict = _verdict({row: protocols[HARDEST][1] for row, protocols in finished.items()})
    gauge, _ = finished[GAUGE][HARDEST]

    def estimates(row: Row, protocols: Iterable[str]) -> tuple[Estimate, ...]:
        results = (finished[row][protocol][0] for protocol in protocols)
        return tuple((100 * result.value, 100 * result.interval[0], 100 * result.interval[1]) for result in results)

    report = Report(
        title="Which evidence was trusted?",
        lead="Five views show the same digit in different handwriting, each on its own photo. Some views are missing "
        "(η is their share). The imputer borrows them from the training sample that is most similar, sometimes another "
        "digit, and GAUGE decides unit by unit how far to trust what it sees.",
        columns=tuple(PROTOCOL_TITLES.values()),
        rows=tuple(
            page.Row(
                name,
                plan_of(row.method).variants[row.variant].note,
                estimates(row, PROTOCOL_TITLES),
                featured=row == GAUGE,
            )
            for row, name in ROWS.items()
        ),
        curves=Curves(
            "share of views missing (η)",
            tuple(CURVE.values()),
            {name: list(estimates(row, CURVE)) for row, name in ROWS.items()},
        ),
        samples=_samples(workspace, workspace.job(experiments[GAUGE])),
        verdict=tuple(verdict),
        facts={
            "data": f"{benchmark}, {gauge.data['samples']} test samples, fingerprint {gauge.data['fingerprint']}",
            "seed": str(seed),
            "hardware": ", ".join(str(value) for value in gauge.hardware.values()),
            "commit": gauge.commit,
            "time": f"{time.perf_counter() - started:.0f} s, without stages that were trained before",
        },
    )
    write_text(out / "report.html", render_report(report))
    table = result_table([finished[row][protocol][0] for row in ROWS for protocol in PROTOCOL_TITLES])
    return table.markdown(), verdict, out / "report.html"


def signed(value: float) -> str:
    """One decimal, with a plus or a proper minus sign.

    >>> signed(1.04), signed(-0.25)
    ('+1.0', '\u22120.2')
    """
    return f"{value:+.1f}".replace("-", "\N{MINUS SIGN}")


def _verdict(paths: Mapping[Row, Path]) -> list[str]:
    """GAUGE compared with every other row on the same samples, in words."""
    gauge, labels, groups = load_predictions(paths[GAUGE])
    sentences = []
    for row, path in paths.items():
        if row == GAUGE:
            continue
        comparison = ACCURACY.compare(load_predictions(path)[0], gauge, labels, groups)
        low, high = (100 * bound for bound in comparison.interval)
        decided = "GAUGE is ahead" if comparison.difference > 0 else "GAUGE is behind"
        sentences.append(
            f"At η = 0.8, GAUGE minus {ROWS[row]}: {signed(100 * comparison.difference)} points "
            f"(95 % from {signed(low)} to {signed(high)}, {comparison.test} p = {comparison.p_value:.2g}): "
            f"{'undecided' if comparison.p_value > 0.05 else decided}."
        )
    sentences.append(
        f"The intervals cover the choice of the {len(labels)} test samples only, not the luck of one training run; with a "
        "single seed they cannot rank methods that lie within a point or two. For that, run “gauge benchmark polymnist5k "
        "--seeds 3”, which trains longer and with the imputer of the paper."
    )
    return sentences


def _samples(workspace: Workspace, job: Job) -> tuple[SampleEvidence, ...]:
    """A few test samples with most views missing: where possible, half that the gates changed or got wrong, half others."""
    (method, _), test = workspace.method(job), job.test
    assert isinstance(method, Gauge)
    (everything,) = masked_batches(test, RandomModalities(0.6), len(test))
    explanation = explain(method, everything)
    before, after = explanation.evidence.logits.softmax(-1).cpu(), explanation.logits.softmax(-1).cpu()
    labels = test.labels.cpu()
    notable = (before.argmax(1) != after.argmax(1)) | (after.argmax(1) != labels)
    plain = (~notable).nonzero()[:, 0]
    count = min(len(plain), max(SAMPLES // 2, SAMPLES - int(notable.sum())))
    chosen = plain[torch.linspace(0, len(plain) - 1, count).long()].tolist()  # spread over all classes
    chosen += notable.nonzero()[: SAMPLES - count, 0].tolist()
    arrays = {name: getattr(explanation, name) for name in ("gates", "attention_before", "attention_after")}
    arrays["scores"] = explanation.evidence.scores

    def pixels(values: torch.Tensor) -> np.ndarray:
        return (values.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).cpu().numpy()

    def modality(row: int, index: int, name: str) -> ModalityEvidence:
        observed = bool(everything.observed[name][row])
        units = explanation.units.modality == index
        side = int(int(units.sum()) ** 0.5)
        return ModalityEvidence(
            name=name,
            observed=observed,
            image=pixels(explanation.completed.inputs[name][row]),
            truth=None if observed else pixels(everything.inputs[name][row]),
            grid=(side, side),
            **{key: values[row, units].cpu().numpy() for key, values in arrays.items()},
        )

    def top(probabilities: torch.Tensor) -> tuple[str, float]:
        return str(int(probabilities.argmax())), float(probabilities.max())

    return tuple(
        SampleEvidence(
            title=f"Test sample {row}",
            label=str(int(labels[row])),
            before=top(before[row]),
            after=top(after[row]),
            modalities=tuple(modality(row, index, name) for index, name in enumerate(job.benchmark.modalities)),
        )
        for row in sorted(chosen)
    )
