"""Rows and labels as people give them: DataFrames of pandas and polars, arrays, labels of any one type."""

import logging
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from numbers import Number, Real
from typing import Any

import numpy as np
import pandas as pd

from gauge.choices import did_you_mean, pick
from gauge.tabular.table.cells import cells_of, is_missing, without_fraction, written_alike
from gauge.tabular.table.guard import warn
from gauge.tabular.table.numbers import are_quantities, range_positions

logger = logging.getLogger(__name__)

MIN_QUANTITIES = 20  # different integers from which on a target looks like a quantity


def is_frame(rows: Any) -> bool:
    """Whether the rows have named columns: a DataFrame of pandas or polars, or a table of pyarrow."""
    return isinstance(rows, pd.DataFrame) or hasattr(rows, "to_pandas") or hasattr(rows, "iter_columns")


def as_pandas(rows: Any) -> pd.DataFrame:
    """The frame with texts as its column names, each of them once."""
    if isinstance(rows, pd.DataFrame):
        frame = rows
    elif hasattr(rows, "iter_columns"):  # polars, whose to_pandas needs pyarrow
        frame = pd.DataFrame({name: pd.Series(rows[name].to_list()) for name in rows.columns})
    else:
        frame = rows.to_pandas()
    if frame.columns.nlevels > 1:
        raise ValueError(
            f"the column names have {frame.columns.nlevels} levels, e.g. {frame.columns[0]!r}; give one level, for example "
            "table.set_axis(table.columns.map('_'.join), axis=1)"
        )
    if frame.columns.is_unique and all(isinstance(name, str) for name in cells_of(frame.columns)):
        return frame
    names = pd.Index(map(str, frame.columns))
    if names.has_duplicates:
        raise ValueError(f"the table has column {names[names.duplicated()][0]!r} twice; rename or drop one of them")
    return frame.set_axis(names, axis=1)


def check_array_like(rows: Any) -> None:
    """Rows without names have to be a matrix."""
    first = rows[0] if isinstance(rows, list) and rows else None
    single = isinstance(rows, pd.Series | Mapping | str) and not hasattr(rows, "tocsr")
    if rows is None or single or isinstance(first, Mapping):
        given, cure = f"a {type(rows).__name__}", "pd.DataFrame([row])"
        if first is not None:
            given, cure = "a list of mappings", "pd.DataFrame(rows)"
        elif isinstance(rows, pd.Series):
            cure = "series.to_frame() of a column, pd.DataFrame([series]) of a row"
        raise ValueError(f"the rows are {given}; give a DataFrame, for example {cure}")
    if hasattr(rows, "collect"):
        raise ValueError(f"the rows are a {type(rows).__name__}, a plan to compute them; give rows.collect()")
    if getattr(getattr(rows, "dtype", None), "names", None):
        raise ValueError("the rows are an array of records; give pd.DataFrame(rows)")


def from_array(rows: Any) -> pd.DataFrame:
    """A matrix of numbers or of any objects, without names."""
    check_array_like(rows)
    warn("the rows are an array without names; columns are read by position, as in training")
    if isinstance(rows, list | np.ma.MaskedArray) or getattr(getattr(rows, "dtype", None), "kind", "f") in "OUST":
        return pd.DataFrame(rows, dtype=object)
    from sklearn.utils import check_array

    return pd.DataFrame(check_array(rows, dtype="numeric", ensure_all_finite="allow-nan"))


def match_columns(rows: Any, names: Sequence[str], *, named: bool, target: str | None) -> pd.DataFrame:
    """A frame to predict with the names of the columns in training, in which they were `named` or not."""
    frame = as_pandas(rows)
    if not named and not set(names) <= set(frame.columns):
        warn("the model was fitted on an array without names; columns are read by position")
        return by_position(frame, names)
    frame = _without_spaces(frame, names)
    known, own = {*names, target}, None if target is None else target.strip()
    if new := [name for name in cells_of(frame.columns) if name not in known and name.strip() != own]:
        warn(f"column {new[0]!r} (first of {len(new)}) was not in training and is ignored")
    return frame


