"""Encoders that only benchmarks of papers use."""
