"""Figures of the reports: curves as SVG, images as `data:` addresses, gates as colours."""

import io
import re
import textwrap
from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pandas as pd
from jaxtyping import UInt8
from PIL import Image

from gauge.reports.colours import CIVIDIS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_BARS = 30  # columns in a figure of effects
Estimate = tuple[float, float, float]
"""A value with the ends of its 95 % interval, in percent."""


COLOURS = (  # on light and dark background: the colour-blind-safe palette of Okabe and Ito, adjusted to be readable as text
    ("#0068a3", "#5cb8ec"),
    ("#b34a00", "#f2935c"),
    ("#00735a", "#35c9a0"),
    ("#94467d", "#e0a0c9"),
    ("#7a5f00", "#dcb840"),
    ("#545e68", "#a5b0ba"),
    ("#4848a8", "#a9a9fa"),
)
MARKERS = (  # and their outlines, as SVG paths around the origin
    ("o", "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z"),
    ("s", "M-3.6-3.6h7.2v7.2h-7.2z"),
    ("^", "M0-4.8L4.6 3.6h-9.2z"),
    ("D", "M0-5L5 0 0 5-5 0z"),
    ("v", "M0 4.8L-4.6-3.6h9.2z"),
    ("P", "M-1.6-4.6h3.2v3h3v3.2h-3v3h-3.2v-3h-3v-3.2h3z"),
)
FEATURED: dict[str, Any] = {"markersize": 7.5, "linewidth": 2.6, "elinewidth": 1.6, "zorder": 4}
OTHERS: dict[str, Any] = {"markersize": 6.5, "linewidth": 1.5, "elinewidth": 1.1, "zorder": 3}
INK, MUTED, RULE, GROUND = "#010101", "#020202", "#030303", "#040404"  # placeholders for the page's own colours
STYLE: dict[Any, Any] = {"svg.fonttype": "none", "text.parse_math": False, "font.size": 12, "axes.axisbelow": True}
STYLE |= {"axes.grid": True, "axes.grid.axis": "y", "grid.color": RULE, "grid.linewidth": 1, "axes.edgecolor": MUTED}
STYLE |= {f"axes.spines.{side}": False for side in ("left", "right", "top")}
STYLE |= {"xtick.color": MUTED, "xtick.major.size": 4, "xtick.major.pad": 5}
STYLE |= {"ytick.color": MUTED, "ytick.major.size": 0, "ytick.major.pad": 8}


@dataclass(frozen=True)
class Curves:
    """One line for each row over the same conditions `x`."""

    x_label: str
    x: tuple[float, ...]
    lines: Mapping[str, Sequence[Estimate]]

    def __post_init__(self) -> None:
        if not self.x or not self.lines:
            raise ValueError(
                f"curves hold {len(self.x)} conditions and {len(self.lines)} lines; give both, or leave curves out"
            )
        for name, line in self.lines.items():
            if len(line) != len(self.x):
                raise ValueError(
                    f"the curve of {name!r} has {len(line)} points over {len(self.x)} conditions; give one for each"
                )


def series(index: int) -> tuple[str, str, str]:
    """The colour, marker and outline of row `index`; 42 rows have different combinations."""
    return COLOURS[index % len(COLOURS)][0], *MARKERS[index % len(MARKERS)]


