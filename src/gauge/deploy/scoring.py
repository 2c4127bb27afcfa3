"""Predictions for tables in files, part by part: memory does not grow with the rows. Nothing here imports torch."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from gauge.choices import pick
from gauge.tabular.saved.classifier import TableClassifier
from gauge.tabular.table.arrays import rows_at_once
from gauge.tabular.table.files import read_rows
from gauge.tabular.table.inputs import check_kept, class_positions, has_label


@dataclass
class ScoredRows:
    """Rows predicted, those of them with a label, with one that training saw, and those predicted rightly, and how many
    prediction sets have each number of classes."""

    rows: int = 0
    labelled: int = 0
    known: int = 0
    right: int = 0
    sizes: Counter[int] = field(default_factory=Counter)

    def sentences(self, more: str = "", *, coverage: float | None = None, by_class: bool = False) -> Iterator[str]:
        """How many prediction sets have one class, and the accuracy where there are labels, with `more` about that."""
        if coverage is not None:
            one, none = self.sizes[1], self.sizes[0]
            yield (
                f"coverage {coverage:g}{' of every class' * by_class}: {one} of {self.rows} rows have one class, "
                f"{self.rows - one - none} several, {none} none; on the latter two the model abstains"
            )
        if self.known:
            share = f"accuracy {100 * self.right / self.labelled:.1f} % ({self.right} of {self.labelled} labelled rows)"
            if unknown := self.labelled - self.known:
                share += f"; {unknown} of them have a label that training never saw, and count as wrong"
            yield share + more


def predict_rows(
    classifier: TableClassifier,
    rows: pd.DataFrame,
    keep: Sequence[str] = (),
    coverage: float | None = None,
    *,
    by_class: bool = False,
) -> pd.DataFrame:
    """The columns to `keep`, the class of every row as `prediction`, and the probability of each class as `p(class)`. With a
    `coverage`, also the classes of its prediction set as `set`, divided by " | ", and their number as `set_size`;
    `by_class` as in `predict_set`."""
    for name in keep:
        pick(dict.fromkeys(rows.columns), name, "column to keep")
    probabilities, observed = classifier.predict_with_observed(rows)
    predictions: dict[str, Any] = {"prediction": classifier.decide(probabilities)}
    if coverage is not None:
        sets = classifier.sets(probabilities, observed, coverage, by_class=by_class)
        names = np.array([str(label) for label in classifier.classes.tolist()], object)
        predictions |= {"set": [" | ".join(names[each]) for each in sets], "set_size": sets.sum(1)}
    predictions |= {
        f"p({label})": column.round(6) for label, column in zip(classifier.classes, probabilities.T, strict=True)
    }
    check_kept(keep, ("row", *predictions))
    return rows[list(keep)].assign(**predictions)


def predict_table(
    classifier: TableClassifier, table: Path, write: Callable[[pd.DataFrame], object], **options: Any
) -> ScoredRows:
    """Predicts the files of a table and calls `write` with the predictions for each part; `options` are those of
    `predict_rows`."""
    count = ScoredRows()
    for part in read_rows(table, rows_at_once(classifier.columns)):
        predictions = predict_rows(classifier, part, **options)
        write(predictions)
        count.rows += len(part)
        if options.get("coverage") is not None:
            count.sizes.update(predictions["set_size"])
        if classifier.target in part:
            labels = class_positions(classifier.classes, part[classifier.target])
            predicted = class_positions(classifier.classes, predictions["prediction"])
            count.labelled += int(has_label(part[classifier.target]).sum())
            count.known += int((labels >= 0).sum())
            count.right += int(((labels >= 0) & (labels == predicted)).sum())
    return count


def without_formulas(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with an apostrophe before texts and names that a spreadsheet would take for formulas, as OWASP recommends;
    numbers are none.

    >>> without_formulas(pd.DataFrame({"id": ["=1+2", "-5", "x"]}))["id"].tolist()
    ["'=1+2", '-5', 'x']
    """

    def safe(cell: Any) -> Any:
        formula = isinstance(cell, str) and re.match(r"[=+\-@\t\r](?![\d.,]*$)", cell)
        return f"'{cell}" if formula else cell

    return rows.rename(columns=safe).apply(lambda column: column if column.dtype.kind in "biuf" else column.map(safe))


@contextmanager
def predictions_file(file: BinaryIO, ending: str, *, raw: bool = False) -> Iterator[Callable[[pd.DataFrame], object]]:
    """A function that appends predictions to a file, as CSV or Parquet, with the row number first."""
    if ending == ".csv":
        lines = 0

        def write_csv(predictions: pd.DataFrame) -> None:
            nonlocal lines
            rows = predictions if raw else without_formulas(predictions)
            file.write(rows.to_csv(index_label="row", header=not lines).encode())
            lines += len(predictions)

        yield write_csv
        return
    try:
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter
    except ImportError as error:
        raise ValueError("writing Parquet needs pyarrow; install it with: pip install 'gauge-ml[parquet]'") from error
    writer: Any = None

    def write_parquet(predictions: pd.DataFrame) -> None:
        nonlocal writer
        rows = predictions.rename_axis("row").reset_index()
        try:
            if writer is None:
                fields = pa.Schema.from_pandas(rows, preserve_index=False)
                fields = [each.with_type(pa.string()) if pa.types.is_null(each.type) else each for each in fields]
                writer = ParquetWriter(file, pa.schema(fields))
            writer.write_table(pa.Table.from_pandas(rows, writer.schema, preserve_index=False))
        except pa.ArrowException as error:
            reason = "; ".join(map(str, error.args))
            raise ValueError(f"a column to keep has values of several types ({reason}); write a .csv file") from error

    try:
        yield write_parquet
    finally:  # also of an error, or the writer would complain of a closed file when it is collected
        if writer is not None:
            writer.close()
