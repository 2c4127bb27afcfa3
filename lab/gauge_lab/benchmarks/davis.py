"""Davis: does a drug bind a protein, by SMILES and sequence; 68 drugs and 442 proteins, published folds."""

from gauge_lab.benchmarks._binding import binding

__all__ = ["BENCHMARK"]

BENCHMARK = binding("davis")
