"""CelebA as image and table: does a face have a double chin, from its image and 39 other attributes, on balanced rows."""

from gauge_lab.benchmarks.celeba_table import face_table

__all__ = ["BENCHMARK"]

BENCHMARK = face_table("celeba_chin", "Double_Chin")
