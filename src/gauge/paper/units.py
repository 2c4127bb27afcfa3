"""How a batch becomes evidence units: a frozen imputer completes it, and every modality is encoded as units."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn

from gauge.nn.initialise import small_parameter
from gauge.nn.streams import side_by_side
from gauge.types import Encoder, SupportsComplete
from gauge.values import Batch, Units


class Frozen(nn.Module):
    """An imputer that is never trained. With `requires_grad=False` alone, BatchNorm statistics would drift and dropout stay
    on while the model trains. The imputer moves with the model between devices but is not part of its parameters or state:
    it is saved separately."""

    def __init__(self, imputer: SupportsComplete) -> None:
        super().__init__()
        self._held = (imputer,)  # in a tuple, where nn.Module does not register it
        if isinstance(imputer, nn.Module):
            imputer.eval().requires_grad_(False)

    @property
    def imputer(self) -> SupportsComplete:
        return self._held[0]

    @torch.no_grad()
    def complete(self, batch: Batch) -> Batch:
        """The batch with values where nothing was observed; observed values and the flags are unchanged."""
        return self.imputer.complete(batch)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # what `to`, `cuda` and `half` call for all modules that torch knows; it does not know the imputer
        if isinstance(self.imputer, nn.Module):
            self.imputer._apply(fn, recurse)
        return super()._apply(fn, recurse)


class UnitEncoder(nn.Module):
    """Encoders, a LayerNorm for each modality, and embeddings -> Units. Runs once per step; all passes share the tokens.

    Units of an encoder whose width differs from `dim` are projected. With `shared_embedding`, all modalities but the first
    have one modality embedding.

    NOTE[PAPER] shared-embedding: DyMo's code for PolyMNIST looks its modality embedding up with a boolean tensor, so that
    all modalities but the first share one; here each has its own by default.

    >>> from gauge.encoders.mlp import Mlp
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
        if list(batch.observed) != list(self.unit_counts):  # heads and votes are matched with the flags by their order
            raise ValueError(
                f"the batch has flags of the modalities {list(batch.observed)}, the encoder reads {list(self.unit_counts)}; "
                "give the same names in the same order"
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

    def _content(self, name: str, batch: Batch) -> Tensor:
        try:
            emitted = self.encoders[name](batch.inputs[name], batch.observed[name])
        except IndexError as error:  # of an embedding
            raise ValueError(f"modality {name!r}: {error}; give codes that are in its vocabulary") from error
        if emitted.ndim != 3 or emitted.shape[1] != self.unit_counts[name]:
            raise ValueError(
                f"encoder {name!r} says it emits {self.unit_counts[name]} units but gave a tensor of shape "
                f"{list(emitted.shape)}; it must be [batch, {self.unit_counts[name]}, width]"
            )
        if name in self.project:  # before the norm, so that units of all encoders have one scale
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
