"""TIP classification: the imputer's pre-trained encoders of image and table, fine-tuned under three linear classifiers."""

from collections.abc import Mapping
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.nn.losses import cross_entropy
from gauge.nn.streams import side_by_side
from gauge.nn.tabular import by_cell
from gauge.types import Method
from gauge.values import Batch, Prediction
from gauge_lab.imputers.tip import TIP

__all__ = ["TipClassifier"]


class TipClassifier(Method):
    """All weights of the encoders are trained further. A missing cell is the token that pre-training hides cells with, also
    where no cell is left. Published samples always have an image; here the two classifiers that read it are left out for a
    sample that has none.

      logits = mean of W_i [image] + W_t [table] + W_m [table after attention to the image], the CLS states of the last two

    (Du et al. 2024, the ensemble of its published code.)
    """

    def __init__(self, pretrained: TIP, num_classes: int) -> None:
        super().__init__()
        self.roles = pretrained.roles
        self.photo, self.table, self.interact = pretrained.photo, pretrained.table, pretrained.interact
        self.requires_grad_(True)
        width = len(self.table.cls)
        self.image_head = nn.Linear(self.photo.channels, num_classes)
        self.table_head, self.joint_head = nn.Linear(width, num_classes), nn.Linear(width, num_classes)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        return {"task": cross_entropy(batch, self(batch))}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self(batch.check()))

    def forward(self, batch: Batch) -> Float[Tensor, "b k"]:
        clean, observed = batch.blanked().inputs, batch.observed
        image, table = clean[self.roles.image], clean[self.roles.table]
        cells = by_cell(observed[self.roles.table], table)
        features, columns = side_by_side([partial(self.photo, image), partial(self.table, table, cells)])
        joint = self.interact(columns, self.interact.read(features.flatten(2).transpose(1, 2)), first=True)[:, 0]
        logits = torch.stack(
            [self.image_head(features.mean((2, 3))), self.joint_head(joint), self.table_head(columns[:, 0])], 1
        )
        with_image = observed[self.roles.image].reshape(len(batch), -1).any(1, keepdim=True)
        counted = torch.cat([with_image, with_image, torch.ones_like(with_image)], 1)[..., None].to(logits.dtype)
        return (logits * counted).sum(1) / counted.sum(1)

    @classmethod
    def unsupported(cls, shapes: Mapping[str, tuple[int, ...]]) -> str | None:
        if sorted(len(shape) for shape in shapes.values()) == [1, 3]:
            return None
        return f"it reads one image and one table, and the modalities are {', '.join(shapes)}"
