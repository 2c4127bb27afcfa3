"""The demo on digits: sums, which no image tells alone, and views of a digit that are missing or wrong. GAUGE+ beside an
ordinary joint network, which fails where one view of many is left, and a fair vote, which cannot add."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

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
JOINT, VOTE = Row("gauge_plus", "gauge_plus-no-heads"), Row("late_fusion", "late_fusion")

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
    rivals = {  # the name of each row, and what it is in plain words
        JOINT: ("Joint network", "one network for all images, trained on any subset of them"),
        VOTE: ("Vote", "one classifier for each image; votes are weighed by their reliability"),
    }
    sum_rows = {PLUS: ("GAUGE+", "one network for all images, with a head for each of them, which votes too")} | rivals
    view_rows = {TRUST: ("GAUGE+", "as above, and it has learned which views to trust")} | rivals
    summing = {"complete": "two images of each digit", "views=1": "one image of each digit"}
    missing = {"complete": "nothing missing", "eta=0.6": "3 of 5 missing", "eta=0.8": "4 of 5 missing"}
    wrong = {"complete": "none wrong", "swapped=0.2": "one in five wrong", "swapped=0.4": "two in five wrong"}
    started = time.perf_counter()
    changed = [each if epochs is None else each.with_epochs(epochs) for each in (Overrides(), swaps)]
    added, viewed = (
        {row: Experiment(benchmark=name, seed=seed, overrides=overrides, **row._asdict()) for row in rows}
        for name, overrides, rows in zip(benchmarks, changed, (sum_rows, view_rows), strict=True)
    )
    runner = Runner(out, device, jobs, on_epoch=on_epoch)
    runner.run([*added.values(), *viewed.values()])
    workspace = runner.workspace(on_epoch)

    def finished(experiments: Mapping[Row, Experiment], protocols: Iterable[str]) -> Finished:
        chosen = tuple(dict.fromkeys(protocols))
        return {
            (sum_rows | view_rows)[row][0]: dict(zip(chosen, workspace.run(experiment, chosen), strict=True))
            for row, experiment in experiments.items()
        }

    summed, viewed_results = finished(added, summing), finished(viewed, (*missing, *wrong))
    pairs, job = workspace.job(added[PLUS]), workspace.job(viewed[TRUST])
    method, _ = workspace.method(job)
    assert isinstance(method, GaugePlus)
    one, other = summed["GAUGE+"]["complete"][0], viewed_results["GAUGE+"]["complete"][0]
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
        _sums(summed, pairs.test, len(pairs.store.train), _table(sum_rows, summed, summing)),
        _missing_views(viewed_results, job.test, learned, _table(view_rows, viewed_results, missing)),
        _wrong_views(viewed_results, job.test, method, _table(view_rows, viewed_results, wrong)),
    )
    return sections, facts


def _sums(finished: Finished, test: Dataset, learned: int, table: Mapping[str, Any]) -> Section:
    images = tuple(f"{digit} digit, hand\N{NO-BREAK SPACE}{hand}" for digit in ("first", "second") for hand in (1, 2))
    predictions, labels = _predictions(finished, "views=1")
    best, findings = ranked(predictions, labels, ACCURACY.compare, "With one image of each digit")
    _, complete = ranked(
        _predictions(finished, "complete")[0], labels, ACCURACY.compare, "With two images of each digit"
    )
    (batch,) = masked_batches(test, parse_protocol("views=1"), len(test))
    return Section(
        title="Evidence has to be put together",
        asked="What is the sum of two handwritten digits?",
        missing="One of the two images of each digit.",
        best=best,
        text="No image tells the sum, since each shows one digit. Classifiers of single images can only guess, and so can "
        f"their vote; a network that sees all images can add, GAUGE+ and an ordinary one alike. All methods have the same "
        f"encoders, learned from the same {learned:,} sums and predict the same {len(test):,} others, of images that are in "
        "no training sum. Below the table: the first sum of each of the most frequent outcomes, by who is right.",
        **table,
        samples=_samples("sum", batch, predictions, labels, names=images),
        findings=(*findings, *complete),
    )


def _missing_views(finished: Finished, test: Dataset, learned: int, table: Mapping[str, Any]) -> Section:
    (batch,) = masked_batches(test, parse_protocol("eta=0.8"), len(test))
    predictions, labels = _predictions(finished, "eta=0.8")
    best, findings = ranked(predictions, labels, ACCURACY.compare, "With four of five views missing")
    return Section(
        title="Most views are missing",
        asked="Which digit is it? Five people wrote it.",
        missing="Up to four of the five images, at random.",
        best=best,
        text="Here every view shows the digit, so a vote is hard to beat, and a network that learned from all of them "
        f"together may know each less well. All methods learned from the same {learned:,} digits and see the same views "
        f"of the same {len(test):,} test digits. Below the table: the first digit of each of the most frequent outcomes.",
        **table,
        samples=_samples("digit", batch, predictions, labels),
        findings=tuple(findings),
    )


def _wrong_views(finished: Finished, test: Dataset, method: GaugePlus, table: Mapping[str, Any]) -> Section:
    predictions, labels = _predictions(finished, "swapped=0.4")
    best, findings = ranked(predictions, labels, ACCURACY.compare, "With two of five views wrong")
    (batch,) = masked_batches(test, parse_protocol("swapped=0.4"), len(test), truth=True)
    assert batch.truth is not None
    trust, wrong = view_trust(method, batch), torch.stack([*batch.truth.wrong.values()], 1)
    pairs = 100 * roc_auc_score(~wrong.cpu().numpy().ravel(), trust.cpu().numpy().ravel())
    two = (wrong.sum(1) == 2).cpu().numpy()
    return Section(
        title="Some views are wrong",
        asked="Which digit is it, and which views should not be believed?",
        missing="Nothing is missing, but two of five views, on average, come from another sample.",
        best=f"{best} GAUGE+ also says which: it trusts a right view more than a wrong one in {pairs:.1f} of 100 pairs.",
        text="Nobody tells the methods that something is wrong. GAUGE+ gives every view a trust: the probability that it is "
        "right. All methods have seen one view in five swapped in training. Below the table: digits of which two views are "
        "wrong, the first of each of the most frequent outcomes.",
        **table,
        samples=_samples("digit", batch, predictions, labels, two, trust=trust),
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


def _table(rows: Mapping[Row, tuple[str, str]], finished: Finished, protocols: Mapping[str, str]) -> dict[str, Any]:
    """The columns and the rows of a section's table: one column for each protocol, with its title."""
    lines = [
        page.Row(name, note, tuple(_estimate(finished[name][each][0]) for each in protocols), featured=name == "GAUGE+")
        for name, note in rows.values()
    ]
    return {"columns": tuple(protocols.values()), "rows": tuple(lines)}


