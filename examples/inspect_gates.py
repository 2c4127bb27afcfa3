"""Which evidence was trusted? Train on wines with cells missing, then look at every unit of one of them."""

import torch
from sklearn.datasets import load_wine

from gauge import Dataset, Gauge, Network, TrainSettings, Transformer, UnitEncoder, explain, fit
from gauge.encoders.columns import Columns
from gauge.imputers.mean import Mean
from gauge.masks import mask_split, parse_protocol

wines = load_wine()
values = torch.tensor(wines.data, dtype=torch.float32)
table = (values - values.mean(0)) / values.std(0)
every_cell = torch.ones_like(table, dtype=torch.bool)  # flags for every cell, so that single cells can go missing
data = Dataset("train", {"wine": table}, torch.tensor(wines.target).long(), {"wine": every_cell})

torch.manual_seed(0)
encoder = UnitEncoder({"wine": Columns((13,), 16)}, dim=16)
model = Gauge(encoder, Network(Transformer(16, heads=2, depth=2), 16, num_classes=3), Mean.from_dataset(data))
protocol = parse_protocol("gamma-per-sample=0.4")
fit(model, data, settings=TrainSettings(epochs=15, batch_size=32, learning_rate=5e-3, masks=protocol))

keep = mask_split(protocol, data.feature_counts, len(data), seed=1, split="train")
explained = explain(model, data.batch(torch.arange(len(data)), keep=keep))
right = (explained.logits.argmax(1) == data.labels).float().mean()
print(f"{right:.0%} of the training wines are right with 5 of 13 cells imputed; the first wine, unit by unit:")
print(f"{'unit':30} {'':9} score   gate  attention before -> after")
for unit, name in enumerate(wines.feature_names):
    source = "observed" if explained.units.observed[0, unit] else "imputed"
    score, gate = explained.evidence.scores[0, unit], explained.gates[0, unit]
    before, after = explained.attention_before[0, unit], explained.attention_after[0, unit]
    print(f"{name:30} {source:9} {score:5.2f}  {gate:5.2f}  {before:10.3f} -> {after:.3f}")
