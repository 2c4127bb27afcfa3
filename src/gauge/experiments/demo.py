"""The demo on digits: GAUGE+ with learned trust, a fair vote of single classifiers and the paper's GAUGE, where views are
missing and where they are wrong."""

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from gauge.data import Dataset
from gauge.experiments.benchmarks import Overrides
from gauge.experiments.experiment import Experiment, Row
from gauge.experiments.results import Result, load_predictions
from gauge.experiments.runner import Runner
from gauge.masks import parse_protocol
from gauge.methods.gauge_plus import GaugePlus
from gauge.reports import page
from gauge.reports.page import Curves, Estimate, Sample, Section, View, ranked
from gauge.training.inference import masked_batches
from gauge.training.metrics import ACCURACY
from gauge.training.stages import OnEpoch, silent
from gauge.types import Batch

PLUS = Row("gauge_plus", "gauge_plus-trust")
ROWS = {  # name, and what it is in plain words
    PLUS: ("GAUGE+", "a network that looks at all views together and has learned which of them to trust"),
    Row("late_fusion", "late_fusion"): (
        "Vote",
        "one classifier for each view, with the same encoders and training; votes are weighed by their reliability",
    ),
    Row("gauge", "gauge"): (
        "GAUGE",
        "the method of the paper: missing views are imputed and every part is gated. Its three stages "
        "want longer training than a demo gives, and it never saw wrong views in it",
    ),
}
MISSING = {"complete": 0, "eta=0.6": 3, "eta=0.8": 4}  # of five views
WRONG = {"complete": "none wrong", "swapped=0.2": "one in five wrong", "swapped=0.4": "two in five wrong"}
MISSING_TITLES = {"complete": "nothing missing", "eta=0.6": "3 of 5 missing", "eta=0.8": "4 of 5 missing"}
SHOWN = 3  # samples of each section

