"""The values that flow: Batch -> Units -> Evidence -> Prediction, and the contract of every kind of component.

Axes: b batch, m modalities, n units, s = n + 1 (CLS first), c channels, h heads, k classes, f features of one modality.
`observed` is True where a value is observed, everywhere, always.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, Self, TypedDict, Unpack, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

Objective = Literal["logit", "nll"]
Observed = Bool[Tensor, "b"] | Bool[Tensor, "b f"]


def over_values(observed: Tensor, values: Tensor) -> Tensor:
    """The flags with trailing axes of size one, so that they broadcast over the modality's values."""
    return observed.reshape(observed.shape + (1,) * (values.ndim - observed.ndim))


def _check_modality(name: str, values: Tensor, flags: Tensor, size: int) -> None:
    if len(values) != size:
        raise ValueError(f"inputs[{name!r}] holds {len(values)} samples, the first modality {size}; align them")
    if flags.dtype != torch.bool:
        raise ValueError(f"observed[{name!r}] is {flags.dtype}; use torch.bool, True where observed")
    if flags.shape != (size,) and flags.shape != values.shape[:2]:
        raise ValueError(
            f"observed[{name!r}] has shape {list(flags.shape)} beside inputs of shape {list(values.shape)}; "
            f"give one flag per sample, [{size}], or one per feature, {list(values.shape[:2])}"
        )


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
        for name, values in self.inputs.items():
            _check_modality(name, values, self.observed[name], len(first))
        for name in ("labels", "index", "key"):
            values = getattr(self, name)
            if values is not None and values.shape != (len(first),):
                raise ValueError(
                    f"{name} has shape {list(values.shape)}; it needs one entry per sample, [{len(first)}]"
                )
        if self.index is None:
            object.__setattr__(self, "index", torch.arange(len(first), device=first.device))
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

    `tokens` = content + embedding is what enters the backbone. A unit that is not kept loses its content alone.
    """

    content: Float[Tensor, "b n c"]
    embedding: Float[Tensor, "n c"]
    modality: Int[Tensor, "n"]
    observed: Bool[Tensor, "b n"]

    @cached_property
    def tokens(self) -> Float[Tensor, "b n c"]:
        return self.content + self.embedding

    def keep(self, visible: Bool[Tensor, "b n"]) -> "Units":
        """The units with zero in place of the content of all that are not visible."""
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
"""(tokens [b, n, c], attn_bias broadcastable to [b, h, s, s] or None) -> logits [b, k]: all that GAUGE asks of a model."""


@runtime_checkable
class SupportsAttention(Protocol):
    """A classifier that also shows the attention of its last block."""

    def __call__(self, tokens: Tensor, attn_bias: Tensor | None = None) -> Tensor: ...

    def attention(self, tokens: Tensor, attn_bias: Tensor | None = None) -> Tensor:
        """[b, h, s, s], after the softmax."""


class ScoreOptions(TypedDict, total=False):
    """What a scorer may be told; each reads what it needs. `reference`: what replaces a unit (zero unless given);
    `objective`: what is differentiated; `key`: one integer per sample for random draws."""

    reference: Tensor | None
    objective: Objective
    key: Tensor | None


@runtime_checkable
class Scorer(Protocol):
    """Scores the units of one ungated pass."""

    def __call__(self, classifier: Classifier, tokens: Tensor, **options: Unpack[ScoreOptions]) -> Evidence: ...


class Encoder(nn.Module):
    """Turns one modality into `units` evidence units: (x, observed) -> [b, units, width].

    Registered encoders are built with `(shape, width, **options)`. `stride` is the number of pixels behind one unit of an
    encoder whose units form a grid, None for all others; `example_shape` is one input that the contract tests build it for.
    """

    units: int
    width: int
    stride: int | None = None
    example_shape: ClassVar[tuple[int, ...]] = ()


class Backbone(nn.Module):
    """(sequence [b, s, c] with CLS first, attn_bias broadcastable to [b, h, s, s] or None) -> [b, s, c]."""

    def cls(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b c"]:
        """The first position of the output; override it where it costs less than the whole."""
        return self(sequence, attn_bias)[:, 0]

    def attention(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b h s s"]:
        """The attention of the last block."""
        raise ValueError(
            f"{type(self).__name__} does not offer attention(sequence, attn_bias); add that method, or use a score that "
            "does not read attention"
        )


class Trainable(nn.Module):
    """All that `fit` asks of a module, methods and imputers alike. One without parameters to train needs no `loss`."""

    looks_across_batch: ClassVar[bool] = False
    """Whether a sample's answer depends on the samples beside it."""

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The terms that training minimises the sum of."""
        raise NotImplementedError(f"{type(self).__name__} has parameters to train but no loss(batch)")

    def end_epoch(self) -> None:
        """Called after every training epoch."""

    @property
    def is_trainable(self) -> bool:
        return any(parameter.requires_grad for parameter in self.parameters())


class Method(Trainable):
    """A way to classify incomplete samples. Experiments build it as `Method(encoder, classifier)`, from a `UnitEncoder` and
    a `Network`, unless it has a training plan of its own."""

    def predict(self, batch: Batch) -> Prediction:
        raise NotImplementedError(f"{type(self).__name__} has no predict(batch)")

    def prepare(self, train: Any) -> None:
        """Called once after training, with the training split (a `Dataset`), for statistics that are not learned."""

    @classmethod
    def unsupported(cls, shapes: Mapping[str, tuple[int, ...]]) -> str | None:
        """Why the method cannot serve modalities of these shapes; None if it can."""
        return None


@runtime_checkable
class SupportsComplete(Protocol):
    """All that a model asks of an imputer. Observed entries come back bit for bit and `observed` is unchanged."""

    def complete(self, batch: Batch) -> Batch: ...


class Imputer(Trainable):
    """A registered imputer: `of(train, **options)` makes one for a training split (a `Dataset`).

    The shapes of its tensors follow from the split's shapes and size and from the options alone: a saved imputer is restored
    by `blank(like, **options)`, for any split of that form, and by loading its tensors.
    """

    needs_table: ClassVar[bool] = False
    needs_image: ClassVar[bool] = False
    reads_hidden_values: ClassVar[bool] = False

    def complete(self, batch: Batch) -> Batch:
        raise NotImplementedError(f"{type(self).__name__} has no complete(batch)")

    @classmethod
    def of(cls, *args: Any, **options: Any) -> Self:
        """The imputer for a training split; each declares the options that it takes."""
        return cls()

    @classmethod
    def blank(cls, *args: Any, **options: Any) -> Self:
        """The same with its tensors still to be loaded; override it where `of` does work that loading undoes."""
        return cls.of(*args, **options)
