"""UnitEncoder: every modality as evidence units, with modality and position embeddings; VectorEncoder: as one vector."""

from collections.abc import Mapping
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.model.encoders._upsampled import Upsampled
from gauge.model.nn.attention import small_parameter
from gauge.model.nn.streams import side_by_side
from gauge.types import Batch, Encoder, Units, over_values


def whole_modalities(visible: Bool[Tensor, "b n"], modality: Int[Tensor, "n"], count: int) -> Bool[Tensor, "b m"]:
    """Which of the `count` modalities are visible in all their units."""
    belongs = modality[:, None] == torch.arange(count, device=visible.device)
    return (visible[..., None] | ~belongs).all(1)


def shown_modalities(visible: Bool[Tensor, "b n"], modality: Int[Tensor, "n"], count: int) -> Bool[Tensor, "b m"]:
    """The subset of modalities that each sample counts as showing, for methods that keep something for every subset.

    NOTE[PAPER] subset-of-parts: a modality that is visible in part does not count, as published, unless there is none that
    is visible as a whole; the published cases never come to that.
    """
    whole = whole_modalities(visible, modality, count)
    return torch.where(whole.any(1, keepdim=True), whole, ~whole_modalities(~visible, modality, count))


class VectorEncoder(nn.Module):
    """Every modality of a batch as one vector, without norms or embeddings: [b, m, dim], and which are there: [b, m].

    A missing modality's vector is zero; with `hide_missing=False` (a completed batch) it is what its values say.
    """

    def __init__(self, encoders: Mapping[str, Encoder]) -> None:
        super().__init__()
        for name, encoder in encoders.items():
            if encoder.units != 1:
                raise ValueError(
                    f"encoder {name!r} emits {encoder.units} units; a vector encoder gives one (Modality.vector)"
                )
        self.encoders = nn.ModuleDict(encoders)

    def forward(self, batch: Batch, *, hide_missing: bool = True) -> tuple[Float[Tensor, "b m c"], Bool[Tensor, "b m"]]:
        if hide_missing:
            batch = batch.filled({name: values.new_zeros(()) for name, values in batch.inputs.items()})
        observed = {name: flags if hide_missing else torch.ones_like(flags) for name, flags in batch.observed.items()}
        calls = [partial(encoder, batch.inputs[name], observed[name]) for name, encoder in self.encoders.items()]
        vectors = torch.cat(side_by_side(calls), 1)
        there = torch.stack([batch.observed[name].reshape(len(batch), -1).any(1) for name in self.encoders], 1)
        return (torch.where(there[..., None], vectors, 0.0) if hide_missing else vectors), there


class UnitEncoder(nn.Module):
    """Encoders, a LayerNorm for each modality, and embeddings -> Units. Run once per step; every pass shares its tokens.

    A projection stands in where an encoder's width differs from `dim`.

    >>> from gauge.model.encoders.mlp import Mlp
    >>> encode = UnitEncoder({"scan": Mlp((3,), 8), "blood": Mlp((5,), 8)}, dim=8)
    >>> encode.layout
    {'scan': 1, 'blood': 1}
    """

    def __init__(self, encoders: Mapping[str, Encoder], dim: int) -> None:
        super().__init__()
        self.encoders = nn.ModuleDict(encoders)
        self.layout = {name: encoder.units for name, encoder in encoders.items()}
        self.project = nn.ModuleDict(
            {name: nn.Linear(encoder.width, dim) for name, encoder in encoders.items() if encoder.width != dim}
        )
        self.norms = nn.ModuleDict({name: nn.LayerNorm(dim) for name in encoders})
        self.modality_embedding = nn.Embedding(len(encoders), dim)
        self.position_embedding = small_parameter(sum(self.layout.values()), dim)
        counts = torch.tensor(list(self.layout.values()))
        self.register_buffer("modality", torch.arange(len(counts)).repeat_interleave(counts), persistent=False)
        self.modality: Tensor

    def forward(self, batch: Batch, *, hide_missing: bool = True) -> Units:
        """The units of a batch. What is missing is hidden, unless the batch has been completed by an imputer.

        A missing value is overwritten before it reaches an encoder: overwritten later, a NaN would poison the gradient.
        """
        if set(batch.modalities) != set(self.layout):
            raise ValueError(f"the batch has modalities {sorted(batch.modalities)}, the encoder {sorted(self.layout)}")
        contents = side_by_side([partial(self._content, name, batch, hide_missing) for name in self.layout])
        flags = [self._unit_flags(name, batch.observed[name]) for name in self.layout]
        embedding = self.modality_embedding(self.modality) + self.position_embedding
        units = Units(torch.cat(contents, 1), embedding, self.modality, torch.cat(flags, 1))
        return units.keep(units.observed) if hide_missing else units

    def regrid(self, grid: int) -> "UnitEncoder":
        """The same with every picture enlarged until it gives grid x grid units. Their positions start anew, everything else
        is kept, not copied."""
        encoders = {
            name: Upsampled(encoder, grid) if isinstance(encoder, Encoder) and encoder.stride else encoder
            for name, encoder in self.encoders.items()
        }
        changed = [name for name in encoders if encoders[name] is not self.encoders[name]]
        if not changed:
            raise ValueError(
                f"none of the encoders of {list(encoders)} makes a grid of its pictures; use a grid encoder"
            )
        other = UnitEncoder(encoders, self.modality_embedding.embedding_dim)  # type: ignore[arg-type]
        other.project, other.norms, other.modality_embedding = self.project, self.norms, self.modality_embedding
        mine, theirs = (each.position_embedding.split(list(each.layout.values())) for each in (self, other))
        with torch.no_grad():
            for name, old, new in zip(encoders, mine, theirs, strict=True):
                if name not in changed:
                    new.copy_(old)
        return other

    def _content(self, name: str, batch: Batch, hide_missing: bool) -> Tensor:
        x, observed = batch.inputs[name], batch.observed[name]
        if hide_missing:
            x = torch.where(over_values(observed, x), x, torch.zeros((), dtype=x.dtype, device=x.device))
        emitted = self.encoders[name](x, observed if hide_missing else torch.ones_like(observed))
        if emitted.ndim != 3 or emitted.shape[1] != self.layout[name]:
            raise ValueError(
                f"encoder {name!r} says it emits {self.layout[name]} units but gave a tensor of shape "
                f"{list(emitted.shape)}; it must be [batch, {self.layout[name]}, width]"
            )
        if name in self.project:
            emitted = self.project[name](emitted)
        return self.norms[name](emitted)

    def _unit_flags(self, name: str, observed: Tensor) -> Tensor:
        count = self.layout[name]
        if observed.ndim == 1:
            return observed[:, None].expand(-1, count)
        if observed.shape[1] != count:
            raise ValueError(
                f"encoder {name!r} emits {count} units but observed[{name!r}] marks {observed.shape[1]} features; "
                "give one flag per unit, or one per sample with shape [b]"
            )
        return observed
