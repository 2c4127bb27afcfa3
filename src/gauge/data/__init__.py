"""Dataset holds one split of the data and makes Batches of it."""

from gauge.data.dataset import Dataset

__all__ = ["Dataset"]
