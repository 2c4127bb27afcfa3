"""Dataset: one split in compact form, in memory or in mapped files, from which Batches are made on one device."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from gauge.data.corruption import corrupted
from gauge.masks import Corruption, FeatureCounts
from gauge.randomness import derive, sample_keys, uniform
from gauge.values import Batch

UNLABELLED = -1  # the label of a sample that has none


def as_values(stored: Tensor) -> Tensor:
    """Bytes as numbers from 0 to 1; other tensors unchanged."""
    return stored.float() / 255 if stored.dtype == torch.uint8 else stored


@dataclass(frozen=True, repr=False)
class Dataset:
    """Samples of several modalities, with labels and flags for what is observed; `gather` makes one of arrays and lists.

    Parameters
    ----------
    split
        What to call the samples, such as "train"; random draws depend on it.
    inputs
        A tensor for each modality, its first axis the samples. Images may be bytes until they are batched.
    labels
        Numbers of classes, -1 for samples without one. Batches are made on their device; inputs may lie elsewhere.
    observed
        Flags as in `Batch`: one for each sample, or one for each of its values. A modality without flags is complete.
    note
        What readers of results must know about the data.
    groups
        Numbers of what samples share, such as a photo or a lesion, so that they are not independent.
    masks
        Flags that come with the data, by the text of the protocol that they stand for.
    mapped
        Whether the tensors lie in files (`gauge.data.mapped`), from which training reads ahead.

    Examples
    --------
    >>> data = Dataset("test", {"photo": torch.zeros(9, 3, 4, 4, dtype=torch.uint8)}, torch.zeros(9, dtype=torch.long))
    >>> data.batch(torch.tensor([2, 5])).inputs["photo"].dtype
    torch.float32
    """

    split: str
    inputs: Mapping[str, Tensor]
    labels: Int[Tensor, "rows"]
    observed: Mapping[str, Tensor] = field(default_factory=dict)
    note: str = ""
    groups: Int[Tensor, "rows"] | None = None
    masks: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)
    mapped: bool = False

    def __post_init__(self) -> None:
        rows = len(self.labels)
        if not rows:
            raise ValueError(f"the {self.split} split has no rows")
        if self.labels.dtype != torch.long or bool((self.labels < UNLABELLED).any()):
            raise ValueError(
                f"labels must be class numbers 0, 1, ... or {UNLABELLED} for samples without one, of type torch.long, "
                f"not {self.labels.dtype} from {self.labels.min()}"
            )
        for kind, tensors in (("inputs", self.inputs), ("observed", self.observed)):
            for name, values in tensors.items():
                if len(values) != rows:
                    raise ValueError(f"{kind}[{name!r}] has {len(values)} rows but there are {rows} labels; align them")
        if self.groups is not None:
            groups = self.groups if isinstance(self.groups, Tensor) else np.array(self.groups)
            if groups.shape != (rows,) or "int" not in str(groups.dtype):
                raise ValueError(
                    f"groups are a whole number for each of {rows} samples, not {groups.dtype} of shape "
                    f"{list(groups.shape)}; give one for each, and number names, as pd.factorize(groups)[0] does"
                )
            object.__setattr__(self, "groups", torch.as_tensor(groups))
        unknown = set(self.observed) - set(self.inputs)
        if unknown:
            raise ValueError(f"observed names {sorted(unknown)}, which inputs does not have: {list(self.inputs)}")
        complete = torch.ones(rows, dtype=torch.bool, device=self.labels.device)
        object.__setattr__(self, "observed", {name: self.observed.get(name, complete) for name in self.inputs})
        for index in torch.arange(rows, device=next(iter(self.inputs.values())).device).split(65_536):  # rows at a time
            part = slice(int(index[0]), int(index[-1]) + 1)
            inputs = {name: values[part] for name, values in self.inputs.items()}
            Batch(inputs, {name: flags[part] for name, flags in self.observed.items()}, index=index).check()

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        parts = [
            f"{name} {list(shape)} observed {self.observed[name].float().mean():.0%}"
            for name, shape in self.shapes.items()
        ]
        return f"Dataset({self.split!r}, {len(self)} samples: {', '.join(parts)})"

    @property
    def device(self) -> torch.device:
        return self.labels.device

    @property
    def resident(self) -> bool:
        """Whether inputs and flags are on the device where batches are made."""
        return all(tensor.device == self.device for tensor in (*self.inputs.values(), *self.observed.values()))

    @property
    def feature_counts(self) -> FeatureCounts:
        """The number of feature flags of each modality; None for one flag per sample."""
        return {name: None if flags.ndim == 1 else flags.shape[1] for name, flags in self.observed.items()}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(values.shape[1:]) for name, values in self.inputs.items()}

    def to(self, device: torch.device | str) -> "Dataset":
        if self.device == torch.device(device):
            return self
        inputs = {name: values.to(device) for name, values in self.inputs.items()}
        observed = {name: flags.to(device) for name, flags in self.observed.items()}
        return replace(self, inputs=inputs, labels=self.labels.to(device), observed=observed, mapped=False)

    @property
    def labelled(self) -> Bool[Tensor, "rows"]:
        """Which samples have a label, as flags."""
        return self.labels != UNLABELLED

    def without_labels(self, rows: Bool[Tensor, "rows"]) -> "Dataset":
        """The split without the labels of these rows."""
        return replace(self, labels=self.labels.masked_fill(rows.to(self.device), UNLABELLED))

    def take(self, rows: Int[Tensor, "taken"] | Sequence[int]) -> "Dataset":
        """Return the samples at these positions alone.

        Parameters
        ----------
        rows
            Numbers of samples, in any order.

        Returns
        -------
        Dataset
            With inputs, labels, flags and groups of these.

        Examples
        --------
        >>> data.take([2, 0]).labels.tolist()
        [0, 0]
        """
        rows = torch.as_tensor(rows, device=self.device)
        numbers = rows.ndim == 1 and not rows.is_floating_point() and rows.dtype != torch.bool
        if not numbers or not ((rows >= 0) & (rows < len(self))).all():
            given = str(rows.tolist())[:80]
            raise ValueError(f"take() needs a list of numbers of samples, from 0 to {len(self) - 1}, not {given}")
        inputs = {name: self._at(values, rows) for name, values in self.inputs.items()}
        observed = {name: self._at(flags, rows) for name, flags in self.observed.items()}
        groups = None if self.groups is None else self.groups.to(self.device)[rows]
        masks = {text: {name: flags[rows.cpu()] for name, flags in mask.items()} for text, mask in self.masks.items()}
        return Dataset(self.split, inputs, self.labels[rows], observed, self.note, groups, masks)

    def batch(
        self,
        index: Int[Tensor, "b"],
        *,
        keep: Mapping[str, Tensor] | None = None,
        key: Int[Tensor, "b"] | None = None,
        corrupt: Corruption | None = None,
    ) -> Batch:
        """Return the samples at `index`.

        Parameters
        ----------
        index
            Numbers of samples.
        keep
            Flags of the observed values to keep; a sample that would lose all its values keeps a random one.
        key
            Seeds of the random draws for each sample, by default the index.
        corrupt
            What to swap and to noise; the batch then also has its `truth`, even if it is nothing.

        Returns
        -------
        Batch
            On the device of the labels.

        Examples
        --------
        >>> data.batch(torch.tensor([1, 3]), keep={"photo": torch.ones(2, dtype=torch.bool)}).labels.tolist()
        [0, 0]
        """
        key = index if key is None else key
        known = {name: self._at(flags, index) for name, flags in self.observed.items()}
        observed = known if keep is None else _restrict(known, keep, key)
        inputs = {name: as_values(self._at(values, index)) for name, values in self.inputs.items()}
        batch = Batch(inputs, observed, self.labels[index], index, key)
        return batch if corrupt is None else corrupted(batch, known, corrupt, self)

    def entries(self, name: str, rows: Int[Tensor, "b *f"]) -> tuple[Tensor, Tensor]:
        """The values of a modality in these rows and their flags; with one row for each feature, those of the features."""
        where = (rows, *(torch.arange(size, device=rows.device) for size in rows.shape[1:]))
        return as_values(self._at(self.inputs[name], *where)), self._at(self.observed[name], *where)

    def _at(self, values: Tensor, *index: Tensor) -> Tensor:
        """The entries at `index`, on the device where batches are made."""
        entries = values[tuple(rows.to(values.device) for rows in index)]
        if entries.device == self.device:
            return entries
        return (entries.pin_memory() if self.device.type == "cuda" else entries).to(self.device, non_blocking=True)

    @cached_property
    def spreads(self) -> dict[str, Tensor]:
        """The standard deviation of each column where features have flags, of all values of a modality elsewhere; zero for
        whole numbers, such as categories and tokens. The first 4,096 rows are enough."""
        first = slice(0, 4096)
        spreads = {
            name: _spread(as_values(self.inputs[name][first]), self.observed[name][first]) for name in self.inputs
        }
        return {name: spread.to(self.device) for name, spread in spreads.items()}

    def batches(
        self,
        size: int,
        *,
        keep: Mapping[str, Tensor] | None = None,
        seed: int = 0,
        chosen: Tensor | None = None,
        corrupt: Corruption | None = None,
    ) -> Iterator[Batch]:
        """Yield the split in order, or its `chosen` rows, in batches of that size; `keep` holds flags for all rows, and
        `corrupt` is that of `batch`."""
        every = torch.arange(len(self)) if chosen is None else chosen
        for index in every.to(self.device).split(size):
            rows = None if keep is None else {name: flags[index] for name, flags in keep.items()}
            yield self.batch(index, keep=rows, key=sample_keys(index, seed, self.split), corrupt=corrupt)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the whole content, used as key of cached results."""
        return self._hash((self.labels,))

    @cached_property
    def fingerprint_of_inputs(self) -> str:
        """The same without labels, for what is learned without them."""
        return self._hash(())

    def _hash(self, labels: tuple[Tensor, ...]) -> str:
        digest = hashlib.blake2b(self.split.encode(), digest_size=8)
        masks = [flags for text in sorted(self.masks) for flags in self.masks[text].values()]
        for values in (*self.inputs.values(), *self.observed.values(), *labels, *masks):
            digest.update(f"{values.dtype}{list(values.shape)}".encode())
            digest.update(values.contiguous().cpu().numpy().data)
        return digest.hexdigest()