def data_address(image: UInt8[np.ndarray, "h w 3"]) -> str:
    """The image as a `data:` address, lossless."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + b64encode(buffer.getvalue()).decode()


def check_image(image: np.ndarray, name: str) -> None:
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(f"{name} is {image.dtype} of shape {list(image.shape)}; give uint8 [h, w, 3]")


def three_digits(largest: float) -> int:
    """The number of decimals that shows the largest of some values with three digits."""
    return int(max(0, 2 - np.floor(np.log10(largest))))


def gate_colour(gate: float) -> tuple[str, str]:
    """The colour of a gate, dark for 0 and bright for 1, and black or white, whichever is more readable on it."""
    colours = _gate_colours()
    return colours[min(int(gate * len(colours)), len(colours) - 1)]


@cache
def _gate_colours() -> list[tuple[str, str]]:
    names = textwrap.wrap(CIVIDIS, 6)
    steps = np.array([[*bytes.fromhex(name)] for name in names]) / 255
    linear = np.where(steps <= 0.04045, steps / 12.92, ((steps + 0.055) / 1.055) ** 2.4)
    bright = linear @ (0.2126, 0.7152, 0.0722) > 0.179  # where WCAG's two contrast ratios are equal
    return [(f"#{name}", "#000000" if light else "#ffffff") for name, light in zip(names, bright, strict=True)]


def accuracy_curve(
    curves: Curves, rows: Sequence[str], *, featured: Collection[str], metric: str, width: int, prefix: str
) -> str:
    """SVG for use inside a page, `width` pixels wide, in the colours and fonts of the page's CSS variables.

    Lines are labelled at their right end if there is room. All ids start with `prefix`, so that a page can hold several.
    Points are shifted sideways a little, so that their intervals do not overlap.
    """
    import matplotlib
    from matplotlib.figure import Figure

    height, labelled = (360, True) if width > 480 else (280, False)
    names = [name for name in rows if name in curves.lines]
    labels = [textwrap.shorten(name, 30, placeholder="…") for name in names]
    right = 34 + 7 * max(map(len, labels), default=0) if labelled else 12
    span = (max(curves.x) - min(curves.x)) or 1.0
    step = span * min(0.012, 0.05 / len(names))
    ends = np.array([estimate for line in curves.lines.values() for estimate in line])
    margin = 0.06 * (float(np.ptp(ends)) or 1.0)

    with matplotlib.rc_context(STYLE | {"svg.hashsalt": prefix}):
        figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        figure.patch.set_visible(False)
        axes = figure.add_axes((42 / width, 46 / height, (width - 42 - right) / width, (height - 46 - 34) / height))
        axes.patch.set_visible(False)
        axes.set_xticks(curves.x, [f"{x:g}" for x in curves.x])
        axes.locator_params(axis="y", nbins=6)
        axes.set_xlim(min(curves.x) - 0.04 * span, max(curves.x) + 0.04 * span)
        axes.set_ylim(ends.min() - margin, min(ends.max() + margin, max(100.5, ends.max())))
        axes.set_xlabel(curves.x_label, color=INK, labelpad=8)
        axes.text(0, 1 - 18 / height, f"{metric}, %", color=INK, transform=figure.transFigure, va="bottom")
        for index, name in enumerate(names):
            value, low, high = np.array(curves.lines[name], dtype=float).T
            x = np.array(curves.x) + step * (index - (len(names) - 1) / 2)
            colour, marker, _ = series(rows.index(name))
            style: dict[str, Any] = {"color": colour, "marker": marker, "markeredgecolor": GROUND, "markeredgewidth": 1}
            style |= FEATURED if name in featured else OTHERS
            axes.errorbar(x, value, (value - low, high - value), capsize=0, clip_on=False, **style)
        if labelled:
            low, high = axes.get_ylim()
            gap = 16 * (high - low) / (height - 80)
            last = [curves.lines[name][-1][0] for name in names]
            arrow = {"arrowstyle": "-", "color": RULE, "shrinkA": 0, "shrinkB": 0}
            for name, label, at, y in zip(names, labels, last, _spread(last, gap), strict=True):
                start, end = (max(curves.x) + 0.03 * span, at), (max(curves.x) + 0.065 * span, y)
                font = {"color": series(rows.index(name))[0], "weight": "bold" if name in featured else "normal"}
                axes.annotate(label, start, end, va="center", annotation_clip=False, arrowprops=arrow, **font)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return _for_a_page(buffer.getvalue(), prefix)


def _spread(values: Sequence[float], gap: float) -> list[float]:
    """Positions near the values, at least about `gap` apart, in the order of the values."""
    order = np.argsort(values, kind="stable")
    positions = np.array(values, dtype=float)[order]
    for _ in range(200):
        short = np.clip(gap - np.diff(positions), 0, None) / 2
        positions[:-1] -= short
        positions[1:] += short
    return positions[np.argsort(order)].tolist()


def _for_a_page(svg: str, prefix: str) -> str:
    """An SVG file as a part of a page: without prologue and styles, in the page's colours and fonts."""
    variables = {INK: "ink", MUTED: "muted", RULE: "rule", GROUND: "ground"}
    variables |= {light: f"series-{index}" for index, (light, _) in enumerate(COLOURS)}

    def restyle(tag: re.Match) -> str:
        text = re.sub(r'( id="|href="#|url\(#)', rf"\1{prefix}-", tag[0]).replace("xlink:href", "href")
        text = re.sub(r"(font-family: |font: [^;\"]*?px )[^;\"]*", r"\1var(--sans)", text)
        return re.sub(r"#[0-9a-f]{6}\b", lambda colour: f"var(--{variables[colour[0]]})", text)

    svg = re.sub(r"<style.*?</style>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'<svg[^>]*(viewBox="[^"]*")[^>]*>', r"<svg \1>", svg, count=1)
    return re.sub(r"<[^<>]*>", restyle, svg)


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
        x, marker = x + (index - (len(lines) - 1) / 2) * step, MARKERS[index % 5][0]
        axes.errorbar(x, means, deviations, marker=marker, markersize=4, elinewidth=0.8, capsize=1.5, label=name)
    axes.set_xlabel(across)
    axes.set_ylabel(f"{metric}, %")
    axes.set_xticks(ticks)
    axes.grid(color="#d8dde2")
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def draw_gates(content: Mapping[str, Any], path: Path) -> None:
    """Write a figure of what `studies/gates.py` recorded: for each sample the gates of its units and the attention of CLS to
    them without and with gates, and beside them how the gates of observed and imputed units are distributed."""
    import matplotlib
    from matplotlib.figure import Figure

    colours = {True: COLOURS[0][0], False: COLOURS[1][0]}
    names = {True: "observed", False: "imputed"}
    samples = content["samples"]
    with matplotlib.rc_context({"svg.hashsalt": "gauge", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9.6, 1.4 + 1.7 * len(samples)), layout="constrained")
        grid = figure.add_gridspec(len(samples), 3, width_ratios=(5, 5, 3))
        for row, sample in enumerate(samples):
            units = np.arange(len(sample["gate"]))
            shades = [colours[seen] for seen in sample["observed"]]
            gates, attention = (figure.add_subplot(grid[row, column]) for column in (0, 1))
            gates.bar(units, sample["gate"], 1.0, color=shades)
            gates.set(ylim=(0, 1), ylabel=f"gate, sample {sample['sample']}")
            attention.bar(units, sample["before"], 1.0, color=shades, alpha=0.35)
            attention.bar(units, sample["after"], 1.0, edgecolor=shades, fill=False, linewidth=0.9)
            attention.set_ylabel("attention of CLS")
            for axes in (gates, attention):
                axes.set_xticks(*_modality_ticks(sample["modality"]))
                axes.margins(x=0.01)
        gates.set_xlabel("units")
        attention.set_xlabel("units; filled without gates, outlined with them")
        spread = figure.add_subplot(grid[:, 2])
        for seen, name in names.items():
            counts = np.sum([record["histogram"][name] for record in content["seeds"]], axis=0)
            edges, mean = np.linspace(0, 1, len(counts) + 1), content["mean"][name]
            spread.stairs(
                counts / counts.sum(),
                edges,
                color=colours[seen],
                label=f"{name}, mean {mean:.2f}",
                fill=True,
                alpha=0.5,
            )
            spread.axvline(mean, color=colours[seen], linestyle="--")
        spread.set(xlabel="gate", ylabel="share of units", title=f"{content['test_samples']:,} test samples")
        spread.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), frameon=False)
        figure.suptitle(f"{content['benchmark']}, {content['protocol']}")
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _modality_ticks(modality: Sequence[str]) -> tuple[list[float], list[str]]:
    """The middle of the units of each modality, and its name."""
    names = list(dict.fromkeys(modality))
    return [float(np.mean([index for index, own in enumerate(modality) if own == name])) for name in names], names


