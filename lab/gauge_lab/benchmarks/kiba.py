"""KIBA: does a drug bind a protein, by SMILES and sequence; 2,111 drugs and 229 proteins, published folds."""

from gauge_lab.benchmarks._binding import binding

__all__ = ["BENCHMARK"]

BENCHMARK = binding("kiba", epochs=15)
