"""`python -m gauge.cli` is the `gauge` command."""

from gauge.cli.main import main

main()
