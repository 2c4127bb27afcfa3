"""Trust in the cells of a row: the probability that each is right, from what the other cells say about it.

    odds(x is right) ∝ (p(x | other cells) / (1 - p(x | other cells)) / p(x)) ^ a

A wrong cell holds a value of another row, so p(x) is its distribution; training makes such cells itself. p(x | other cells)
comes from boosted trees for each column, which read all others, any of which may be missing: for a category its probability,
for a number that of its bin, from a mean, a scale, and the quantiles of what they leave unexplained. `a` and the constant
are fitted to rows held out, a tenth of whose cells are swapped. The trust in an imputed cell is the probability, under the
same distribution, that its category is right or its number within half a standard deviation; its logit has a scale and a
shift from rows held out, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import expit, logit, softmax

from gauge.tabular.experts._forest import Forest
from gauge.tabular.experts._leaf_tables import ForestScores
from gauge.tabular.table.columns import Cell
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema
from gauge.training.device import num_threads

if TYPE_CHECKING:
    import lightgbm

SWAPPED = 0.1  # share of wrong cells that trust expects


@dataclass(frozen=True)
class Bins:
    """How the values of a column are divided. A number has the edges between its bins and some quantiles of each as
    `points`; a category has the codes with a bin of their own as `points`. `prior` are the shares of the bins."""

    edges: np.ndarray | None
    points: np.ndarray
    prior: np.ndarray
    tolerance: ClassVar[float] = 0.5  # of an imputed number, in standard deviations of its column

    @classmethod
    def from_values(cls, column: Cell, values: np.ndarray) -> Self:
        # bins of a number, with equally many rows each
        count = 24 if len(values) > 200 else 8  # fewer bins for a small table
        values = values[~np.isnan(values)]
        if not column.categorical:
            edges = np.unique(np.quantile(values, np.linspace(0, 1, count + 1)[1:-1])) if len(values) else np.zeros(0)
            number = np.searchsorted(edges, values, side="right")
            inside = [values[number == each] for each in range(len(edges) + 1)]
            levels = np.linspace(0.1, 0.9, 5)  # of each of them
            points = [np.quantile(each if len(each) else edges[:1], levels) for each in inside if len(values)]
            return cls(edges, np.array(points).reshape(-1, len(levels)), _shares(number, len(edges) + 1))
        counts = np.bincount(values.astype(int), minlength=column.cardinality)
        # most categories with a bin of their own; rarer ones share one
        common = np.sort(np.argsort(-counts, kind="stable")[:15])
        bins = cls(None, common.astype(float)[:, None], np.ones(0))
        return cls(None, bins.points, _shares(bins(values), len(common) + (len(common) < len(counts))))

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """The bin of each value; 0 for NaN."""
        known = np.nan_to_num(values)
        if self.edges is not None:
            return np.searchsorted(self.edges, known, side="right")
        codes = self.points[:, 0]
        index = np.searchsorted(codes, known).clip(max=len(codes) - 1)
        return np.where(codes[index] == known, index, len(codes))

    @property
    def values(self) -> np.ndarray:
        """A value for each bin, but not for that of rare categories."""
        return np.median(self.points, 1)

    def near(self, values: np.ndarray) -> np.ndarray:
        """Return the share of every bin that counts as right where `values` were imputed: [values, bins]."""
        if self.edges is None:
            return np.eye(len(self.prior))[self(values)]
        return (np.abs(self.points - values[:, None, None]) <= self.tolerance).mean(2)

    def smoothed(self, given: np.ndarray) -> np.ndarray:
        """Return the distribution mixed with a little of that without the other cells: nothing is ruled out."""
        return 0.95 * given + 0.05 * self.prior


@dataclass(frozen=True)
class Conditional:
    """The distribution of a column given the other cells. Few bins have one model of them all. Many bins of a number have
    models of the mean, which are averaged, then one of the logarithm of the scale, and the `quantiles` of (value - mean) /
    scale."""

    forests: Sequence[Forest]
    quantiles: np.ndarray | None
    levels: ClassVar[np.ndarray] = np.linspace(0, 1, 41)  # of the quantiles

    @cached_property
    def scores(self) -> list[ForestScores]:
        return [ForestScores(forest) for forest in self.forests]

    def probabilities(self, given: np.ndarray, bins: Bins) -> np.ndarray:
        """Of every bin: [rows, bins]."""
        if self.quantiles is None:
            return softmax(self.scores[0](given), axis=1)
        assert bins.edges is not None
        *means, scale = (each(given)[:, 0] for each in self.scores)
        errors = (bins.edges - np.mean(means, 0)[:, None]) / np.exp(scale)[:, None]
        below = np.interp(errors, self.quantiles, self.levels)
        return np.diff(below, prepend=0.0, append=1.0)


@dataclass(frozen=True)
class CellTrust:
    """What the cells of a row say about each other. `given` has a model for each column of the table, None where the other
    cells say nothing about it; the lines are slope and constant of the logits of trust."""

    columns: Sequence[Cell]
    bins: Sequence[Bins]
    given: Sequence[Conditional | None]
    observed_line: tuple[float, float] = (1.0, float(logit(1 - SWAPPED)))
    imputed_line: tuple[float, float] = (1.0, 0.0)
    certain: ClassVar[float] = 1e-6  # how near to 0 and 1 probabilities may come

    @classmethod
    def fit(cls, rows: Rows, seed: int) -> Self | None:
        """None for tables that are too small, or too wide, to learn it from."""
        cells, columns = rows.cells, rows.schema.table
        # a wider table has no trust
        if len(rows) < 50 or not 2 <= len(columns) <= 200:
            return None
        draw = np.random.default_rng(seed)
        # wide tables: fewer rows, but no fewer than that
        most = min(3000, max(500, 60_000 // len(columns)))  # rows to learn from
        order = draw.permutation(len(rows))[:most]
        count = round(0.25 * len(order))  # share of the rows held out
        train, held_out = cells[order[count:]], cells[order[:count]]
        bins = [Bins.from_values(column, values) for column, values in zip(columns, train.T, strict=True)]
        both = [np.concatenate([part, _hidden(part, draw)]) for part in (train, held_out)]
        given = [_fit_column(index, bins, *both, seed=seed) for index in range(len(columns))]
        return cls(columns, bins, given)._calibrated(held_out, draw)

    def _calibrated(self, cells: np.ndarray, draw: np.random.Generator) -> Self:
        """With lines fitted to rows with swapped and with hidden cells."""
        cells = np.tile(cells, (4, 1))  # copies of the rows held out, each with other cells swapped and hidden
        swapped, wrong = swap(cells, SWAPPED, draw)
        known = ~np.isnan(swapped)
        observed = _line(self._ratios(swapped)[known], ~wrong[known], self.observed_line)
        shown = _hidden(cells, draw)
        hidden, guesses = np.isnan(shown) & ~np.isnan(cells), self.guesses(shown)
        logits = logit(self.imputed(shown, guesses)[hidden].clip(self.certain, 1 - self.certain))
        imputed = _line(logits, self.is_right(cells, guesses)[hidden], self.imputed_line)
        return replace(self, observed_line=observed, imputed_line=imputed)

    def is_right(self, cells: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return whether `values` have the right category, or a number within the tolerance."""
        number = np.array([bins.edges is not None for bins in self.bins])
        return np.abs(values - cells) <= np.where(number, Bins.tolerance, 0.5)

    def distribution(self, cells: np.ndarray, index: int) -> np.ndarray:
        """Return the probability of every bin of a column, given the other cells: [rows, bins]."""
        bins, model = self.bins[index], self.given[index]
        if model is None or not len(cells):
            return np.tile(bins.prior, (len(cells), 1))
        given = model.probabilities(np.delete(cells, index, 1), bins)
        return bins.smoothed(given)

    def observed(self, cells: np.ndarray) -> np.ndarray:
        """Return the trust in every cell; NaN where it is missing."""
        return np.where(np.isnan(cells), np.nan, expit(np.polyval(self.observed_line, self._ratios(cells))))

    def imputed(self, cells: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the trust in `values` for the missing cells; NaN where a cell is observed."""
        trust = np.full(cells.shape, np.nan)
        for index, bins in enumerate(self.bins):
            rows = np.flatnonzero(np.isnan(cells[:, index]))
            given = self.distribution(cells[rows], index)
            right = (given * bins.near(values[rows, index])).sum(1).clip(self.certain, 1 - self.certain)
            trust[rows, index] = expit(np.polyval(self.imputed_line, logit(right)))
        return trust

    def guesses(self, cells: np.ndarray) -> np.ndarray:
        """Return the most likely category and the median number of every cell, as the other cells suggest."""
        guesses = np.empty(cells.shape)
        for index, bins in enumerate(self.bins):
            given = self.distribution(cells, index)
            number = (given.cumsum(1) < 0.5).sum(1).clip(max=len(bins.values) - 1)
            if bins.edges is None:
                number = given[:, : len(bins.values)].argmax(1)
            guesses[:, index] = bins.values[number]
        return guesses

    def suggestion(self, cells: np.ndarray, index: int) -> str:
        """Return what the other cells of one row suggest for a cell, in words: "10 to 14" or "red or blue"."""
        likely = 0.8  # probability of the values that the other cells suggest
        column, bins = self.columns[index], self.bins[index]
        (given,) = self.distribution(cells[None], index)
        if column.categorical:
            order = np.argsort(-given[: len(bins.values)], kind="stable")
            count = 1 + int((given[order].cumsum() < likely).sum())
            names = [column.decode(float(bins.values[each])) for each in order[: min(count, 3)]]
            return " or ".join(names)
        tail = (1 - likely) / 2
        low, high = (int((given.cumsum() < each).sum()) for each in (tail, 1 - tail))
        assert bins.edges is not None
        borders = np.concatenate([[-np.inf], bins.edges, [np.inf]])
        first, last = (column.decode(float(np.clip(each, -3.1, 3.1))) for each in (borders[low], borders[high + 1]))
        return first if first == last else f"{first} to {last}"

    def _ratios(self, cells: np.ndarray) -> np.ndarray:
        """log of p / (1 - p) / prior for every cell, with p of its bin given the other cells."""
        ratios, every = np.zeros(cells.shape), np.arange(len(cells))
        for index, bins in enumerate(self.bins):
            number = bins(cells[:, index]).clip(max=len(bins.prior) - 1)
            given = self.distribution(cells, index)[every, number]
            ratios[:, index] = logit(given.clip(self.certain, 1 - self.certain)) - np.log(bins.prior[number])
        return ratios

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        tensors: dict[str, np.ndarray] = {}
        forests: list[list[dict[str, Any]]] = []
        for index, (bins, given) in enumerate(zip(self.bins, self.given, strict=True)):
            parts = {"points": bins.points, "prior": bins.prior, "edges": bins.edges}
            parts["quantiles"] = given.quantiles if given else None
            tensors |= {f"{index}.{name}": each for name, each in parts.items() if each is not None}
            forests.append([])
            for number, forest in enumerate(given.forests if given else ()):
                tensors |= forest.tensors(f"{index}.trees.{number}.")
                forests[-1].append(forest.metadata())
        return tensors, {"observed": self.observed_line, "imputed": self.imputed_line, "trees": forests}

    @classmethod
    def load(cls, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, Any], schema: Schema) -> Self:
        bins, given = [], []
        for index in range(len(schema.table)):
            bins.append(Bins(tensors.get(f"{index}.edges"), tensors[f"{index}.points"], tensors[f"{index}.prior"]))
            trees = [
                Forest.load(f"{index}.trees.{number}.", tensors, forest)
                for number, forest in enumerate(metadata["trees"][index])
            ]
            given.append(Conditional(trees, tensors.get(f"{index}.quantiles")) if trees else None)
        return cls(schema.table, bins, given, tuple(metadata["observed"]), tuple(metadata["imputed"]))


def swap(cells: np.ndarray, rate: float, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells, some of them with the value of another row, and which of them hold another value than before."""
    swapped = cells.copy()
    chosen = (draw.random(cells.shape) < rate) & ~np.isnan(cells)
    for index, column in enumerate(cells.T):
        known = np.flatnonzero(~np.isnan(column))
        rows = np.flatnonzero(chosen[:, index])
        swapped[rows, index] = column[draw.choice(known, len(rows))] if len(known) else np.nan
    return swapped, chosen & (swapped != cells)


def _line(values: np.ndarray, right: np.ndarray, otherwise: tuple[float, float]) -> tuple[float, float]:
    """Slope and constant of the logistic regression of what is right; never a falling one."""
    if right.all() or not right.any():
        return otherwise
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression().fit(values[:, None], right)
    return max(float(fitted.coef_[0, 0]), 0.0), float(fitted.intercept_[0])


def _hidden(cells: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return the rows with some of their cells missing, up to `HIDDEN` of them."""
    # largest share of the other cells that training hides
    return np.where(draw.random(cells.shape) < draw.uniform(0, 0.5, (len(cells), 1)), np.nan, cells)


def _predict(trees: "lightgbm.Booster", given: np.ndarray) -> np.ndarray:
    return np.asarray(trees.predict(given, num_threads=num_threads()))


def _shares(numbers: np.ndarray, count: int) -> np.ndarray:
    counts = np.bincount(numbers, minlength=count) + 0.5
    return counts / counts.sum()


def _fit_column(
    index: int, bins: Sequence[Bins], train: np.ndarray, held_out: np.ndarray, *, seed: int
) -> Conditional | None:
    """Return the distribution of one column; None if the others do not help to predict it. The second half of the rows
    repeats the first with cells hidden; the target is known all the same."""
    own, others = bins[index], [each for number, each in enumerate(bins) if number != index]
    targets = [np.tile(cells[: len(cells) // 2, index], 2) for cells in (train, held_out)]
    known = [np.flatnonzero(~np.isnan(target)) for target in targets]
    if len(own.prior) < 2 or min(map(len, known)) < 12:
        return None
    target, unseen = (target[rows] for target, rows in zip(targets, known, strict=True))
    given, new = (np.delete(cells[rows], index, 1) for cells, rows in zip((train, held_out), known, strict=True))
    # each tree uses about 12 columns
    learner = _Learner(
        [number for number, each in enumerate(others) if each.edges is None],
        {
            "learning_rate": 0.2,
            "num_leaves": 8,
            "lambda_l2": 1.0,
            "verbosity": -1,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "min_data_in_leaf": int(np.clip(len(train) // 60, 5, 40)),
            "feature_fraction": min(0.8, 12 / len(others)),
            "seed": seed % 2**31,
        },
    )
    if len(own.prior) <= 16:  # one model for all bins
        options = {"objective": "multiclass", "num_class": len(own.prior)}
        trees = learner.fit((given, own(target)), (new, own(unseen)), **options)
        fitted = Conditional([Forest.from_booster(trees)], None)
    else:
        fitted = learner.number(given, target, known[0] % (len(train) // 2) % 2 == 0)
    learned = own.smoothed(fitted.probabilities(new, own))
    number = own(unseen)
    better = np.log(learned[np.arange(len(number)), number]).mean() > np.log(own.prior[number]).mean()
    return fitted if better else None


@dataclass(frozen=True)
class _Learner:
    """Fits trees; `categorical` are the columns of categories among those that are given."""

    categorical: list[int]
    options: Mapping[str, Any]

    def fit(
        self, learned: tuple[np.ndarray, np.ndarray], unseen: tuple[np.ndarray, np.ndarray] | None, **options: Any
    ) -> "lightgbm.Booster":
        """Return a few trees, or more of which those up to `best_iteration` help on unseen rows."""
        import lightgbm

        # 63: bins of a column that trees read
        made = {"verbosity": -1, "feature_pre_filter": False, "num_threads": 1, "max_bin": 63}
        data = lightgbm.Dataset(*learned, categorical_feature=self.categorical, params=made)
        if unseen is None:
            return lightgbm.train({**self.options, **options}, data, 15, keep_training_booster=True)  # rounds
        other = lightgbm.Dataset(*unseen, data, categorical_feature=self.categorical, params=made)
        stopping: list[Any] = [lightgbm.early_stopping(4, verbose=False)]  # patience
        known: dict[str, Any] = {"callbacks": stopping, "keep_training_booster": True}  # not written and read again
        return lightgbm.train({**self.options, **options}, data, 80, [other], **known)  # rounds at most

    def number(self, given: np.ndarray, target: np.ndarray, first: np.ndarray) -> Conditional:
        """Means from each half of the rows, so that errors are those on rows not learned from."""
        errors, means = np.empty(len(target)), []
        for half in (first, ~first):
            mean = self.fit((given[half], target[half]), (given[~half], target[~half]), objective="l2")
            errors[~half] = target[~half] - _predict(mean, given[~half])
            means.append(mean)
        # 0.02: the least error of a number, in standard deviations
        scale = self.fit((given, np.log(np.abs(errors) + 0.02)), None, objective="l2", num_leaves=4)
        quantiles = np.quantile(errors / np.exp(_predict(scale, given)), Conditional.levels)
        return Conditional([Forest.from_booster(each) for each in (*means, scale)], quantiles)
