"""`gauge demo`: the digits of the laboratory and the tables of the package, on one page."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gauge.cli.output import print_markdown

if TYPE_CHECKING:
    from gauge.reports.page import Report, Section


def demo(out: Path, seed: int, epochs: int | None, device: str | None) -> None:
    """Train on digits and on tables, and write the page that compares all methods."""
    import torch

    from gauge.reports.page import render_report
    from gauge.tabular import demo as tables
    from gauge.training.checkpoint import write_text
    from gauge.training.device import pick_device
    from gauge.training.progress import stage_progress
    from gauge_lab import demo as digits

    # two stages with a core each take less time than one with two
    jobs = min(2, torch.get_num_threads()) if pick_device(device).type == "cpu" else 1
    with stage_progress() as on_epoch:
        sections, facts = digits.run(out, seed=seed, epochs=epochs, device=device, on_epoch=on_epoch, jobs=jobs)
    logging.getLogger("gauge").setLevel(logging.ERROR)  # what `fit` notices about four tables is not about the demo
    table, evidence = tables.run(out / "cars", [*tables.TABLES], seed=seed, epochs=epochs, device=device, verbose=False)
    report = demo_report((table, *sections), facts)
    write_text(out / "report.html", render_report(report))
    for section in report.sections:
        print_markdown(f"**{section.title}.** {section.asked}\n\n{section.markdown()}\n{section.best}\n")
    print(f"Open {out / 'report.html'} to see all of it, and {evidence} to see which cells were used for single cars.")


def demo_report(sections: "Sequence[Section]", facts: Mapping[str, str]) -> "Report":
    from gauge.reports.page import Report

    return Report(
        title="Who is right most often when evidence is missing or wrong?",
        lead="Real data are incomplete: a photo was not taken, a cell of a table is blank, or what is there belongs to "
        "something else. This page asks questions about such data and counts how often several methods are right on samples "
        "that none of them has seen in training. GaugeClassifier, for tables, and GAUGE+, a network, are what this project "
        "offers; boosted trees, logistic regression, a joint network and a vote are what is usually done. A joint network "
        "can put evidence together, a vote copes with one view alone: GAUGE+ is made for both.",
        sections=tuple(sections),
        facts=facts,
    )
