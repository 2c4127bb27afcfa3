"""Whether the tensors of a batch line up, and what is wrong with values and scores that nothing can be made of."""

from collections.abc import Mapping
from typing import NoReturn

import torch
from jaxtyping import Bool, Float
from torch import Tensor

SCORE_FLOOR = 1e-6  # ε of Eq. 6, app. B.3


def check_layout(
    inputs: Mapping[str, Tensor], observed: Mapping[str, Tensor], rows: Mapping[str, Tensor | None]
) -> None:
    """Raise an error unless all modalities have the same samples and flags for them, and `rows` one entry for each."""
    if not inputs:
        raise ValueError("a batch needs at least one modality; inputs is empty")
    if set(inputs) != set(observed):
        raise ValueError(
            f"inputs has modalities {sorted(inputs)} but observed has {sorted(observed)}; "
            "give one set of flags for every modality"
        )
    size = next(iter(inputs.values())).shape[0]
    for name, values in inputs.items():
        flags = observed[name]
        if values.shape[0] != size:
            raise ValueError(f"inputs[{name!r}] holds {len(values)} samples, the first modality {size}; align them")
        if flags.dtype != torch.bool:
            raise ValueError(f"observed[{name!r}] is {flags.dtype}; use torch.bool, True where observed")
        if flags.shape != (size,) and flags.shape != values.shape[:2]:
            raise ValueError(
                f"observed[{name!r}] has shape {list(flags.shape)} beside inputs of shape {list(values.shape)}; "
                f"give one flag per sample, [{size}], or one per feature, {list(values.shape[:2])}"
            )
    for name, each in rows.items():
        if each is not None and each.shape != ((size, *each.shape[1:2]) if name == "labels" else (size,)):
            raise ValueError(f"{name} has shape {list(each.shape)}; give one entry per sample, [{size}]")


def raise_unsound(inputs: Mapping[str, Tensor], observed: Mapping[str, Tensor], index: Tensor) -> NoReturn:
    """The error for a batch that is not sound, given its inputs with zeros where nothing was observed: it names the first
    sample that has no observed value, or a NaN."""
    empty = ~torch.stack([flags.reshape(len(flags), -1).any(1) for flags in observed.values()]).any(0)
    if empty.any():
        raise ValueError(
            f"nothing is observed in sample {int(index[empty][0])} ({int(empty.sum())} such in the batch); "
            "drop it, or predict the class prior"
        )
    for name, values in inputs.items():
        wrong = ~torch.isfinite(values)
        if wrong.any():
            row = wrong.flatten(1).any(1)
            raise ValueError(
                f"inputs[{name!r}] holds {int(wrong.sum())} NaN or infinite values that are marked observed, "
                f"first in sample {int(index[row][0])}; set observed[{name!r}] to False there"
            )
    raise AssertionError("a batch that is not sound has a reason")


def informative(scores: Float[Tensor, "b n"]) -> Bool[Tensor, ""]:
    """Whether all scores are finite and those of some sample differ."""
    finite = torch.linalg.vector_norm(scores, torch.inf) < torch.inf
    return finite if scores.shape[1] == 1 else finite & (scores.std(1) >= SCORE_FLOOR).any()
