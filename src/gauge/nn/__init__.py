"""Plain layers, each written once."""
