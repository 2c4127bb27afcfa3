"""Imputers that only benchmarks of papers use."""
