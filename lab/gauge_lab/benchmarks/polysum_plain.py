"""Polysum, plain: the sum of two digits, one of 19 classes, from three views of each digit."""

from gauge_lab.benchmarks.polysum import digit_sum

__all__ = ["BENCHMARK"]

BENCHMARK = digit_sum("polysum_plain", 19)
