"""The values that flow: Batch -> Units -> Evidence -> Prediction, and the protocols of the parts between them.

Axes: b batch, m modalities, n units, s = n + 1 (CLS first), c channels, h heads, k classes, f features of one modality.
`observed` is True where a value is observed, everywhere, always.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Objective = Literal["logit", "nll"]
Observed = Bool[Tensor, "b"] | Bool[Tensor, "b f"]


def over_values(observed: Tensor, values: Tensor) -> Tensor:
    """The flags with trailing axes of size one, so that they broadcast over the modality's values."""
    return observed.reshape(observed.shape + (1,) * (values.ndim - observed.ndim))


@dataclass(frozen=True)
class Batch:
    """Samples with their gaps: one tensor and one set of flags for each modality.

    `observed[name]` holds one flag per sample ([b]) or one per feature ([b, f]). `index` is the sample's number in its
    split; every random draw made for a sample derives from its `key`, so that it never depends on the rest of the batch.

    >>> batch = Batch({"scan": torch.rand(2, 3)}, {"scan": torch.tensor([True, False])})
    >>> batch.index.tolist(), batch.filled({"scan": torch.zeros(2, 3)}).inputs["scan"][1].tolist()
    ([0, 1], [0.0, 0.0, 0.0])
    """

    inputs: Mapping[str, Tensor]
    observed: Mapping[str, Tensor]
    labels: Int[Tensor, "b"] | None = None
    index: Int[Tensor, "b"] = None  # type: ignore[assignment]  # arange(b) unless given
    key: Int[Tensor, "b"] = None  # type: ignore[assignment]  # the index unless given

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError("a batch needs at least one modality; inputs is empty")
        if set(self.inputs) != set(self.observed):
            raise ValueError(
                f"inputs has modalities {sorted(self.inputs)} but observed has {sorted(self.observed)}; "
                "give one set of flags for every modality"
            )
        first = next(iter(self.inputs.values()))
        size = len(first)
        for name, values in self.inputs.items():
            flags = self.observed[name]
            if len(values) != size:
                raise ValueError(f"inputs[{name!r}] holds {len(values)} samples, the first modality {size}; align them")
            if flags.dtype != torch.bool:
                raise ValueError(f"observed[{name!r}] is {flags.dtype}; use torch.bool, True where observed")
            if flags.shape != (size,) and flags.shape != values.shape[:2]:
                raise ValueError(
                    f"observed[{name!r}] has shape {list(flags.shape)} beside inputs of shape {list(values.shape)}; "
                    f"give one flag per sample, [{size}], or one per feature, {list(values.shape[:2])}"
                )
        for name in ("labels", "index", "key"):
            values = getattr(self, name)
            if values is not None and values.shape != (size,):
                raise ValueError(f"{name} has shape {list(values.shape)}; it needs one entry per sample, [{size}]")
        if self.index is None:
            object.__setattr__(self, "index", torch.arange(size, device=first.device))
        if self.key is None:
            object.__setattr__(self, "key", self.index)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def modalities(self) -> tuple[str, ...]:
        return tuple(self.inputs)

    def to(self, device: torch.device | str) -> "Batch":
        def move(values: Tensor | None) -> Tensor | None:
            return None if values is None else values.to(device, non_blocking=True)

        return Batch(
            {name: values.to(device, non_blocking=True) for name, values in self.inputs.items()},
            {name: flags.to(device, non_blocking=True) for name, flags in self.observed.items()},
            move(self.labels),
            move(self.index),  # type: ignore[arg-type]
            move(self.key),  # type: ignore[arg-type]
        )

    def filled(self, values: Mapping[str, Tensor]) -> "Batch":
        """The batch with `values` where nothing was observed; observed entries stay bit for bit, flags stay as they are."""
        inputs = dict(self.inputs)
        for name, filling in values.items():
            mine = inputs[name]
            inputs[name] = torch.where(over_values(self.observed[name], mine), mine, filling.to(mine.dtype))
        return replace(self, inputs=inputs)

    def any_observed(self) -> Bool[Tensor, "b m"]:
        """For each modality whether any of its values was observed."""
        return torch.stack([flags.reshape(len(self), -1).any(1) for flags in self.observed.values()], 1)

    def check(self) -> "Batch":
        """The batch itself, after making sure that every sample has evidence and every observed value is finite.

        Reads values, hence waits for the device: done once where data comes in, not in every step.
        """
        empty = ~self.any_observed().any(1)
        if empty.any():
            raise ValueError(
                f"nothing is observed in sample {int(self.index[empty][0])} ({int(empty.sum())} such in the batch); "
                "drop it, or answer with the class prior"
            )
        for name, values in self.inputs.items():
            if values.is_floating_point():
                wrong = ~torch.isfinite(values) & over_values(self.observed[name], values)
                if wrong.any():
                    row = wrong.flatten(1).any(1)
                    raise ValueError(
                        f"inputs[{name!r}] holds {int(wrong.sum())} NaN or infinite values that are marked observed, "
                        f"first in sample {int(self.index[row][0])}; set observed[{name!r}] to False there"
                    )
        return self


