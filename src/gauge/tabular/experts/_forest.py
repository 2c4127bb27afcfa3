"""Forest: the trees of a LightGBM model as arrays that are checked before native code sees them.

LightGBM reads its own text without checking indices: a forged one ends the process. A saved model therefore has arrays, and
the text that LightGBM reads is written here, from arrays that have been checked.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np

if TYPE_CHECKING:
    import lightgbm

__all__ = ["Forest"]

ForestObjective = Literal["binary", "multiclass", "regression"]
DTYPES: Mapping[str, type[np.generic]] = {
    "leaves": np.int32,
    "feature": np.int32,
    "threshold": np.float64,
    "missing": np.uint8,
    "default_left": np.bool_,
    "set_size": np.int32,
    "categories": np.int32,
    "left": np.int32,
    "right": np.int32,
    "value": np.float64,
}


@dataclass(frozen=True, eq=False)
class Forest:
    """The trees of a model in one list, those of a round side by side: tree t belongs to output t % outputs.

    The splits of all trees stand one after another in the arrays of splits, the leaves in `value`: a tree of n leaves takes
    the next n - 1 of the one and the next n of the other. A child is the number of a split or, if it is negative, ~number of
    a leaf, counted within the tree from 0; the root is split 0, or leaf 0 of a tree without splits. The raw score of
    an output is the sum of the values of its leaves, with the start that LightGBM adds to the first round in it.

    A number goes left if it is at most the threshold. NaN is read as 0 unless `missing` is 2; NaN (2), or a number within
    1e-35 of 0 (1), goes where `default_left` says. A category goes left if its set has it; NaN, negative numbers
    and codes that no set has go right.

    Parameters
    ----------
    objective
        "binary" (the raw score is the logit of class 1), "multiclass" (the softmax of the raw scores), or "regression".
    outputs
        How many raw scores a row has: the trees of a round.
    features
        How many columns the trees read.
    leaves
        The leaves of every tree: int32 [trees].
    feature
        The column that a split reads: int32 [splits].
    threshold
        Of a split of numbers, 0 for one of categories: float64 [splits]. One above all numbers is the largest float64.
    missing
        What counts as missing in a split of numbers: 0 nothing, 1 zero, 2 NaN: uint8 [splits].
    default_left
        Whether what is missing goes left: bool [splits].
    set_size
        How many categories go left, 0 for a split of numbers: int32 [splits].
    categories
        Their codes, rising within a split, one split after the other: int32.
    left, right
        The children of a split: int32 [splits].
    value
        Of the leaves: float64 [leaves].
    """

    objective: ForestObjective
    outputs: int
    features: int
    leaves: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing: np.ndarray
    default_left: np.ndarray
    set_size: np.ndarray
    categories: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    max_category: ClassVar[int] = 2**24 - 1
    max_set_words: ClassVar[int] = 50_000_000  # of 32 bits, of all sets of categories together

    def __post_init__(self) -> None:
        problem = next(self._problems(), None)
        if problem is not None:
            raise ValueError(f"the trees are not valid: {problem}; fit the classifier again")

    def _problems(self) -> Iterator[str]:
        """What native code must never see, the conditions of later checks first."""
        for name, dtype in DTYPES.items():
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype != dtype:
                yield f"{name} is not a list of {np.dtype(dtype)}"
        for name, largest in (("outputs", 100_000), ("features", 1_000_000)):
            count = getattr(self, name)
            if not 1 <= count <= largest:
                yield f"{name} is {count}, not from 1 to {largest}"
        if (self.outputs > 1) != (self.objective == "multiclass"):
            yield f"{self.outputs} outputs do not go with the objective {self.objective!r}"
        if not len(self.leaves) or len(self.leaves) % self.outputs or (self.leaves < 1).any():
            yield "leaves does not count those of whole rounds"
        yield from self._wrong_lengths()
        yield from self._wrong_splits()
        yield from self._wrong_children()

    def _wrong_lengths(self) -> Iterator[str]:
        leaves = int(self.leaves.sum(dtype=np.int64))
        splits = leaves - len(self.leaves)
        wanted = dict.fromkeys(("feature", "threshold", "missing", "default_left", "set_size", "left", "right"), splits)
        for name, count in (wanted | {"value": leaves}).items():
            if len(getattr(self, name)) != count:
                yield f"{name} has {len(getattr(self, name))} entries, the trees have {count}"
        if (self.set_size < 0).any() or int(self.set_size.sum(dtype=np.int64)) != len(self.categories):
            yield "set_size does not count the categories"

    def _wrong_splits(self) -> Iterator[str]:
        # largest value of a leaf, so that sums stay finite
        if not (np.isfinite(self.threshold).all() and (np.abs(self.value) <= 1e100).all()):
            yield "a threshold or the value of a leaf is NaN, infinite or too large"
        if not ((self.feature >= 0) & (self.feature < self.features)).all():
            yield f"a split reads a column that is not one of {self.features}"
        if (self.missing >= 3).any():  # none, zero, nan
            yield "missing has other values than 0, 1 and 2"
        if not ((self.categories >= 0) & (self.categories <= self.max_category)).all():
            yield f"a category is not between 0 and {self.max_category}"
        starts = np.cumsum(self.set_size) - self.set_size
        rising = np.diff(self.categories) > 0
        rising[starts[(starts > 0) & (starts < len(self.categories))] - 1] = True
        if not rising.all():
            yield "the categories of a split do not rise"
        largest = self.categories[np.cumsum(self.set_size)[self.set_size > 0] - 1]  # of every split of categories
        if (largest // 32 + 1).sum(dtype=np.int64) > self.max_set_words:
            yield "the sets of categories are too large"

    def _wrong_children(self) -> Iterator[str]:
        """Every split but the root and every leaf is the child of one split of its tree that stands before it, so that every
        path ends in a leaf."""
        splits = self.leaves - 1
        own = positions_within(splits)
        size = np.repeat(splits, splits)
        first_split, first_leaf = (np.repeat(np.cumsum(each) - each, splits) for each in (splits, self.leaves))
        children = []
        for child in (self.left, self.right):
            inner = child >= 0
            if not np.where(inner, (child > own) & (child < size), ~child <= size).all():
                yield "a child is not a later split or a leaf of its tree"
            children.append(np.where(inner, first_split + child, len(self.left) + first_leaf + ~child))
        seen = np.bincount(np.concatenate(children), minlength=len(self.left) + len(self.value))
        roots = np.cumsum(splits) - splits
        expected = np.ones(len(seen), int)
        expected[roots[splits > 0]] = 0
        expected[len(self.left) + (np.cumsum(self.leaves) - 1)[splits == 0]] = 0
        if not np.array_equal(seen, expected):
            yield "a split or a leaf is not the child of one split"

    @property
    def classes(self) -> int:
        """How many classes are told apart."""
        return max(2, self.outputs)

    @classmethod
    def from_booster(cls, booster: "lightgbm.Booster", rounds: int | None = None) -> Self:
        """The trees of a model that was just fitted, by default those of all rounds."""
        text = booster.model_to_string(num_iteration=rounds).partition("\nend of trees")[0]
        header, _, trees = text.partition("\nTree=")
        about = dict(line.split("=", 1) for line in header.split("\n") if "=" in line)
        objective, *options = about["objective"].split(" ")
        outputs = int(about["num_tree_per_iteration"])
        usual = {"binary": ["sigmoid:1"], "multiclass": [f"num_class:{outputs}"], "regression": []}
        lines: dict[str, list[str]] = defaultdict(list)
        for name, _, line in (line.partition("=") for line in trees.split("\n")):
            lines[name].append(line)
        linear = any(line != "0" for line in lines["is_linear"])
        if usual.get(objective) != options or "average_output" in header or linear:
            raise ValueError(f"the objective {about['objective']!r}, averaged or linear trees cannot be saved")

        def joined(name: str, kind: type[np.generic]) -> np.ndarray:
            return np.fromstring(" ".join(lines[name]).strip(), kind, sep=" ")  # blanks alone are read as 0

        leaves, decision = joined("num_leaves", np.int32), joined("decision_type", np.uint8)
        threshold, largest = joined("threshold", np.float64), np.finfo(np.float64).max
        tree = np.repeat(np.arange(len(leaves)), leaves - 1)
        size, categories = np.zeros(len(decision), np.int32), np.zeros(0, np.int32)
        chosen = np.flatnonzero(decision & 1)  # its threshold is the number of its set within the tree
        if len(chosen):
            sets = joined("num_cat", np.int64)
            number = (np.cumsum(sets) - sets)[tree[chosen]] + threshold[chosen].astype(np.int64)
            last = np.cumsum(sets[sets > 0] + 1) - 1  # of the boundaries of a tree
            words = np.delete(np.diff(joined("cat_boundaries", np.int64)), last[:-1])
            size[chosen], categories = _sets(joined("cat_threshold", np.uint32), words, number)
        return cls(
            objective=objective,  # type: ignore[arg-type]  # one of `usual`
            outputs=outputs,
            features=int(about["max_feature_idx"]) + 1,
            leaves=leaves,
            feature=joined("split_feature", np.int32),
            threshold=np.where(decision & 1, 0.0, threshold).clip(-largest, largest),
            missing=decision >> 2 & 3,
            default_left=(decision & 2).astype(bool),
            set_size=size,
            categories=categories,
            left=joined("left_child", np.int32),
            right=joined("right_child", np.int32),
            value=joined("leaf_value", np.float64),
        )

    def booster(self) -> "lightgbm.Booster":
        """A model that predicts what the one that the trees came from predicts, bit for bit."""
        import lightgbm

        return lightgbm.Booster(model_str=self.text())

    def text(self) -> str:
        """The trees in LightGBM's format, with what prediction needs."""
        options = {"binary": " sigmoid:1", "multiclass": f" num_class:{self.outputs}", "regression": ""}
        trees = [f"Tree={number}\n{tree}\n\n" for number, tree in enumerate(self._tree_texts())]
        lines = [
            "tree\nversion=v4",
            f"num_class={self.outputs}\nnum_tree_per_iteration={self.outputs}",
            f"label_index=0\nmax_feature_idx={self.features - 1}\nobjective={self.objective}{options[self.objective]}",
            f"feature_names={' '.join(f'Column_{number}' for number in range(self.features))}",
            f"feature_infos={' '.join(['none'] * self.features)}",
            f"tree_sizes={' '.join(str(len(tree)) for tree in trees)}",
        ]
        return "\n".join(lines) + "\n\n" + "".join(trees) + "end of trees\n\nparameters:\nend of parameters\n"

    def _tree_texts(self) -> Iterator[str]:
        categorical = self.set_size > 0
        decision = categorical + 2 * self.default_left + 4 * self.missing
        last_category = np.cumsum(self.set_size)
        split = leaf = 0
        for leaves in self.leaves.tolist():
            own = slice(split, split + leaves - 1)
            chosen = np.flatnonzero(categorical[own]) + split
            threshold = self.threshold[own].copy()
            threshold[chosen - split] = np.arange(len(chosen))  # the number of its set within the tree
            lines = {
                "num_leaves": [leaves],
                "num_cat": [len(chosen)],
                "split_feature": self.feature[own].tolist(),
                "threshold": [f"{each:.17g}" for each in threshold.tolist()],
                "decision_type": decision[own].tolist(),
                "left_child": self.left[own].tolist(),
                "right_child": self.right[own].tolist(),
                "leaf_value": [f"{each:.17g}" for each in self.value[leaf : leaf + leaves].tolist()],
            }
            if len(chosen):
                stops, sizes = last_category[chosen], self.set_size[chosen]
                words = [_words(self.categories[stop - size : stop]) for stop, size in zip(stops, sizes, strict=True)]
                lines["cat_boundaries"] = np.cumsum([0, *map(len, words)]).tolist()
                lines["cat_threshold"] = np.concatenate(words).tolist()
            yield "".join(f"{name}={' '.join(map(str, line))}\n" for name, line in lines.items()) + "shrinkage=1\n"
            split, leaf = split + leaves - 1, leaf + leaves

    def tensors(self, prefix: str) -> dict[str, np.ndarray]:
        """The arrays, to be saved under names that start with the prefix."""
        return {prefix + name: getattr(self, name) for name in DTYPES}

    def metadata(self) -> dict[str, Any]:
        """The other fields, to be saved."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in DTYPES}

    @classmethod
    def load(cls, prefix: str, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> Self:
        """From what `tensors` and `metadata` returned; anything else is an error."""
        arrays: dict[str, Any] = {name: tensors[prefix + name] for name in DTYPES if prefix + name in tensors}
        types = {name: type(value) for name, value in metadata.items()}
        if len(arrays) < len(DTYPES) or types != {"objective": str, "outputs": int, "features": int}:
            raise ValueError("the trees are not complete; fit the classifier again")
        if metadata["objective"] not in get_args(ForestObjective):
            raise ValueError(f"the trees have no known objective, but {metadata['objective'][:50]!r}; fit again")
        return cls(**metadata, **arrays)


def positions_within(counts: np.ndarray) -> np.ndarray:
    """0 .. count - 1 for every count, one after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def _sets(words: np.ndarray, counts: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sizes of the chosen sets and the categories in them, from the bits of all sets, each of which takes some words."""
    own = np.repeat((np.cumsum(counts) - counts)[chosen], counts[chosen])
    within = positions_within(counts[chosen])
    bits = words[own + within, None] >> np.arange(32, dtype=np.uint32) & 1
    word, bit = np.nonzero(bits)
    sizes = np.bincount(np.repeat(np.arange(len(chosen)), counts[chosen])[word], minlength=len(chosen))
    return sizes.astype(np.int32), (32 * within[word] + bit).astype(np.int32)


def _words(categories: np.ndarray) -> np.ndarray:
    """A set of categories as bits."""
    words = np.zeros(categories[-1] // 32 + 1, np.uint32)
    np.bitwise_or.at(words, categories // 32, np.uint32(1) << (categories % 32).astype(np.uint32))
    return words
