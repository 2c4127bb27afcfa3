"""The values that flow: Batch -> Units -> Evidence -> Prediction, and the contract of every kind of component.

Axes: b batch, m modalities, n units, s = n + 1 (CLS first), c channels, h heads, k classes, f features of one modality.
`observed` is True where a value is observed, everywhere, always.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypedDict, Unpack, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

Objective = Literal["logit", "nll"]
SCORE_FLOOR = 1e-6  # ε of Eq. 6, app. B.3
SHOWN_SAMPLES = 4  # in the repr of a prediction


class UnsupportedError(ValueError):
    """A method or an imputer does not support the modalities of a benchmark, or what is missing in it. In a table of
    several methods its row gives the reason; any other error ends the run."""


def over_values(observed: Tensor, values: Tensor) -> Tensor:
    """The flags with trailing axes of size one, so that they broadcast over `values`."""
    return observed.reshape(observed.shape + (1,) * (values.ndim - observed.ndim))


def is_traced(values: Tensor) -> bool:
    """Whether a graph is being exported: the number of samples, or all content, is then unknown."""
    return isinstance(values.shape[0], torch.SymInt) or type(values).__name__ == "FakeTensor"  # slow to import


def _check_modality(name: str, values: Tensor, flags: Tensor, size: int | torch.SymInt) -> None:
    if values.shape[0] != size:
        raise ValueError(f"inputs[{name!r}] holds {len(values)} samples, the first modality {size}; align them")
    if flags.dtype != torch.bool:
        raise ValueError(f"observed[{name!r}] is {flags.dtype}; use torch.bool, True where observed")
    if flags.shape != (size,) and flags.shape != values.shape[:2]:
        raise ValueError(
            f"observed[{name!r}] has shape {list(flags.shape)} beside inputs of shape {list(values.shape)}; "
            f"give one flag per sample, [{size}], or one per feature, {list(values.shape[:2])}"
        )


@dataclass(frozen=True)
class Truth:
    """What only training and audits know about a batch, as flags in the form of `observed`. `known`: `inputs` holds the
    true value, even where it is hidden from the model. `corrupted`: an observed value was swapped or noised. `wrong`:
    it misleads, because it was noised, comes from a sample of another class (whole modalities) or has another value
    (cells)."""

    known: Mapping[str, Tensor]
    corrupted: Mapping[str, Tensor]
    wrong: Mapping[str, Tensor]

    def to(self, device: torch.device | str) -> "Truth":
        fields = (self.known, self.corrupted, self.wrong)
        return Truth(*({name: flags.to(device) for name, flags in field.items()} for field in fields))


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
        if not self.inputs:
            raise ValueError("a batch needs at least one modality; inputs is empty")
        if set(self.inputs) != set(self.observed):
            raise ValueError(
                f"inputs has modalities {sorted(self.inputs)} but observed has {sorted(self.observed)}; "
                "give one set of flags for every modality"
            )
        first = next(iter(self.inputs.values()))
        size = first.shape[0]  # len() would be a constant in an exported graph
        for name, values in self.inputs.items():
            _check_modality(name, values, self.observed[name], size)
        for name in ("labels", "index", "key"):
            values = getattr(self, name)
            if values is not None and values.shape != ((size, *values.shape[1:2]) if name == "labels" else (size,)):
                raise ValueError(f"{name} has shape {list(values.shape)}; give one entry per sample, [{size}]")
        if self.index is None:
            object.__setattr__(self, "index", torch.arange(size, device=first.device))
        if self.key is None:
            object.__setattr__(self, "key", self.index)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def modalities(self) -> tuple[str, ...]:
        return tuple(self.inputs)

    @property
    def inspectable(self) -> bool:
        """Whether code may depend on the values: on a GPU it would wait for the device, and while a graph is exported
        there are none."""
        return not (self.index.is_cuda or is_traced(self.index))

    def to(self, device: torch.device | str) -> "Batch":
        move = partial(torch.Tensor.to, device=device, non_blocking=True)
        inputs = {name: move(values) for name, values in self.inputs.items()}
        observed = {name: move(flags) for name, flags in self.observed.items()}
        labels = None if self.labels is None else move(self.labels)
        truth = None if self.truth is None else self.truth.to(device)
        return Batch(inputs, observed, labels, move(self.index), move(self.key), truth)

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

    def cross_entropy(
        self, logits: Float[Tensor, "*r k"], weights: Float[Tensor, "b"] | None = None
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy of logits [b, k], or of several for each sample: [r, b, k], or flattened [r·b, k]. Each
        sample counts `weights` times."""
        assert self.labels is not None
        logits = logits.reshape(-1, logits.shape[-1])
        repeats = len(logits) // len(self)
        labels = self.labels.repeat(repeats, *[1] * (self.labels.ndim - 1))
        if weights is None:
            return F.cross_entropy(logits, labels)
        costs = F.cross_entropy(logits, labels, reduction="none")
        return (costs * weights.repeat(repeats)).mean()

    def check_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raises an error unless the modalities have the shapes that an imputer was made for."""
        own = {name: tuple(values.shape[1:]) for name, values in self.inputs.items()}
        if own != shapes:
            raise ValueError(f"the batch has {own}, this imputer was made for {shapes}; make one for this data")

    def any_observed(self) -> Bool[Tensor, "b m"]:
        """Whether any value of each modality was observed."""
        return torch.stack([flags.reshape(flags.shape[0], -1).any(1) for flags in self.observed.values()], 1)

    def sound(self) -> Bool[Tensor, ""]:
        """Whether every sample has an observed value and all observed values are finite."""
        flags = [self.any_observed().any(1).all()]
        for name, values in self.inputs.items():
            if values.is_floating_point():
                shown = torch.where(over_values(self.observed[name], values), values, 0.0)
                flags.append(torch.linalg.vector_norm(shown, torch.inf) < torch.inf)
        return torch.stack(flags).all()

    def check(self) -> "Batch":
        """The batch without `truth` if it is `sound`, otherwise an error. This waits for the device, so it is done once
        where data comes in, not in every step."""
        if self.sound():
            return self if self.truth is None else replace(self, truth=None)
        empty = ~self.any_observed().any(1)
        if empty.any():
            raise ValueError(
                f"nothing is observed in sample {int(self.index[empty][0])} ({int(empty.sum())} such in the batch); "
                "drop it, or predict the class prior"
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
        raise AssertionError("a batch that is not sound has a reason")


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


@dataclass(frozen=True, repr=False)
class Evidence:
    """The scores of all units and the logits of one ungated pass, detached from the graph. `signed` are the scores with
    cancellation, positive where a unit supports the predicted class, if the scorer gives them.

    >>> Evidence(torch.tensor([[0.5, 1.5]]), torch.tensor([[0.0, 3.0, 0.0]]))
    <Evidence: 1 sample, 3 classes, 2 units; scores 0.5 to 1.5, mean 1>
    """

    scores: Float[Tensor, "b n"]
    logits: Float[Tensor, "b k"]
    signed: Float[Tensor, "b n"] | None = None

    @property
    def informative(self) -> Bool[Tensor, ""]:
        """Whether all scores are finite and those of some sample differ."""
        finite = torch.linalg.vector_norm(self.scores, torch.inf) < torch.inf
        return finite if self.scores.shape[1] == 1 else finite & (self.scores.std(1) >= SCORE_FLOOR).any()

    def __repr__(self) -> str:
        return f"<Evidence: {_counts(self.logits, self.scores)}; scores {_range(self.scores)}>"


@dataclass(frozen=True, repr=False)
class Prediction:
    """The logits of a batch; `evidence` and `gates` are None for methods that do not weigh evidence. `trust` is the
    probability that each unit is right, None for methods that do not learn it.

    >>> Prediction(torch.tensor([[0.0, 3.0, 0.0]]), gates=torch.tensor([[0.25, 0.75]]))
    <Prediction: 1 sample, 3 classes, 2 units; class 1 (91 %); gates 0.25 to 0.75, mean 0.5>
    """

    logits: Float[Tensor, "b k"]
    evidence: Evidence | None = None
    gates: Float[Tensor, "b n"] | None = None
    trust: Float[Tensor, "b n"] | None = None

    def __repr__(self) -> str:
        best = self.logits.detach()[:SHOWN_SAMPLES].float().softmax(1).max(1)
        classes = [f"{c} ({100 * p:.0f} %)" for p, c in zip(best.values.tolist(), best.indices.tolist(), strict=True)]
        more = ", ..." if len(self.logits) > len(classes) else ""
        gates = "" if self.gates is None else f"; gates {_range(self.gates)}"
        return f"<Prediction: {_counts(self.logits, self.gates)}; class {', '.join(classes)}{more}{gates}>"


def _counts(logits: Tensor, over_units: Tensor | None) -> str:
    numbers = {"sample": len(logits), "class": logits.shape[1]}
    if over_units is not None:
        numbers["unit"] = over_units.shape[1]
    plural = {"sample": "samples", "class": "classes", "unit": "units"}
    return ", ".join(f"{count} {noun if count == 1 else plural[noun]}" for noun, count in numbers.items())


def _range(values: Tensor) -> str:
    if not values.numel():
        return "none"
    values = values.detach().float()
    return f"{values.min().item():.3g} to {values.max().item():.3g}, mean {values.mean().item():.3g}"


Tokens = Float[Tensor, "b n c"]
Classifier = Callable[..., Tensor]
"""(tokens [b, n, c], attn_bias broadcastable to [b, h, s, s] or None) -> logits [b, k]: what GAUGE needs of a model."""


@runtime_checkable
class SupportsAttention(Protocol):
    """A classifier that also returns the attention of its last block."""

    def __call__(self, tokens: Tensor, attn_bias: Tensor | None = None) -> Tensor: ...

    def attention(self, tokens: Tensor, attn_bias: Tensor | None = None) -> Tensor:
        """[b, h, s, s], after the softmax."""


class Differentiated(NamedTuple):
    """The output of a network, the `entry` of its input, and the function from the gradient of the output to that of the
    input."""

    output: Tensor
    entry: tuple[Tensor, ...]
    pull_back: Callable[[Tensor], Tensor]


class ScoreOptions(TypedDict, total=False):
    """The options of scorers; each reads what it needs. `reference` replaces a unit (zero unless given), `objective` is
    differentiated, `key` holds one integer per sample for random draws."""

    reference: Tensor | None
    objective: Objective
    key: Tensor | None


@runtime_checkable
class Scorer(Protocol):
    """Scores the units of one ungated pass."""

    def __call__(self, classifier: Classifier, tokens: Tokens, **options: Unpack[ScoreOptions]) -> Evidence: ...


class Encoder(nn.Module):
    """One modality as evidence units: (x, observed) -> [b, units, width]. Registered ones are built with `(shape, width,
    **options)`. `stride` is the number of pixels per unit of an encoder whose units form a grid, None for all others; with
    `whole` the last unit reads the entire modality. `example_shape` is an input shape for the contract tests."""

    units: int
    width: int
    stride: int | None = None
    whole: bool = False
    example_shape: ClassVar[tuple[int, ...]] = ()

    def rate_factors(self, rate: float | None, decay: float) -> dict[nn.Parameter, float]:
        """The learning rates of pretrained weights that are fine-tuned, over that of all other parameters: by default as
        the encoder chooses, otherwise `rate`, times `decay` for every layer below the last."""
        return {}


class Backbone(nn.Module):
    """(sequence [b, s, c] with CLS first, attn_bias broadcastable to [b, h, s, s] or None) -> [b, s, c]."""

    def cls(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b c"]:
        """The first position of the output; override it where computing that alone is cheaper."""
        return self(sequence, attn_bias)[:, 0]

    def entry(self, sequence: Float[Tensor, "b s c"]) -> tuple[Tensor, ...]:
        """What does not depend on the bias. Passes over the same sequence share it; override it, with `cls_from`, where
        that is more than the sequence."""
        return (sequence,)

    def cls_from(self, entry: tuple[Tensor, ...], attn_bias: Tensor | None = None) -> Float[Tensor, "b c"]:
        """`cls`, from the `entry` of a sequence."""
        (sequence,) = entry
        return self.cls(sequence, attn_bias)

    def with_pull_back(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None) -> Differentiated | None:
        """`cls` and the `entry` of a sequence, and the function from the gradient of the former to that of the sequence, if
        that is faster than autograd."""
        return None

    @property
    def offers_attention(self) -> bool:
        """Whether `attention` is implemented."""
        return type(self).attention is not Backbone.attention

    def attention(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b h s s"]:
        """The attention of the last block."""
        name = f"{type(self).__name__} does not offer attention(sequence, attn_bias)"
        raise ValueError(f"{name}; add that method, or use a score that does not read attention")


class Trainable(nn.Module):
    """What `fit` needs from a method or an imputer. One without trainable parameters needs no `loss`."""

    looks_across_batch: bool = False  # whether a sample's prediction depends on the rest of its batch
    shardable: ClassVar[bool] = False  # whether `loss` is a mean over samples, of which processes may share a batch
    needs_labels: ClassVar[bool] = False  # whether every training sample must have one

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The terms whose sum training minimises."""
        raise NotImplementedError(f"{type(self).__name__} has parameters to train but no loss(batch)")

    def end_epoch(self) -> None:
        """Called after every training epoch."""

    @property
    def is_trainable(self) -> bool:
        return any(parameter.requires_grad for parameter in self.parameters())

    def gate_parameters(self) -> list[nn.Parameter]:
        """The parameters of gates, which may have a learning rate of their own; by default those of its parts."""
        parts = [part for part in self.children() if isinstance(part, Trainable)]
        return [parameter for part in parts for parameter in part.gate_parameters()]

    def rate_factors(self, rate: float | None, decay: float) -> dict[nn.Parameter, float]:
        """Those of fine-tuned weights; see `Encoder`."""
        encoders = [module for module in self.modules() if isinstance(module, Encoder)]
        return {each: own for encoder in encoders for each, own in encoder.rate_factors(rate, decay).items()}


