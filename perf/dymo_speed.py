"""DyMo's selection in stacked passes beside the same algorithm candidate by candidate, with loops over samples.

    python perf/dymo_speed.py [--device cuda] [--samples 512]

The loop is written from the description of the published algorithm: in every round and for every modality, the samples that
may add it are encoded again, once without and once with it, and tail probability and subset of each sample are looked up one
by one. Both run on the same random network of PolyMNIST's sizes, with four of five views missing, and have to agree. Times
are medians of five calls.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gauge import Batch, Dataset
from gauge.imputers.oracle import Oracle
from gauge.masks import mask_split, parse_protocol
from gauge.plus.any_subset import TEMPERATURE, AnySubset
from gauge.training.device import pick_device
from gauge_lab.benchmarks.polymnist import BENCHMARK
from gauge_lab.methods.dymo import DyMo
from gauge_lab.parts import Parts
from gauge_lab.recording import origin, write_record

NAMES = list(BENCHMARK.modalities)


def network(device: torch.device) -> DyMo:
    """A random network, with weights large enough that samples differ in what they accept."""
    torch.manual_seed(0)
    backbone = AnySubset(*Parts.from_benchmark(BENCHMARK).unit_network(), subsets_per_step=5, projection=64)
    with torch.no_grad():
        for values in backbone.parameters():
            scale = 1.5 * values[0].numel() ** -0.5 if values.ndim > 1 else 0.45
            values.copy_(scale * torch.randn_like(values))
    return DyMo(backbone, Oracle()).to(device)


def images(rows: int, device: torch.device) -> dict[str, Tensor]:
    return {name: torch.rand(rows, 3, 28, 28, device=device) for name in NAMES}


class Loop:
    """The selection candidate by candidate."""

    def __init__(self, method: DyMo) -> None:
        self.method = method
        table = method.backbone.subsets.tolist()
        self.number = {tuple(flags): index for index, flags in enumerate(table)}

    def state(self, batch: Batch, visible: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits, quality and tail of samples that show these modalities; everything is encoded again."""
        method, backbone = self.method, self.method.backbone
        units = backbone.encoder(batch, hide_missing=False)
        logits, features = backbone.represent(units, visible[:, units.modality])
        quality = (backbone.metric.similarity(features, method.prototypes) / TEMPERATURE).softmax(-1).amax(-1)
        tails = []
        for row in range(len(features)):
            subset, label = self.number[tuple(visible[row].tolist())], int(logits[row].argmax())
            distance = backbone.metric.distance(features[row], method.means[subset, label])
            tails.append(torch.erfc(distance / method.spreads[subset, label] / 2**0.5))
        return logits, quality, torch.stack(tails)

    @torch.no_grad()
    def select(self, batch: Batch) -> Tensor:
        """Which modalities every sample shows in the end."""
        completed = self.method.imputer.complete(batch)
        visible = torch.stack([batch.observed[name] for name in NAMES], 1)
        bad, done = torch.zeros_like(visible), visible.all(1)
        while not bool(done.all()):
            rewards = torch.zeros(visible.shape, device=visible.device)
            for added in range(len(NAMES)):
                rows = (~visible[:, added] & ~bad[:, added] & ~done).nonzero()[:, 0]
                if len(rows):
                    rewards[rows, added] = self.reward(completed, visible, rows, added)
            bad |= rewards < 0
            done |= (rewards <= 0).all(1)
            chosen = (~done).nonzero()[:, 0]
            visible[chosen, rewards[chosen].argmax(1)] = True
            done |= visible.all(1)
        return visible

    def reward(self, completed: Batch, visible: Tensor, rows: Tensor, added: int) -> Tensor:
        inputs = {name: completed.inputs[name][rows] for name in NAMES}
        observed = {name: completed.observed[name][rows] for name in NAMES}
        some = Batch(inputs, observed, None, completed.index[rows])
        before, after = visible[rows], visible[rows].clone()
        after[:, added] = True
        (_, quality, tail), (_, new_quality, new_tail) = self.state(some, before), self.state(some, after)
        return new_quality * self.method._calibrate(tail, new_tail) - quality


def seconds(call: Callable[[], Any], device: torch.device, repeats: int = 5) -> float:
    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    call()
    cost = []
    for _ in range(repeats):
        started = now()
        call()
        cost.append(now() - started)
    return statistics.median(cost)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device")
    parser.add_argument("--samples", type=int, default=512)
    arguments = parser.parse_args()
    device, rows = pick_device(arguments.device), arguments.samples
    method = network(device)
    method.prepare(Dataset("train", images(300, device), torch.arange(300, device=device) % 10))
    feature_counts = dict.fromkeys(NAMES)
    keep = mask_split(parse_protocol("eta=0.8"), feature_counts, rows, seed=2025, split="test")
    flags = {name: values.to(device) for name, values in keep.items()}
    labels, index = torch.zeros(rows, dtype=torch.long, device=device), torch.arange(rows, device=device)
    batch, loop = Batch(images(rows, device), flags, labels, index), Loop(method)
    same = int((loop.select(batch) == method.select(batch).visible_modalities).all(1).sum())
    timed = {
        "stacked": seconds(lambda: method.select(batch), device),
        "loop": seconds(lambda: loop.select(batch), device),
    }
    content = origin(arguments, device) | {
        "samples": rows,
        "same_selections": same,
        "accepted": float(method.select(batch).accepted.sum(1).float().mean()),
        "seconds": timed,
        "ratio": timed["loop"] / timed["stacked"],
    }
    path = Path(__file__).parent / "results" / f"dymo_speed-{device.type}.json"
    write_record(path, content)
    print(json.dumps(content, indent=2))


if __name__ == "__main__":
    main()