@dataclass(frozen=True)
class Units:
    """The evidence units of a batch: what the encoders said, and the embeddings that say whose it is and where it stands.

    `tokens` = content + embedding is what enters the backbone. A hidden unit keeps its embedding and loses its content.
    """

    content: Float[Tensor, "b n c"]
    embedding: Float[Tensor, "n c"]
    modality: Int[Tensor, "n"]
    observed: Bool[Tensor, "b n"]

    @cached_property
    def tokens(self) -> Float[Tensor, "b n c"]:
        return self.content + self.embedding

    def hide(self, visible: Bool[Tensor, "b n"]) -> "Units":
        """The units with zero in place of the content of those that are not visible."""
        return replace(self, content=torch.where(visible[..., None], self.content, 0.0))


@dataclass(frozen=True)
class Evidence:
    """What one ungated pass taught us about every unit; no graph attached."""

    scores: Float[Tensor, "b n"]
    logits: Float[Tensor, "b k"]


@dataclass(frozen=True)
class Prediction:
    """The answer, and how it came about: `evidence` and `gates` are there for methods that weigh evidence."""

    logits: Float[Tensor, "b k"]
    evidence: Evidence | None = None
    gates: Float[Tensor, "b n"] | None = None


Classifier = Callable[..., Tensor]
"""(tokens [b, n, c], attn_bias broadcastable to [b, h, s, s] or None) -> logits [b, k]: all that GAUGE asks of a model.
It may also offer `attention(tokens, attn_bias)` -> [b, h, s, s], that of the last block."""


@runtime_checkable
class Scorer(Protocol):
    """Scores the units of one ungated pass. Every scorer takes all options and ignores those it has no use for:
    `reference` (what a unit is replaced by; zero when None), `objective`, and `key` (one integer per sample for draws)."""

    def __call__(
        self,
        classifier: Classifier,
        tokens: Tensor,
        *,
        reference: Tensor | None = None,
        objective: Objective = "logit",
        key: Tensor | None = None,
    ) -> Evidence: ...


@runtime_checkable
class Encoder(Protocol):
    """Turns one modality into `units` evidence units: (x, observed) -> [b, units, width]."""

    units: int
    width: int

    def __call__(self, x: Tensor, observed: Tensor) -> Tensor: ...


@runtime_checkable
class Imputer(Protocol):
    """Fills what is missing. Observed entries come back bit for bit and `observed` is unchanged."""

    def complete(self, batch: Batch) -> Batch: ...


@runtime_checkable
class Trainable(Protocol):
    """All that `fit` needs of a module, methods and imputers alike."""

    def loss(self, batch: Batch) -> dict[str, Tensor]: ...


@runtime_checkable
class Method(Protocol):
    """A way to classify incomplete samples. One that trains is `Trainable` too; one that only takes statistics from the
    training split offers `prepare(train)` instead."""

    def predict(self, batch: Batch) -> Prediction: ...
