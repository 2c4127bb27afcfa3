"""Your own tensors with gaps: cell nuclei measured in three ways, some cells and one whole part missing."""

import torch
from sklearn.datasets import load_breast_cancer

from gauge import AnySubset, Dataset, Gauge, Network, TrainSettings, Transformer, UnitEncoder, fit, predict_split
from gauge.encoders.columns import Columns
from gauge.encoders.mlp import Mlp
from gauge.imputers.mean import Mean
from gauge.masks import AnyModalities
from gauge.training.metrics import ACCURACY

measured, labels = (torch.tensor(array) for array in load_breast_cancer(return_X_y=True))
measured = ((measured - measured.mean(0)) / measured.std(0)).float()
inputs = {"mean": measured[:, :10].clone(), "error": measured[:, 10:20], "worst": measured[:, 20:].clone()}

draw = torch.Generator().manual_seed(0)
order = torch.randperm(len(labels), generator=draw)
observed = {
    "mean": torch.rand(inputs["mean"].shape, generator=draw) > 0.2,  # one flag for every cell: [samples, features]
    "worst": torch.rand(len(labels), generator=draw) > 0.3,  # one flag for the whole modality: [samples]
}  # "error" is all there
for name, flags in observed.items():
    inputs[name][~flags] = torch.nan  # what stands where nothing was observed is never read


def split(name: str, rows: torch.Tensor) -> Dataset:
    parts = [{key: values[rows] for key, values in part.items()} for part in (inputs, observed)]
    return Dataset(name, parts[0], labels[rows], parts[1])


train, test = split("train", order[:400]), split("test", order[400:])
torch.manual_seed(0)
encoder = UnitEncoder({"mean": Columns((10,), 16), "error": Mlp((10,), 16), "worst": Columns((10,), 16)}, dim=16)
backbone = AnySubset(encoder, Network(Transformer(16, heads=2, depth=2), 16, num_classes=2), subsets_per_step=2)
fit(backbone, train, settings=TrainSettings(epochs=8, batch_size=32, learning_rate=3e-3))
model = Gauge(backbone.encoder, backbone.classifier, Mean.from_dataset(train))
fit(model, train, settings=TrainSettings(epochs=4, batch_size=32, masks=AnyModalities()))
for protocol in ("complete", "gamma-per-sample=0.5", "missing=mean", "missing=mean+worst"):
    print(f"{protocol:22} accuracy {predict_split(model, test, protocol).score(ACCURACY):.3f}")
