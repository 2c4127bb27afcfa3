"""audit_cells(): compare the trust in cells with the truth, on rows whose values are known.

A fifth of the known cells is hidden and imputed: are the trusted ones nearer to the truth? A tenth is swapped with another
row's: are they trusted less than the others? And is what has a trust of 0.8 right in 80 % of the cases?
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from gauge.tabular.evidence.cell_trust import SWAPPED, CellTrust, swap
from gauge.tabular.table.rows import Rows
from gauge.training.metrics import reliability


@dataclass(frozen=True, repr=False)
class CellAudit:
    """The findings; shares from 0 to 1. `columns` has a line for each column. A separation is an AUC: 0.5 is chance.
    `separation_cells` tells right imputed cells, of the right category or within half a standard deviation, from wrong
    ones, and `within columns` those with an error below the median of their column from the others, in the mean over the
    columns. `separation_observed` tells sound cells from swapped ones."""

    rows: int
    hidden: int
    swapped: int
    imputed_right: float | None
    columns: pd.DataFrame
    separation_cells: dict[str, float] = field(default_factory=dict)
    separation_observed: dict[str, float] = field(default_factory=dict)
    calibration: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        apart = {"imputed": self.separation_cells, "observed": self.separation_observed}
        auc = {
            name: ", ".join(f"{key} {value:.3f}" for key, value in values.items()) or "nothing to compare"
            for name, values in apart.items()
        }
        share = self.imputed_right
        right = "" if share is None else f"; {100 * share:.0f} % of the imputed cells are right"
        lines = [
            f"{self.rows} rows, {self.hidden} cells hidden and imputed, {self.swapped} swapped with another row's",
            f"AUC for telling swapped cells from sound ones (0.5 is chance): {auc['observed']}",
            f"AUC for telling right from wrong imputed cells: {auc['imputed']}{right}",
        ]
        for name, each in self.calibration.items():
            lines.append(f"calibration error of the trust, {name} cells: {each['ece']:.3f}")
            lines += [
                f"  trusted {mean:.2f}: right {100 * share:.0f} % of {count:.0f}" for mean, share, count in each["bins"]
            ]
        table = self.columns.to_string(index=False, float_format="%.2f", na_rep="–")
        return "\n".join([*lines, "", table])

    def to_json(self) -> dict[str, Any]:
        columns = self.columns.astype(object).where(self.columns.notna(), None)
        return vars(self) | {"columns": columns.to_dict("records")}


def audit_cells(trust: CellTrust, rows: Rows, *, seed: int) -> CellAudit:
    """Return the findings on all rows. Hidden cells are imputed by what the other cells suggest."""
    cells, draw = rows.cells, np.random.default_rng(seed)
    known = ~np.isnan(cells)
    if not known.any():
        raise ValueError("the table has no number and no category to hide; give rows with values")
    shown = np.where(draw.random(cells.shape) < 0.2, np.nan, cells)  # share of the known cells that is hidden
    hidden = known & np.isnan(shown)
    imputed = trust.guesses(shown)
    swapped, wrong = swap(cells, SWAPPED, draw)
    believed = {"imputed": trust.imputed(shown, imputed), "observed": trust.observed(swapped)}
    error = np.where(hidden, np.abs(imputed - cells), np.nan)
    number = [not column.categorical for column in trust.columns]
    middle = pd.DataFrame(error).median().to_numpy()
    near, right = error <= np.where(number, middle, 0.5), trust.is_right(cells, imputed)
    columns = pd.DataFrame(
        {
            "column": [each.name for each in trust.columns],
            "imputed_right": [
                float(right[each, at].mean()) if each.any() else None for at, each in enumerate(hidden.T)
            ],
            "auc_imputed": _by_column(believed["imputed"], near, hidden),
            "auc_swapped": _by_column(believed["observed"], ~wrong, known),
        }
    )
    within = columns["auc_imputed"].dropna().astype(float)
    compared = {"imputed": (right, hidden), "observed": (~wrong, known)}
    return CellAudit(
        rows=len(rows),
        hidden=int(hidden.sum()),
        swapped=int(wrong.sum()),
        imputed_right=float(right[hidden].mean()) if hidden.any() else None,
        columns=columns,
        separation_cells=_separation({"trust": believed["imputed"]}, right, hidden)
        | ({"within columns": float(within.mean())} if len(within) else {}),
        separation_observed=_separation({"trust": believed["observed"]}, ~wrong, known),
        calibration={
            name: reliability(believed[name][among], truth[among])
            for name, (truth, among) in compared.items()
            if among.any()
        },
    )


def _separation(values: dict[str, np.ndarray], right: np.ndarray, among: np.ndarray) -> dict[str, float]:
    """Return the AUC of each value for telling right from wrong; nothing where there is one kind only."""
    labels = right[among]
    if not len(labels) or labels.all() or not labels.any():
        return {}
    from sklearn.metrics import roc_auc_score

    return {name: float(roc_auc_score(labels, each[among])) for name, each in values.items()}


def _by_column(trust: np.ndarray, right: np.ndarray, among: np.ndarray) -> list[float | None]:
    parts = zip(trust.T, right.T, among.T, strict=True)
    return [_separation({"trust": value}, truth, which).get("trust") for value, truth, which in parts]
