"""Your own imputer: any object with `complete(batch)`. This one predicts each view of a signal from the other view."""

import torch

from gauge import Batch, Dataset, Gauge, Network, TrainSettings, Transformer, UnitEncoder, fit, predict_split
from gauge.encoders.mlp import Mlp
from gauge.imputers.mean import Mean
from gauge.training.metrics import ACCURACY


class Regression:
    """Least squares from one view to the other."""

    def __init__(self, train: Dataset) -> None:
        left, right = train.inputs["left"], train.inputs["right"]
        self.to_right = torch.linalg.lstsq(left, right).solution
        self.to_left = torch.linalg.lstsq(right, left).solution

    def complete(self, batch: Batch) -> Batch:
        right, left = batch.inputs["left"] @ self.to_right, batch.inputs["right"] @ self.to_left
        return batch.filled({"left": left, "right": right})  # only where nothing was observed


draw = torch.Generator().manual_seed(0)
causes, noise = torch.randn(800, 6, generator=draw), 0.2 * torch.randn(2, 800, 12, generator=draw)
left, right = (causes @ torch.randn(6, 12, generator=draw) + noise[view] for view in range(2))  # one signal, seen twice
labels = (causes[:, 0] * causes[:, 1] > 0).long()
train = Dataset("train", {"left": left[:500], "right": right[:500]}, labels[:500])
test = Dataset("test", {"left": left[500:], "right": right[500:]}, labels[500:])
left_only = test.batch(torch.arange(300), keep={"left": torch.ones(300).bool(), "right": torch.zeros(300).bool()})
for imputer in (Mean.from_dataset(train), Regression(train)):
    error = imputer.complete(left_only).inputs["right"] - right[500:]
    print(f"{type(imputer).__name__:10} is off by {error.abs().mean():.2f}")
torch.manual_seed(0)
encoder = UnitEncoder({name: Mlp((12,), 16) for name in train.inputs}, dim=16)
model = Gauge(encoder, Network(Transformer(16, heads=2, depth=1), 16, num_classes=2), Regression(train))
fit(model, train, settings=TrainSettings(epochs=15, batch_size=50, learning_rate=5e-3))  # never saw a gap
for protocol in ("complete", "missing=left", "missing=right"):
    print(f"{protocol:22} accuracy {predict_split(model, test, protocol).score(ACCURACY):.3f}")
