"""The network: GAUGE+ on every cell, word and part of an image."""

from copy import deepcopy
from functools import cache
from typing import Self

import numpy as np
import torch
from torch import Tensor

from gauge.choices import pick
from gauge.plus.gauge_plus import GaugePlus
from gauge.tabular.experts import Expert, Folds, Saved, Task, Training
from gauge.tabular.experts._architecture import Architecture, build
from gauge.tabular.experts._graph import GraphRows
from gauge.tabular.experts._recipe import SIZES
from gauge.tabular.experts._training import train_network
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema
from gauge.tabular.table.tensors import batches, dataset, tensors
from gauge.training.checkpoint import load_into
from gauge.training.device import pick_device
from gauge.training.recorded import Recorded
from gauge.training.traced import Flat, check_exportable, to_onnx
from gauge.values import Batch

__all__ = ["NetworkExpert"]


class NetworkExpert(Expert):
    """A network learns from the rows that a fold does not hold out."""

    network: GaugePlus
    cross_fitted = False

    def __init__(self, network: GaugePlus, architecture: Architecture, training: Training | None = None) -> None:
        self.network, self.architecture, self.training = network, architecture, training
        self.recorded: Recorded | None = None

    @classmethod
    def reads(cls, schema: Schema) -> bool:
        return True

    @classmethod
    def fit(cls, task: Task, folds: Folds) -> tuple[Expert, list[Expert]]:
        if not folds:
            return cls._learn(task, (np.arange(len(task.rows)), np.arange(0))), []
        members: list[Expert] = [cls._learn(task, fold) for fold in folds]
        return members[0], members

    @classmethod
    def _learn(cls, task: Task, fold: tuple[np.ndarray, np.ndarray]) -> Self:
        train, val = _some(task, fold[0]), fold[1]
        # rows held out, evenly chosen, that weigh its heads
        shown = val[np.linspace(0, len(val) - 1, min(len(val), 1000)).astype(int)]
        encoded, device = task.rows.encoded, pick_device(task.device)
        if task.streamed is not None:
            split = task.streamed(val)
            weights = torch.ones(len(split))
        else:
            split = dataset(encoded, "train", train, task.labels).to(device)
            weights = torch.from_numpy(task.weights[train])
        network, training = train_network(
            task,
            train=split,
            val=dataset(encoded, "val", shown, task.labels).to(device) if len(val) else None,
            weights=weights.float().to(device),
        )
        return cls(network, Architecture(classes=task.classes, size=task.recipe.size), training)

    @property
    def device(self) -> torch.device:
        return next(self.network.parameters()).device

    def to(self, device: str | None) -> None:
        self.network.to(pick_device(device))

    def record(self) -> None:
        if self.device.type == "cuda":
            self.recorded = Recorded(self.network)

    def predict(self, rows: Rows) -> np.ndarray:
        _keep_memory()
        device = self.device
        with torch.inference_mode(self.recorded is None):  # recordings are read outside of it too
            logits = [self._logits(batch) for batch in batches(rows.encoded, device, self._batch_rows)]
        if not logits:
            return np.zeros((0, self.network.gauge.classifier.head.out_features))
        return torch.cat(logits).double().log_softmax(1).cpu().numpy()

    @property
    def _batch_rows(self) -> int:
        counts = self.network.encoder.unit_counts
        if self.device.type != "cpu":
            return 4096
        # of a table without texts and images, a CPU reads so many units; more of its rows at once take less Python
        return min(max(1024, 2**15 // (1 + counts["table"])), 4096) if set(counts) == {"table"} else 1024

    def _logits(self, batch: Batch) -> Tensor:
        """Without the checks of values: a schema encodes none that is not finite, and rows without any are not asked."""
        if self.recorded is not None:
            return self.recorded.predict(batch).logits
        return self.network.decide(self.network.read(batch)).logits

    def export(self, rows: GraphRows) -> str:
        check_exportable(self.network)
        graph, example = rows.graph, rows.example
        flat = Flat(deepcopy(self.network).cpu().eval().requires_grad_(False), list(example.inputs))
        given = [each for part in tensors(example) for each in part.values()]
        outputs = graph.include(to_onnx(flat, given, flat.inputs, flat.outputs))
        return graph.node("LogSoftmax", graph.cast(outputs["logits"], np.float64), axis=1)

    def save(self) -> Saved:
        state = {name: tensor.cpu().numpy() for name, tensor in self.network.state_dict().items()}
        return Saved(state, self.architecture.model_dump())

    @classmethod
    def load(cls, saved: Saved, schema: Schema) -> Self:
        architecture = Architecture.parse(saved.metadata, "the architecture of the network")
        words = sum(len(getattr(column, "words", ())) for column in schema.columns)
        models = [model for column in schema.columns if (model := getattr(column, "model", None))]
        asked = words + architecture.classes + sum(model.parameters() for model in models)
        if asked > sum(array.size for array in saved.tensors.values()):
            raise ValueError(f"{saved.source} has fewer weights than its words, classes and encoders ask for")
        network = build(schema, architecture.classes, pick(SIZES, architecture.size, "size"))
        state = {name: torch.from_numpy(array) for name, array in saved.tensors.items()}
        load_into(network, state, saved.source)
        return cls(network.eval(), architecture)


@cache
def _keep_memory() -> None:
    """Free a large block once, which is never touched. glibc returns freed memory to the system once there is twice as much
    as the largest block that was freed; every batch would get it again page by page, a third of the time of the network."""
    # bytes; a little below the largest that the rule of `_keep_memory` is about
    np.empty(2**25 - 2**16, np.uint8)


def _some(task: Task, train: np.ndarray) -> np.ndarray:
    """Those of the rows that a network learns from: on a CPU no more than the recipe and the time allow, evenly drawn."""
    if pick_device(task.device).type != "cpu" or task.streamed is not None:
        return train
    left, limits = task.seconds_left, [len(train)]
    if task.recipe.max_rows is not None:
        limits.append(task.recipe.max_rows)
    if left is not None:
        # at least 500 rows, and rows times columns that each stage can learn from once, under a time limit
        limits.append(max(500, round(left * 5000 / len(task.rows.schema.columns))))
    if min(limits) == len(train):
        return train
    return np.sort(np.random.default_rng(task.recipe.seed).choice(train, min(limits), replace=False))
