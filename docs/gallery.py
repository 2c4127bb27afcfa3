"""Build the evidence pages of the gallery from real data that come with the installed packages: `make gallery`.

Every case fits a classifier on rows with values missing at random and explains test rows with values missing. The table is
that of `gauge demo`; a page that exists already is kept.
"""

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from inspect import getdoc, getmembers
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from PIL import Image
from sklearn.model_selection import train_test_split

from gauge import GaugeClassifier

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "gallery"
SHOWN = 8  # rows on a page
SHARE = 0.3  # of the values that are hidden


class Case(NamedTuple):
    """Labelled rows, and arguments of the classifier. Rows of one group are either in training or in the test."""

    rows: pd.DataFrame
    options: dict[str, Any]
    groups: "np.ndarray | None" = None


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def texts() -> Case:
    """Which library documents a function with these words? Its own name and those of other libraries are taken out."""
    import pandas
    import scipy.signal
    import scipy.stats
    import sklearn.metrics
    import torch.nn.functional

    modules = {
        "pandas": (pandas.DataFrame, pandas.Series),
        "scipy": (scipy.stats, scipy.signal),
        "scikit-learn": (sklearn.metrics,),
        "torch": (torch.Tensor, torch.nn.functional),
    }
    names = re.compile(r"pandas|dataframe|series|scipy|sklearn|scikit-learn|torch|tensor", re.IGNORECASE)
    lines = []
    for library, places in modules.items():
        documented = {}
        for place in places:
            for name, value in getmembers(place, callable):
                text = getdoc(value) or ""
                if not name.startswith("_") and len(text) > 400:
                    first, _, rest = names.sub("", text).partition("\n\n")
                    documented[first] = {"summary": first, "details": rest[:400], "library": library}
        lines += [documented[first] for first in sorted(documented)[:90]]
    return Case(pd.DataFrame(lines), {"columns": {"summary": "text", "details": "text"}, "target": "library"})


def photos() -> Case:
    """Which surface is in the photo: bricks, grass or gravel? Two photos of a place, from near and from far. The test is
    another part of each surface."""
    from skimage import data

    lines, groups = [], []
    draw = np.random.default_rng(0)
    for surface in ("brick", "grass", "gravel"):
        whole = getattr(data, surface)()
        for _ in range(200):
            top, left = draw.integers(0, 416), draw.integers(0, 160) + 256 * draw.integers(0, 2)
            part = whole[top : top + 96, left : left + 96]
            far = np.asarray(Image.fromarray(part).resize((32, 32)))
            lines.append({"near": png(part[32:64, 32:64]), "far": png(far), "surface": surface})
            groups.append(left >= 256)
    options = {"columns": {"near": "image", "far": "image"}, "target": "surface", "image_size": 32}
    return Case(pd.DataFrame(lines), options, np.array(groups))


def faces() -> Case:
    """Is it a face? A small photo, and a table of measurements of its parts."""
    from skimage import data

    images = data.lfw_subset()
    upper, lower = images[:, :12], images[:, 13:]
    frame = pd.DataFrame(
        {
            "photo": [png((255 * each).round().astype(np.uint8)) for each in images],
            "brightness": images.mean((1, 2)).round(3),
            "contrast": images.std((1, 2)).round(3),
            "top minus bottom": (upper.mean((1, 2)) - lower.mean((1, 2))).round(3),
            "asymmetry": np.abs(images - images[:, :, ::-1]).mean((1, 2)).round(3),
            "eye line minus cheeks": (images[:, 6:10].mean((1, 2)) - images[:, 12:16].mean((1, 2))).round(3),
            "shows": ["a face"] * 100 + ["no face"] * 100,
        }
    )
    return Case(frame, {"columns": {"photo": "image"}, "target": "shows", "image_size": 24})


CASES: dict[str, Callable[[], Case]] = {"texts": texts, "photos": photos, "faces": faces}


def hide(rows: pd.DataFrame, target: str, seed: int) -> pd.DataFrame:
    """The rows with some values missing; each keeps its label and at least one value."""
    draw = np.random.default_rng(seed)
    features = rows.drop(columns=target)
    hidden = draw.random(features.shape) < SHARE
    hidden[np.arange(len(rows)), draw.integers(features.shape[1], size=len(rows))] = False
    return features.mask(hidden).assign(**{target: rows[target]})


def build(name: str, folder: Path) -> dict[str, Any]:
    """Fit a case, write its page, and return what the table of the gallery says about it."""
    case = CASES[name]()
    target = case.options["target"]
    options = {key: value for key, value in case.options.items() if key != "target"}
    if case.groups is None:
        train, test = train_test_split(case.rows, test_size=0.3, stratify=case.rows[target], random_state=0)
    else:
        train, test = case.rows[~case.groups], case.rows[case.groups].sample(frac=1, random_state=0)
    train, test = hide(train, target, 0), hide(test, target, 1)
    model = GaugeClassifier(**options, random_state=0, verbose=False).fit(train, target)
    path = folder / "evidence.html"
    folder.mkdir(parents=True, exist_ok=True)
    model.explain(test[:SHOWN], target).to_html(path)
    scores = model.evaluate(test).scores.query("model == 'classifier' and metric == 'accuracy'").iloc[0]
    facts = {"train": len(train), "test": len(test)} | {
        key: round(float(scores[key]), 3) for key in ("value", "low", "high")
    }
    (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    return facts


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        if not (FOLDER / name / "evidence.html").is_file():
            print(name, build(name, FOLDER / name), flush=True)
    if not sys.argv[1:] and not (FOLDER / "demo" / "report.html").is_file():
        subprocess.run([sys.executable, "-m", "gauge", "demo", "--out", str(FOLDER / "demo")], check=True)
