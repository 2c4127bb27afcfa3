"""Plan of boosted trees on the cells of tables."""

from gauge.experiments.plans._cells import cells_plan
from gauge.methods.boosted_cells import BoostedCells

__all__ = ["PLAN"]

PLAN = cells_plan("boosted_cells", BoostedCells, "boosted trees on the table")
