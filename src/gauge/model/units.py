"""UnitEncoder: every modality as evidence units, with modality and position embeddings; VectorEncoder: as one vector."""

from collections.abc import Mapping
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.model.nn.attention import small_parameter
from gauge.model.nn.streams import side_by_side
from gauge.types import Batch, Encoder, Units, UnsupportedError


def whole_modalities(visible: Bool[Tensor, "b n"], modality: Int[Tensor, "n"], count: int) -> Bool[Tensor, "b m"]:
    """Which of the `count` modalities are visible in all their units."""
    belongs = modality[:, None] == torch.arange(count, device=visible.device)
    return (visible[..., None] | ~belongs).all(1)


def shown_modalities(visible: Bool[Tensor, "b n"], modality: Int[Tensor, "n"], count: int) -> Bool[Tensor, "b m"]:
    """The subset of modalities that each sample shows, for methods that keep parameters or statistics per subset.

    NOTE[PAPER] subset-of-parts: as published, partly visible modalities do not count, unless none is wholly visible.
    """
    whole = whole_modalities(visible, modality, count)
    return torch.where(whole.any(1, keepdim=True), whole, ~whole_modalities(~visible, modality, count))


class VectorEncoder(nn.Module):
    """Every modality of a batch as one vector, without norms or embeddings: [b, m, dim], and which are available: [b, m].
    The vector of a missing modality is zero; with `hide_missing=False` (a completed batch) its values are encoded."""

    def __init__(self, encoders: Mapping[str, Encoder]) -> None:
        super().__init__()
        for name, encoder in encoders.items():
            if encoder.units != 1:
                raise ValueError(f"encoder {name!r} emits {encoder.units} units; give a vector encoder")
        self.encoders = nn.ModuleDict(encoders)

    def forward(self, batch: Batch, *, hide_missing: bool = True) -> tuple[Float[Tensor, "b m c"], Bool[Tensor, "b m"]]:
        read = batch.blanked() if hide_missing else batch.as_observed()
        calls = [partial(encoder, read.inputs[name], read.observed[name]) for name, encoder in self.encoders.items()]
        vectors = torch.cat(side_by_side(calls), 1)
        available = torch.stack([batch.observed[name].reshape(len(batch), -1).any(1) for name in self.encoders], 1)
        return (torch.where(available[..., None], vectors, 0.0) if hide_missing else vectors), available


class Upsampled(Encoder):
    """grid x grid units from an encoder that emits one per `stride` pixels; images are enlarged bilinearly."""

    def __init__(self, encoder: Encoder, grid: int) -> None:
        super().__init__()
        assert encoder.stride is not None
        self.encoder, self.side = encoder, grid * encoder.stride
        self.units, self.width = grid**2, encoder.width

    def forward(self, x: Float[Tensor, "b ch h w"], observed: Tensor) -> Float[Tensor, "b n c"]:
        return self.encoder(F.interpolate(x, (self.side, self.side), mode="bilinear", align_corners=False), observed)


