"""Frozen: an imputer that always stays in eval mode, whose parameters and buffers are never trained."""

from collections.abc import Callable, Mapping
from typing import Self

import torch
from torch import Tensor, nn

from gauge.types import Batch, Imputer, SupportsComplete


class Frozen(nn.Module):
    """With `requires_grad=False` alone, BatchNorm statistics would drift and dropout stay on while the model trains. The
    imputer moves with the model between devices but is not part of its parameters or state: it is saved separately."""

    def __init__(self, imputer: SupportsComplete) -> None:
        super().__init__()
        self._held = (imputer,)  # in a tuple, where nn.Module does not register it
        if isinstance(imputer, nn.Module):
            imputer.eval().requires_grad_(False)

    @property
    def imputer(self) -> SupportsComplete:
        return self._held[0]

    @property
    def needs_image(self) -> bool:
        """Whether samples without their image cannot be completed."""
        return isinstance(self.imputer, Imputer) and self.imputer.needs_image

    @torch.no_grad()
    def complete(self, batch: Batch) -> Batch:
        return self.imputer.complete(batch)

    @torch.no_grad()
    def uncertainty(self, batch: Batch) -> Mapping[str, Tensor] | None:
        """As in `Imputer`; None for other objects with `complete`."""
        return self.imputer.uncertainty(batch) if isinstance(self.imputer, Imputer) else None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        if isinstance(self.imputer, nn.Module):
            self.imputer._apply(fn, recurse)
        return super()._apply(fn, recurse)
