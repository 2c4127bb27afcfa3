"""How scripts record what they measure: the content of a JSON file, with commit, hardware, versions and arguments."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from gauge.training.checkpoint import write_text
from gauge.training.provenance import commit, hardware


def origin(arguments: argparse.Namespace | None = None, device: torch.device | str = "cpu") -> dict[str, Any]:
    """Where a measurement comes from. Folders and files among the arguments are left out: they belong to one machine.

    >>> origin(argparse.Namespace(rows=8, out=Path("results")))["arguments"]
    {'rows': 8}
    """
    values = {} if arguments is None else vars(arguments)
    # whose versions are recorded
    return {
        "date": str(date.today()),
        "commit": commit(),
        "command": Path(sys.argv[0]).name,
        "arguments": {name: value for name, value in values.items() if not isinstance(value, Path)},
        "hardware": hardware(torch.device(device)),
        "versions": {name: version(name) for name in ("torch", "numpy", "scikit-learn", "pandas")},
    }


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write one record, whole or not at all."""
    write_text(path, json.dumps(record, indent=1) + "\n")


def write_lines(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Write a list with one record on each line, whole or not at all."""
    write_text(path, "[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n")
