"""Taylor evidence scores (Eq. 4): all n units from one ungated forward-backward pass."""

from gauge.paper.gauge import taylor_evidence

__all__ = ["taylor_evidence"]