# 2,000 of the 3,500 training digits are enough for a few minutes, and stages are selected under one protocol. Images of
# another sample, which the imputer borrows, are recognisable after a minute of training; those of the benchmark's own
# imputer are not.
SETTINGS = Overrides.parse(
    {
        "labels": 2000,
        "imputer_split": "train",
        "imputer_options": {"name": "contrastive"},
        "imputer": {"epochs": 4},
        "backbone": {"epochs": 8, "batch_size": 32, "selection": ["eta=0.6"]},
        "finetune": {"epochs": 2, "selection": ["eta=0.6"]},
        "plus": {"epochs": 4, "batch_size": 32, "corrupt": "swapped=0.2"},
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
) -> tuple[tuple[Section, ...], dict[str, str]]:
    """Train and evaluate all rows. Returns the sections of the report and the provenance of their numbers."""
    started = time.perf_counter()
    shared = Experiment(benchmark=benchmark, seed=seed, overrides=overrides)
    experiments = {row: shared.model_copy(update=row._asdict()) for row in ROWS}
    runner = Runner(out, device, jobs, on_epoch=on_epoch)
    protocols = tuple(dict.fromkeys((*MISSING, *WRONG)))
    finished = {
        ROWS[row][0]: {result.protocol: (result, path) for result, path in results}
        for row, results in zip(experiments, runner.run([*experiments.values()], protocols), strict=True)
    }
    workspace = runner.workspace(on_epoch)
    job = workspace.job(experiments[PLUS])
    (method, _), test = workspace.method(job), job.test
    assert isinstance(method, GaugePlus)
    gauge, _ = finished["GAUGE+"]["complete"]
    facts = {
        "digits": f"{benchmark}, {gauge.data['samples']} test samples, fingerprint {gauge.data['fingerprint']}",
        "seed": str(seed),
        "hardware": ", ".join(str(value) for value in gauge.hardware.values()),
        "commit": gauge.commit,
        "time": f"{time.perf_counter() - started:.0f} s for the digits, without stages that were trained before",
    }
    learned = int(job.store.train.labelled.sum())
    return (_missing_views(finished, test, learned), _wrong_views(finished, test, method)), facts


Finished = Mapping[str, Mapping[str, tuple[Result, Path]]]


def _missing_views(finished: Finished, test: Dataset, learned: int) -> Section:
    answers, labels = _answers(finished, "eta=0.8")
    best, findings = ranked(answers, labels, ACCURACY.compare, "With four of five views missing")
    (batch,) = masked_batches(test, parse_protocol("eta=0.8"), len(test))
    shown = [_sample(batch, row, answers, labels) for row in _chosen(answers, labels)]
    return Section(
        title="Most views are missing",
        asked="Which digit is it? Five views show it in different handwriting, each on a photo of its own.",
        missing="Up to four of the five views, at random.",
        best=best,
        text=f"All methods learned from the same {learned:,} digits and see the same views of the same {len(test):,} test "
        "digits. GAUGE+ and the vote have the same encoders and as many epochs. Below the table: digits with four of five "
        "views missing, first one on which the methods differ, where there is any.",
        columns=tuple(MISSING_TITLES.values()),
        rows=_rows(finished, MISSING_TITLES),
        curves=Curves(
            "views missing, of five",
            tuple(MISSING.values()),
            {name: [_estimate(results[protocol][0]) for protocol in MISSING] for name, results in finished.items()},
        ),
        samples=tuple(shown),
        findings=tuple(findings),
    )


def _wrong_views(finished: Finished, test: Dataset, method: GaugePlus) -> Section:
    answers, labels = _answers(finished, "swapped=0.4")
    best, findings = ranked(answers, labels, ACCURACY.compare, "With two of five views wrong")
    (batch,) = masked_batches(test, parse_protocol("swapped=0.4"), len(test), truth=True)
    assert batch.truth is not None
    trust, wrong = view_trust(method, batch), torch.stack([*batch.truth.wrong.values()], 1)
    found = 100 * roc_auc_score(~wrong.cpu().numpy().ravel(), trust.cpu().numpy().ravel())
    two = (wrong.sum(1) == 2).cpu().numpy()
    shown = [_sample(batch, row, answers, labels, trust) for row in _chosen(answers, labels, two)]
    return Section(
        title="Some views are wrong",
        asked="Which digit is it, and which views should not be believed?",
        missing="Nothing is missing, but two of five views, on average, come from another sample.",
        best=f"{best} GAUGE+ also says which: it trusts a right view more than a wrong one in {found:.1f} of 100 pairs.",
        text="Nobody tells the methods that something is wrong. GAUGE+ gives every view a trust: the probability that it is "
        "right. GAUGE+ and the vote have seen one view in five swapped in training. Below the table: digits of which two "
        "views are wrong, first one on which the methods differ, where there is any.",
        columns=tuple(WRONG.values()),
        rows=_rows(finished, WRONG),
        samples=tuple(shown),
        findings=(
            f"A right view is trusted more than a wrong one in {found:.1f} of 100 pairs; chance is 50.",
            *findings,
        ),
    )


@torch.no_grad()
def view_trust(method: GaugePlus, batch: Batch) -> Tensor:
    """The mean trust in the units of every view, [b, m]."""
    method.eval()
    trust = method.predict(batch).trust
    assert trust is not None
    modality = method.gauge.encoder.modality
    return torch.stack([trust[:, modality == number].mean(1) for number in range(len(batch.inputs))], 1)


def _estimate(result: Result) -> Estimate:
    return 100 * result.value, 100 * result.interval[0], 100 * result.interval[1]


def _rows(finished: Finished, protocols: Mapping[str, str]) -> tuple[page.Row, ...]:
    return tuple(
        page.Row(
            name,
            note,
            tuple(_estimate(finished[name][protocol][0]) for protocol in protocols),
            featured=row == PLUS,
        )
        for row, (name, note) in ROWS.items()
    )


def _answers(finished: Finished, protocol: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The class probabilities of every row under a protocol, and the labels."""
    loaded = {name: load_predictions(results[protocol][1]) for name, results in finished.items()}
    return {name: probabilities for name, (probabilities, _, _) in loaded.items()}, loaded["GAUGE+"][1]


def _chosen(answers: Mapping[str, np.ndarray], labels: np.ndarray, among: np.ndarray | None = None) -> list[int]:
    """A few samples of different classes: the first on which the methods differ, then such on which they agree."""
    classes = np.stack([probabilities.argmax(1) for probabilities in answers.values()])
    rows = np.arange(len(labels)) if among is None else np.flatnonzero(among)
    differ = (classes != classes[0]).any(0)[rows]
    chosen: list[int] = []
    for row in np.concatenate([rows[differ][:1], rows[~differ], rows[differ][1:]]).tolist():
        if len(chosen) < SHOWN and labels[row] not in labels[chosen]:
            chosen.append(row)
    return chosen


def _sample(
    batch: Batch, row: int, answers: Mapping[str, np.ndarray], labels: np.ndarray, trust: Tensor | None = None
) -> Sample:
    def view(number: int, name: str) -> View:
        seen = bool(batch.observed[name][row])
        return View(
            f"view {number + 1}",
            _pixels(batch.inputs[name][row]) if seen else None,
            wrong=batch.truth is not None and bool(batch.truth.wrong[name][row]),
            trust=None if trust is None else float(trust[row, number]),
        )

    return Sample(
        title=f"Test digit {row}",
        label=str(int(labels[row])),
        views=tuple(view(number, name) for number, name in enumerate(batch.inputs)),
        answers={name: (str(int(each[row].argmax())), float(each[row].max())) for name, each in answers.items()},
    )


def _pixels(values: Tensor) -> np.ndarray:
    return (values.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).cpu().numpy()
