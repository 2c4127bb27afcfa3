"""Predictions of a method for a whole split under one missingness protocol."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gauge.data import Dataset
from gauge.masks import Corrupted, Corruption, Protocol, mask_split, missing_rates, parse_protocol, passes
from gauge.training.metrics import Metric
from gauge.types import Method
from gauge.values import Batch, Prediction

MAX_GPU_BATCH = 4096  # samples of a batch on a GPU


@dataclass(frozen=True)
class Predictions:
    """Class probabilities of a split in order, its labels, and the share that was missing. The rows of the split repeat
    `repeats` times, each time under another subset. `groups` are those of the split."""

    probabilities: np.ndarray
    labels: np.ndarray
    missing: dict[str, float]
    repeats: int = 1
    groups: np.ndarray | None = None

    def score(self, metric: Metric) -> float:
        return metric.score(self.probabilities, self.labels)

    def interval(self, metric: Metric) -> tuple[float, float]:
        return metric.interval(self.probabilities, self.labels, repeats=self.repeats, groups=self.groups)


def masked_batches(
    data: Dataset, protocol: Protocol, size: int, chosen: Tensor | None = None, *, truth: bool = False
) -> Iterator[Batch]:
    """The split, or the chosen samples of it, each with the mask, the wrong values and the noise that all methods share;
    with their `truth` only for an audit. Masks that come with the data take precedence."""
    mask_seed = 2025  # one fixed mask per sample and protocol, whatever the method and its seed
    keep = data.masks.get(str(protocol)) or mask_split(
        protocol, data.feature_counts, len(data), seed=mask_seed, split=data.split
    )
    keep = {name: flags.to(data.device) for name, flags in keep.items()}
    corrupt = protocol.corruption if isinstance(protocol, Corrupted) else Corruption()
    for batch in data.batches(size, keep=keep, seed=mask_seed, chosen=chosen, corrupt=corrupt):
        yield batch if truth else replace(batch, truth=None)


def predict_split(
    method: Method,
    data: Dataset,
    protocol: Protocol | str,
    *,
    batch_size: int | None = None,
    predict: Callable[[Batch], Prediction] | None = None,
) -> Predictions:
    """Return predictions for every sample, with the masks that all methods share. The method is left in eval mode.

    A method whose prediction depends on the rest of the batch sees batches of 512 on every device, as published.

    Parameters
    ----------
    method
        A trained `GaugePlus`, `Gauge` or other method.
    data
        The samples.
    protocol
        What to hide, such as "complete", "eta=0.5" or "missing=scan".
    batch_size
        Samples in a pass.
    predict
        Used in place of the method's own, if given.

    Returns
    -------
    Predictions
        With `probabilities` and `labels`, and `score(metric)` and `interval(metric)`.

    Examples
    --------
    >>> from gauge import Gauge, Network, Transformer, UnitEncoder
    >>> from gauge.encoders.mlp import Mlp
    >>> encoder = UnitEncoder({"scan": Mlp((3,), 8), "blood": Mlp((2,), 8)}, dim=8)
    >>> model = Gauge(encoder, Network(Transformer(8, heads=2, depth=1), dim=8, num_classes=2))
    >>> data = Dataset("test", {"scan": torch.rand(4, 3), "blood": torch.rand(4, 2)}, torch.tensor([0, 1, 0, 1]))
    >>> predict_split(model, data, "missing=scan").probabilities.shape
    (4, 2)
    """
    method.eval()
    large = data.device.type == "cuda" and not method.looks_across_batch
    protocols = passes(parse_protocol(protocol) if isinstance(protocol, str) else protocol, data.feature_counts)
    logits, observed = [], []
    for single in protocols:
        for batch in masked_batches(data, single, batch_size or (MAX_GPU_BATCH if large else 512)):
            logits.append((predict or method.predict)(batch).logits)
            observed.append(batch.observed)
    probabilities = torch.cat(logits).float().softmax(-1).cpu().numpy()
    if not np.isfinite(probabilities).all():
        row = int(np.flatnonzero(~np.isfinite(probabilities).all(1))[0]) % len(data)
        raise ValueError(f"the prediction for sample {row} of {data.split} is not finite; the weights are broken")
    missing = missing_rates({name: torch.cat([flags[name] for flags in observed]) for name in data.inputs})
    labels = np.tile(data.labels.cpu().numpy(), len(protocols))
    groups = None if data.groups is None else np.tile(data.groups.cpu().numpy(), len(protocols))
    return Predictions(probabilities, labels, missing, len(protocols), groups)
