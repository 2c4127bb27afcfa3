"""Plan of boosted trees on the cells of tables."""

from gauge_lab.methods.boosted_cells import BoostedCells
from gauge_lab.plans._cells import cells_plan

__all__ = ["PLAN"]

PLAN = cells_plan("boosted_cells", BoostedCells, "boosted trees on the table")
