"""Commands for trained models, of a benchmark or of `gauge fit`: evaluate, audit, gates."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauge.cli.loading import load_fitted
from gauge.cli.options import AsJson, Device, OutsideImages, Plugins, Protocols, TrainedModel
from gauge.cli.output import print_missing, progress

if TYPE_CHECKING:
    import pandas as pd
    from gauge_lab.audit import Audit
    from gauge_lab.workspace import Job, Workspace

    from gauge.data import Dataset
    from gauge.paper.gauge import Gauge
    from gauge.plus.gauge_plus import GaugePlus
    from gauge.tabular.fitted import Fitted
    from gauge.training.stages import OnEpoch

DOUBTFUL = 3  # units that `gauge gates` names


def evaluate(
    model: TrainedModel,
    table: Annotated[Path | None, typer.Argument(help="Labelled rows, for a model that `gauge fit` wrote.")] = None,
    out: Annotated[Path | None, typer.Option(help="File for a page with curves and tables, .html.")] = None,
    threshold: Annotated[
        str | None, typer.Option(help="A number, sensitivity=0.95, specificity=0.9 or cost=5 (of a missed case).")
    ] = None,
    positive: Annotated[str | None, typer.Option(help="The class to look for. Default: the second of two.")] = None,
    by: Annotated[list[str] | None, typer.Option(help="A column of subgroups, such as sex; may be repeated.")] = None,
    groups: Annotated[
        str | None, typer.Option(help="A column, such as patient, whose rows belong together: intervals respect that.")
    ] = None,
    against: Annotated[Path | None, typer.Option(help="Another model of `gauge fit`, to compare with.")] = None,
    protocol: Protocols = None,
    outside_images: OutsideImages = False,
    plugin: Plugins = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a classifier of `gauge fit` on a table with labels, or a trained method of a benchmark under protocols.

    With `--protocol gamma=0.3` and a table, that share of its cells is hidden before the classifier answers.
    """
    if _is_classifier(model, table):
        chosen: dict[str, Any] = {"threshold": threshold, "positive": positive, "by": by or ()}
        chosen |= {} if groups is None else {"groups": groups}
        files = {"device": device, "outside_images": outside_images}
        _evaluate_classifier(model, table, out, against, protocol or [], chosen, files, as_json)
        return
    given = {"--out": out, "--threshold": threshold, "--positive": positive, "--by": by, "--groups": groups}
    for option, value in (given | {"--against": against}).items():
        if value is not None:
            raise ValueError(
                f"{option} is for classifiers of `gauge fit`, and {model} is a trained method; leave it out"
            )
    workspace, job = _opened(model, device)
    results = [result for result, _ in workspace.run(job.experiment, tuple(protocol or ()))]
    if as_json:
        print(json.dumps([result.model_dump(mode="json") for result in results], indent=2))
        return
    for result in results:
        low, high = result.interval
        value = f"{100 * result.value:.2f}  [{100 * low:.2f}, {100 * high:.2f}]"
        calibration = f"calibration error {_rounded(result.calibration_error)}, log loss {_rounded(result.log_loss)}"
        print(f"{result.protocol:14} {result.metric} {value}  {calibration}")
    print_missing(results)


def _evaluate_classifier(
    model: Path,
    table: Path | None,
    out: Path | None,
    against: Path | None,
    protocols: list[str],
    chosen: dict[str, Any],
    files: dict[str, Any],
    as_json: bool,
) -> None:
    if out is not None and (out.suffix != ".html" or len(protocols) > 1):
        raise ValueError(f"{out} should end in .html, and one page holds one evaluation; give at most one --protocol")
    classifier, rows = _with_rows(model, table, "evaluate", **files)
    assert table is not None
    other = None if against is None else load_fitted(against, table, **files)
    answers = []
    hidden: list[str | None] = [*protocols] or [None]
    for protocol in hidden:
        answers.append(classifier.evaluate(rows, against=other, protocol=protocol, **chosen))
        if not as_json:
            print(*([f"with further values hidden: {protocol}\n"] if protocol else []), answers[-1], "", sep="\n")
    if as_json:
        values = [answer.to_json() for answer in answers]
        print(json.dumps(values if len(protocols) > 1 else values[0], indent=2))
    if out is not None:
        answers[0].to_html(out)
        print(f"the evaluation is in {out}", file=sys.stderr)


def _is_classifier(model: Path, table: Path | None) -> bool:
    return table is not None or (model / "model.json").is_file()


