"""`gauge stage`: evaluate and audit a method that `gauge benchmark` trained."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauge.cli.options import AsJson, Device, Plugins
from gauge_lab.cli.benchmark import Protocols, print_missing

if TYPE_CHECKING:
    from gauge.data import Dataset
    from gauge.training.stages import OnEpoch
    from gauge_lab.workspace import Job, Workspace

app = typer.Typer(help="Evaluate and audit a method that `gauge benchmark` trained.", no_args_is_help=True)
StageFolder = Annotated[Path, typer.Argument(help="Folder of a trained stage, WORKSPACE/stages/NAME.")]


@app.command()
def evaluate(
    stage: StageFolder,
    protocol: Protocols = None,
    plugin: Plugins = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a trained method under protocols."""
    workspace, job = _opened(stage, device)
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


def _rounded(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4f}"


@app.command()
def audit(
    stage: StageFolder,
    protocol: Protocols = None,
    samples: Annotated[int | None, typer.Option(min=1, help="How many test samples to use. Default: all.")] = None,
    plugin: Plugins = None,
    device: Device = None,
) -> None:
    """Compare scores with exact effects, gates and trust with the truth, and count what the gates changed, as JSON.

    Imputed cells are compared with the true ones. Modalities that are imputed as a whole are judged by a classifier for
    each, which is trained on real values first.
    """
    print(json.dumps(audits_of(stage, protocol, samples, device), indent=2))


def audits_of(stage: Path, protocol: list[str] | None, samples: int | None, device: str | None) -> list[dict[str, Any]]:
    """What `gauge stage audit` prints."""
    from gauge.paper.gauge import Gauge
    from gauge.plus.gauge_plus import GaugePlus
    from gauge.plus.late_fusion import LateFusion
    from gauge.training.progress import stage_progress
    from gauge.training.provenance import commit, hardware
    from gauge_lab.audit import audit as audit_split

    with stage_progress() as on_epoch:
        workspace, job = _opened(stage, device, on_epoch)
        method, _ = workspace.method(job)
        if not isinstance(method, Gauge | GaugePlus):
            raise ValueError(f"{stage} holds {job.experiment.method}, which has no gates; give a trained gauge")
        protocols, judge = protocol or [str(chosen) for chosen in job.benchmark.protocols], None
        if method.imputer is not None and any(_hides_modalities(job.test, text) for text in protocols):
            single = {"method": "late_fusion", "variant": "equal-votes", "seed": 0}
            experts, _ = workspace.method(workspace.job(job.experiment.model_copy(update=single)))
            assert isinstance(experts, LateFusion)
            judge = experts.head_logits
        audits = [audit_split(method, job.test, text, judge=judge, samples=samples) for text in protocols]
    origin = job.experiment.model_dump(mode="json", exclude={"data"}, exclude_unset=True)
    origin |= {"commit": commit(), "hardware": hardware(job.test.device), "fingerprint": job.test.fingerprint}
    return [origin | asdict(findings) for findings in audits]


def _hides_modalities(data: "Dataset", protocol: str) -> bool:
    """Whether modalities without flags for their features can be missing under the protocol."""
    from gauge.masks import mask_split, parse_protocol

    keep = mask_split(parse_protocol(protocol), data.feature_counts, len(data), seed=0, split=data.split)
    return not all(bool(keep[name].all()) for name, features in data.feature_counts.items() if features is None)


def _opened(stage: Path, device: str | None, on_epoch: "OnEpoch | None" = None) -> "tuple[Workspace, Job]":
    """The workspace and the job of a trained method, from its folder."""
    from gauge.training.stages import silent
    from gauge_lab.experiment import Experiment
    from gauge_lab.workspace import Workspace

    path = stage / "experiment.json"
    if not path.is_file():
        raise ValueError(f"{stage} is not the folder of a trained method (no experiment.json); see WORKSPACE/stages")
    experiment = Experiment.model_validate_json(path.read_text(encoding="utf-8"))
    workspace = Workspace(stage.resolve().parent.parent, device, on_epoch or silent, reuse=True)
    job = workspace.job(experiment)
    if job.model_path.parent != stage.resolve() or not job.model_path.is_file():
        cure = f"run `gauge benchmark {experiment.benchmark} --method {experiment.row}` to train it again"
        raise ValueError(f"{stage} was trained by another version, on other data or settings, or was moved; {cure}")
    return workspace, job
