"""audit_cells(): compare the trust in cells with the truth, on rows whose values are known.

A fifth of the known cells is hidden and imputed: are the trusted ones nearer to the truth? A tenth is swapped with another
row's: are they trusted less than the others? And is what has a trust of 0.8 right in 80 % of the cases?
"""

import numpy as np
import pandas as pd

from gauge.tabular.evidence.cell_trust import SWAPPED, CellTrust, swap
from gauge.tabular.table.rows import Rows
from gauge.training.metrics import area_under_curve, expected_calibration_error


def audit_cells(trust: CellTrust, rows: Rows, *, seed: int) -> pd.DataFrame:
    """Return a line for all columns together and one for each. Hidden cells are imputed by what the other cells suggest."""
    cells, draw = rows.cells, np.random.default_rng(seed)
    known = ~np.isnan(cells)
    if not known.any():
        raise ValueError("the table has no number and no category to hide; give rows with values")
    shown = np.where(draw.random(cells.shape) < 0.2, np.nan, cells)  # share of the known cells that is hidden
    hidden = known & np.isnan(shown)
    imputed = trust.guesses(shown)
    swapped, wrong = swap(cells, SWAPPED, draw)
    in_imputed, in_observed = trust.imputed(shown, imputed), trust.observed(swapped)
    right, error = trust.is_right(cells, imputed), np.abs(imputed - cells)
    middle = pd.DataFrame(np.where(hidden, error, np.nan)).median().to_numpy()
    near = np.where([column.categorical for column in trust.columns], right, error <= middle)
    lines = []
    for index, name in enumerate(["all columns", *(each.name for each in trust.columns)]):
        part = [index - 1] if index else slice(None)
        among, given = hidden[:, part], known[:, part]
        own, sound = right[:, part][among], ~wrong[:, part][given]
        believed, doubted = in_imputed[:, part][among], in_observed[:, part][given]
        lines.append(
            {
                "column": name,
                "imputed_right": own.mean() if len(own) else np.nan,
                "auc_imputed": _auc(believed, near[:, part][among] if index else own),
                "auc_swapped": _auc(doubted, sound),
                "error_imputed": expected_calibration_error(believed, own) if len(own) else np.nan,
                "error_observed": expected_calibration_error(doubted, sound) if len(sound) else np.nan,
            }
        )
    return pd.DataFrame(lines)


def _auc(trust: np.ndarray, right: np.ndarray) -> float:
    """Return how well the trust tells right from wrong; NaN where there is one kind only."""
    return area_under_curve(np.stack([-trust, trust], 1), right.astype(int))
