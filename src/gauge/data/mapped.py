"""Datasets in files that are mapped into memory: read where a batch needs them, and dropped where memory is short."""

import json
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from torch import Tensor

from gauge.data.dataset import Dataset
from gauge.data.files import write_text

METADATA_FILE = "dataset.json"


def write_dataset(folder: str | Path, parts: Iterable[Dataset]) -> None:
    """Write a split that arrives in parts, each of them in memory. A complete folder is not written again; if several
    processes write to the same folder, only one of them does the work.

    >>> from tempfile import TemporaryDirectory
    >>> part = Dataset("train", {"table": torch.ones(3, 2)}, torch.tensor([0, 1, 0]))
    >>> with TemporaryDirectory() as folder:
    ...     write_dataset(Path(folder), [part, part])
    ...     print(len(read_dataset(Path(folder))))
    6
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"), ExitStack() as files:
        if (folder / METADATA_FILE).exists():
            return
        metadata: dict[str, Any] = {}
        rows = 0
        for part in parts:
            if part.masks:
                raise ValueError(
                    "a dataset in files has no masks of its own; write dataclasses.replace(data, masks={})"
                )
            tensors = _tensors(part)
            forms = [[*name, str(tensor.dtype), list(tensor.shape[1:])] for name, tensor in tensors.items()]
            if metadata and forms != metadata["tensors"]:
                first, other = next(pair for pair in zip_longest(metadata["tensors"], forms) if pair[0] != pair[1])
                raise ValueError(
                    f"all parts of a dataset have the same tensors in one order, but where the first part has "
                    f"{_form(first)}, the one that starts with row {rows} has {_form(other)}; make them alike"
                )
            if not metadata:
                metadata = {"split": part.split, "note": part.note, "tensors": forms}
                opened = [files.enter_context(_file(folder, number).open("wb")) for number in range(len(forms))]
            for file, tensor in zip(opened, tensors.values(), strict=True):
                file.write(tensor.contiguous().cpu().numpy().data)
            rows += len(part)
        if not rows:
            raise ValueError("a dataset needs rows, but there are no parts; give at least one")
        for file in opened:  # before the metadata: a folder that has it is complete
            file.flush()
        write_text(folder / METADATA_FILE, json.dumps(metadata | {"rows": rows}) + "\n")


def read_dataset(folder: str | Path, device: torch.device | str = "cpu") -> Dataset:
    """The split that `write_dataset` wrote; its batches are made on the device."""
    path = (folder := Path(folder)) / METADATA_FILE
    if not path.is_file():
        raise ValueError(f"{folder} holds no dataset (it has no {METADATA_FILE}); write one with write_dataset")
    metadata = json.loads(path.read_text(encoding="utf-8"))
    parts: dict[str, dict[str, Tensor]] = {"inputs": {}, "observed": {}, "rows": {}}
    for number, (kind, name, dtype, shape) in enumerate(metadata["tensors"]):
        size = torch.Size([metadata["rows"], *shape])
        form = {"size": size.numel(), "dtype": getattr(torch, dtype.removeprefix("torch."))}
        # not shared: what is written to a tensor by mistake never reaches the file
        parts[kind][name] = torch.from_file(str(_file(folder, number)), shared=False, **form).reshape(size)
    rows = {name: tensor.to(device) for name, tensor in parts["rows"].items()}
    labels, groups = rows["labels"], rows.get("groups")
    return Dataset(metadata["split"], parts["inputs"], labels, parts["observed"], metadata["note"], groups, mapped=True)


def _file(folder: Path, number: int) -> Path:
    return folder / f"{number}.bin"


def _form(form: list[Any] | None) -> str:
    return "nothing more" if form is None else f"{form[0]} {form[1]!r} ({form[2]}, shape {form[3]})"


def _tensors(part: Dataset) -> dict[tuple[str, str], Tensor]:
    """All tensors of a dataset, by kind and name."""
    tensors = {("inputs", name): values for name, values in part.inputs.items()}
    tensors |= {("observed", name): flags for name, flags in part.observed.items()} | {("rows", "labels"): part.labels}
    return tensors if part.groups is None else tensors | {("rows", "groups"): part.groups}
