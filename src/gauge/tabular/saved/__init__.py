"""A classifier as a value that is written to files: what it has, how it predicts, and the files themselves."""
