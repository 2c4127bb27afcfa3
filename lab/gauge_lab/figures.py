"""Figures of results: curves over the seeds of every row."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np


def draw_lines(
    lines: Mapping[str, Mapping[float, Sequence[float]]], metric: str, path: Path, *, across: str = "missing rate"
) -> None:
    """Write a figure of the metric against a number: mean and deviation over seeds of every line, shifted sideways a
    little, so that deviations do not overlap."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.add_subplot()
    ticks = sorted({tick for points in lines.values() for tick in points})
    step = 0.006 * (ticks[-1] - ticks[0])
    for index, (name, points) in enumerate(lines.items()):
        x = np.array(sorted(points))
        means = [float(np.mean(points[tick])) for tick in x]
        deviations = [float(np.std(points[tick], ddof=1)) if len(points[tick]) > 1 else 0.0 for tick in x]
        x, marker = x + (index - (len(lines) - 1) / 2) * step, "os^Dv"[index % 5]
        axes.errorbar(x, means, deviations, marker=marker, markersize=4, elinewidth=0.8, capsize=1.5, label=name)
    axes.set_xlabel(across)
    axes.set_ylabel(f"{metric}, %")
    axes.set_xticks(ticks)
    axes.grid(color="#d8dde2")
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