def _spread(values: Tensor, observed: Tensor) -> Tensor:
    if not values.is_floating_point():
        return torch.zeros(observed.shape[1:], device=values.device)
    columns = values.reshape(*observed.shape, -1)
    weight = observed[..., None].expand_as(columns)
    axes = (0, -1)
    columns = torch.where(weight, columns, 0.0)
    count = weight.sum(axes).clamp_min(1)
    mean = columns.sum(axes) / count
    variance = (torch.where(weight, columns - mean[..., None], 0.0)).square().sum(axes) / count
    return torch.where((columns == columns.round()).all(-1).all(0), 0.0, variance.sqrt())


def _restrict(observed: Mapping[str, Tensor], keep: Mapping[str, Tensor], key: Tensor) -> dict[str, Tensor]:
    """The flags that are observed and kept; one observed value where nothing would remain."""
    parts = [flags.reshape(len(flags), -1) for flags in observed.values()]
    flat = torch.cat(parts, 1)
    both = torch.cat([part & keep[name].reshape(len(part), -1) for name, part in zip(observed, parts, strict=True)], 1)
    draws = uniform(derive(key, "last evidence"), flat.shape[1]).masked_fill(~flat, -1)
    last = torch.arange(flat.shape[1], device=key.device) == draws.argmax(1, keepdim=True)
    both = both | (last & flat & ~both.any(1, keepdim=True))
    columns = both.split([part.shape[1] for part in parts], 1)
    return {name: part.reshape(observed[name].shape) for name, part in zip(observed, columns, strict=True)}
