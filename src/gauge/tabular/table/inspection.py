"""inspect_table(): the kinds, missing values and problems of a table, before anything is trained on it."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gauge.choices import pick
from gauge.registry import COLUMNS
from gauge.tabular.table.cells import missing, plain, written
from gauge.tabular.table.columns import IGNORE, MAX_CATEGORIES, Cell, ImageFiles, ReadOptions, infer_kind, pick_kind
from gauge.tabular.table.inputs import as_pandas, has_label, target_problems
from gauge.tabular.table.numbers import are_whole, is_named, uses_decimal_commas
from gauge.tabular.table.schema import width_problems

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Inspection:
    """One line for every column, and problems."""

    columns: pd.DataFrame
    problems: list[str]
    rows: int

    def text(self) -> str:
        lines = [f"{self.rows} rows, {len(self.columns)} columns", "", self.columns.to_string(index=False), ""]
        lines += ["problems:"] if self.problems else ["no problems found"]
        return "\n".join([*lines, *(f"  {problem}" for problem in self.problems)])


def inspect_table(
    frame: pd.DataFrame,
    *,
    target: str | None = None,
    kinds: Mapping[str, str] | None = None,
    files: ImageFiles = ImageFiles(),
    max_categories: int = MAX_CATEGORIES,
) -> Inspection:
    """`target` holds the labels, `kinds` overrides the inferred kinds, `files` are the images; `max_categories` of a column
    are kept, the others are rare."""
    if not len(frame := as_pandas(frame)):
        raise ValueError("the table has no rows; give a table with some")
    frame, kinds = frame.apply(plain), kinds or {}
    for name in (*kinds, *([] if target is None else [target])):
        pick(dict.fromkeys(frame.columns), name, "column")
    for kind in kinds.values():
        pick_kind(kind)
    problems = [] if target is None else list(_target_problems(frame[target]))
    features = frame.columns.drop(target) if target else frame.columns
    cells = np.array([missing(frame[name]) for name in features], bool).reshape(-1, len(frame))
    empty = np.asarray(cells.all(0)) & bool(len(features))
    if empty.any():
        problems.append(
            f"{empty.sum()} rows have no values and are left out of training, first row {frame.index[empty][0]}"
        )
    if copies := int(frame[~empty].astype(str).duplicated().sum()):
        problems.append(
            f"{copies} rows are exact copies of others; if they end up in training and test, scores mislead"
        )
    options = ReadOptions(files=files, decimal_commas=uses_decimal_commas(frame), max_categories=max_categories)
    known, labels = (np.zeros(0, int), np.zeros(0, int)) if target is None else _known_labels(frame[target])
    lines, cells_read = [], list[np.ndarray]()
    for name in features:
        column = frame[name]
        kind, note = (kinds[name], "as specified") if name in kinds else infer_kind(column)
        mask, own_problems = _inspect_column(column, kind, options)
        if not own_problems and kind != IGNORE and issubclass(COLUMNS.get(kind), Cell):
            cell = COLUMNS.get(kind).from_column(column, options)
            note = cell.note or note
            cells_read.append(cell.numbers(column, training=True))
            own_problems = list(leak_problems(cells_read[-1][known], labels)) if len(known) else []
            own_problems += repeated_identifier(column)
        problems += [f"{name}: {problem}" for problem in own_problems]
        if words := sorted(set(column[missing(column) & column.notna()].astype(str).str.strip()) - {""}):
            note = f"{note}; " * bool(note) + f"{', '.join(map(repr, words[:3]))} counts as missing"
        values = column[~mask]
        example = " ".join(written(values.iloc[0]).split())[:40] if len(values) else ""
        lines.append((name, kind, f"{100 * mask.mean():.1f} %", values.astype(str).nunique(), example, note))
    table = pd.DataFrame(lines, columns=["column", "kind", "missing", "distinct", "example", "note"])
    inspected = [COLUMNS.get(kind) for kind in table["kind"] if kind != IGNORE]
    problems += near_twins(np.stack(cells_read, 1)) if cells_read else []
    problems += width_problems(sum(issubclass(kind, Cell) for kind in inspected))
    return Inspection(table, problems, len(frame))


def _inspect_column(column: pd.Series, kind: str, options: ReadOptions) -> tuple[np.ndarray, list[str]]:
    """Which rows are missing, and the problems of the column."""
    mask, problems = missing(column), list[str]()
    if kind != IGNORE:
        absent, problems = COLUMNS.get(kind).inspect(column[~mask], options)
        mask[np.flatnonzero(~mask)[absent]] = True
    if (rate := mask.mean()) > 0.95:
        problems.append(f"{100 * rate:.0f} % are missing; there is little to learn from it")
    return mask, problems


def leak_problems(cells: np.ndarray, labels: np.ndarray) -> Iterator[str]:
    """That a column alone tells the labels, which are class numbers, and how well. The cells are numbers or codes, NaN where
    they are missing, which may tell the label, too. Each fold is predicted with the labels of the nearest values in the
    others, so the time is that of sorting the column.

    >>> draw = np.random.default_rng(0)
    >>> labels = draw.integers(0, 2, 200)
    >>> len(list(leak_problems(37.0 + labels, labels))), len(list(leak_problems(draw.normal(size=200), labels)))
    (1, 0)
    """
    chosen = np.random.default_rng(0).permutation(len(labels))[:2000]
    cells, labels = cells[chosen].astype(float), np.unique(labels[chosen], return_inverse=True)[1]
    fold = np.arange(len(labels)) % 3
    right = np.zeros(len(labels), bool)
    for number in range(3 if len(labels) >= 30 else 0):
        train, test = fold != number, fold == number
        right[test] = _nearest_labels(cells[train], labels[train], cells[test]) == labels[test]
    for rows in (np.ones(len(labels), bool), ~np.isnan(cells)):
        count, others = int(rows.sum()), int(rows.sum() - np.bincount(labels[rows], minlength=1).max())
        allowed = min(0.01 * count, 0.1 * others)  # errors, of all and of those that the largest class gets wrong
        if count >= 30 and others >= 10 and (~right[rows]).sum() <= allowed:
            yield (
                f"tells the label alone: {100 * right[rows].mean():.1f} % of {count} rows, where the largest class has "
                f"{100 * (1 - others / count):.0f} %; if it follows from the label, ignore it (columns=, --column "
                "NAME=ignore)"
            )
            return


def repeated_identifier(column: pd.Series) -> list[str]:
    """That a column numbers or names what several rows belong to, such as patients: many values with few rows each, whose
    name is that of an identifier, or whose equal values follow each other as 0, 0, 1, 1 do.

    >>> len(repeated_identifier(pd.Series(np.repeat(range(40), 3)))), len(repeated_identifier(pd.Series([1, 2, 3] * 40)))
    (1, 0)
    >>> len(repeated_identifier(pd.Series([f"P{number}" for number in range(40)] * 3, name="PatID", dtype="str")))
    1
    """
    values = plain(column)[~missing(column)]
    count = values.nunique()
    if not 20 <= count < len(values) or len(values) > 20 * count or not (values.dtype.kind == "O" or are_whole(values)):
        return []
    ids = r"(?:^|[\s_.-])(?:id|ids|key|mrn|nr|no|patient|subject|person|user|customer|client|case|family|household)$"
    named = is_named(values, rf"{ids}|[a-z](?:ID|Id|Nr|No)$|nummer$")
    if not named and (np.diff(pd.factorize(values)[0]) < 0).any():  # one returns after others
        return []
    return [
        f"{count} values with about {len(values) / count:.1f} rows each look like an identifier of groups; keep their rows "
        "together where some are held out (groups=, --groups), or leave it out (columns=, --column NAME=ignore)"
    ]


def near_twins(cells: np.ndarray) -> list[str]:
    """That many rows have a near twin, as rows of one patient are whose groups nobody named. Only numbers that hardly repeat
    say so, if there are five of them: in fewer dimensions all rows have near neighbours.

    >>> near_twins(np.random.default_rng(0).normal(size=(300, 6)) * [1000, 500, 1, 1, 1, 1])
    []
    """
    from scipy.spatial import cKDTree

    rows = cells[:2000]
    numbers = rows[:, [len(np.unique(each[~np.isnan(each)])) > len(rows) / 4 for each in rows.T]]
    numbers = numbers[~np.isnan(numbers).any(1)]
    if numbers.shape[1] < 5 or len(numbers) < 50:
        return []
    numbers = (numbers - numbers.mean(0)) / numbers.std(0)  # a column with large numbers would be the only dimension
    near = cKDTree(numbers).query(numbers, 2)[0][:, 1]
    usual = np.median(np.linalg.norm(numbers - numbers[np.random.default_rng(0).permutation(len(numbers))], axis=1))
    share = float((near < 0.05 * usual).mean())
    if share < 0.2:
        return []
    return [
        f"{100 * share:.0f} % of the rows have a near twin; if they belong to the same patient or object, name it with "
        "groups= (--groups): otherwise scores on rows held out are too good"
    ]


def _nearest_labels(known: np.ndarray, labels: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """The most frequent label of the known value that is nearest to each cell; NaN is a value far from all others."""
    values, position = np.unique(known, return_inverse=True)  # NaN comes last, once
    counts = np.zeros((len(values), labels.max() + 1), int)
    np.add.at(counts, (position, labels), 1)
    numbers = values[~np.isnan(values)]
    if not len(numbers):
        return np.full(len(cells), counts.sum(0).argmax())
    above = np.searchsorted(numbers, cells).clip(max=len(numbers) - 1)
    below = (above - 1).clip(min=0)
    nearest = np.where(cells - numbers[below] <= numbers[above] - cells, below, above)
    nearest = np.where(np.isnan(cells), len(values) - 1, nearest)
    return counts.argmax(1)[nearest]


def _known_labels(labels: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """The rows that have a label, and the numbers of their classes."""
    known = np.flatnonzero(has_label(labels))
    return known, pd.factorize(labels.iloc[known].astype(str))[0]


def _target_problems(labels: pd.Series) -> Iterator[str]:
    values = labels[has_label(labels)]
    if len(values) < len(labels):
        count = len(labels) - len(values)
        yield f"{labels.name}: {count} labels are missing; columns and trust are learned from these rows, too"
    counts = values.value_counts()
    if len(counts) < 2:
        yield f"{labels.name}: there is only one class"
    few = counts[counts < 10]
    if len(few):
        example = repr(str(few.index[0]))
        yield f"{labels.name}: {len(few)} of {len(counts)} classes have fewer than 10 rows, e.g. {example}"
    if pd.api.types.is_float_dtype(labels) and not np.all(values % 1 == 0):
        yield f"{labels.name}: fractions are not classes; divide them into classes (--classes 4, pd.qcut)"
    else:
        yield from (f"{labels.name} {problem}" for problem in target_problems(values))


def report_leaks(
    frame: pd.DataFrame, columns: Sequence[Cell], cells: np.ndarray, labels: np.ndarray, *, grouped: bool
) -> None:
    """Log which of the columns alone tell the label or look like an identifier of groups and, unless rows are `grouped`,
    whether they have twins; `cells` are those of the rows of the frame: [rows, columns]."""
    for column, values in zip(columns, cells.T, strict=True):
        for problem in (*leak_problems(values, labels), *repeated_identifier(frame[column.name])):
            logger.warning("column %r: %s", column.name, problem)
    for problem in near_twins(cells) if cells.size and not grouped else []:
        logger.warning(problem)
