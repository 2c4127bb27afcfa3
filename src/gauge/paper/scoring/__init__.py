"""One file for each scorer: (classifier, tokens) -> Evidence, from one ungated pass."""
