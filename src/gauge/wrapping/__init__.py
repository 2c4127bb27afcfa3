"""`gauge.wrap`: evidence and gates in a Transformer of one's own."""