class UnitEncoder(nn.Module):
    """Encoders, a LayerNorm for each modality, and embeddings -> Units. Runs once per step; all passes share the tokens.

    Units of an encoder whose width differs from `dim` are projected. With `shared_embedding`, all modalities but the first
    have one modality embedding.

    NOTE[PAPER] shared-embedding: DyMo's code for PolyMNIST looks its modality embedding up with a boolean tensor, so that
    all modalities but the first share one; here each has its own by default.

    >>> from gauge.model.encoders.mlp import Mlp
    >>> encode = UnitEncoder({"scan": Mlp((3,), 8), "blood": Mlp((5,), 8)}, dim=8)
    >>> encode.unit_counts
    {'scan': 1, 'blood': 1}
    """

    def __init__(self, encoders: Mapping[str, Encoder], dim: int, *, shared_embedding: bool = False) -> None:
        super().__init__()
        self.encoders, self.shared_embedding = nn.ModuleDict(encoders), shared_embedding
        self.unit_counts = {name: encoder.units for name, encoder in encoders.items()}
        self.project = nn.ModuleDict(
            {name: nn.Linear(encoder.width, dim) for name, encoder in encoders.items() if encoder.width != dim}
        )
        self.norms = nn.ModuleDict({name: nn.LayerNorm(dim) for name in encoders})
        self.modality_embedding = nn.Embedding(len(encoders), dim)
        self.position_embedding = small_parameter(sum(self.unit_counts.values()), dim)
        counts = torch.tensor(list(self.unit_counts.values()))
        self.modality = nn.Buffer(torch.arange(len(counts)).repeat_interleave(counts), persistent=False)

    def forward(self, batch: Batch, *, hide_missing: bool = True) -> Units:
        """The units of a batch. Missing values are hidden, unless the batch was completed, before the encoders read them:
        afterwards a NaN would already be in the gradient."""
        if set(batch.modalities) != set(self.unit_counts):
            raise ValueError(
                f"the batch has modalities {sorted(batch.modalities)}, the encoder {sorted(self.unit_counts)}"
            )
        read = batch.blanked() if hide_missing else batch.as_observed()
        contents = side_by_side([partial(self._content, name, read) for name in self.unit_counts])
        flags = [self._unit_flags(name, batch.observed[name]) for name in self.unit_counts]
        named = self.modality.clamp_max(1) if self.shared_embedding else self.modality
        embedding = self.modality_embedding(named) + self.position_embedding
        units = Units(torch.cat(contents, 1), embedding, self.modality, torch.cat(flags, 1))
        return units.keep(units.observed) if hide_missing else units

    def has_whole(self, name: str) -> bool:
        """Whether the last unit of that modality reads all of it."""
        encoder = self.encoders[name]
        return isinstance(encoder, Encoder) and encoder.whole

    def regrid(self, grid: int) -> "UnitEncoder":
        """The same encoder with every image enlarged to give grid x grid units. Their positions start anew; everything else
        is shared."""
        encoders = {
            name: Upsampled(encoder, grid) if isinstance(encoder, Encoder) and encoder.stride else encoder
            for name, encoder in self.encoders.items()
        }
        changed = [name for name in encoders if encoders[name] is not self.encoders[name]]
        if not changed:
            raise UnsupportedError(
                f"none of the encoders of {list(encoders)} makes a grid of its images; use a grid encoder"
            )
        width, shared = self.modality_embedding.embedding_dim, self.shared_embedding
        other = UnitEncoder(encoders, width, shared_embedding=shared)  # type: ignore[arg-type]
        other.project, other.norms, other.modality_embedding = self.project, self.norms, self.modality_embedding
        positions = [encoder.position_embedding.split(list(encoder.unit_counts.values())) for encoder in (self, other)]
        with torch.no_grad():
            for name, old, new in zip(encoders, *positions, strict=True):
                if name not in changed:
                    new.copy_(old)
        return other

    def _content(self, name: str, batch: Batch) -> Tensor:
        emitted = self.encoders[name](batch.inputs[name], batch.observed[name])
        if emitted.ndim != 3 or emitted.shape[1] != self.unit_counts[name]:
            raise ValueError(
                f"encoder {name!r} says it emits {self.unit_counts[name]} units but gave a tensor of shape "
                f"{list(emitted.shape)}; it must be [batch, {self.unit_counts[name]}, width]"
            )
        if name in self.project:
            emitted = self.project[name](emitted)
        return self.norms[name](emitted)

    def _unit_flags(self, name: str, observed: Tensor) -> Tensor:
        count = self.unit_counts[name]
        if observed.ndim == 1:
            return observed[:, None].expand(-1, count)
        if self.has_whole(name):
            some = observed.any(1, keepdim=True)
            observed = some if count == 1 else torch.cat([observed, some], 1)
        if observed.shape[1] != count:
            raise ValueError(
                f"encoder {name!r} emits {count} units but observed[{name!r}] marks {observed.shape[1]} features; "
                "give one flag per unit, or one per sample with shape [b]"
            )
        return observed
