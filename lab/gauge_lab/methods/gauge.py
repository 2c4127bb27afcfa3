"""GAUGE: complete the input, score every evidence unit, gate the attention, predict (the paper's method)."""

from gauge.paper.gauge import Gauge

__all__ = ["Gauge"]
