"""GAUGE+: whole units beside fine ones, a head for each modality, and one prediction from the network and all heads."""

from gauge.plus.gauge_plus import GaugePlus

__all__ = ["GaugePlus"]
