"""`gauge fit`: train a classifier on a table, and write it to a folder."""

import ast
import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.resources import files
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

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
    TableFile,
    TimeLimitOption,
    named,
    seconds,
)

if TYPE_CHECKING:
    from gauge.tabular.estimator import GaugeClassifier

TRAINING = ".training"  # in the folder of a model, while it is fitted

Target = Annotated[str, typer.Option(help="The column with the labels.")]
ClassesOption = Annotated[
    int | None, typer.Option(min=2, help="Divide a quantity into this many classes of equally many rows.")
]
GroupsOption = Annotated[
    str | None, typer.Option(help="A column, such as patient, whose rows stay together where some are held out.")
]
Time = Annotated[str | None, typer.Option(help="A column of dates or numbers: the latest rows are held out.")]
Streamed = Annotated[
    bool, typer.Option("--stream", help="For a file larger than memory; many files are always streamed.")
]
Config = Annotated[Path | None, typer.Option(help="YAML file with parameters; the command line wins.")]
ThresholdOption = Annotated[
    str | None,
    typer.Option(help="Decide from a probability on: a number, sensitivity=0.95, specificity=0.9 or cost=5."),
]
Positive = Annotated[str | None, typer.Option(help="The class that the threshold is about.")]


class Described(NamedTuple):
    """A parameter of GaugeClassifier: its annotation, its default, and the values and the text of its docstring's entry."""

    name: str
    annotation: str
    default: Any
    values: str
    text: str

    @property
    def flag(self) -> str:
        """Return the name on the command line; some read better in the singular."""
        own = {"columns": "--column", "encoders": "--encoder", "random_state": "--seed"}
        return own.get(self.name, f"--{self.name.replace('_', '-')}")

    def option(self) -> Parameter:
        """Return the option; some are options of other commands as well."""
        shared: dict[str, Any] = {
            "columns": Kinds,
            "max_categories": MaxCategories,
            "outside_images": OutsideImages,
            "time_limit": TimeLimitOption,
            "device": Device,
        }
        kind = self.annotation.removesuffix(" | None")
        several = "Mapping" in kind
        own = list[str] if several else {"bool": bool, "int": int, "float": float}.get(kind, str)
        default = None if several else self.default
        if self.name == "random_state":
            own, default = int, 0  # the same command gives the same model
        words = re.findall(r'"(\w+)"', self.values.partition(", default")[0])
        words += ["NAME=VALUE"] if several else ["true", "false"] if kind.startswith("bool |") else []
        flags = [] if own is bool else [self.flag]  # a switch has two names, made from its parameter's
        option = typer.Option(*flags, help=self.text, metavar="|".join(words) or None)
        annotation = shared.get(self.name, Annotated[own if default is not None else own | None, option])
        return Parameter(self.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def constructor_parameters() -> dict[str, Described]:
    """Return the parameters of GaugeClassifier. They are read from its source, as importing it takes seconds."""
    source = ast.parse(files("gauge.tabular").joinpath("estimator.py").read_text(encoding="utf-8"))
    (estimator,) = (node for node in source.body if isinstance(node, ast.ClassDef) and node.name == "GaugeClassifier")
    (init,) = (node for node in estimator.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    entries = re.findall(r"^(\w+) : (.*)\n((?: {4}.*\n)+)", ast.get_docstring(estimator) or "", re.MULTILINE)
    described = {name: (values, " ".join(text.split())) for name, values, text in entries}
    return {
        each.arg: Described(each.arg, ast.unparse(each.annotation), ast.literal_eval(default), *described[each.arg])
        for each, default in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True)
        if each.annotation is not None and default is not None
    }


PARAMETERS = {name: each for name, each in constructor_parameters().items() if name != "image_folder"}


def fit(
    context: typer.Context,
    table: TableFile,
    target: Target,
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    classes: ClassesOption = None,
    groups: GroupsOption = None,
    time: Time = None,
    stream: Streamed = False,
    config: Config = None,
    threshold: ThresholdOption = None,
    positive: Positive = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a model that is already in the folder.")] = False,
    plugin: Plugins = None,
    **given: Any,
) -> None:
    """Train a classifier on a table with missing values: numbers, categories, texts and paths of images.

    It can be interrupted at any time: the same command continues.
    """
    check_paths(None, table)
    if (threshold is None) != (positive is None):
        raise ValueError("--threshold and --positive, the class that is looked for, belong together; give both")
    _check_new(out, force=force)
    with heavy_imports():
        from gauge.tabular.estimator import GaugeClassifier
        from gauge.tabular.evidence.thresholds import parse_rule
        from gauge.tabular.table.paths import table_files, table_folder
        from gauge.training.distributed import is_main

    device = given.pop("device")
    options = {name: _parsed(name, value) for name, value in given.items()}
    explicit = {name for name in options if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"}
    options |= {name: value for name, value in _configured(config).items() if name not in explicit}
    files = table_files(table)
    key = _fingerprint(files, [target, classes, groups, time, options])
    rows = _rows_to_fit(table, target, classes, stream=stream or len(files) > 1)
    if threshold is not None:  # before anything is learned
        parse_rule(threshold)
        _check_class(positive, rows[target] if rows is not table and target in rows else None)
    options["verbose"] = options["verbose"] and is_main()
    model = GaugeClassifier(**options, device=device, image_folder=table_folder(table))
    kept: dict[str, Any] = {"groups": groups, "time": time, "folder": out / TRAINING / key}
    decision = None if threshold is None else (threshold, positive)
    _fit_and_save(model, rows, target, out, decision=decision, **kept)


_own = signature(fit)
fit.__signature__ = _own.replace(  # type: ignore[attr-defined]
    parameters=[
        *(each for each in _own.parameters.values() if each.kind is not Parameter.VAR_KEYWORD),
        *(each.option() for each in PARAMETERS.values()),
    ]
)


def _parsed(name: str, value: Any) -> Any:
    """Return the value of a parameter that is written as text on the command line."""
    if name == "time_limit":
        return None if value is None else seconds(value)
    if name == "experts":
        return value if value == "auto" else value.split(",")
    examples = {"columns": KIND, "encoders": "notes=bert-base-uncased", "class_weight": "ill=5"}
    if name not in examples:
        return value
    if not value:
        return PARAMETERS[name].default
    if PARAMETERS[name].annotation.startswith("str") and "=" not in "".join(value):
        return value[-1]
    pairs = named(PARAMETERS[name].flag, value, examples[name])
    return {key: float(number) for key, number in pairs.items()} if name == "class_weight" else pairs


def _configured(config: Path | None) -> dict[str, Any]:
    from gauge.training.settings import read_yaml

    options = {} if config is None else read_yaml(config)
    for name in options:
        pick(dict.fromkeys(sorted(set(PARAMETERS) - {"device"})), name, f"option in {config}")
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
    from gauge.tabular.table.numbers import bin_labels, uses_decimal_commas

    if stream and classes is not None:
        raise ValueError("--classes needs all labels in memory; divide the quantity into classes before streaming")
    if stream:
        return table
    rows = read_table_file(table)
    if classes is not None and target in rows:
        rows[target] = bin_labels(rows[target], classes, commas=uses_decimal_commas(rows))
    return rows


def _check_class(positive: str | None, labels: Any) -> None:
    """Refuse a positive class that no label is; what is streamed has no labels yet."""
    from gauge.tabular.table.inputs import class_positions

    if labels is not None:
        labels = labels.map(lambda label: label.strip() if isinstance(label, str) else label)
        if (class_positions([positive], labels) < 0).all():
            pick(dict.fromkeys(labels.dropna().astype(str).unique()[:20]), str(positive), "class")


def _fit_and_save(
    model: "GaugeClassifier",
    rows: Any,
    target: str,
    out: Path,
    *,
    decision: tuple[str, str | None] | None,
    **given: Any,
) -> None:
    """Fit on all processes; the first of them writes the folder. A `decision` is a threshold and its positive class."""
    from gauge.training.distributed import barrier, is_main

    with _only_fit(out) if is_main() else nullcontext():
        model.fit(rows, target, **given)
        barrier()
        if not is_main():
            return
        decided = model if decision is None else model.with_threshold(decision[0], positive=decision[1])
        (out / "model.json").unlink(missing_ok=True)  # a folder that has it is complete
        decided.save(out)
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
