"""WithWhole: an encoder's units and, last, one more that reads all of the modality."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.types import Encoder


class WithWhole(Encoder):
    """The whole unit comes from an encoder of its own or, without one, from the fine units side by side; from their mean
    where they are a large grid, as in classifiers of images.

    >>> from gauge.encoders.columns import Columns
    >>> WithWhole(Columns((17,), 32)).units
    18
    """

    whole = True

    def __init__(self, fine: Encoder, whole: Encoder | None = None) -> None:
        super().__init__()
        if whole is not None and whole.units != 1:
            raise ValueError(f"the encoder of the whole modality emits {whole.units} units; give one that emits one")
        self.fine, self.reads_all = fine, whole
        self.units, self.width = fine.units + 1, fine.width
        # units of an image at most, 2x2, that are read side by side; the whole of a larger grid is its mean
        self.averages = whole is None and fine.stride is not None and fine.units > 4
        size = whole.width if whole is not None else fine.width * (1 if self.averages else fine.units)
        self.project = nn.Linear(size, fine.width) if size != fine.width or self.averages else nn.Identity()

    def forward(self, x: Tensor, observed: Tensor) -> Float[Tensor, "b n c"]:
        units = self.fine(x, observed)
        if self.reads_all is not None:
            whole = self.reads_all(x, observed)
        else:
            whole = units.mean(1, keepdim=True) if self.averages else units.flatten(1)[:, None]
        return torch.cat([units, self.project(whole)], 1)
