"""How the tables of README and docs are made, for `docs/generate.py`."""
