"""KIBA with cold proteins: whole sequences are held out."""

from gauge_lab.benchmarks._binding import binding

__all__ = ["BENCHMARK"]

BENCHMARK = binding("kiba", cold="proteins", epochs=15)