def _predictions(finished: Finished, protocol: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The class probabilities of every row under a protocol, and the labels."""
    loaded = {name: load_predictions(results[protocol][1]) for name, results in finished.items()}
    return {name: probabilities for name, (probabilities, _, _) in loaded.items()}, loaded["GAUGE+"][1]


def _samples(
    what: str,
    batch: Batch,
    predictions: Mapping[str, np.ndarray],
    labels: np.ndarray,
    among: np.ndarray | None = None,
    **shown: Any,
) -> tuple[Sample, ...]:
    """Return the first sample of each of the most frequent outcomes, who is right and who is wrong, with the outcome's share
    of the samples, or of those `among` them, in percent."""
    rows = np.arange(len(labels)) if among is None else np.flatnonzero(among)
    right = np.stack([probabilities.argmax(1) == labels for probabilities in predictions.values()], 1)[rows]
    _, first, counts = np.unique(right, axis=0, return_index=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:3]
    outcomes = [(int(rows[first[each]]), 100 * counts[each] / len(rows)) for each in order]
    return tuple(
        _sample(f"Test {what} {row}: {share:.0f} of 100 have this outcome", batch, row, predictions, labels, **shown)
        for row, share in outcomes
    )


def _sample(
    title: str,
    batch: Batch,
    row: int,
    predictions: Mapping[str, np.ndarray],
    labels: np.ndarray,
    *,
    names: tuple[str, ...] = (),
    trust: Tensor | None = None,
) -> Sample:
    def view(number: int, name: str) -> View:
        observed = bool(batch.observed[name][row])
        return View(
            names[number] if names else f"view {number + 1}",
            _pixels(batch.inputs[name][row]) if observed else None,
            wrong=batch.truth is not None and bool(batch.truth.wrong[name][row]),
            trust=None if trust is None else float(trust[row, number]),
        )

    return Sample(
        title=title,
        label=str(int(labels[row])),
        views=tuple(view(number, name) for number, name in enumerate(batch.inputs)),
        predictions={
            name: (str(int(each[row].argmax())), float(each[row].max())) for name, each in predictions.items()
        },
    )


def _pixels(values: Tensor) -> np.ndarray:
    """An image in RGB; one that is given as a vector is square and grey."""
    image = values if values.ndim == 3 else values.reshape(1, int(len(values) ** 0.5), -1).expand(3, -1, -1)
    return (image.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).cpu().numpy()
