"""The values that flow: Batch -> Units -> Evidence -> Prediction.

Axes: b batch, m modalities, n units, s = n + 1 (CLS first), c channels, h heads, k classes, f features of one modality.
`observed` is True where a value is observed, everywhere, always.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gauge.layout import check_layout, raise_unsound


def over_values(observed: Tensor, values: Tensor) -> Tensor:
    """The flags with trailing axes of size one, so that they broadcast over `values`."""
    return observed.reshape(observed.shape + (1,) * (values.ndim - observed.ndim))


@dataclass(frozen=True)
class Truth:
    """What only training and audits know about a batch, as flags in the form of `observed`. `known`: `inputs` holds the
    true value, even where it is hidden from the model. `corrupted`: an observed value was swapped or noised. `wrong`: it
    misleads, because it was noised, is of another class (whole modalities) or differs (cells)."""

    known: Mapping[str, Tensor]
    corrupted: Mapping[str, Tensor]
    wrong: Mapping[str, Tensor]


@dataclass(frozen=True)
class Batch:
    """Samples with missing values: one tensor and one set of flags for each modality. `labels` are class numbers or, as for
    `torch.nn.CrossEntropyLoss`, class probabilities.

    `observed[name]` holds one flag per sample ([b]) or one per feature ([b, f]). `index` is a sample's row in its split.
    All random draws for a sample derive from its `key`, so they never depend on the rest of the batch. Only `loss` may read
    `truth`, and the values of entries that are not observed.

    >>> batch = Batch({"scan": torch.rand(2, 3)}, {"scan": torch.tensor([True, False])})
    >>> batch.index.tolist(), batch.filled({"scan": torch.zeros(2, 3)}).inputs["scan"][1].tolist()
    ([0, 1], [0.0, 0.0, 0.0])
    """

    inputs: Mapping[str, Tensor]
    observed: Mapping[str, Tensor]
    labels: Int[Tensor, "b"] | Float[Tensor, "b k"] | None = None
    index: Int[Tensor, "b"] = None  # type: ignore[assignment]  # arange(b) unless given
    key: Int[Tensor, "b"] = None  # type: ignore[assignment]  # the index unless given
    truth: Truth | None = None

    def __post_init__(self) -> None:
        check_layout(self.inputs, self.observed, {"labels": self.labels, "index": self.index, "key": self.key})
        first = next(iter(self.inputs.values()))
        size = first.shape[0]  # len() would be a constant in an exported graph
        if self.index is None:
            object.__setattr__(self, "index", torch.arange(size, device=first.device))
        if self.key is None:
            object.__setattr__(self, "key", self.index)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def modalities(self) -> tuple[str, ...]:
        return tuple(self.inputs)

    def filled(self, values: Mapping[str, Tensor]) -> "Batch":
        """The batch with `values` where nothing was observed; observed entries stay bit for bit, and so do the flags."""
        inputs = dict(self.inputs)
        for name, filling in values.items():
            x = inputs[name]
            inputs[name] = torch.where(over_values(self.observed[name], x), x, filling.to(x.dtype))
        return replace(self, inputs=inputs)

    def blanked(self) -> "Batch":
        """The batch with zeros where nothing was observed."""
        return self.filled({name: values.new_zeros(()) for name, values in self.inputs.items()})

    def as_observed(self) -> "Batch":
        """The batch with every value marked observed, for a completed batch."""
        return replace(self, observed={name: torch.ones_like(flags) for name, flags in self.observed.items()})

    def any_observed(self) -> Bool[Tensor, "b m"]:
        """Whether any value of each modality was observed."""
        return torch.stack([flags.reshape(flags.shape[0], -1).any(1) for flags in self.observed.values()], 1)

    def sound(self) -> Bool[Tensor, ""]:
        """Whether every sample has an observed value and all observed values are finite, without waiting for the device."""
        flags = [self.any_observed().any(1).all()]
        for name, values in self.inputs.items():
            if values.is_floating_point():
                shown = torch.where(over_values(self.observed[name], values), values, 0.0)
                flags.append(torch.linalg.vector_norm(shown, torch.inf) < torch.inf)
        return torch.stack(flags).all()

    def check(self) -> "Batch":
        """The batch without `truth` if it is `sound`, otherwise an error. This waits for the device, so it is done once
        where data comes in, not in every step."""
        if not self.sound():
            raise_unsound(self.blanked().inputs, self.observed, self.index)
        return self if self.truth is None else replace(self, truth=None)


@dataclass(frozen=True)
class Units:
    """The evidence units of a batch: the encoders' content, and the embeddings of modality and position. Their sum `tokens`
    enters the backbone. A unit that is not kept loses only its content."""

    content: Float[Tensor, "b n c"]
    embedding: Float[Tensor, "n c"]
    modality: Int[Tensor, "n"]
    observed: Bool[Tensor, "b n"]

    @cached_property
    def tokens(self) -> Float[Tensor, "b n c"]:
        return self.content + self.embedding

    def keep(self, visible: Bool[Tensor, "b n"]) -> "Units":
        """The units with zero content wherever they are not visible."""
        return replace(self, content=torch.where(visible[..., None], self.content, 0.0))


@dataclass(frozen=True)
class Evidence:
    """The scores of all units and the logits of one ungated pass, detached from the graph. `signed` are the scores with
    cancellation, positive where a unit supports the predicted class, if the scorer gives them."""

    scores: Float[Tensor, "b n"]
    logits: Float[Tensor, "b k"]
    signed: Float[Tensor, "b n"] | None = None


@dataclass(frozen=True)
class Prediction:
    """The logits of a batch; `evidence` and `gates` are None for methods that do not weigh evidence. `trust` is the
    probability that each unit is right, None for methods that do not learn it."""

    logits: Float[Tensor, "b k"]
    evidence: Evidence | None = None
    gates: Float[Tensor, "b n"] | None = None
    trust: Float[Tensor, "b n"] | None = None