class Method(Trainable):
    """A classifier of incomplete samples. Experiments build it as `Method(encoder, classifier)`, from a `UnitEncoder` and a
    `Network`, unless it has its own training plan."""

    needs_labels = True

    def predict(self, batch: Batch) -> Prediction:
        raise NotImplementedError(f"{type(self).__name__} has no predict(batch)")

    def validate(self, train: Any, val: Any) -> None:
        """Called before every training epoch, with the training and the validation split, for what validation samples decide
        while a method trains."""

    def prepare(self, train: Any, val: Any = None) -> None:
        """Called once after training, with the training split (a `Dataset`), for statistics that are not learned."""

    @classmethod
    def unsupported(cls, shapes: Mapping[str, tuple[int, ...]]) -> str | None:
        """Why the method does not support modalities of these shapes; None if it does."""
        return None


class Pretrainer(Trainable):
    """Trains an encoder and a network before they learn a task, and never reads a label. Experiments build it as
    `Pretrainer(encoder, network, tables=...)`, with the number of categories of each column of every table."""

    def release(self) -> tuple[Any, Any]:
        """The trained encoder and network, all of whose parameters can be trained."""
        raise NotImplementedError(f"{type(self).__name__} has no release()")


@runtime_checkable
class SupportsComplete(Protocol):
    """What a model needs from an imputer. Observed entries and `observed` come back unchanged, bit for bit."""

    def complete(self, batch: Batch) -> Batch: ...


class Imputer(Trainable):
    """A registered imputer: `from_dataset(train, **options)` makes one for a training split (a `Dataset`). The shapes of its
    tensors depend only on the options and on the shapes and size of the split, so a saved imputer is restored by loading
    its tensors into `blank(like, **options)`, for any such split."""

    needs_table: ClassVar[bool] = False
    needs_image: ClassVar[bool] = False
    reads_hidden_values: ClassVar[bool] = False

    def complete(self, batch: Batch) -> Batch:
        raise NotImplementedError(f"{type(self).__name__} has no complete(batch)")

    def uncertainty(self, batch: Batch) -> Mapping[str, Tensor] | None:
        """How uncertain the imputed values are, from 0 up: for each modality one number per sample or one per feature, read
        from observed values only; None if the imputer does not know."""
        return None

    def unexportable(self) -> str | None:
        """Why the imputer cannot be part of an exported graph; None if it can."""
        return None

    @classmethod
    def from_dataset(cls, *args: Any, **options: Any) -> Self:
        """The imputer for a training split; each class declares its own options."""
        return cls()
