"""Late fusion: a separate classifier for each modality; those of the observed modalities vote."""

from gauge.plus.late_fusion import LateFusion

__all__ = ["LateFusion"]
