"""Samples of several modalities, any of them missing, as a `Dataset`."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gauge.data.dataset import UNLABELLED, Dataset


def gather(
    samples: Mapping[str, Any] | Iterable[tuple[Mapping[str, Any], Any]] | torch.utils.data.Dataset,
    labels: Any = None,
    *,
    split: str = "train",
) -> Dataset:
    """Return samples and the numbers of their classes as one split of data.

    Parameters
    ----------
    samples
        A tensor, an array, a list or a DataFrame of numbers for each modality, with one entry for each sample; or pairs
        (modalities, label), such as a torch Dataset or a DataLoader without labels apart. A missing modality is None, or NaN
        throughout; single cells of a table may be NaN or masked too. Whole numbers are codes, but where `columns` or `mlp`
        read a table.
    labels
        The number of the class of each sample, from 0 up; without them samples can be predicted, but not trained on.
    split
        What to call the samples in messages.

    Returns
    -------
    Dataset
        With flags for what is observed.

    Examples
    --------
    >>> data = gather({"scan": [None, np.ones(2)], "blood": np.array([[1.0, np.nan], [2.0, 3.0]])}, [0, 1])
    >>> data.observed["scan"].tolist(), data.observed["blood"].tolist()
    ([False, True], [[True, False], [True, True]])
    """
    if not isinstance(samples, Mapping):
        if labels is not None:
            raise ValueError("labels are given twice, in the pairs and as labels=; leave one out")
        samples, labels = _from_pairs(samples)
    columns = dict(zip(samples, map(_column, samples, samples.values()), strict=True))
    if not columns:
        raise ValueError("the samples have no modality; give {name: values} with one at least")
    rows = len(next(iter(columns.values()))[0])
    if isinstance(labels, pd.Series | pd.DataFrame):
        labels = labels.to_numpy(copy=True)  # by position, whatever its index
        labels = labels[:, 0] if labels.shape[1:] == (1,) else labels
    try:
        given = torch.full((rows,), UNLABELLED) if labels is None else torch.as_tensor(labels)
        numbers = given.long() if given.ndim == 1 else given[:, None]
        if given.ndim != 1 or not torch.equal(given.double(), numbers.double()):
            raise TypeError
    except (RuntimeError, TypeError, ValueError) as error:
        listed = labels.tolist() if isinstance(labels, Tensor | np.ndarray) else labels
        wrong = next((each for each in listed if not _is_class(each)), None)
        cure = "np.unique(labels, return_inverse=True) returns names and numbers"
        raise ValueError(f"labels are numbers of classes, 0, 1, ..., not {wrong!r}; {cure}") from error
    counts = {name: len(values) for name, (values, _) in columns.items()}
    if {*counts.values()} - {len(numbers)}:
        raise ValueError(f"modalities have {counts} samples, and there are {len(numbers)} labels; align them")
    values, observed = ({name: column[part] for name, column in columns.items()} for part in (0, 1))
    return Dataset(split, values, numbers, observed)


def _from_pairs(samples: Any) -> tuple[dict[str, list[Any]], list[Any]]:
    """The values of each modality, None where a sample has none, and the labels, of pairs or batches of them."""
    indexed = hasattr(samples, "__getitem__") and not hasattr(samples, "__iter__") and hasattr(samples, "__len__")
    # a Dataset of torch has a length
    pairs = [samples[row] for row in range(len(samples))] if indexed else list(samples)
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], Mapping) for pair in pairs):
        raise ValueError("samples are {name: values} for all, or a pair ({name: value}, label) for each; use these")
    sizes = [len(y) if isinstance(y, Tensor) and y.ndim else 0 for _, y in pairs]
    if sizes and all(sizes) and (max(sizes) > 1 or getattr(samples, "batch_sampler", None) is not None):  # batches
        pairs = [pair for x, y in pairs for pair in _each(x, y)]
    names = dict.fromkeys(name for modalities, _ in pairs for name in modalities)
    labels = [y[0] if getattr(y, "shape", ()) == (1,) else y for _, y in pairs]  # a tensor of one number
    return {name: [x.get(name) for x, _ in pairs] for name in names}, labels


def _each(batch: Mapping[str, Any], labels: Tensor) -> list[tuple[dict[str, Any], Tensor]]:
    shapes = {name: [len(x)] if isinstance(x, list | tuple) else list(np.shape(x)) for name, x in batch.items()}
    if any(shape[:1] != list(labels.shape) for shape in shapes.values()):
        raise ValueError(
            f"a batch has labels of shape {list(labels.shape)} and modalities of {shapes}, with another number of samples; "
            "align them, or give the label of a single sample as a number"
        )
    return [({name: values[row] for name, values in batch.items()}, label) for row, label in enumerate(labels)]


def _is_class(label: Any) -> bool:
    number = label.item() if isinstance(label, Tensor | np.generic) and label.ndim == 0 else label
    return isinstance(number, int | float) and number == number // 1


def _column(name: str, given: Any) -> tuple[Tensor, Tensor]:
    """The values of a modality, and flags for its samples or cells."""
    if not getattr(given, "ndim", hasattr(given, "__iter__") or hasattr(given, "__getitem__")):
        raise ValueError(f"{name!r} is {given!r}, no values of samples; give a tensor, an array, a list or a DataFrame")
    try:
        given = _plain(given)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name!r} has values that are no numbers ({error}); give codes or columns of numbers"
        ) from error
    values, present = _stacked(name, given) if isinstance(given, list) else (given, torch.ones(len(given)).bool())
    if values.is_complex():
        raise ValueError(f"{name!r} has complex numbers; give their real and imaginary parts as columns")
    values = values[:, None] if values.ndim == 1 else values  # one number for each sample is a table of one column
    if 0 in values.shape[1:]:
        raise ValueError(
            f"the samples of {name!r} have the shape {list(values.shape[1:])}, without values; leave it out"
        )
    if values.ndim == 2 and values.dtype != torch.float32:
        _warn_of_merged(name, values)
    if not values.is_floating_point():
        image = values.dtype == torch.uint8 and values.ndim > 2  # in a table, 7 is 7 in every type
        return (values if image or values.dtype == torch.int32 else values.long()), present
    values, cells = values.float(), ~values.isnan().flatten(1) & present[:, None]
    partly = cells.any(1) != cells.all(1)
    if bool(partly.any()) and values.ndim != 2:
        raise ValueError(f"sample {int(partly.nonzero()[0])} of {name!r} is NaN in part; replace these values, or all")
    return values, cells if bool(partly.any()) else cells.any(1)


def _plain(given: Any) -> Tensor | list[Any]:
    """The values of all samples, in a list where they are not one array of numbers."""
    if isinstance(given, pd.DataFrame):
        if wrong := {column: str(dtype) for column, dtype in given.dtypes.items() if dtype.kind in "mMc"}:
            raise TypeError(str(wrong)[:80])  # dates, durations
        given = given.to_numpy(np.float64, copy=True)
    given = given.to_numpy(copy=True) if isinstance(given, pd.Series) else given
    if hasattr(given, "__array__") and not isinstance(given, Tensor | np.ndarray):
        given = np.array(given)  # of polars, whose DataFrames are read by columns
    if isinstance(given, Tensor):
        return list(given.unbind()) if given.is_nested else _tensor(given)
    return _tensor(given) if isinstance(given, np.ndarray) and given.dtype != object else list(given)


def _tensor(given: Any) -> Tensor:
    """The numbers of an array, a list or a tensor, NaN where they are masked."""
    if isinstance(given, np.ma.MaskedArray):
        given = np.where(given.mask, np.float32(np.nan), given.data) if np.ma.is_masked(given) else given.data
    values = given.detach().to_dense() if isinstance(given, Tensor) else torch.as_tensor(np.asarray(given, order="C"))
    if values.dtype == torch.uint64 and bool((values.long() < 0).any()):
        raise TypeError("of torch.long, which ends at 2**63 - 1")
    return values.long() if values.dtype in (torch.uint16, torch.uint32, torch.uint64) else values


def _warn_of_merged(name: str, table: Tensor) -> None:
    """1.7e9 + 1 is 1.7e9 in single precision; a few hundred rows show it. Errors of rounding make no other number."""
    some = table[:: 1 + len(table) // 256].double().nan_to_num().sort(0).values
    distinct = 1 + (some.diff(dim=0) > 1e-13 * some[1:].abs()).sum(0)
    merged = (2 + 2 * (some.float().diff(dim=0) > 0).sum(0) <= distinct).nonzero()[:, 0].tolist()
    if merged:
        warnings.warn(
            f"columns {str(merged)[:80]} of {name!r} have different numbers that are the same in float32, in which networks "
            "compute; subtract the smallest value, or give differences",
            stacklevel=4,
        )


def _is_missing(given: Any) -> bool:
    return given is None or given is pd.NA or (isinstance(given, np.ma.MaskedArray) and bool(given.mask.all()))


def _stacked(name: str, given: list[Any]) -> tuple[Tensor, Tensor]:
    """The samples of a list as one tensor, and flags for those that are not missing."""
    try:
        known = {row: _tensor(each) for row, each in enumerate(given) if not _is_missing(each)}
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{name!r} has values that are no numbers ({error}); write NaN for a missing cell") from error
    if any(each.ndim for each in known.values()):  # beside arrays, NaN is a missing one, as after a join
        known = {row: each for row, each in known.items() if each.ndim or not each.isnan()}
    shapes, types = ({getattr(each, part) for each in known.values()} for part in ("shape", "dtype"))
    if not shapes:
        raise ValueError(f"no sample has {name!r}; leave it out, and what was trained with it takes it as missing")
    if len(shapes) != 1:
        raise ValueError(
            f"the samples of {name!r} have the shapes {sorted(map(tuple, shapes))}; resize or pad them to one"
        )
    if torch.uint8 in types and len(types) > 1:
        raise ValueError(
            f"some samples of {name!r} are bytes, from 0 to 255, and others are not; convert them to one type"
        )
    stacked = torch.stack([*known.values()])  # of whole numbers and others, all become floats
    present, values = torch.zeros(len(given)).bool(), stacked.new_zeros(len(given), *stacked.shape[1:])
    present[[*known]], values[[*known]] = True, stacked
    return values, present
