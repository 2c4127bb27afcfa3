"""Write the tables and figures of README and docs from the result files: `python docs/generate.py`, or `make tables`.

A table stands between `<!-- table: name -->` and `<!-- end -->`; what is between is replaced.
"""

import pkgutil
import re
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

import report
from gauge_lab.figures import draw_lines
from gauge_lab.formats import Table
from gauge_lab.published import PUBLISHED
from report.ages import write_ages
from report.commands import command_page
from report.comparisons import polymnist_methods
from report.plus import LEAVES
from report.results import DRAWING, GAMMA, GRIDS, METHODS, PAPER_ETA, ROOT, ROWS, named, table_of
from report.trust import draw_trust

DRAWN = ("any_subset", "gauge:masked", "dymo", "gauge:v1", "gauge:v2", "gauge:v3", "gauge")  # against the missing rate

PAGES = [
    path
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))
    if "<!-- table:" in path.read_text(encoding="utf-8")
]
TABLES = {
    name: make
    for module in pkgutil.iter_modules(report.__path__)
    for name, make in getattr(import_module(f"report.{module.name}"), "TABLES", {}).items()
}


def draw_rows(table: Table, rows: Mapping[str, str], path: Path) -> None:
    """PolyMNIST with four of five views missing: every seed, the mean of each row, and the paper's number."""
    cells = {row: table.rows[row]["eta=0.8"] for row in rows}
    height = 0.9 + 0.31 * len(cells)
    with matplotlib.rc_context(DRAWING):
        figure = Figure(figsize=(8.2, height))
        axes = figure.add_axes((0.46, 0.58 / height, 0.52, 1 - 0.72 / height))
        for index, (row, cell) in enumerate(cells.items()):
            axes.plot(cell.values, [index] * len(cell.values), "o", color="#5b6670", alpha=0.55, markersize=5)
            axes.plot([cell.mean] * 2, [index - 0.3, index + 0.3], color="#0068a3", linewidth=2.5)
            paper = PUBLISHED["polymnist"].get(row, {}).get("eta=0.8")
            if paper is not None:
                axes.plot(paper, index, "D", markerfacecolor="none", markeredgecolor="#b34a00", markersize=8)
        axes.set_yticks(range(len(cells)), list(rows.values()))
        axes.invert_yaxis()
        axes.grid(axis="x", color="#d8dde2")
        axes.set_axisbelow(True)
        for side in ("left", "right", "top"):
            axes.spines[side].set_visible(False)
        axes.tick_params(length=0)
        axes.set_xlabel("accuracy at η = 0.8, %")
        figure.savefig(path, metadata={"Date": None})


def generated(text: str) -> str:
    """The page with every table written anew."""

    def table(match: re.Match[str]) -> str:
        return f"<!-- table: {match[1]} -->\n{TABLES[match[1]]()}<!-- end -->"

    return re.sub(r"<!-- table: ([\w-]+) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)


def main() -> None:
    write_ages(ROOT / "results")
    (ROOT / "docs" / "commands.md").write_text(command_page(), encoding="utf-8")
    for page in PAGES:
        page.write_text(generated(page.read_text(encoding="utf-8")), encoding="utf-8")
    table = table_of("polymnist/ten", PAPER_ETA)
    family = named("polymnist/ten", (row for row in table.rows if row != "gauge:v1"), ROWS)
    draw_rows(table, family, ROOT / "docs" / "polymnist.svg")
    draw_rows(polymnist_methods(), named("polymnist/ten", METHODS, METHODS), ROOT / "docs" / "methods.svg")
    draw_trust(ROOT / "docs" / "trust.svg")
    with matplotlib.rc_context(DRAWING):
        for name in ("leaf99", "ham10000"):
            table = table_of(name, GAMMA, DRAWN)
            draw_lines(
                table.rates(), table.metric, ROOT / "docs" / f"{name}.svg", across="share of the cells missing, γ"
            )
        parts = {
            folder: table_of(folder, GAMMA, [row for row in LEAVES if LEAVES[row] == folder])
            for folder in LEAVES.values()
        }
        path = ROOT / "docs" / "gauge-plus.svg"
        shown = {**ROWS, "gauge_plus": "GAUGE+", "gauge:masked": "missing units masked, no imputer"}
        names = [named(folder, part.rows, shown) for folder, part in parts.items()]
        rows = [part.rows for part in parts.values()]
        table = replace(parts["leaf99/regret"], rows=rows[0] | rows[1], names=names[0] | names[1])
        draw_lines(table.rates(), table.metric, path, across="share of the cells missing, γ")
        table = table_of("ham10000", GAMMA, GRIDS)
        grids = {name: points for name, points in table.grids().items() if name in ("complete", "gamma=0.5", "gamma=1")}
        draw_lines(grids, table.metric, ROOT / "docs" / "grids.svg", across="units of an image, down and across")


if __name__ == "__main__":
    main()
