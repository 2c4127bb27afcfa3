"""Figures of the reports: bars, images as `data:` addresses, gates as colours."""

import io
import textwrap
from base64 import b64encode
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import UInt8
from PIL import Image

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (  # on light and dark background: the colour-blind-safe palette of Okabe and Ito, adjusted to be readable as text
    ("#0068a3", "#5cb8ec"),
    ("#b34a00", "#f2935c"),
    ("#00735a", "#35c9a0"),
    ("#94467d", "#e0a0c9"),
    ("#7a5f00", "#dcb840"),
    ("#545e68", "#a5b0ba"),
    ("#4848a8", "#a9a9fa"),
)


def data_address(image: UInt8[np.ndarray, "h w 3"]) -> str:
    """Return the image as a `data:` address, lossless."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + b64encode(buffer.getvalue()).decode()


def three_digits(largest: float) -> int:
    """Return the number of decimals that shows the largest of some values with three digits."""
    return int(max(0, 2 - np.floor(np.log10(largest))))


def gate_colour(gate: float) -> tuple[str, str]:
    """Return the colour of a gate, dark for 0 and bright for 1, and black or white, whichever is more readable on it."""
    # between the ends of cividis, which colour-blind readers tell apart
    dark, bright = np.array([0, 34, 78]), np.array([254, 232, 56])
    colour = (dark + gate * (bright - dark)).round().astype(np.uint8)
    shares = colour / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    is_light = linear @ (0.2126, 0.7152, 0.0722) > 0.179  # where WCAG's two contrast ratios are equal
    return f"#{colour.tobytes().hex()}", "#000000" if is_light else "#ffffff"


def effects_figure(effects: pd.Series, error: pd.Series | None = None, *, title: str, label: str) -> "Figure":
    """Horizontal bars of shares in points, the largest on top, with the widths of their intervals if given. Notebooks show
    the figure, although it is not one of pyplot's."""
    from matplotlib.figure import Figure

    class Shown(Figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    order = effects.abs().sort_values(kind="stable").index[-30:]  # columns in a figure of effects
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