def draw_missingness(together: pd.DataFrame, file: BinaryIO, form: str) -> None:
    """Write a figure of how the missingness of columns correlates, from -1 to 1."""
    from matplotlib.figure import Figure

    names = [str(name) for name in together]
    side = max(3.0, 1.6 + 0.28 * len(names))
    figure = Figure(figsize=(side + 1, side), layout="constrained")
    axes = figure.add_subplot()
    if names:
        shown = axes.imshow(together.to_numpy(), cmap="RdBu_r", vmin=-1, vmax=1)
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
        figure.colorbar(shown, ax=axes, shrink=0.8, label="correlation of missingness")
    else:
        axes.text(0.5, 0.5, "nothing is missing", ha="center", va="center")
        axes.set_axis_off()
    figure.savefig(file, dpi=120, format=form)


def effects_figure(effects: pd.Series, error: pd.Series | None = None, *, title: str, label: str) -> "Figure":
    """Horizontal bars of shares in points, the largest on top, with the widths of their intervals if given. Notebooks show
    the figure, although it is not one of pyplot's."""
    from matplotlib.figure import Figure

    class Shown(Figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    order = effects.abs().sort_values(kind="stable").index[-MAX_BARS:]
    figure = Shown(figsize=(7, 1.2 + 0.28 * len(order)), layout="constrained")
    axes = figure.add_subplot()
    values = 100 * effects[order].to_numpy(dtype=float)
    colours = [COLOURS[0][0] if value >= 0 else COLOURS[3][0] for value in values]
    spread = None if error is None else 100 * error[order].fillna(0.0).to_numpy(dtype=float)
    axes.barh(range(len(order)), values, xerr=spread, color=colours, error_kw={"elinewidth": 1})
    names = [textwrap.shorten(str(name), 40, placeholder="…") for name in order]
    axes.set_yticks(range(len(order)), names, parse_math=False)
    axes.axvline(0, color="#57626c", linewidth=1)
    axes.set_xlabel(label)
    axes.set_title(textwrap.shorten(title, 80, placeholder="…"), loc="left", parse_math=False)
    return figure
