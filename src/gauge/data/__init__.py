"""Reading and shaping: whatever comes from disk or a package ends up as a Dataset, which makes Batches."""

from gauge.data.dataset import Dataset

__all__ = ["Dataset"]
