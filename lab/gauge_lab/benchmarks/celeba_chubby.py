"""CelebA as image and table: is a face chubby, from its image and 39 other attributes, on balanced rows."""

from gauge_lab.benchmarks.celeba_table import face_table

__all__ = ["BENCHMARK"]

BENCHMARK = face_table("celeba_chubby", "Chubby")
