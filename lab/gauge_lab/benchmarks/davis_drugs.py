"""Davis with cold drugs: whole SMILES are held out."""

from gauge_lab.benchmarks._binding import binding

__all__ = ["BENCHMARK"]

BENCHMARK = binding("davis", cold="drugs")