def _without_spaces(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The frame with the names of training where its own differ from them in spaces around them alone."""
    given = set(cells_of(frame.columns))
    wanted = {name.strip(): name for name in names if name not in given}
    known = set(names)
    others = [name for name in cells_of(frame.columns) if wanted and name not in known and name.strip() in wanted]
    renamed = {name: wanted[name.strip()] for name in others}
    if len(set(renamed.values())) < len(others):  # two names of the table would be one
        return frame
    for name, own in list(renamed.items())[:1]:
        warn(f"column {name!r} (first of {len(renamed)}) is read as column {own!r} of training")
    return frame.rename(columns=renamed) if renamed else frame


def by_position(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The rows with the names of training, of which there have to be as many."""
    if rows.shape[1] != len(names):
        raise ValueError(
            f"X has {rows.shape[1]} features, but GaugeClassifier is expecting {len(names)} features as input; give the "
            "columns of training in their order, or a DataFrame with their names"
        )
    return rows.set_axis(list(names), axis=1)


def as_labels(y: Any) -> Any:
    """Labels of an extension type of pandas as what they hold, as scikit-learn would turn truth values into 0.0 and 1.0;
    those of a masked array, which would lose its mask, and in half precision, of which pandas makes no index."""
    kind = getattr(y, "dtype", None)
    if isinstance(kind, pd.CategoricalDtype) and isinstance(kind.categories.dtype, pd.IntervalDtype):
        y = pd.Series(y).cat.rename_categories(str)  # ranges, as `pd.qcut` gives them
    own = isinstance(kind, pd.api.extensions.ExtensionDtype) or kind == np.float16 or isinstance(y, np.ma.MaskedArray)
    return pd.Series(y).astype(object).infer_objects() if own else y


def labels_of(rows: Any, y: Any, count: int) -> pd.Series:
    """Labels for so many rows, or the column of the rows that has this name."""
    if isinstance(y, str):
        frame = as_pandas(rows) if is_frame(rows) else pd.DataFrame()
        known: dict[Any, Any] = {**{str(name).strip(): name for name in frame}, **{name: name for name in frame}}
        y = frame[pick(known, y if y in known else y.strip(), "column with the labels")]
    y = as_labels(y)
    warn_of_order(rows, y)
    labels = _as_column(y)
    check_count(labels, count)
    return labels


def warn_of_order(rows: Any, y: Any, name: str = "y") -> None:
    """Warn where labels, or other values of rows, have the index of the rows in another order."""
    both = isinstance(y, pd.Series) and isinstance(rows, pd.DataFrame)
    if both and not y.index.equals(rows.index) and set(y.index) == set(rows.index):
        logger.warning("%s and the table have the same index in different orders; they are matched by position", name)


def without_target(rows: Any, name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return the table without the column of labels, and that column."""
    check_array_like(rows)
    if not isinstance(rows, pd.DataFrame) or name not in rows:
        columns = list(rows.columns) if isinstance(rows, pd.DataFrame) else ["no names"]
        hint = did_you_mean(name, columns) or f"the table has {columns}"
        raise ValueError(f"there is no column {name!r} with the labels; {hint}")
    return rows.drop(columns=name), rows[name]


def check_count(labels: Any, rows: int) -> None:
    """Labels and rows belong together by position."""
    if not hasattr(labels, "__len__"):
        raise ValueError(
            f"the labels are {labels!r}; give a label for each row, or the name of their column as a text, {str(labels)!r}"
        )
    if len(labels) != rows:
        raise ValueError(f"the table has {rows} rows but there are {len(labels)} labels; give one for each row")


def check_kept(keep: Iterable[str], result: Collection[str]) -> None:
    """A column that is copied into a result never takes the place of one of its own."""
    for name in keep:
        if name in result:
            raise ValueError(f"column {name!r} cannot be kept: the result has one of that name; rename it in the table")


def known_labels(y: Any, index: pd.Index) -> tuple[np.ndarray, Any]:
    """Which rows have a label, and the labels of these. How many do not is reported."""
    column = _as_column(y, warn=True)
    known = has_label(column)
    if known.all():
        return known, y
    report_unlabelled(known, index, use=True)
    return known, beside_missing(column[known])


def report_unlabelled(known: np.ndarray, index: pd.Index, *, use: bool = False) -> None:
    """Log how many rows have no label, and which is the first; an error if none has."""
    if not known.any():
        raise ValueError("all labels are missing; give rows that have one")
    what = "columns and trust are learned from them, too" if use else "they are left out"
    logger.warning("%d rows have no label, first row %s; %s", (~known).sum(), index[~known][0], what)


def beside_missing(labels: pd.Series) -> pd.Series:
    """Labels that had missing ones among them, with the type they have without: integers, not numbers with a fraction."""
    labels = labels.infer_objects()
    return labels.astype("int64") if pd.api.types.is_float_dtype(labels) and _whole(labels).all() else labels


def row_names(index: pd.Index) -> list[str]:
    """Rows by the names that they have in their table, one of several levels with commas between them."""
    return [", ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in index]


def has_label(column: pd.Series) -> np.ndarray:
    """Where a label is neither missing nor blank."""
    blank = column.map(lambda label: isinstance(label, str) and not label.strip()).fillna(True).astype(bool)
    return ~(column.isna() | blank).to_numpy(bool)


def class_positions(classes: Sequence[Any] | np.ndarray, labels: pd.Series) -> np.ndarray:
    """The position in `classes` of every label, -1 where it is none of them. Files write a class in several ways: 1 is also
    "1", and 1.0 beside missing labels, and True is also "True"; a number is the class of its range.

    >>> class_positions(np.array([0, 1]), pd.Series([1.0, None, 0.0])).tolist()
    [1, -1, 0]
    >>> class_positions(np.array(["up to 5", "above 5"]), pd.Series([7.5, 2.0])).tolist()
    [1, 0]
    """
    positions = np.array(pd.Index(classes).get_indexer(pd.Index(labels)))
    names = pd.Index([_class_name(label) for label in classes])
    if names.is_unique:
        others = np.flatnonzero((positions < 0) & has_label(labels))
        positions[others] = names.get_indexer(pd.Index([_class_name(label) for label in labels.iloc[others]]))
    others = np.flatnonzero((positions < 0) & has_label(labels))
    positions[others] = range_positions(names, labels.iloc[others])
    return positions


def accuracy(classes: np.ndarray, decided: np.ndarray, labels: pd.Series, weights: np.ndarray) -> float:
    """How often the position in `classes` that was decided is that of the label, among rows that have one."""
    known, positions = has_label(labels), class_positions(classes, labels)
    if not known.all():
        report_unlabelled(known, labels.index)
    if (positions < 0).all():
        raise ValueError(
            f"no label is a class of training: the first is {labels[known].tolist()[0]!r}, the classes are "
            f"{classes.tolist()[:20]}; give labels as they were in training"
        )
    if not weights[known].any():
        raise ValueError("all rows with a label have a weight of zero; give one of them more")
    return float(np.average((positions == decided)[known], weights=weights[known]))


def values_by_row(frame: pd.DataFrame, given: Any, what: str) -> pd.Series:
    """A column of the table, by its name, or a value that is given for each row."""
    if isinstance(given, str):
        given = frame[pick({str(name): name for name in frame}, given, f"column of {what}s")]
    warn_of_order(frame, given, f"{what}s")
    values = pd.Series(given).reset_index(drop=True)
    if len(values) != len(frame):
        raise ValueError(f"there are {len(values)} {what}s for {len(frame)} rows; give a {what} for each row")
    return values


def group_numbers(frame: pd.DataFrame, groups: Any) -> np.ndarray | None:
    """The number of each row's group, from a column of the table or a value for each row; a missing value is a group of its
    own. None without groups."""
    if groups is None:
        return None
    groups = values_by_row(frame, groups, "group")
    numbers = pd.factorize(groups.astype(str).where(groups.notna()))[0]
    alone = np.flatnonzero(numbers < 0)
    numbers[alone] = numbers.max(initial=-1) + 1 + np.arange(len(alone))
    return np.asarray(numbers)


def check_weights(weights: Any, rows: int) -> np.ndarray:
    """A weight for each row, 1 unless given."""
    from sklearn.utils import check_array

    if isinstance(weights, str):
        raise ValueError(f"sample_weight is {weights!r}; give a weight for each row, such as table[{weights!r}]")
    if weights is None or isinstance(weights, Real):
        weights = np.full(rows, 1.0 if weights is None else weights)
    weights = check_array(weights, dtype=float, ensure_2d=False, ensure_non_negative=True, input_name="sample_weight")
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight has shape {list(weights.shape)}; give one weight for each row, [{rows}]")
    return weights


def scale_weights(weights: np.ndarray) -> np.ndarray:
    """Positive weights with a mean of one: penalties of the experts are sums over rows, and only ratios should matter."""
    weights = weights / weights.max()
    return np.asarray(weights / weights.mean())


def class_weights(given: Any, classes: np.ndarray, labels: np.ndarray) -> list[float]:
    """What each class counts in a decision; `labels` are class numbers."""
    from sklearn.utils import compute_class_weight

    if isinstance(given, Mapping):
        numbers = classes.dtype.kind in "iuf"  # of which True is 1
        names = [int(name) if numbers and isinstance(name, bool | np.bool_) else name for name in given]
        positions = class_positions(classes, pd.Series(names, dtype=object)).tolist()
        known = dict.fromkeys(map(str, classes))
        for name, position in zip(given, positions, strict=True):
            if position < 0 and str(name) not in known:
                pick(known, str(name), "class")  # an error
            if position < 0 or positions.count(position) > 1:
                raise ValueError(f"class_weight: {name!r} is one of several classes, or one twice; give each once")
        given = dict(zip(classes[positions].tolist(), given.values(), strict=True))
    rows = classes[labels] if isinstance(given, str) else classes  # only "balanced" looks at them
    weights = compute_class_weight(given, classes=classes, y=rows)
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong) or not weights.any():
        number = wrong[0] if len(wrong) else 0
        raise ValueError(
            f"class_weight gives class {classes[number]!r} the weight {weights[number]:g}; give finite weights of at least "
            "0, one of them above 0"
        )
    return weights.tolist()


def check_one_target(y: Any) -> None:
    """Labels are one column: neither several targets nor times with events."""
    kind = getattr(getattr(y, "dtype", None), "names", None)
    if kind:
        raise ValueError(
            f"the target has the fields {list(kind)}, a time and an event; make classes of it, such as dead within a year, "
            "without rows that were followed for less"
        )
    wide = getattr(y, "ndim", 1) == 2 and y.shape[1] > 1
    if wide or (isinstance(y, list) and y and isinstance(y[0], list) and len(y[0]) > 1):
        count = y.shape[1] if wide else len(y[0])
        raise ValueError(f"there are {count} targets; give one column of labels, and fit a classifier for each target")


def class_order(rows: Any, y: Any) -> list[Any] | None:
    """The order of the classes, if the labels are an ordered Categorical."""
    if isinstance(y, str):
        y = rows[y] if isinstance(rows, pd.DataFrame) and y in rows else None
    kind = getattr(y, "dtype", None)
    return kind.categories.tolist() if isinstance(kind, pd.CategoricalDtype) and kind.ordered else None


def class_numbers(y: Any, rows: int | None = None, order: Sequence[Any] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The classes, sorted or in this `order`, and the number of the class of every label. These are the labels of all rows,
    or the different labels of so many `rows`."""
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import column_or_1d

    if isinstance(y, list | tuple):
        check_types(y)  # as an array they would all be texts
    labels = pd.Series(column_or_1d(as_labels(y), warn=True))
    values = labels.to_numpy()
    if values.dtype.kind in "OSMm":
        check_types(values)
        values = values if isinstance(values[0], str) else np.array(values.tolist())
    _check_quantity(labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # many classes are reported below, with a cure
        check_classification_targets(values)
    classes, numbers = np.unique(values, return_inverse=True)
    classes = np.array(classes.tolist()) if classes.dtype.kind == "U" else classes  # as long as the longest of them
    if order is not None:
        ranks = np.argsort([list(map(str, order)).index(str(label)) for label in classes.tolist()])
        if (np.diff(ranks) < 0).any():
            logger.warning(
                "the classes keep their order %s; scikit-learn's scorers of probabilities expect sorted ones, so score with "
                "evaluate",
                classes[ranks].tolist(),
            )
        classes, numbers = classes[ranks], np.argsort(ranks)[numbers]
    if len(classes) < 2:
        raise ValueError(f"all labels are {values.tolist()[0]!r}, one class only; give rows of two or more classes")
    _check_target(labels, len(classes), rows or len(labels))
    for problem in target_problems(labels, rows):
        logger.warning("the target %s", problem)
    return classes, numbers


def target_problems(values: pd.Series, rows: int | None = None) -> Iterator[str]:
    """Why labels may make little sense as classes; none of `values` is missing. `rows` as in `class_numbers`."""
    names = pd.Series(values.astype(str).unique(), dtype=object)
    classes, rows = len(names), rows or len(values)
    if alike := written_alike(names):
        first = ", ".join(map(repr, alike[:5]))
        yield f"has classes that differ only in spaces or capital letters ({first}); write those that are the same alike"
    if unknown := [name for name in names if is_missing(name)]:
        yield f"has a class {unknown[0]!r}, which counts as missing in other columns; blank these labels if they are unknown"
    if classes > MIN_QUANTITIES and are_quantities(values):
        yield f"has {classes} different numbers; if it is a quantity, divide it into classes (--classes 4, pd.qcut)"
    elif classes > max(2, rows / 2):
        yield f"has {classes} classes in {rows} rows; is it an identifier? Most have one row"


def _check_target(labels: pd.Series, classes: int, rows: int) -> None:
    """Labels that cannot be learned: almost every row would be a class of its own."""
    if classes <= MIN_QUANTITIES or classes <= rows / 5:
        return
    numeric = are_quantities(labels)
    if not numeric and classes <= rows / 2:
        return
    given, reason = "classes", "an identifier or free text; choose another column, or put its values into groups"
    if numeric:
        cure = "divide a quantity into classes (--classes 4, pd.qcut), or choose another column"
        given, reason = "different numbers", f"a quantity or an identifier; {cure}"
    raise ValueError(f"the target has {classes} {given} in {rows} rows, so it is {reason}")


def check_types(labels: Sequence[Any] | np.ndarray) -> None:
    """True and 1 are equal in Python, and 1 and "1" would be one class in a saved model."""
    kinds = {_type_name(label): label for label in labels if not pd.api.types.is_scalar(label) or not pd.isna(label)}
    if len(kinds) > 1:
        (one, first), (other, second), *_ = sorted(kinds.items())
        raise ValueError(
            f"labels are of one type, but {first!r} is {one} and {second!r} is {other}; make them all texts"
        )
    for name, label in kinds.items():
        if name not in ("a text", "a number", "a truth value"):
            raise ValueError(f"labels are texts, numbers or truth values, but {label!r} is {name}; make them texts")


def _as_column(y: Any, *, warn: bool = False) -> pd.Series:
    """Labels as a column; an array is checked as scikit-learn checks it."""
    if isinstance(y, pd.Series | list | tuple):
        return y if isinstance(y, pd.Series) else pd.Series(y)
    from sklearn.utils.validation import column_or_1d

    return pd.Series(column_or_1d(y, warn=warn))


def _type_name(label: Any) -> str:
    if isinstance(label, bool | np.bool_):
        return "a truth value"
    if isinstance(label, Number) and not isinstance(label, Decimal | np.timedelta64):
        return "a number"
    # the text of an enum with a mixed-in str is its name, which arrays cut to the length of its value
    return "a text" if isinstance(label, str) and str(label) == label else f"a {type(label).__name__}"


def _class_name(label: Any) -> str:
    name = without_fraction(label)
    return name.capitalize() if name.lower() in ("true", "false") else name


def _check_quantity(labels: pd.Series) -> None:
    if pd.api.types.is_float_dtype(labels) and not (whole := _whole(labels)).all():
        raise ValueError(
            f"Unknown label type: continuous. Labels such as {labels[~whole].iloc[0]:g} are a quantity; divide them into "
            "classes (--classes 4, pd.qcut)"
        )


def _whole(numbers: pd.Series) -> pd.Series:
    """Where a number with a fraction is an integer all the same."""
    return (numbers % 1 == 0) & (numbers.abs() < 2**53)  # up to here a float holds every integer
