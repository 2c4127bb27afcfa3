"""The loss that most methods minimise."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gauge.values import Batch


def cross_entropy(
    batch: Batch, logits: Float[Tensor, "*r k"], weights: Float[Tensor, "b"] | None = None
) -> Float[Tensor, ""]:
    """The mean cross-entropy of logits [b, k], or of several for each sample: [r, b, k], or flattened [r·b, k]. Each sample
    counts `weights` times."""
    assert batch.labels is not None
    logits = logits.reshape(-1, logits.shape[-1])
    repeats = len(logits) // len(batch)
    labels = batch.labels.repeat(repeats, *[1] * (batch.labels.ndim - 1))
    if weights is None:
        return F.cross_entropy(logits, labels)
    costs = F.cross_entropy(logits, labels, reduction="none")
    return (costs * weights.repeat(repeats)).mean()
