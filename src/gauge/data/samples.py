"""Samples of several modalities, any of them missing, as a `Dataset`."""

from collections.abc import Iterable, Mapping, Sequence
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
    columns = {name: _column(name, given) for name, given in samples.items()}
    rows = len(next(iter(columns.values()))[0]) if columns else 0
    if isinstance(labels, pd.Series):
        labels = labels.to_numpy(copy=True)  # by position, whatever its index
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
    indexed = hasattr(samples, "__getitem__") and not hasattr(samples, "__iter__")  # a Dataset of torch has a length
    pairs = [samples[row] for row in range(len(samples))] if indexed else list(samples)
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], Mapping) for pair in pairs):
        raise ValueError("samples are {name: values} for all, or a pair ({name: value}, label) for each; use these")
    if pairs and isinstance(pairs[0][1], Tensor) and pairs[0][1].ndim:  # batches of a DataLoader
        pairs = [pair for x, y in pairs for pair in _each(x, y)]
    names = dict.fromkeys(name for modalities, _ in pairs for name in modalities)
    return {name: [x.get(name) for x, _ in pairs] for name in names}, [y for _, y in pairs]


def _each(batch: Mapping[str, Any], labels: Tensor) -> list[tuple[dict[str, Any], Tensor]]:
    shapes = {name: list(np.shape(values)) for name, values in batch.items()}
    if any(shape[:1] != list(labels.shape) for shape in shapes.values()):
        raise ValueError(
            f"a batch has labels of shape {list(labels.shape)} and modalities of {shapes}, with another number of samples; "
            "align them, or give the label of a single sample as a number"
        )
    return [({name: values[row] for name, values in batch.items()}, label) for row, label in enumerate(labels)]


def _is_class(label: Any) -> bool:
    number = label.item() if isinstance(label, Tensor | np.generic) and label.ndim == 0 else label
    return isinstance(number, int | float) and number == number // 1


def _column(name: str, given: Tensor | np.ndarray | Sequence[Any]) -> tuple[Tensor, Tensor]:
    """The values of a modality, and flags for its samples or cells."""
    if isinstance(given, np.ma.MaskedArray):
        given = np.where(np.ma.getmaskarray(given), np.float32(np.nan), given.data)
    if isinstance(given, pd.DataFrame):
        try:
            given = given.to_numpy(np.float32, copy=True)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name!r} has values that are no numbers ({error}); give codes or columns of numbers"
            ) from error
    if isinstance(given, Tensor) or (isinstance(given, np.ndarray) and given.dtype != object):
        values, present = torch.as_tensor(given).detach(), torch.ones(len(given), dtype=torch.bool)
    else:
        values, present = _stacked(name, list(given))
    if values.is_complex():
        raise ValueError(f"{name!r} has complex numbers; give their real and imaginary parts as columns")
    values = values[:, None] if values.ndim == 1 else values  # one number for each sample is a table of one column
    if not values.is_floating_point():
        image = values.dtype == torch.uint8 and values.ndim > 2  # in a table, 7 is 7 in every type
        return (values if image or values.dtype == torch.int32 else values.long()), present
    values, cells = values.float(), ~values.isnan().flatten(1) & present[:, None]
    partly = cells.any(1) != cells.all(1)
    if bool(partly.any()) and values.ndim != 2:
        raise ValueError(f"sample {int(partly.nonzero()[0])} of {name!r} is NaN in part; replace these values, or all")
    return values, cells if bool(partly.any()) else cells.any(1)


def _stacked(name: str, given: list[Any]) -> tuple[Tensor, Tensor]:
    """The samples of a list as one tensor, and flags for those that are not None."""
    try:
        known = [torch.as_tensor(each).detach() for each in given if each is not None]
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{name!r} has values that are no numbers ({error}); write NaN for a missing cell") from error
    shapes = {tuple(each.shape) for each in known}
    if not shapes:
        raise ValueError(f"no sample has {name!r}; leave it out, and what was trained with it takes it as missing")
    if len(shapes) != 1:
        raise ValueError(f"the samples of {name!r} have the shapes {sorted(shapes)}; resize or pad them to one")
    if len({each.dtype == torch.uint8 for each in known}) > 1:
        raise ValueError(
            f"some samples of {name!r} are bytes, from 0 to 255, and others are not; convert them to one type"
        )
    present = torch.tensor([each is not None for each in given])
    stacked = torch.stack(known)  # of whole numbers and others, all become floats
    values = stacked.new_zeros(len(present), *stacked.shape[1:])
    values[present] = stacked
    return values, present
