"""Checkpoints: one safetensors file each, with JSON in its header, written in one step, checked on load.

A file has tensors of torch or arrays of NumPy; torch is imported for tensors alone.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open

from gauge.data.files import write_bytes as write_bytes
from gauge.data.files import write_text as write_text

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

FORMAT = "gauge-checkpoint-1"


def save(path: Path, tensors: "Mapping[str, Tensor]", metadata: Mapping[str, Any]) -> None:
    """Write tensors and the metadata of their training, in one step."""
    from safetensors.torch import save as packed

    # copies: safetensors refuses tensors that share memory, such as tied weights
    content = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    header = _header(content, metadata)
    write_bytes(path, lambda file: file.write(packed(content, header)))


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> None:
    """Write arrays and their metadata, in one step."""
    from safetensors.numpy import save as packed

    content = {name: np.array(array, order="C") for name, array in arrays.items()}
    header = _header(content, metadata)
    write_bytes(path, lambda file: file.write(packed(content, header)))


def _header(content: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, str]:
    text = json.dumps(metadata)
    return {"format": FORMAT, "about": text, "sha256": checksum(content, text)}


def load(path: Path, device: "torch.device | str" = "cpu") -> "tuple[dict[str, Tensor], dict[str, Any]]":
    """The tensors of a checkpoint and their metadata; nothing in the file is executed."""
    tensors, metadata = _load(path, "pt")
    return {name: tensor.to(device) for name, tensor in tensors.items()}, metadata


def load_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The same as arrays of NumPy, without torch."""
    try:
        return _load(path, "np")
    except AttributeError as error:  # safetensors looks for the type in NumPy
        raise ValueError(
            f"{path} has tensors of a type that NumPy lacks ({error}); save the classifier again"
        ) from error


def _load(path: Path, framework: str) -> tuple[dict[str, Any], dict[str, Any]]:
    with _opened(path, framework) as (file, header):
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    if header.get("sha256") != checksum(tensors, header["about"]):
        raise ValueError(f"{path} is damaged: its checksum does not match; delete it to train it again")
    return tensors, _about(path, header)


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata of a checkpoint, without reading its tensors."""
    with _opened(path, "np") as (_, header):
        return _about(path, header)


def _about(path: Path, header: Mapping[str, str]) -> dict[str, Any]:
    try:
        metadata = json.loads(header["about"])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}); delete it to train it again") from error
    if not isinstance(metadata, dict):
        raise ValueError(f"{path} is damaged: its metadata is not a mapping; delete it to train it again")
    return metadata


def checksum(tensors: Mapping[str, Any], metadata: str = "") -> str:
    """That of tensors or arrays in memory, with their names, and of a text."""
    digest = hashlib.sha256(metadata.encode())
    for name, tensor in sorted(tensors.items()):  # safetensors orders them by type and name
        digest.update(f"{name} {_form(tensor)}".encode())
        if isinstance(tensor, np.ndarray):
            digest.update(tensor.tobytes())
        elif tensor.numel():
            import torch

            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


@contextmanager
def _opened(path: Path, framework: str) -> Iterator[tuple[Any, dict[str, str]]]:
    if not Path(path).is_file():
        raise ValueError(f"there is no checkpoint {path}")
    try:
        with safe_open(path, framework=framework) as file:
            header = file.metadata() or {}
            if header.get("format") != FORMAT:
                raise ValueError(f"{path} has format {header.get('format')!r:.50}, this version reads {FORMAT!r}")
            if "about" not in header:
                raise ValueError(f"{path} is damaged: it has no metadata; delete it to train it again")
            yield file, header
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is damaged or not a checkpoint ({error}); delete it to train it again") from error


def load_into(module: "nn.Module", tensors: "Mapping[str, Tensor]", source: Path) -> None:
    """Load tensors into the module; every name, dtype and shape has to fit."""
    own, given = ({name: _form(tensor) for name, tensor in state.items()} for state in (module.state_dict(), tensors))
    different = [name for name in {**own, **given} if own.get(name) != given.get(name)]
    problems = [f"{name} is {given.get(name, 'missing')}, the model has {own.get(name, 'none')}" for name in different]
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise ValueError(f"{source} does not fit {type(module).__name__}: {'; '.join(problems[:3])}{more}")
    module.load_state_dict(dict(tensors))


def _form(tensor: Any) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
