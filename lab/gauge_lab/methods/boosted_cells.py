"""Boosted trees on the cells of the table alone, with missing cells as they are; without any cell the class prior."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.masks import Protocol
from gauge_lab.methods._cells import CellClassifier, CellRows

__all__ = ["BoostedCells"]

ROUNDS = 100  # at most, without an improvement, and where there are no such rows
LEAVES, DEPTH = 15, 6
OPTIONS: dict[str, Any] = {
    "learning_rate": 0.1,
    "num_leaves": LEAVES,
    "max_depth": DEPTH,
    "lambda_l2": 1.0,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,
}


class BoostedCells(CellClassifier):
    """Every tree has room for `NODES` nodes, the root first. A leaf leads to itself, so all rows take `DEPTH` steps; trees
    that were not grown return 0. With two classes, only the second one has trees.

    logits = Σ over trees of the value of the leaf that the cells lead to; a missing cell goes the way the split has learned

    LightGBM's, as tensors. The number of rounds has the least loss on validation rows under the masks of training.
    """

    def __init__(
        self, tables: Mapping[str, Sequence[int]], num_classes: int, *, masks: Protocol, seed: int = 0
    ) -> None:
        super().__init__(tables, num_classes, masks=masks, seed=seed)
        self.outputs = 1 if num_classes == 2 else num_classes
        shape = (ROUNDS * self.outputs, 2 * LEAVES - 1)  # nodes of a tree with so many leaves
        self.feature = nn.Buffer(torch.zeros(shape, dtype=torch.long))
        self.threshold = nn.Buffer(torch.zeros(shape, dtype=torch.float64))
        self.missing_left = nn.Buffer(torch.zeros(shape, dtype=torch.bool))
        self.left, self.right = (nn.Buffer(torch.zeros(shape, dtype=torch.long)) for _ in range(2))
        self.value = nn.Buffer(torch.zeros(shape))

    def fit_rows(self, train: CellRows, val: CellRows | None) -> None:
        import lightgbm

        objective = {"objective": "binary"} if self.num_classes == 2 else {"objective": "multiclass"}
        classes = {} if self.num_classes == 2 else {"num_class": self.num_classes}
        fewest = int(np.clip(len(train.labels) * train.weight // 50, 3, 20))
        options = OPTIONS | objective | classes | {"min_data_in_leaf": fewest, "num_threads": torch.get_num_threads()}
        data = lightgbm.Dataset(train.features, train.labels)
        if val is None:
            # so many rounds where no rows are held out
            booster = lightgbm.train(options, data, 50)
        else:
            held_out = lightgbm.Dataset(val.features, val.labels, reference=data)
            # rounds without an improvement
            stopping = lightgbm.early_stopping(10, verbose=False)
            booster = lightgbm.train(options, data, ROUNDS, valid_sets=[held_out], callbacks=[stopping])
        self._load(booster.dump_model(num_iteration=booster.best_iteration or None)["tree_info"])

    def scores(self, features: Float[Tensor, "b d"]) -> Float[Tensor, "b k"]:
        tree, features = torch.arange(len(self.feature), device=features.device), features.double()
        node = torch.zeros(len(features), len(tree), dtype=torch.long, device=features.device)
        for _ in range(DEPTH):
            cell = features.gather(1, self.feature[tree, node])
            goes_left = torch.where(cell.isnan(), self.missing_left[tree, node], cell <= self.threshold[tree, node])
            node = torch.where(goes_left, self.left[tree, node], self.right[tree, node])
        logits = self.value[tree, node].unflatten(1, (-1, self.outputs)).sum(1)
        return torch.cat([torch.zeros_like(logits), logits], 1) if self.outputs == 1 else logits

    def _load(self, trees: Sequence[Mapping[str, Any]]) -> None:
        """The nodes of all trees, in the order in which they are reached."""
        names = ("feature", "threshold", "missing_left", "left", "right", "value")
        table = {name: torch.zeros_like(self.get_buffer(name), device="cpu").numpy() for name in names}
        for number, tree in enumerate(trees):
            nodes = [tree["tree_structure"]]
            for index, node in enumerate(nodes):  # which grows while it is read
                at = number, index
                if "split_feature" not in node:
                    table["value"][at] = node["leaf_value"]
                    table["left"][at] = table["right"][at] = index
                    continue
                nodes += [node["left_child"], node["right_child"]]
                table["left"][at], table["right"][at] = len(nodes) - 2, len(nodes) - 1
                table["feature"][at], table["threshold"][at] = node["split_feature"], node["threshold"]
                table["missing_left"][at] = _missing_goes_left(node)
        for name, values in table.items():
            self.get_buffer(name).copy_(torch.from_numpy(values))


def _missing_goes_left(node: Mapping[str, Any]) -> bool:
    """LightGBM reads a missing cell of a column that was complete in training as 0."""
    return bool(node["default_left"] if node["missing_type"] == "NaN" else node["threshold"] >= 0)
