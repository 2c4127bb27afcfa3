"""`gauge fit`: train a classifier on a table, and write it to a folder."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauge.choices import pick
from gauge.cli.loading import check_paths, heavy_imports
from gauge.cli.options import (
    KIND,
    Device,
    Kinds,
    MaxCategories,
    OutsideImages,
    Plugins,
    Table,
    TimeLimit,
    named,
    seconds,
)

if TYPE_CHECKING:
    from gauge.tabular.estimator import GaugeClassifier

TRAINING = ".training"  # in the folder of a model, while it is fitted
# options of the command that are parameters of GaugeClassifier, and those of another name there
UNCHANGED = (
    *("preset", "strategy", "imputer", "size", "metric", "missing_rate", "donors", "epochs"),
    *("image_size", "max_categories", "outside_images", "unlabelled"),
)
RENAMED = {"columns": "column", "encoders": "encoder", "class_weight": "balanced", "random_state": "seed"}

Target = Annotated[str, typer.Option(help="The column with the labels.")]
Out = Annotated[Path, typer.Option(help="Folder for the model.")]
Encoders = Annotated[
    list[str] | None,
    typer.Option("--encoder", help="A Hugging Face model for a text or image column, NAME=MODEL; may be repeated."),
]
TUNE = "Of encoders, train the projection after them (head), LoRA (lora) or all; or NAME=KIND, which may be repeated."
Tune = Annotated[list[str] | None, typer.Option(help=TUNE)]
Preset = Annotated[str, typer.Option(help="fast (trees and linear), default, or best (bags of all experts).")]
Experts = Annotated[str, typer.Option(help="auto, or some of network,trees,linear and a plugin's.")]
Strategy = Annotated[str, typer.Option(help="mask, impute or auto (the better one).")]
Imputer = Annotated[str, typer.Option(help="masked_columns, nearest, mean or zero.")]
Size = Annotated[str, typer.Option(help="small, medium or large.")]
Metric = Annotated[str, typer.Option(help="Metric for validation: auto, accuracy or auc.")]
Balanced = Annotated[bool, typer.Option("--balanced", help="Weight all classes equally.")]
MissingRate = Annotated[float | None, typer.Option(min=0, max=1, help="Largest share that training hides.")]
Donors = Annotated[int, typer.Option(min=1, help="Training rows kept to impute images and texts from.")]
Epochs = Annotated[int | None, typer.Option(min=1, help="Epochs of the backbone.")]
Classes = Annotated[
    int | None, typer.Option(min=2, help="Divide a quantity into this many classes of equally many rows.")
]
ImageSize = Annotated[int, typer.Option(min=16, help="Height and width that images are resized to.")]
Groups = Annotated[
    str | None, typer.Option(help="A column, such as patient, whose rows stay together where some are held out.")
]
Time = Annotated[str | None, typer.Option(help="A column of dates or numbers: the latest rows are held out.")]
Streamed = Annotated[
    bool, typer.Option("--stream", help="For a file larger than memory; many files are always streamed.")
]
Unlabelled = Annotated[str, typer.Option(help="Rows without a label: use (where that pays) or ignore.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.")]
Config = Annotated[Path | None, typer.Option(help="YAML file with options; the command line wins.")]
TensorBoard = Annotated[Path | None, typer.Option(help="Folder to log losses for TensorBoard.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a model that is already in the folder.")]


def fit(
    context: typer.Context,
    table: Table,
    target: Target,
    out: Out,
    column: Kinds = None,
    encoder: Encoders = None,
    tune: Tune = None,
    preset: Preset = "default",
    experts: Experts = "auto",
    strategy: Strategy = "mask",
    imputer: Imputer = "masked_columns",
    size: Size = "small",
    metric: Metric = "auto",
    balanced: Balanced = False,
    missing_rate: MissingRate = None,
    donors: Donors = 1000,
    epochs: Epochs = None,
    classes: Classes = None,
    image_size: ImageSize = 64,
    max_categories: MaxCategories = 255,
    groups: Groups = None,
    time: Time = None,
    outside_images: OutsideImages = False,
    stream: Streamed = False,
    unlabelled: Unlabelled = "use",
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    config: Config = None,
    tensorboard: TensorBoard = None,
    force: Force = False,
    plugin: Plugins = None,
    device: Device = None,
) -> None:
    """Train a classifier on a table with missing values: numbers, categories, texts and paths of images.

    It can be interrupted at any time: the same command continues.
    """
    check_paths(None, table)
    _check_new(out, force=force)
    with heavy_imports():
        from gauge.tabular.estimator import GaugeClassifier
        from gauge.tabular.table.paths import table_files, table_folder
        from gauge.training.distributed import is_main

    options = _classifier_options(context, config)
    files = table_files(table)
    key = _fingerprint(files, [target, classes, groups, time, options])
    rows = _rows_to_fit(table, target, classes, stream=stream or len(files) > 1)
    options["verbose"] = options.get("verbose", True) and is_main()
    model = GaugeClassifier(**options, device=device, image_folder=table_folder(table))
    given: dict[str, Any] = {"groups": groups, "time": time, "folder": out / TRAINING / key}
    _fit_and_save(model, rows, target, out, tensorboard=tensorboard, **given)


def _classifier_options(context: typer.Context, config: Path | None) -> dict[str, Any]:
    """The parameters of GaugeClassifier: those on the command line, those of the file of options, and the defaults."""
    given = context.params
    tune, experts, time_limit = given["tune"] or ["head"], given["experts"], given["time_limit"]
    options: dict[str, Any] = {
        "columns": named("--column", given["column"], KIND),
        "encoders": named("--encoder", given["encoder"], "notes=distilbert-base-uncased"),
        "tune": named("--tune", tune, "photo=lora") if "=" in "".join(tune) else tune[-1],
        "experts": experts if experts == "auto" else experts.split(","),
        "class_weight": "balanced" if given["balanced"] else None,
        "time_limit": None if time_limit is None else seconds(time_limit),
        "random_state": given["seed"],
        **{name: given[name] for name in UNCHANGED},
    }
    explicit = {name for name in options if _on_command_line(context, RENAMED.get(name, name))}
    return options | {name: value for name, value in _configured(config).items() if name not in explicit}


def _on_command_line(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _configured(config: Path | None) -> dict[str, Any]:
    """The options in a file."""
    from gauge.tabular.estimator import GaugeClassifier
    from gauge.training.settings import read_yaml

    options = {} if config is None else read_yaml(config)
    known = dict.fromkeys(set(GaugeClassifier().get_params()) - {"device", "image_folder"})
    for name in options:
        pick(dict(sorted(known.items())), name, f"option in {config}")
    return options


def _check_new(out: Path, *, force: bool) -> None:
    """Refuse to overwrite anything: the folder has to be new or empty, or hold an interrupted fit or a model to replace."""
    interrupted, complete = (out / TRAINING).is_dir(), (out / "model.json").exists()
    if complete and not (interrupted or force):
        raise ValueError(f"{out} already holds a model; choose another folder, or replace it with --force")
    if out.exists() and not (out.is_dir() and (interrupted or complete or not any(out.iterdir()))):
        raise ValueError(f"{out} is {'not empty' if out.is_dir() else 'a file'}; choose a new folder for the model")


def _fingerprint(files: Iterable[Path], settings: list[Any]) -> str:
    """Of all that a fit depends on: the same command continues a fit, another one starts anew."""
    content = hashlib.blake2b(json.dumps(settings).encode())
    for path in files:
        with path.open("rb") as file:
            content.update(hashlib.file_digest(file, "blake2b").digest())
    return content.hexdigest()[:12]


def _rows_to_fit(table: Path, target: str, classes: int | None, *, stream: bool) -> Any:
    """The table in memory, or its path where it is streamed."""
    from gauge.tabular.table.files import read_table_file
    from gauge.tabular.table.inputs import bin_labels

    if stream and classes is not None:
        raise ValueError("--classes needs all labels in memory; divide the quantity into classes before streaming")
    if stream:
        return table
    rows = read_table_file(table)
    if classes is not None and target in rows:
        rows[target] = bin_labels(rows[target], classes)
    return rows


def _fit_and_save(
    model: "GaugeClassifier", rows: Any, target: str, out: Path, *, tensorboard: Path | None, **given: Any
) -> None:
    """Fit on all processes; the first of them writes the folder."""
    from gauge.training.distributed import barrier, is_main
    from gauge.training.tensorboard import tensorboard_log

    with _only_fit(out) if is_main() else nullcontext():
        with nullcontext() if tensorboard is None else tensorboard_log(tensorboard) as log:
            model.fit(rows, target, on_epoch=log, **given)
        barrier()
        if not is_main():
            return
        (out / "model.json").unlink(missing_ok=True)  # a folder that has it is complete
        model.save(out)
    shutil.rmtree(out / TRAINING)
    print(f"the model is in {out}; next: gauge predict {out} NEW.csv")


@contextmanager
def _only_fit(out: Path) -> Iterator[None]:
    """Two fits never write to one folder at a time; the lock ends with its process."""
    from filelock import FileLock, Timeout

    (out / TRAINING).mkdir(parents=True, exist_ok=True)
    lock = FileLock(out / TRAINING / "lock", timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise ValueError(f"another `gauge fit` is writing to {out}; wait for it, or choose another folder") from error
    with lock:
        yield
