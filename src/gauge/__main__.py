"""`python -m gauge` is the `gauge` command."""

from gauge.cli.main import main

main()
