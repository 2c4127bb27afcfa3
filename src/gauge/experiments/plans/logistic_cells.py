"""Plan of logistic regression on the cells of tables."""

from gauge.experiments.plans._cells import cells_plan
from gauge.methods.logistic_cells import LogisticCells

__all__ = ["PLAN"]

PLAN = cells_plan("logistic_cells", LogisticCells, "logistic regression on the table")
