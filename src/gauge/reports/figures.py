"""What the page draws: accuracy against the missing rate as SVG, pictures as `data:` addresses, gates as colours."""

import io
import re
import textwrap
from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import UInt8
from PIL import Image

Estimate = tuple[float, float, float]
"""A value with the ends of its 95 % interval, in percent."""


class Series(NamedTuple):
    """How a row is drawn wherever it appears: its colour on light and on dark ground, and the shape of its points."""

    light: str
    dark: str
    marker: str
    outline: str  # the marker as an SVG path around the origin


COLOURS = (  # Okabe and Ito's colour-blind-safe palette, with lightness moved until text in it is readable
    ("#0068a3", "#5cb8ec"),
    ("#b34a00", "#f2935c"),
    ("#00735a", "#35c9a0"),
    ("#94467d", "#e0a0c9"),
    ("#7a5f00", "#dcb840"),
    ("#545e68", "#a5b0ba"),
    ("#4848a8", "#a9a9fa"),
)
MARKERS = (
    ("o", "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z"),
    ("s", "M-3.6-3.6h7.2v7.2h-7.2z"),
    ("^", "M0-4.8L4.6 3.6h-9.2z"),
    ("D", "M0-5L5 0 0 5-5 0z"),
    ("v", "M0 4.8L-4.6-3.6h9.2z"),
    ("P", "M-1.6-4.6h3.2v3h3v3.2h-3v3h-3.2v-3h-3v-3.2h3z"),
)
INK, MUTED, RULE, GROUND = "#010101", "#020202", "#030303", "#040404"  # stand for the page's own colours
GATE_COLOURS = "cividis"  # perceptually uniform, and the same to colour-blind readers


@dataclass(frozen=True)
class Curves:
    """One line for each method over the same conditions `x`."""

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


def series(index: int) -> Series:
    """The look of row `index`; colours and markers repeat after different counts, so that few rows ever look alike."""
    return Series(*COLOURS[index % len(COLOURS)], *MARKERS[index % len(MARKERS)])


def picture(image: UInt8[np.ndarray, "h w 3"]) -> str:
    """The picture as a `data:` address, lossless."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + b64encode(buffer.getvalue()).decode()


def check_picture(image: np.ndarray, name: str) -> None:
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(f"{name} is {image.dtype} of shape {list(image.shape)}; give uint8 [h, w, 3]")


def three_digits(largest: float) -> int:
    """How many decimals show the largest of some values with three digits."""
    return int(max(0, 2 - np.floor(np.log10(largest))))


def gate_colour(gate: float) -> tuple[str, str]:
    """The colour of a gate, dark when shut and bright when open, and black or white, whichever reads better on it."""
    colours = _gate_colours()
    return colours[min(int(gate * len(colours)), len(colours) - 1)]


@cache
def _gate_colours() -> list[tuple[str, str]]:
    import matplotlib
    from matplotlib.colors import to_hex

    steps = matplotlib.colormaps[GATE_COLOURS](np.arange(256))[:, :3]
    linear = np.where(steps <= 0.04045, steps / 12.92, ((steps + 0.055) / 1.055) ** 2.4)
    bright = linear @ (0.2126, 0.7152, 0.0722) > 0.179  # where WCAG's two contrast ratios are equal
    return [
        (to_hex(colour), "#000000" if dark_ink else "#ffffff") for colour, dark_ink in zip(steps, bright, strict=True)
    ]


def accuracy_curve(
    curves: Curves, rows: Sequence[str], *, featured: Collection[str], metric: str, width: int, prefix: str
) -> str:
    """SVG for use inside a page, `width` pixels wide; it takes its colours and fonts from the page's variables.

    Lines are named at their right end where there is room. Every id starts with `prefix`, so that several stand in one
    page. Points are moved apart sideways a little, so that intervals do not cover each other.
    """
    import matplotlib
    from matplotlib.figure import Figure

    height, labelled = (360, True) if width > 480 else (280, False)
    names = [name for name in rows if name in curves.lines]
    labels = [textwrap.shorten(name, 30, placeholder="…") for name in names]
    right = 24 + 6.2 * max(map(len, labels), default=0) if labelled else 12
    span = (max(curves.x) - min(curves.x)) or 1.0
    step = span * min(0.012, 0.05 / len(names))
    ends = np.array([estimate for line in curves.lines.values() for estimate in line])
    margin = 0.06 * (float(np.ptp(ends)) or 1.0)

    with matplotlib.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": prefix, "text.parse_math": False, "font.size": 12}
    ):
        figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        figure.patch.set_visible(False)
        axes = figure.add_axes((42 / width, 46 / height, (width - 42 - right) / width, (height - 46 - 34) / height))
        axes.patch.set_visible(False)
        for side in ("left", "right", "top"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(MUTED)
        axes.grid(axis="y", color=RULE, linewidth=1)
        axes.set_axisbelow(True)
        axes.tick_params(length=0, pad=8, colors=MUTED)
        axes.tick_params(axis="x", length=4, pad=5)
        axes.set_xticks(curves.x, [f"{x:g}" for x in curves.x])
        axes.locator_params(axis="y", nbins=6)
        axes.set_xlim(min(curves.x) - 0.04 * span, max(curves.x) + 0.04 * span)
        axes.set_ylim(ends.min() - margin, min(ends.max() + margin, max(100.5, ends.max())))
        axes.set_xlabel(curves.x_label, color=INK, labelpad=8)
        axes.text(0, 1 - 18 / height, f"{metric}, %", color=INK, transform=figure.transFigure, va="bottom")
        for place, name in enumerate(names):
            value, low, high = np.array(curves.lines[name], dtype=float).T
            look, main = series(rows.index(name)), name in featured
            axes.errorbar(
                np.array(curves.x) + step * (place - (len(names) - 1) / 2),
                value,
                yerr=(value - low, high - value),
                color=look.light,
                marker=look.marker,
                markersize=7.5 if main else 6.5,
                markeredgecolor=GROUND,
                markeredgewidth=1,
                linewidth=2.6 if main else 1.5,
                elinewidth=1.6 if main else 1.1,
                capsize=0,
                clip_on=False,
                zorder=4 if main else 3,
            )
        if labelled:
            low, high = axes.get_ylim()
            gap = 16 * (high - low) / (height - 80)
            last = [curves.lines[name][-1][0] for name in names]
            for name, label, at, y in zip(names, labels, last, _spread(last, gap), strict=True):
                axes.annotate(
                    label,
                    (max(curves.x) + 0.03 * span, at),
                    (max(curves.x) + 0.065 * span, y),
                    color=series(rows.index(name)).light,
                    va="center",
                    weight="bold" if name in featured else "normal",
                    annotation_clip=False,
                    arrowprops={"arrowstyle": "-", "color": RULE, "shrinkA": 0, "shrinkB": 0},
                )
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return _for_a_page(buffer.getvalue(), prefix)


def _spread(values: Sequence[float], gap: float) -> list[float]:
    """Places near the values, at least about `gap` apart, in the values' order."""
    order = np.argsort(values, kind="stable")
    places = np.array(values, dtype=float)[order]
    for _ in range(200):
        short = np.clip(gap - np.diff(places), 0, None) / 2
        places[:-1] -= short
        places[1:] += short
    return [float(place) for place in places[np.argsort(order)]]


