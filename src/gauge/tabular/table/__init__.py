"""Cells in, tensors out: columns, their schema, rows, files and streams. There is no model here."""
