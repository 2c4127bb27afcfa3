"""Test-time augmentation: a trained method predicts several randomly changed copies of a sample's images."""

from dataclasses import replace

import torch
from torch import Tensor

from gauge.data.augmentation import augment
from gauge.randomness import derive
from gauge.types import Method
from gauge.values import Batch, Prediction

__all__ = ["TTA"]

COPIES = 8


class TTA(Method):
    """`augmentation` is the one that the method was trained with, `copies` how often it predicts, the first time for the
    images as they are. The key of a sample decides how its images change, whatever else is in the batch.

        logits = mean_v log p(x_v),   x_0 = x as it is, x_v = x with its images changed as in training

    Cells, texts and what is missing stay as they are. Nothing is learned: the trained method keeps its weights.

    >>> from gauge.plus.late_fusion import LateFusion
    >>> from gauge.encoders.mlp import Mlp
    >>> voters = LateFusion({"photo": Mlp((3, 8, 8), 4)}, num_classes=2)
    >>> batch = Batch({"photo": torch.rand(5, 3, 8, 8)}, {"photo": torch.ones(5).bool()})
    >>> TTA(voters, "leaves").predict(batch).logits.shape
    torch.Size([5, 2])
    """

    def __init__(self, trained: Method, augmentation: str, *, copies: int = COPIES) -> None:
        super().__init__()
        if trained.looks_across_batch:
            raise ValueError(
                f"{type(trained).__name__} looks across the batch, so that predictions for copies of a sample depend on "
                "others; use a method that does not"
            )
        if copies < 1:
            raise ValueError(f"copies is {copies}; give at least 1, the images as they are")
        self.trained = trained.requires_grad_(False)
        self.augmentation, self.copies = augmentation, copies

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        predictions = [self._predict_once(batch)]
        for number in range(1, self.copies):
            predictions.append(self._predict_once(changed(batch, self.augmentation, number)))
        return Prediction(torch.stack(predictions).mean(0))

    def _predict_once(self, batch: Batch) -> Tensor:
        return self.trained.predict(batch).logits.float().log_softmax(-1)


def changed(batch: Batch, augmentation: str, number: int) -> Batch:
    """A randomly changed copy of the observed images, and everything else as it is."""
    images = {name: values for name, values in batch.inputs.items() if values.ndim == 4}
    if not images:
        return batch
    flags = {name: batch.observed[name] for name in images}
    copies = augment(Batch(images, flags, key=derive(batch.key, "copy", number)), augmentation)
    return replace(batch, inputs={**batch.inputs, **copies.inputs})
