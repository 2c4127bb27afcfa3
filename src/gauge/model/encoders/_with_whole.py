"""WithWhole: an encoder's units and, last, one more that reads all of the modality."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.types import Encoder


class WithWhole(Encoder):
    """The whole unit comes from an encoder of its own or, without one, from the fine units side by side.

    >>> from gauge.model.encoders.columns import Columns
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
        size = fine.units * fine.width if whole is None else whole.width
        self.project = nn.Linear(size, fine.width) if size != fine.width else nn.Identity()

    def forward(self, x: Tensor, observed: Tensor) -> Float[Tensor, "b n c"]:
        units = self.fine(x, observed)
        whole = units.flatten(1)[:, None] if self.reads_all is None else self.reads_all(x, observed)
        return torch.cat([units, self.project(whole)], 1)