def _for_a_page(svg: str, prefix: str) -> str:
    """A stand-alone SVG file as a part of a page: no prologue or styles of its own, the page's colours and fonts."""
    stands_for = {INK: "ink", MUTED: "muted", RULE: "rule", GROUND: "ground"}
    stands_for |= {light: f"series-{index}" for index, (light, _) in enumerate(COLOURS)}

    def dress(tag: re.Match) -> str:
        text = re.sub(r'( id="|href="#|url\(#)', rf"\1{prefix}-", tag[0]).replace("xlink:href", "href")
        text = re.sub(r"(font-family: |font: [^;\"]*?px )[^;\"]*", r"\1var(--sans)", text)
        return re.sub(r"#[0-9a-f]{6}\b", lambda colour: f"var(--{stands_for[colour[0]]})", text)

    svg = re.sub(r"<style.*?</style>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'<svg[^>]*(viewBox="[^"]*")[^>]*>', r"<svg \1>", svg, count=1)
    return re.sub(r"<[^<>]*>", dress, svg)


def draw_lines(
    lines: Mapping[str, Mapping[float, Sequence[float]]], metric: str, path: Path, *, across: str = "missing rate"
) -> None:
    """The metric against a number: the mean over seeds of every line, and their deviation. Lines stand a little apart, so
    that deviations do not cover each other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.add_subplot()
    ticks = sorted({tick for points in lines.values() for tick in points})
    step = 0.006 * (ticks[-1] - ticks[0])
    for place, (name, points) in enumerate(lines.items()):
        own = np.array(sorted(points))
        means = np.array([np.mean(points[tick]) for tick in own])
        spread = np.array([np.std(points[tick], ddof=1) if len(points[tick]) > 1 else 0.0 for tick in own])
        aside = (place - (len(lines) - 1) / 2) * step
        marker = ("o", "s", "^", "D", "v")[place % 5]
        axes.errorbar(own + aside, means, spread, marker=marker, markersize=4, elinewidth=0.8, capsize=1.5, label=name)
    axes.set_xlabel(across)
    axes.set_ylabel(f"{metric}, %")
    axes.set_xticks(ticks)
    axes.grid(color="#d8dde2")
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def draw_missingness(together: pd.DataFrame, path: Path) -> None:
    """How often the gaps of two columns coincide, from never (-1) to always (1), as a picture."""
    from matplotlib.figure import Figure

    names = [str(name) for name in together]
    side = max(3.0, 1.6 + 0.28 * len(names))
    figure = Figure(figsize=(side + 1, side), layout="constrained")
    axes = figure.add_subplot()
    if names:
        shown = axes.imshow(together.to_numpy(), cmap="RdBu_r", vmin=-1, vmax=1)
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
        figure.colorbar(shown, ax=axes, shrink=0.8, label="correlation of gaps")
    else:
        axes.text(0.5, 0.5, "nothing is missing", ha="center", va="center")
        axes.set_axis_off()
    figure.savefig(path, dpi=120)
