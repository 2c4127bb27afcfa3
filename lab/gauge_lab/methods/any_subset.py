"""Any-subset backbone: one Transformer trained on random subsets of its modalities; missing units are masked."""

from gauge.plus.any_subset import AnySubset

__all__ = ["AnySubset"]
