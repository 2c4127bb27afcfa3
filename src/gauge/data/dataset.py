"""Dataset: one split, resident on one device in compact form, sliced there into Batches."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from gauge.masks import Layout
from gauge.randomness import derive, sample_keys, uniform
from gauge.types import Batch


def as_values(stored: Tensor) -> Tensor:
    """Compact bytes as numbers from 0 to 1; everything else as it is."""
    return stored.float() / 255 if stored.dtype == torch.uint8 else stored


@dataclass(frozen=True)
class Dataset:
    """Aligned modalities and labels. Byte images stay bytes until a batch is made of them.

    `observed` says what is really there; leave a modality out when all of it is. `note` goes into every result: what a
    reader has to know about this data, such as that it is only a part of the official set.

    >>> data = Dataset("test", {"photo": torch.zeros(9, 3, 4, 4, dtype=torch.uint8)}, torch.zeros(9, dtype=torch.long))
    >>> data.batch(torch.tensor([2, 5])).inputs["photo"].dtype
    torch.float32
    """

    split: str
    inputs: Mapping[str, Tensor]
    labels: Int[Tensor, "rows"]
    observed: Mapping[str, Tensor] = field(default_factory=dict)
    note: str = ""

    def __post_init__(self) -> None:
        rows = len(self.labels)
        if not rows:
            raise ValueError(f"the {self.split} split has no rows")
        if self.labels.dtype != torch.long or bool((self.labels < 0).any()):
            raise ValueError(f"labels must be class numbers 0, 1, ... of type torch.long, not {self.labels.dtype}")
        for kind, tensors in (("inputs", self.inputs), ("observed", self.observed)):
            for name, values in tensors.items():
                if len(values) != rows:
                    raise ValueError(f"{kind}[{name!r}] has {len(values)} rows but there are {rows} labels; align them")
        unknown = set(self.observed) - set(self.inputs)
        if unknown:
            raise ValueError(f"observed names {sorted(unknown)}, which inputs does not have: {list(self.inputs)}")
        present = torch.ones(len(self.labels), dtype=torch.bool, device=self.labels.device)
        object.__setattr__(self, "observed", {name: self.observed.get(name, present) for name in self.inputs})
        Batch(self.inputs, self.observed, self.labels).check()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def device(self) -> torch.device:
        return self.labels.device

    @property
    def layout(self) -> Layout:
        """How many flags each modality has for a sample: None for one, a number for one per feature."""
        return {name: None if flags.ndim == 1 else flags.shape[1] for name, flags in self.observed.items()}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of one sample of each modality."""
        return {name: tuple(values.shape[1:]) for name, values in self.inputs.items()}

    def to(self, device: torch.device | str) -> "Dataset":
        if self.device == torch.device(device):
            return self
        return Dataset(
            self.split,
            {name: values.to(device) for name, values in self.inputs.items()},
            self.labels.to(device),
            {name: flags.to(device) for name, flags in self.observed.items()},
            self.note,
        )

    def batch(
        self, index: Int[Tensor, "b"], *, keep: Mapping[str, Tensor] | None = None, key: Int[Tensor, "b"] | None = None
    ) -> Batch:
        """The samples at `index`; `keep` takes further values away, `key` seeds what is drawn for each of them.

        A sample that would lose all it has keeps one observed value, drawn by its key.
        """
        key = index if key is None else key
        observed = {name: flags[index] for name, flags in self.observed.items()}
        if keep is not None:
            observed = _take_away(observed, keep, key)
        inputs = {name: as_values(values[index]) for name, values in self.inputs.items()}
        return Batch(inputs, observed, self.labels[index], index, key)

    def batches(
        self, size: int, *, keep: Mapping[str, Tensor] | None = None, seed: int = 0, chosen: Tensor | None = None
    ) -> Iterator[Batch]:
        """The split in order, or the `chosen` ones of its rows; `keep` holds flags for all its rows."""
        every = torch.arange(len(self)) if chosen is None else chosen
        for index in every.to(self.device).split(size):
            rows = None if keep is None else {name: flags[index] for name, flags in keep.items()}
            yield self.batch(index, keep=rows, key=sample_keys(index, seed, self.split))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything in it: what cached results are filed under."""
        digest = hashlib.blake2b(self.split.encode(), digest_size=8)
        for values in (*self.inputs.values(), *self.observed.values(), self.labels):
            digest.update(f"{values.dtype}{list(values.shape)}".encode())
            digest.update(values.contiguous().cpu().numpy().data)
        return digest.hexdigest()


def _take_away(observed: Mapping[str, Tensor], keep: Mapping[str, Tensor], key: Tensor) -> dict[str, Tensor]:
    """What is observed and kept; one observed value where nothing would remain."""
    really = torch.cat([_columns(flags) for flags in observed.values()], 1)
    widths = [_columns(flags).shape[1] for flags in observed.values()]
    kept = torch.cat([_columns(keep[name]).expand(-1, width) for name, width in zip(observed, widths, strict=True)], 1)
    both = really & kept
    draws = uniform(derive(key, "last evidence"), really.shape[1]).masked_fill(~really, -1)
    last = torch.arange(really.shape[1], device=key.device) == draws.argmax(1, keepdim=True)
    both = both | (last & really & ~both.any(1, keepdim=True))
    parts = zip(observed.items(), both.split(widths, 1), strict=True)
    return {name: part[:, 0] if flags.ndim == 1 else part for (name, flags), part in parts}


def _columns(flags: Tensor) -> Tensor:
    return flags.reshape(len(flags), -1)
