"""The demo on digits: sums, which no image tells alone, and views of a digit that are missing or wrong. GAUGE+ beside a fair
vote of single classifiers and, on sums, the paper's GAUGE."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from gauge.data import Dataset
from gauge.masks import parse_protocol
from gauge.plus.gauge_plus import GaugePlus
from gauge.reports import page
from gauge.reports.page import Estimate, Sample, Section, View, ranked
from gauge.training.inference import masked_batches
from gauge.training.metrics import ACCURACY
from gauge.training.stages import OnEpoch, silent
from gauge.values import Batch
from gauge_lab.benchmarks import Overrides
from gauge_lab.experiment import Experiment, Row
from gauge_lab.results import Result, load_predictions
from gauge_lab.runner import Runner

PLUS, TRUST = Row("gauge_plus", "gauge_plus"), Row("gauge_plus", "gauge_plus-trust")
VOTE, GAUGE = Row("late_fusion", "late_fusion"), Row("gauge", "gauge")
NAMES = {PLUS: "GAUGE+", TRUST: "GAUGE+", VOTE: "Vote", GAUGE: "GAUGE"}
SAME = "with the same encoders, epochs and digits; votes are weighed by their reliability"
SUM_ROWS = {  # what each row is in plain words
    PLUS: "a network that looks at all images together",
    VOTE: f"one classifier for each image, {SAME}",
    GAUGE: "the method of the paper, which imputes missing images and gates every part; it trains for a quarter longer",
}
VIEW_ROWS = {
    TRUST: "a network that looks at all views together and has learned which of them to trust",
    VOTE: f"one classifier for each view, {SAME}",
}
SUMMED = {"complete": "two images of each digit", "views=1": "one image of each digit"}
WRONG = {"complete": "none wrong", "swapped=0.2": "one in five wrong", "swapped=0.4": "two in five wrong"}
MISSING_TITLES = {"complete": "nothing missing", "eta=0.6": "3 of 5 missing", "eta=0.8": "4 of 5 missing"}
SHOWN = 3  # samples of each section

Finished = Mapping[str, Mapping[str, tuple[Result, Path]]]


def run(
    out: Path,
    benchmarks: tuple[str, str] = ("sums5k", "hands5k"),
    *,
    epochs: int | None = None,
    seed: int = 0,
    device: str | None = None,
    on_epoch: OnEpoch = silent,
    jobs: int = 1,
) -> tuple[tuple[Section, ...], dict[str, str]]:
    """Train and evaluate all rows on a benchmark of sums and on one of views. Returns the sections of the report and the
    provenance of their numbers."""
    swaps = Overrides.parse({"plus": {"corrupt": "swapped=0.2"}}, "the demo")  # in training on views
    started = time.perf_counter()
    changed = [each if epochs is None else each.with_epochs(epochs) for each in (Overrides(), swaps)]
    added, viewed = (
        {row: Experiment(benchmark=name, seed=seed, overrides=overrides, **row._asdict()) for row in rows}
        for name, overrides, rows in zip(benchmarks, changed, (SUM_ROWS, VIEW_ROWS), strict=True)
    )
    runner = Runner(out, device, jobs, on_epoch=on_epoch)
    runner.run([*added.values(), *viewed.values()])
    workspace = runner.workspace(on_epoch)

    def finished(experiments: Mapping[Row, Experiment], protocols: Iterable[str]) -> Finished:
        chosen = tuple(dict.fromkeys(protocols))
        return {
            NAMES[row]: dict(zip(chosen, workspace.run(experiment, chosen), strict=True))
            for row, experiment in experiments.items()
        }

    summed, seen = finished(added, SUMMED), finished(viewed, (*MISSING_TITLES, *WRONG))
    pairs, job = workspace.job(added[PLUS]), workspace.job(viewed[TRUST])
    method, _ = workspace.method(job)
    assert isinstance(method, GaugePlus)
    one, other = summed["GAUGE+"]["complete"][0], seen["GAUGE+"]["complete"][0]
    used = {"sums": one, "digits": other}
    facts = {
        name: f"{result.benchmark}, {result.data['samples']} test samples, fingerprint {result.data['fingerprint']}"
        for name, result in used.items()
    } | {
        "chosen": "sizes and epochs, after trial runs whose test scores were seen",
        "seed": str(seed),
        "hardware": ", ".join(str(value) for value in other.hardware.values()),
        "commit": other.commit,
        "time": f"{time.perf_counter() - started:.0f} s for the digits, without stages that were trained before",
    }
    learned = int(job.store.train.labelled.sum())
    sections = (
        _sums(summed, pairs.test, len(pairs.store.train)),
        _missing_views(seen, job.test, learned),
        _wrong_views(seen, job.test, method),
    )
    return sections, facts


def _sums(finished: Finished, test: Dataset, learned: int) -> Section:
    images = tuple(f"{digit} digit, hand\N{NO-BREAK SPACE}{hand}" for digit in ("first", "second") for hand in (1, 2))
    answers, labels = _answers(finished, "views=1")
    best, findings = ranked(answers, labels, ACCURACY.compare, "With one image of each digit")
    _, complete = ranked(_answers(finished, "complete")[0], labels, ACCURACY.compare, "With two images of each digit")
    (batch,) = masked_batches(test, parse_protocol("views=1"), len(test))
    shown = [
        _sample(f"Test sum {row}, answered like {share:.0f} of 100", batch, row, answers, labels, names=images)
        for row, share in _outcomes(answers, labels)
    ]
    return Section(
        title="Evidence has to be put together",
        asked="What is the sum of two handwritten digits?",
        missing="One of the two images of each digit.",
        best=best,
        text="No image tells the sum, since each shows one digit. Classifiers of single images can only guess, and so can "
        f"their vote; a network that sees all images can add. All methods learned from the same {learned:,} sums and answer "
        f"the same {len(test):,} others, of images that are in no training sum. Below the table: the "
        "first sum of each of the most frequent outcomes, by who is right and who is wrong.",
        columns=tuple(SUMMED.values()),
        rows=_rows(SUM_ROWS, finished, SUMMED),
        samples=tuple(shown),
        findings=(*findings, *complete),
    )


def _missing_views(finished: Finished, test: Dataset, learned: int) -> Section:
    answers, labels = _answers(finished, "eta=0.8")
    best, findings = ranked(answers, labels, ACCURACY.compare, "With four of five views missing")
    (batch,) = masked_batches(test, parse_protocol("eta=0.8"), len(test))
    shown = [_sample(f"Test digit {row}", batch, row, answers, labels) for row in _chosen(answers, labels)]
    return Section(
        title="Most views are missing",
        asked="Which digit is it? Five people wrote it.",
        missing="Up to four of the five images, at random.",
        best=best,
        text="Here every view shows the digit, so a vote is a good answer: the question is whether a network that looks at "
        f"all views loses anything when most are missing. Both methods learned from the same {learned:,} digits and see the "
        f"same views of the same {len(test):,} test digits. Below the table: digits with four of five views missing, first "
        "one on which the methods differ, where there is any.",
        columns=tuple(MISSING_TITLES.values()),
        rows=_rows(VIEW_ROWS, finished, MISSING_TITLES),
        samples=tuple(shown),
        findings=tuple(findings),
    )


def _wrong_views(finished: Finished, test: Dataset, method: GaugePlus) -> Section:
    answers, labels = _answers(finished, "swapped=0.4")
    best, findings = ranked(answers, labels, ACCURACY.compare, "With two of five views wrong")
    (batch,) = masked_batches(test, parse_protocol("swapped=0.4"), len(test), truth=True)
    assert batch.truth is not None
    trust, wrong = view_trust(method, batch), torch.stack([*batch.truth.wrong.values()], 1)
    pairs = 100 * roc_auc_score(~wrong.cpu().numpy().ravel(), trust.cpu().numpy().ravel())
    two = (wrong.sum(1) == 2).cpu().numpy()
    shown = [
        _sample(f"Test digit {row}", batch, row, answers, labels, trust=trust) for row in _chosen(answers, labels, two)
    ]
    return Section(
        title="Some views are wrong",
        asked="Which digit is it, and which views should not be believed?",
        missing="Nothing is missing, but two of five views, on average, come from another sample.",
        best=f"{best} GAUGE+ also says which: it trusts a right view more than a wrong one in {pairs:.1f} of 100 pairs.",
        text="Nobody tells the methods that something is wrong. GAUGE+ gives every view a trust: the probability that it is "
        "right. Both methods have seen one view in five swapped in training. Below the table: digits of which two "
        "views are wrong, first one on which the methods differ, where there is any.",
        columns=tuple(WRONG.values()),
        rows=_rows(VIEW_ROWS, finished, WRONG),
        samples=tuple(shown),
        findings=(
            f"A right view is trusted more than a wrong one in {pairs:.1f} of 100 pairs; chance is 50.",
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


def _rows(notes: Mapping[Row, str], finished: Finished, protocols: Mapping[str, str]) -> tuple[page.Row, ...]:
    return tuple(
        page.Row(
            NAMES[row],
            note,
            tuple(_estimate(finished[NAMES[row]][protocol][0]) for protocol in protocols),
            featured=NAMES[row] == "GAUGE+",
        )
        for row, note in notes.items()
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


def _outcomes(answers: Mapping[str, np.ndarray], labels: np.ndarray) -> list[tuple[int, float]]:
    """The first sample of each of the most frequent outcomes, who is right and who is wrong, with the outcome's share in
    percent."""
    right = np.stack([probabilities.argmax(1) == labels for probabilities in answers.values()], 1)
    _, first, counts = np.unique(right, axis=0, return_index=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:SHOWN]
    return [(int(first[each]), 100 * counts[each] / len(labels)) for each in order]


def _sample(
    title: str,
    batch: Batch,
    row: int,
    answers: Mapping[str, np.ndarray],
    labels: np.ndarray,
    *,
    names: tuple[str, ...] = (),
    trust: Tensor | None = None,
) -> Sample:
    def view(number: int, name: str) -> View:
        seen = bool(batch.observed[name][row])
        return View(
            names[number] if names else f"view {number + 1}",
            _pixels(batch.inputs[name][row]) if seen else None,
            wrong=batch.truth is not None and bool(batch.truth.wrong[name][row]),
            trust=None if trust is None else float(trust[row, number]),
        )

    return Sample(
        title=title,
        label=str(int(labels[row])),
        views=tuple(view(number, name) for number, name in enumerate(batch.inputs)),
        answers={name: (str(int(each[row].argmax())), float(each[row].max())) for name, each in answers.items()},
    )


def _pixels(values: Tensor) -> np.ndarray:
    """An image in RGB; one that is given as a vector is square and grey."""
    image = values if values.ndim == 3 else values.reshape(1, int(len(values) ** 0.5), -1).expand(3, -1, -1)
    return (image.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).cpu().numpy()
