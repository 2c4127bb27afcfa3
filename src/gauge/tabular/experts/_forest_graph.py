"""The trees of a forest as one operator of ONNX, which decides as LightGBM does on numbers, categories and NaN."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gauge.data.graph import Graph
from gauge.tabular.experts._forest import Forest


class Node(NamedTuple):
    """A node of a tree as the operator lists it: `value` is the threshold of a split or the weight of a leaf, `missing_true`
    says where NaN goes."""

    tree: int
    number: int
    mode: str
    value: float
    feature: int = 0
    children: tuple[int, int] = (0, 0)
    missing_true: bool = False


def export_forest(forest: Forest, graph: Graph, cells: str) -> str:
    """The raw scores for cells in double precision, as float: [rows, outputs]. Only numbers that are not 0 but within 1e-35
    of it may be decided otherwise: LightGBM reads them as 0."""
    # 1 is zero in `Forest.missing`
    if (forest.missing[forest.set_size == 0] == 1).any():
        raise ValueError("trees that read zero as missing cannot be exported; fit them without zero_as_missing")
    nodes = list(_nodes(forest))
    leaves = [node for node in nodes if node.mode == "LEAF"]

    def doubles(values: list[float]) -> Any:
        return graph.onnx.numpy_helper.from_array(np.array(values, np.float64))

    return graph.node(
        "TreeEnsembleRegressor",
        cells,
        domain="ai.onnx.ml",
        n_targets=forest.outputs,
        nodes_treeids=[node.tree for node in nodes],
        nodes_nodeids=[node.number for node in nodes],
        nodes_modes=[node.mode for node in nodes],
        nodes_featureids=[node.feature for node in nodes],
        nodes_values_as_tensor=doubles([node.value for node in nodes]),
        nodes_truenodeids=[node.children[0] for node in nodes],
        nodes_falsenodeids=[node.children[1] for node in nodes],
        nodes_missing_value_tracks_true=[int(node.missing_true) for node in nodes],
        target_treeids=[node.tree for node in leaves],
        target_nodeids=[node.number for node in leaves],
        target_ids=[node.tree % forest.outputs for node in leaves],
        target_weights_as_tensor=doubles([node.value for node in leaves]),
    )


def _nodes(forest: Forest) -> Iterator[Node]:
    """The nodes of all trees: the splits of a tree, its leaves, and further tests of its splits of categories."""
    stops = np.cumsum(forest.set_size)
    first_split = first_leaf = 0
    for tree, leaves in enumerate(forest.leaves.tolist()):
        splits, further = leaves - 1, 2 * leaves - 1

        def number(child: int, splits: int = splits) -> int:
            return child if child >= 0 else splits + ~child

        for own in range(splits):
            split = first_split + own
            true, false = number(int(forest.left[split])), number(int(forest.right[split]))
            feature, size = int(forest.feature[split]), int(forest.set_size[split])
            if not size:
                threshold = float(forest.threshold[split])
                nan_left = forest.default_left[split] if forest.missing[split] else threshold >= 0  # NaN is read as 0
                yield Node(tree, own, "BRANCH_LEQ", threshold, feature, (true, false), bool(nan_left))
                continue
            numbers = [own, *range(further, further + size - 1)]  # a test for each category, all lead to the same node
            further += size - 1
            codes = forest.categories[stops[split] - size : stops[split]].tolist()
            for here, code, following in zip(numbers, codes, [*numbers[1:], false], strict=True):
                yield Node(tree, here, "BRANCH_EQ", float(code), feature, (true, following))
        for leaf in range(leaves):
            yield Node(tree, splits + leaf, "LEAF", float(forest.value[first_leaf + leaf]))
        first_split, first_leaf = first_split + splits, first_leaf + leaves
