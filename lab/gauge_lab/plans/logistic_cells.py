"""Plan of logistic regression on the cells of tables."""

from gauge_lab.methods.logistic_cells import LogisticCells
from gauge_lab.plans._cells import cells_plan

__all__ = ["PLAN"]

PLAN = cells_plan("logistic_cells", LogisticCells, "logistic regression on the table")