def _with_rows(model: Path, table: Path | None, command: str, **files: Any) -> "tuple[Fitted, pd.DataFrame]":
    """A classifier and the rows that a command is given for it."""
    if table is None:
        raise ValueError(
            f"{model} is a classifier of `gauge fit`; add the table to {command} it on: {command} MODEL TABLE"
        )
    classifier = load_fitted(model, table, **files)
    from gauge.tabular.table.files import read_table_file

    return classifier, read_table_file(table)


def _rounded(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4f}"


def audit(
    model: TrainedModel,
    table: Annotated[
        Path | None, typer.Argument(help="Rows, for a model that `gauge fit` wrote; no labels needed.")
    ] = None,
    protocol: Protocols = None,
    samples: Annotated[int | None, typer.Option(min=1, help="How many test samples to use. Default: all.")] = None,
    outside_images: OutsideImages = False,
    plugin: Plugins = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Compare scores with exact effects, gates and trust with the truth, and count what the gates changed.

    Imputed cells are compared with the true ones. Modalities that are imputed as a whole are judged by a classifier for
    each, which is trained on real values first. Of a classifier of `gauge fit` the trust in cells is audited: known cells of
    the table are hidden, or swapped with another row's.
    """
    if _is_classifier(model, table):
        if protocol:
            raise ValueError(
                "--protocol is for benchmarks; the audit of a classifier hides and swaps known cells by itself: leave it out"
            )
        classifier, rows = _with_rows(model, table, "audit", device=device, outside_images=outside_images)
        answer = classifier.audit(rows if samples is None else rows[:samples])
        print(json.dumps(answer.to_json(), indent=2) if as_json else answer)
        return
    job, audits = _audited(model, protocol, samples, device)
    if as_json:
        print(json.dumps(_records(job, audits), indent=2))
        return
    for findings in audits:
        print("\n".join(findings.lines()), end="\n\n")


def audits_of(model: Path, protocol: list[str], samples: int | None, device: str | None) -> list[dict[str, Any]]:
    """What `gauge audit --json` prints."""
    return _records(*_audited(model, protocol, samples, device))


def _records(job: "Job", audits: "list[Audit]") -> list[dict[str, Any]]:
    from gauge.training.provenance import commit, hardware

    origin = job.experiment.model_dump(mode="json", exclude={"data"}, exclude_unset=True)
    origin |= {"commit": commit(), "hardware": hardware(job.test.device), "fingerprint": job.test.fingerprint}
    return [origin | asdict(findings) for findings in audits]


def _audited(
    model: Path, protocol: list[str] | None, samples: int | None, device: str | None
) -> "tuple[Job, list[Audit]]":
    from gauge_lab.audit import audit as audit_split

    from gauge.plus.late_fusion import LateFusion

    with progress() as on_epoch:
        workspace, job, method = _gated(model, device, on_epoch)
        protocols, judge = protocol or [str(chosen) for chosen in job.benchmark.protocols], None
        if method.imputer is not None and any(_hides_modalities(job.test, text) for text in protocols):
            single = {"method": "late_fusion", "variant": "equal-votes", "seed": 0}
            experts, _ = workspace.method(workspace.job(job.experiment.model_copy(update=single)))
            assert isinstance(experts, LateFusion)
            judge = experts.head_logits
        return job, [audit_split(method, job.test, text, judge=judge, samples=samples) for text in protocols]


def _hides_modalities(data: "Dataset", protocol: str) -> bool:
    """Whether modalities without flags for their features can be missing under the protocol."""
    from gauge.masks import mask_split, parse_protocol

    keep = mask_split(parse_protocol(protocol), data.feature_counts, len(data), seed=0, split=data.split)
    return not all(bool(keep[name].all()) for name, features in data.feature_counts.items() if features is None)


def gates(
    model: TrainedModel,
    table: Annotated[Path | None, typer.Argument(help="Rows, for a model that `gauge fit` wrote.")] = None,
    sample: Annotated[
        list[int] | None, typer.Option(min=0, help="Test samples, or rows of the table; may be repeated. Default: 0.")
    ] = None,
    protocol: Annotated[str, typer.Option(help="What to make missing, e.g. gamma=0.5. Default: nothing.")] = "complete",
    outside_images: OutsideImages = False,
    plugin: Plugins = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Print the score and the gate of every unit of a test sample: columns of a table, parts of an image.

    `used` is its signed effect, positive where it supports the answer; `trusted` is the probability that it is right, where
    learned.
    """
    if _is_classifier(model, table):
        if protocol != "complete":
            raise ValueError(
                "--protocol is for benchmarks; blank the cells of the table to see a classifier without them"
            )
        classifier, rows = _with_rows(model, table, "show", device=device, outside_images=outside_images)
        _print_gates(_gates_of_rows(classifier, rows, sample or [0]), as_json)
        return
    import torch

    from gauge.masks import parse_protocol
    from gauge.paper.explain import explain, unit_names
    from gauge.training.inference import masked_batches

    _, job, method = _gated(model, device)
    test, benchmark = job.test, job.benchmark
    names = unit_names(method.encoder, {name: modality.columns for name, modality in benchmark.modalities.items()})
    chosen = torch.tensor(sample or [0])
    if int(chosen.max()) >= len(test):
        raise ValueError(f"there is no test sample {int(chosen.max())}; {benchmark.name} has 0 to {len(test) - 1}")
    (batch,) = masked_batches(test, parse_protocol(protocol), len(chosen), chosen)
    frame = explain(method, batch).to_frame(names)
    hidden = "hidden" if method.imputer is None else "imputed"
    frame["observed"] = frame["observed"].map({True: "observed", False: hidden})
    _print_gates(frame.rename(columns={"observed": "state"}), as_json)


def _gates_of_rows(classifier: "Fitted", rows: "pd.DataFrame", chosen: list[int]) -> "pd.DataFrame":
    """The units of some rows, in the columns of `BatchExplanation.to_frame`."""
    if max(chosen) >= len(rows):
        raise ValueError(f"there is no row {max(chosen)}; the table has 0 to {len(rows) - 1}")
    network = classifier.ensemble.network
    if network is None or not network.gating.gates_units:
        raise ValueError("this classifier has no gates; `gauge explain` says how much each value was used")
    frame = classifier.explain(rows.iloc[chosen]).to_frame()
    names = {"row": "sample", "column": "modality", "name": "unit"}
    columns = ["sample", "modality", "unit", "value", "state", "score", "gate", "used", "trusted"]
    return frame.rename(columns=names)[[*columns, "attention_before", "attention_after"]]


def _print_gates(frame: "pd.DataFrame", as_json: bool) -> None:
    if as_json:
        print(frame.to_json(orient="records", indent=2))
        return
    print(frame.to_string(index=False, float_format="%.3f", na_rep="–"))
    if "trusted" in frame and frame["trusted"].notna().any():
        doubtful = frame[frame["state"] != "hidden"].nsmallest(DOUBTFUL, "trusted")
        named = [
            f"{' '.join(dict.fromkeys((str(row.modality), str(row.unit))))} of sample {row.sample} ({row.trusted:.2f})"
            for row in doubtful.itertuples()
        ]
        print(f"\nleast trusted: {', '.join(named)}")


def _gated(
    model: Path, device: str | None, on_epoch: "OnEpoch | None" = None
) -> "tuple[Workspace, Job, Gauge | GaugePlus]":
    """A trained GAUGE or GAUGE+ with its workspace and its job."""
    from gauge.paper.gauge import Gauge
    from gauge.plus.gauge_plus import GaugePlus

    workspace, job = _opened(model, device, on_epoch)
    method, _ = workspace.method(job)
    if not isinstance(method, Gauge | GaugePlus):
        raise ValueError(f"{model} holds {job.experiment.method}, which has no gates; give a trained gauge")
    return workspace, job, method


def _opened(model: Path, device: str | None, on_epoch: "OnEpoch | None" = None) -> "tuple[Workspace, Job]":
    """The workspace and the job of a trained method, from its folder."""
    from gauge_lab.experiment import Experiment
    from gauge_lab.workspace import Workspace

    from gauge.training.stages import silent

    path = model / "experiment.json"
    if not path.is_file():
        raise ValueError(
            f"{model} is not the folder of a trained method (no experiment.json), see WORKSPACE/stages, nor one that "
            "`gauge fit` wrote (no model.json)"
        )
    experiment = Experiment.model_validate_json(path.read_text(encoding="utf-8"))
    workspace = Workspace(model.resolve().parent.parent, device, on_epoch or silent, reuse=True)
    job = workspace.job(experiment)
    if job.model_path.parent != model.resolve() or not job.model_path.is_file():
        cure = f"run `gauge benchmark {experiment.benchmark} --method {experiment.row}` to train it again"
        raise ValueError(f"{model} was trained by another version, on other data or settings, or was moved; {cure}")
    return workspace, job
