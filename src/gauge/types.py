"""The contract of every kind of component; the values that flow between them are in `gauge.values`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Literal, Protocol, Self, TypedDict, Unpack, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.values import Batch, Evidence, Prediction

Objective = Literal["logit", "nll"]


class UnsupportedError(ValueError):
    """A method or an imputer does not support the modalities of a benchmark, or what is missing in it. In a table of
    several methods its row gives the reason; any other error ends the run."""


def is_traced(values: Tensor) -> bool:
    """Whether a graph is being exported: the number of samples, or all content, is then unknown."""
    return isinstance(values.shape[0], torch.SymInt) or type(values).__name__ == "FakeTensor"  # slow to import


Tokens = Float[Tensor, "b n c"]
Classifier = Callable[..., Tensor]
"""(tokens [b, n, c], attn_bias broadcastable to [b, h, s, s] or None) -> logits [b, k]: what GAUGE needs of a model."""


@runtime_checkable
class SupportsAttention(Protocol):
    """A classifier that also returns the attention of its last block."""

    def __call__(self, tokens: Tensor, attn_bias: Tensor | None = None) -> Tensor: ...

    def attention(self, tokens: Tensor, attn_bias: Tensor | None = None) -> Tensor:
        """[b, h, s, s], after the softmax."""


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


class Backbone(nn.Module):
    """(sequence [b, s, c] with CLS first, attn_bias broadcastable to [b, h, s, s] or None) -> [b, s, c]."""

    def cls(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b c"]:
        """The first position of the output; override it where computing that alone is cheaper."""
        return self(sequence, attn_bias)[:, 0]

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


class Method(Trainable):
    """A classifier of incomplete samples. Experiments build it as `Method(encoder, classifier)`, from a `UnitEncoder` and a
    `Network`, unless it has its own training plan."""

    needs_labels = True

    def predict(self, batch: Batch) -> Prediction:
        raise NotImplementedError(f"{type(self).__name__} has no predict(batch)")

    def validate(self, train: Any, val: Any) -> dict[str, float]:
        """Called before every training epoch, with the training and the validation split, for what validation samples decide
        while a method trains; returns what the history records of it beside the losses."""
        return {}

    def prepare(self, train: Any, val: Any = None) -> None:
        """Called once by `fit` after training, with the training and the validation split, for statistics that are not
        learned. A method that cannot predict without them is a `Prepared`."""

    @classmethod
    def unsupported(cls, shapes: Mapping[str, tuple[int, ...]]) -> str | None:
        """Why the method does not support modalities of these shapes; None if it does."""
        return None


class Prepared(Method):
    """A method that refuses to predict until `prepare` has set `finished`, which is saved with the weights."""

    finished: bool = False

    def check_finished(self) -> None:
        """Raise an error unless the method is finished. It never waits for a device, so graphs may be recorded of it."""
        if not self.finished:
            raise ValueError(
                f"{type(self).__name__} is not finished, some of its weights are set after training; train it with "
                "gauge.fit, or call prepare(train, val) after a training loop of your own"
            )

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.finished, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        self.finished = bool(state)


@contextmanager
def provisional(*modules: nn.Module) -> Iterator[None]:
    """Let unfinished methods predict, as the validation during training needs."""
    methods = [part for module in modules for part in module.modules() if isinstance(part, Prepared)]
    before = [method.finished for method in methods]
    for method in methods:
        method.finished = True
    try:
        yield
    finally:
        for method, finished in zip(methods, before, strict=True):
            method.finished = finished


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

    reads_hidden_values: ClassVar[bool] = False

    def complete(self, batch: Batch) -> Batch:
        raise NotImplementedError(f"{type(self).__name__} has no complete(batch)")

    @staticmethod
    def may_inspect(batch: Batch) -> bool:
        """Whether code may depend on the values of a batch: on a GPU it would wait for the device, and while a graph is
        exported there are none."""
        return not (batch.index.is_cuda or is_traced(batch.index))

    @staticmethod
    def check_shapes(batch: Batch, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raise an error unless the modalities have the shapes that an imputer was made for."""
        own = {name: tuple(values.shape[1:]) for name, values in batch.inputs.items()}
        if own != shapes:
            raise ValueError(f"the batch has {own}, this imputer was made for {shapes}; make one for this data")

    def unexportable(self) -> str | None:
        """Why the imputer cannot be part of an exported graph; None if it can."""
        return None

    @classmethod
    def from_dataset(cls, *args: Any, **options: Any) -> Self:
        """The imputer for a training split; each class declares its own options."""
        return cls()
