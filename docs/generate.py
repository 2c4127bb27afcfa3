"""Write the tables and figures of README and docs from the result files: `python docs/generate.py`, or `make tables`.

A table stands between `<!-- table: name -->` and `<!-- end -->`; what is between is replaced.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gauge.experiments.comparison import Paired, corrected, pair_of, paired
from gauge.experiments.experiment import Experiment, Row
from gauge.experiments.manifest import PARTS
from gauge.experiments.plans.gauge import twin
from gauge.experiments.published import PUBLISHED
from gauge.experiments.results import Result, read_results, training_speed
from gauge.experiments.statistics import holm
from gauge.experiments.tables import CHANCE, result_table
from gauge.registry import BENCHMARKS
from gauge.reports.figures import draw_lines
from gauge.reports.tables import Cell, Table
from gauge.training.loop import budget
from gauge.training.settings import TrainSettings

ROOT = Path(__file__).parent.parent


def is_measured(folder: str, variant: str = "") -> bool:
    """Whether there are results, of that variant if one is given."""
    path, quote = ROOT / "results" / folder / "results.json", '"' if variant else ""
    return path.exists() and f'"variant": "{variant}{quote}' in path.read_text(encoding="utf-8")


PAGES = ("README.md", *(f"docs/{name}.md" for name in ("how-it-works", "own-data", "reproduce", "findings", "methods")))
PAGES += ("docs/findings-image-table.md", "docs/gauge-plus.md", "docs/trust.md", "docs/production.md", "docs/scale.md")
DRAWING = {"svg.hashsalt": "gauge", "svg.fonttype": "none", "font.size": 11}
ROWS = {
    "any_subset": "backbone as trained, missing units masked",
    "gauge:masked": "the same, fine-tuned: no imputer",
    "dymo": "DyMo_c",
    "gauge:v1": "v1: all recovered, no fine-tuning",
    "gauge:v2": "v2: fine-tuned on imputed inputs, no gates",
    "gauge:scalar": "one learned gate for all imputed units",
    "gauge:v3": "v3: one gate per modality",
    "gauge": "GAUGE",
    "gauge:gauge-informed": "GAUGE that knows what is imputed",
    "gauge:gauge-random": "GAUGE, scores at random",
    "gauge:gauge-feature-norm": "GAUGE, norms of the units",
    "gauge:gauge-gradient-norm": "GAUGE, norms of the gradients",
    "gauge:gauge-attention": "GAUGE, attention on the units",
    "gauge:gauge-zscore": "GAUGE, always z-scores",
    "gauge:gauge-raw": "GAUGE, always raw scores",
    "late_fusion": "one classifier for each modality, voting",
}
METHODS = {
    "multiae": "MultiAE",
    "multiae:multiae-dagger": "MultiAE†",
    "mopoe": "MoPoE",
    "mopoe:mopoe-dagger": "MoPoE†",
    "m3care": "M3Care",
    "m3care:m3care-dagger": "M3Care†",
    "online_mae": "OnlineMAE",
    "moddrop": "ModDrop",
    "mtl": "MTL",
    "map": "MAP",
    "map:map-dagger": "MAP†",
    "muse": "MUSE",
    "late_fusion:unimodal": "unimodal, completed inputs",
    "concat": "concat, completed inputs",
    "qmf": "QMF, completed inputs",
    "pdf": "PDF, completed inputs",
    "dynmm": "DynMM, completed inputs",
} | {
    row: ROWS[row]
    for row in ("late_fusion", "any_subset", "gauge:masked", "dymo", "gauge:v1", "gauge:v2", "gauge:v3", "gauge")
}
ETA = ("complete", "eta=0.2", "eta=0.4", "eta=0.6", "eta=0.8")
PAPER_ETA = ("complete", "eta=0.6", "eta=0.8")
SCORERS = ("gauge", *(f"gauge:gauge-{name}" for name in ("random", "feature-norm", "gradient-norm", "attention")))
NORMALIZATIONS = ("gauge:gauge-zscore", "gauge:gauge-raw")
NOT_SCORERS = tuple(row for row in ROWS if row not in SCORERS[1:])
NOT_METHODS = ("gauge:v1", "gauge:v2", "gauge:v3", *NORMALIZATIONS)  # ablations, in the paper's other tables
NOT_MEASURED = "*Not measured yet.*\n"
GAMMA = ("complete", "gamma=0.1", "gamma=0.3", "gamma=0.5", "gamma=0.7", "gamma=0.9", "gamma=1")
GRIDS = tuple(f"gauge:gauge-grid{side}" for side in (3, 4, 5, 6, 8))
DRAWN = ("any_subset", "gauge:masked", "dymo", "gauge:v1", "gauge:v2", "gauge:v3", "gauge")  # against the missing rate
FACES = ("complete", "missing=img", "missing=text")
DIGITS = ("complete", "missing=svhn", "missing=text", "missing=svhn+text", "missing=mnist", "missing=mnist+svhn")
DIGITS += ("missing=mnist+text",)
REFERENCES = ("gauge:v2", "dymo", "gauge:masked")
SHARED = ("gauge:masked", "gauge:v2", "gauge", "dymo")  # rows on one backbone that GAUGE+ is compared with
WRONG = ("swapped=0.2", "swapped=0.4")
TRUST = "gauge_plus:gauge_plus-trust"
IMPUTED, SWAPS = f"{TRUST}-imputed", "gauge_plus:gauge_plus-swaps"
DYNAMIC = ("qmf", "pdf", "dynmm")  # methods that weigh modalities for each sample
TRUST_ROWS = dict.fromkeys((TRUST, IMPUTED, SWAPS), "polymnist/trust")
TRUST_ROWS |= dict.fromkeys(("gauge_plus", "late_fusion"), "polymnist/sound") | dict.fromkeys(
    DYNAMIC, "polymnist/dynamic"
)
FOLDERS = {  # every comparison of gates, and its hardest condition
    "polymnist5k": "eta=0.8",
    "polymnist/cosine": "eta=0.8",
    "polymnist/constant": "eta=0.8",
    "mst": "missing=mnist+text",
    "celeba": "missing=text",
    "leaf99": "gamma=0.9",
    "leaf99/disjoint": "gamma=0.9",
    "ham10000": "gamma=1",
    "mst/long": "missing=mnist+text",
    "celeba/long": "missing=text",
    "celeba/reversed": "missing=text",
    "ham10000/long": "gamma=1",
    "celeba_table": "gamma=1",
    "celeba_table/balanced": "gamma=1",
}
FOLDERS = {folder: hardest for folder, hardest in FOLDERS.items() if is_measured(folder, "gauge")}
LITTLE = 0.1  # sum of the rates of gates that have hardly trained
MST, CELEBA = (
    ("mst/long" if "mst/long" in FOLDERS else "mst"),
    ("celeba/long" if "celeba/long" in FOLDERS else "celeba"),
)
INCOMPLETE = (
    *(("polymnist/cosine", each) for each in ("eta=0.6", "eta=0.8")),
    *((MST, each) for each in ("missing=svhn+text", "missing=mnist+text")),
    *((CELEBA, each) for each in ("missing=img", "missing=text")),
)
HARDEST = (("polymnist/cosine", "eta=0.8"),)
CLAIMS = (  # what the paper says, a row minus another, and where it can be tried
    ("GAUGE is above DyMo_c", "gauge", "dymo", INCOMPLETE),
    ("fine-tuning on imputed inputs helps", "gauge:v2", "gauge:v1", HARDEST),
    ("gates help", "gauge", "gauge:v2", HARDEST),
    ("gates of units are better than gates of modalities", "gauge", "gauge:v3", HARDEST),
    *(
        (f"Taylor scores are better than {row.removeprefix('gauge:gauge-')}", "gauge", row, HARDEST)
        for row in SCORERS[1:]
    ),
    (
        "few units need raw scores, not z-scores",
        "gauge:gauge-raw",
        "gauge:gauge-zscore",
        (("mst", "missing=mnist+text"), ("celeba", "missing=text")),
    ),
)
TRAIN_ROWS = {"celeba": 8_000, "polymnist5k": 3_500}  # not recorded in these results
GATE = ("threshold", "log_temperature")
EVERY = ("every=0.2", "every=0.4", "every=0.6", "every=0.8")


@cache
def results(folder: str) -> tuple[Result, ...]:
    """The committed results of one comparison, in the order of the rows and by seed."""
    order = {row: index for index, row in enumerate(ROWS)}
    unsorted = read_results(ROOT / "results" / folder / "results.json")
    return tuple(sorted(unsorted, key=lambda result: (order.get(str(result.row), len(order)), result.seed)))


def table_of(folder: str, protocols: tuple[str, ...], rows: Iterable[str] = NOT_SCORERS, **more: Any) -> Table:
    """Mean ± deviation over seeds, the best of each column in bold."""
    found: dict[tuple[str, str], list[Result]] = {}
    for result in results(folder):
        found.setdefault((str(result.row), result.protocol), []).append(result)
    chosen = [each for row in rows for protocol in protocols for each in found.get((row, protocol), ())]
    return result_table(chosen, **more)


def accuracy(folder: str, protocols: tuple[str, ...]) -> str:
    return table_of(folder, protocols).markdown()


def with_iterative(folder: str) -> str:
    """Every γ, and GAUGE once more on another imputer."""
    table = table_of(folder, GAMMA, tuple(row for row in NOT_SCORERS if row not in NORMALIZATIONS))
    other = {"gauge on the iterative imputer": table_of(f"{folder}/iterative", GAMMA).rows["gauge"]}
    return replace(table, rows=table.rows | other).markdown()


def minus_gauge(folder: str) -> str:
    """Every row minus GAUGE on the same samples, masks and seeds."""
    protocols = ("complete", "gamma=0.5", "gamma=0.9", "gamma=1")
    compared = {(pair.row, pair.protocol): pair for pair in pairs(folder) if pair.other == "gauge"}
    rows = {
        row: [_difference(compared.get((row, each))) for each in protocols] for row in table_of(folder, protocols).rows
    }
    rows = {row: shown for row, shown in rows.items() if row not in ("gauge", *NORMALIZATIONS)}
    iterative = [
        pair_of(seeds(f"{folder}/iterative", "gauge", each), seeds(folder, "gauge", each)) for each in protocols
    ]
    rows["gauge on the iterative imputer"] = [_difference(pair) for pair in iterative]
    lines = [f"| points above gauge | {' | '.join(protocols)} |", "|---" * (len(protocols) + 1) + "|"]
    return "\n".join([*lines, *(f"| {row} | {' | '.join(shown)} |" for row, shown in rows.items())]) + "\n"


def seeds(folder: str, row: str, protocol: str) -> dict[int, tuple[Result, None]]:
    chosen = [each for each in results(folder) if str(each.row) == row and each.protocol == protocol]
    return {result.seed: (result, None) for result in chosen}


def beside(folders: Mapping[str, str], protocols: tuple[str, ...], tested: tuple[str, ...] = ()) -> str:
    """Rows, each from its folder, and the first minus every other over the seeds that both have, under the protocols that
    are `tested` (all by default); p values are corrected by Holm over the rows of one condition."""
    first, *others = folders
    tables = [table_of(folder, protocols, (row,)) for row, folder in folders.items()]
    table = replace(tables[0], rows={row: cells for each in tables for row, cells in each.rows.items()})
    tested = tested or protocols
    columns = [_minus_each(folders, first, each) for each in tested]
    lines = [f"| points, {first} minus | {' | '.join(tested)} |", "|---" * (len(tested) + 1) + "|"]
    lines += [f"| {row} | {' | '.join(_difference(column.get(row)) for column in columns)} |" for row in others]
    return table.markdown() + "\n" + "\n".join(lines) + "\n"


def _minus_each(folders: Mapping[str, str], first: str, protocol: str) -> dict[str, Paired]:
    pairs = {
        row: pair
        for row, folder in folders.items()
        if row != first
        if (pair := pair_of(seeds(folders[first], first, protocol), seeds(folder, row, protocol))) is not None
    }
    p_values = holm([1.0 if pair.p_over_seeds is None else pair.p_over_seeds for pair in pairs.values()])
    return {
        row: pair.model_copy(update={"p_corrected": p}) for (row, pair), p in zip(pairs.items(), p_values, strict=True)
    }


def _with_plus(folder: str) -> dict[str, str]:
    """GAUGE+ and late fusion, and the rows on one backbone of the earlier comparison on the same benchmark."""
    return dict.fromkeys(("gauge_plus", "late_fusion"), f"{folder}/plus") | dict.fromkeys(SHARED, folder)


PLUS: dict[str, tuple[Mapping[str, str], tuple[str, ...]]] = {  # table of GAUGE+ -> the folder of each row, protocols
    "plus-polymnist": (
        {"gauge_plus": "polymnist/plus"}
        | dict.fromkeys(("late_fusion", *SHARED), "polymnist/cosine")
        | {"mtl": "polymnist/all"},
        ETA,
    ),
    **{
        f"plus-labels{count}": (dict.fromkeys(("gauge_plus", "late_fusion", *more), f"polymnist/labels{count}"), ETA)
        for count, more in {256: ("gauge_plus:gauge_plus-no-heads",), 1024: (), 4096: ()}.items()
    },
    "plus-leaf99": (dict.fromkeys(("gauge_plus", "late_fusion", *SHARED), "leaf99/disjoint"), GAMMA),
    "plus-mst": (_with_plus("mst"), DIGITS),
    "plus-celeba": (_with_plus("celeba"), FACES),
    "plus-celeba-table": (dict.fromkeys(("gauge_plus", "late_fusion", *SHARED[:2]), "celeba_table"), GAMMA),
    "plus-ham10000": (_with_plus("ham10000"), GAMMA),
}
GOALS = {  # table of GAUGE+ -> protocol -> percent
    "plus-polymnist": {"eta=0.6": 99.95, "eta=0.8": 99.0},
    "plus-labels256": {"eta=0.8": 78},
    "plus-labels1024": {"eta=0.8": 92},
    "plus-labels4096": {"eta=0.8": 96},
    "plus-leaf99": {"complete": 99, "gamma=0.5": 96.5, "gamma=0.7": 92, "gamma=0.9": 74, "gamma=1": 40},
    "plus-mst": {"complete": 99.9, "missing=mnist+text": 70},
    "plus-ham10000": {"complete": 90.5},
}
EASY = 99.5  # percent of the best other row, above which nobody can be ahead


def plus_goals() -> str:
    """What GAUGE+ was meant to reach, and what it reaches."""
    lines = ["| goal | measured | reached |", "|---" * 3 + "|"]
    for name, goals in GOALS.items():
        folder = PLUS[name][0]["gauge_plus"]
        for protocol, goal in goals.items():
            value = _percent(folder, "gauge_plus", protocol)
            verdict = "yes" if value >= goal else f"no, by {goal - value:.2f}"
            lines.append(f"| {folder}, {protocol}: at least {goal:g} | {value:.2f} | {verdict} |")
    below, ahead, conditions = [], 0, 0
    for folders, protocols in PLUS.values():
        rivals = {row: folder for row, folder in folders.items() if not row.startswith("gauge_plus:")}
        for protocol in protocols:
            compared = _minus_each(rivals, "gauge_plus", protocol)
            below += [
                f"{_difference(pair)} to {row} on {rivals['gauge_plus']}, {protocol}"
                for row, pair in compared.items()
                if pair.mean < 0 and pair.p_over_seeds is not None and (pair.p_corrected or 0) < 0.05
            ]
            ours, *others = (_percent(folder, row, protocol) for row, folder in rivals.items())
            ahead += ours >= max(others) and max(others) < EASY
            conditions += max(others) < EASY
    shown = "; ".join(below) or "never"
    lines.append(f"| below no other row beyond chance | {shown} | {'no' if below else 'yes'} |")
    share = f"{ahead} of {conditions}"
    goal = f"the highest mean in half of the conditions whose best other row is under {EASY} %"
    lines.append(f"| {goal} | {share} | {'yes' if 2 * ahead >= conditions else 'no'} |")
    return "\n".join(lines) + "\n"


def _percent(folder: str, row: str, protocol: str) -> float:
    return 100 * mean(result.value for result, _ in seeds(folder, row, protocol).values())


def calibration(folder: str, rows: tuple[str, ...], protocols: tuple[str, ...]) -> str:
    """Expected calibration error in percent and log loss, means over the seeds."""
    lines = [f"| calibration error, % / log loss | {' | '.join(protocols)} |", "|---" * (len(protocols) + 1) + "|"]
    for row in rows:
        measured = [[result for result, _ in seeds(folder, row, each).values()] for each in protocols]
        means = [[mean(float(getattr(result, key)) for result in each) for key in CALIBRATION] for each in measured]
        lines.append(f"| {row} | {' | '.join(f'{100 * error:.1f} / {loss:.3f}' for error, loss in means)} |")
    return "\n".join(lines) + "\n"


CALIBRATION = ("calibration_error", "log_loss")
HEADLINE = {  # column -> folder of GAUGE+, folder of the rows on one backbone, folder of late fusion, protocol
    "PolyMNIST, one view of five": ("polymnist/plus", "polymnist/cosine", "polymnist/cosine", "eta=0.8"),
    "the same, 256 labels": ("polymnist/labels256", None, "polymnist/labels256", "eta=0.8"),
    "leaf99, one cell of ten": (*["leaf99/disjoint"] * 3, "gamma=0.9"),
    "MST, only SVHN": ("mst/plus", "mst", "mst/plus", "missing=mnist+text"),
    "CelebA, no text": ("celeba/plus", "celeba", "celeba/plus", "missing=text"),
    "ham10000, complete": ("ham10000/plus", "ham10000", "ham10000/plus", "complete"),
}


def headline() -> str:
    """GAUGE+, what it is compared with, and the paper's GAUGE in the hardest condition of each benchmark."""
    names = {"gauge_plus": (0, "GAUGE+"), "late_fusion": (2, "classifiers of single modalities, voting")}
    names |= {"gauge": (1, "GAUGE as published"), "gauge:masked": (1, "its network without imputer and gates")}
    lines = [f"| % | {' | '.join(HEADLINE)} |", "|---" * (len(HEADLINE) + 1) + "|"]
    for row, (index, name) in names.items():
        cells = []
        for *folders, protocol in HEADLINE.values():
            values = (
                [100 * each.value for each, _ in seeds(folders[index], row, protocol).values()]
                if folders[index]
                else []
            )
            cells.append(f"{mean(values):.1f} ± {stdev(values):.1f}" if values else "–")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def verdicts() -> str:
    """The claims on PolyMNIST, and the counts over all benchmarks."""
    chosen = [line.split("|")[1:-1] for line in claims().splitlines() if "polymnist/cosine" in line or " of 12" in line]
    lines = ["| the paper says | paper | here, 95 % interval | verdict |", "|---" * 4 + "|"]
    table = "\n".join([*lines, *(f"|{title}|{'|'.join(others)}|" for title, _, *others in chosen)]) + "\n"
    return re.sub(r"(?<=[ \[])-(?=\d)", "\N{MINUS SIGN}", table)


def measured(folders: Mapping[str, str]) -> dict[str, str]:
    """The rows that their folders have results of."""
    there = {
        (str(each.row), folder)
        for folder in set(folders.values())
        if (ROOT / "results" / folder / "results.json").exists()
        for each in results(folder)
    }
    return {row: folder for row, folder in folders.items() if (row, folder) in there}


def trust() -> str:
    """Accuracy with missing and with swapped modalities, and trust minus each other row."""
    folders = {TRUST: "polymnist/trust", SWAPS: "polymnist/trust"}
    folders |= dict.fromkeys(("gauge_plus", "late_fusion"), "polymnist/sound")
    return beside(measured(folders | dict.fromkeys(DYNAMIC, "polymnist/dynamic")), (*ETA, *WRONG))


def trust_imputed() -> str:
    """Accuracy on imputed inputs, gated by trust, minus that without an imputer."""
    folders = measured({IMPUTED: "polymnist/trust", "gauge_plus": "polymnist/sound", "late_fusion": "polymnist/sound"})
    return beside(folders, ETA) if IMPUTED in folders else NOT_MEASURED


def unlabelled(count: int) -> str:
    """Few labels, with an imputer or a teacher that reads all samples: masking minus each of them."""
    rows = ("gauge_plus", "gauge_plus:gauge_plus-informed", IMPUTED, "gauge_plus:gauge_plus-taught")
    folders = measured(dict.fromkeys(rows, f"polymnist/unlabelled{count}"))
    return beside(folders, ETA) if folders else NOT_MEASURED


def trust_audit(*folders: str) -> str:
    """AUC of the trust and of the paper's gate for right against wrong units, and the calibration error of the trust."""
    kinds = {"separation": "imputed units", "separation_observed": "observed units"}
    kinds |= {"separation_modalities": "observed modalities", "separation_cells": "imputed cells"}
    lines = ["| benchmark | row | protocol | seeds | right against wrong | AUC, trust | AUC, the paper's gate |"]
    lines += ["|---" * 7 + "|"]
    for (benchmark, variant, protocol), records in trust_records(*folders).items():
        head = f"| {benchmark} | {variant} | {protocol} | {len(records)} |"
        for kind, name in kinds.items():
            if all("trust" in record[kind] for record in records):
                values = (_spread([record[kind] for record in records], key, 3) for key in ("trust", "gate"))
                lines.append(f"{head} {name} | {' | '.join(values)} |")
        for name in records[0]["calibration"]:
            error = _spread([record["calibration"][name] for record in records], "ece", 3)
            lines.append(f"{head} calibration error, {name} units | {error} | – |")
    return "\n".join(lines) + "\n"


def trust_goals() -> str:
    """What learned trust was meant to reach, and what it reaches."""
    lines = ["| goal | measured | reached |", "|---" * 3 + "|"]
    names = ("polymnist", "leaf99", "ham10000", "celeba_table")
    audits = trust_records(*(f"{name}/trust" for name in names))
    swapped, views = ("polymnist", "gauge_plus-trust", WRONG[0]), ("polymnist", "gauge_plus-trust-imputed", "eta=0.8")
    found: dict[str, tuple[float | None, float]] = {
        "AUC, imputed views": (_mean_of(audits.get(views), "separation", "trust"), 0.88),
        f"AUC, views at {WRONG[0]}": (_mean_of(audits.get(swapped), "separation_modalities", "trust"), 0.90),
        f"calibration error, observed units at {WRONG[0]}": (
            _mean_of(audits.get(swapped), "calibration", "observed"),
            -0.05,
        ),
        "calibration error, imputed views": (_mean_of(audits.get(views), "calibration", "imputed"), -0.05),
    }
    for name in names[1:]:
        records = audits.get((name, "gauge_plus-trust-imputed", "gamma=0.5"))
        found[f"AUC, imputed cells of {name} at gamma=0.5"] = _mean_of(records, "separation_cells", "trust"), 0.75
    for name, (value, limit) in found.items():
        goal = f"{name}: at {'least' if limit > 0 else 'most'} {abs(limit):.2f}"
        shown = "–" if value is None else f"{value:.3f}"
        verdict = (
            "not measured" if value is None else "yes" if (value >= limit if limit > 0 else value <= -limit) else "no"
        )
        lines.append(f"| {goal} | {shown} | {verdict} |")
    for row, other, protocols, above in (
        (TRUST, "gauge_plus", ETA, False),
        (IMPUTED, "gauge_plus", ETA, False),
        (TRUST, SWAPS, WRONG, False),
        *((TRUST, other, WRONG, True) for other in ("gauge_plus", "late_fusion", *DYNAMIC)),
    ):
        lines.append(_accuracy_goal(row, other, protocols, above))
    return "\n".join(lines) + "\n"


def _mean_of(records: list[dict] | None, kind: str, name: str) -> float | None:
    """The mean over audits of an AUC, or of a calibration error."""
    if not records:
        return None
    values = [each[kind][name] for each in records]
    return mean(value["ece"] if isinstance(value, dict) else value for value in values)


def _accuracy_goal(row: str, other: str, protocols: tuple[str, ...], above: bool) -> str:
    """Whether a row is above another under all protocols, or below it under none, beyond chance after Holm's correction."""
    folders = measured(TRUST_ROWS)
    head = f"| accuracy, {row} {'above' if above else 'not below'} {other} under {protocols[0]} to {protocols[-1]} |"
    if other not in folders or row not in folders:
        return f"{head} – | not measured |"
    compared = {row: folders[row]} | {name: folder for name, folder in folders.items() if name not in (TRUST, IMPUTED)}
    pairs = [_minus_each(compared, row, protocol)[other] for protocol in protocols]
    chance = [pair.p_corrected is None or pair.p_corrected >= 0.05 for pair in pairs]
    reached = [
        pair.mean > 0 and not luck if above else pair.mean >= 0 or luck
        for pair, luck in zip(pairs, chance, strict=True)
    ]
    least = min(pairs, key=lambda pair: pair.mean)
    return f"{head} least: {_difference(least)} at {least.protocol} | {'yes' if all(reached) else 'no'} |"


def trust_records(*folders: str) -> dict[tuple[str, str, str], list[dict]]:
    """The audits of learned trust by benchmark, row and protocol; one for each seed."""
    audits: dict[tuple[str, str, str], list[dict]] = {}
    for folder in folders:
        if (ROOT / "results" / folder / "audit.json").exists():
            for each in _records(folder, "audit.json"):
                audits.setdefault((each["benchmark"], each["variant"], each["protocol"]), []).append(each)
    return audits


def draw_trust(path: Path) -> None:
    """ROC curves of the trust and of the paper's gate, and the reliability of the trust, as means over seeds."""
    drawn = {"swapped views": (f"{TRUST.partition(':')[2]}", "swapped=0.2", "observed")}
    drawn |= {"imputed views": (f"{IMPUTED.partition(':')[2]}", "eta=0.8", "imputed")}
    audits = {
        name: (trust_records("polymnist/trust").get(("polymnist", variant, protocol), []), kind)
        for name, (variant, protocol, kind) in drawn.items()
    }
    with matplotlib.rc_context(DRAWING):
        figure = Figure(figsize=(9.4, 4.2), layout="constrained")
        roc, reliability = figure.subplots(1, 2)
        for (name, (records, kind)), colour in zip(audits.items(), ("#0068a3", "#b34a00"), strict=True):
            curves = [each["curves"][kind] for each in records if each.get("curves", {}).get(kind)]
            for value, shown, style in (("trust", "trust", "-"), ("gate", "the paper's gate", "--")):
                if curves:
                    points = np.mean([each[value] for each in curves], 0)
                    rates = np.linspace(0, 1, len(points))
                    roc.plot(rates, points, style, color=colour, label=f"{shown}, {name}")
            bins = np.array([row for each in records for row in each["calibration"].get(kind, {"bins": []})["bins"]])
            if len(bins):
                tenth = np.minimum((10 * bins[:, 0]).astype(int), 9)
                means = [
                    np.average(bins[tenth == each], axis=0, weights=bins[tenth == each][:, 2]) for each in set(tenth)
                ]
                reliability.plot(*np.array(means)[:, :2].T, "o-", color=colour, label=name)
        for axes in (roc, reliability):
            axes.plot([0, 1], [0, 1], color="#a5b0ba", linewidth=1)
            axes.grid(color="#d8dde2")
            axes.legend(frameon=False, fontsize=9)
        roc.set(xlabel="wrong units taken for right ones", ylabel="right units found")
        reliability.set(xlabel="trust", ylabel="share of units that are right")
        figure.savefig(path, metadata={"Date": None})


def imputation(folder: str) -> str:
    """How well each imputer fills the cells that were taken away: categories that are right, squared error of numbers."""
    content = json.loads((ROOT / "results" / folder / "imputation.json").read_text(encoding="utf-8"))
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in content["rows"]:
        for key in {"categories_right", "squared_error"} & set(row):
            values.setdefault((row["imputer"], key), {}).setdefault(row["protocol"], []).append(row[key])
    protocols = list(next(iter(values.values())))
    lines = [f"| imputer | | {' | '.join(protocols)} |", "|---" * (len(protocols) + 2) + "|"]
    for (imputer, key), columns in sorted(values.items(), key=lambda item: item[0][1]):
        shown = [f"{mean(each):.2f}" for each in columns.values()]
        if key == "categories_right":
            shown = [f"{100 * mean(each):.1f} %" for each in columns.values()]
        lines.append(f"| {imputer} | {key.replace('_', ' ')} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


@cache
def pairs(folder: str) -> tuple[Paired, ...]:
    return tuple(paired([(result, None) for result in results(folder)]))


def cells(folder: str) -> dict[str, dict[str, Cell]]:
    return result_table(results(folder)).rows


def differences(
    folder: str, protocol: str, references: tuple[str, ...] = REFERENCES, rows: tuple[str, ...] = NOT_SCORERS
) -> str:
    """Every row minus each reference row on the same samples, masks and seeds."""
    compared = {(pair.row, pair.other): pair for pair in pairs(folder) if pair.protocol == protocol}
    lines = [
        f"| points at {protocol} | seeds | {' | '.join(f'minus {other}' for other in references)} |",
        "|---" * (len(references) + 2) + "|",
    ]
    for row in rows:
        mine = [compared.get((row, other)) for other in references]
        if any(mine):
            count = len(cells(folder)[row][protocol].values)
            lines.append(f"| {row} | {count} | {' | '.join(_difference(pair) for pair in mine)} |")
    return "\n".join(lines) + "\n"


def _difference(pair: Paired | None) -> str:
    """Mean, 95 % interval, and the p value before and after Holm's correction."""
    if pair is None:
        return "–"
    if pair.interval is None or pair.p_over_seeds is None or pair.p_corrected is None:
        return f"{pair.mean:+.2f}"
    low, high = pair.interval
    after = "" if pair.p_corrected == pair.p_over_seeds else f" → {pair.p_corrected:.2g}"
    return f"{pair.mean:+.2f} [{low:+.2f}, {high:+.2f}] (p = {pair.p_over_seeds:.2g}{after})"


def claims() -> str:
    """Every claim of the paper that can be tried here, with its number and ours."""
    lines = ["| the paper says | where | paper | here, with interval | verdict |", "|---" * 5 + "|"]
    for title, row, other, where in CLAIMS:
        for folder, protocol in where:
            ours, theirs = (seeds(folder, each, protocol) for each in (row, other))
            pair = pair_of(ours, theirs)
            assert pair is not None
            paper = PUBLISHED[folder.partition("/")[0]]
            gain = paper[row][protocol] - paper[other][protocol]
            if gain <= 0:  # the paper is not ahead there either
                continue
            lines.append(
                f"| {title} | {folder}, {protocol} | {gain:+.2f} | {_difference(pair)} | {verdict(pair, gain, folder)} |"
            )
    lines.append(
        f"| GAUGE is above DyMo_c in 10 of 12 incomplete conditions | | 10 of 12 | {_ahead_of_dymo()} | undecided |"
    )
    lines.append(f"| GAUGE is the best method in 9 of 12 incomplete conditions | | 9 of 12 | {_best()} | undecided |")
    lines += ["| all of it on DVM, CAD and Infarction | | | | cannot be tried here: the data is large or not open |"]
    return "\n".join(lines) + "\n"


def verdict(pair: Paired, gain: float, folder: str) -> str:
    """What the interval says of a published gain: reproduced where it is above zero, not where it ends below the gain."""
    low, high = pair.interval or (-math.inf, math.inf)
    found = "reproduced" if low > 0 else "not reproduced" if high < gain else "undecided"
    return found + (", by gates at their start" if _gate_budget(folder)[1] < LITTLE else "")


def _ahead_of_dymo() -> str:
    found = [
        pair_of(seeds(folder, "gauge", protocol), seeds(folder, "dymo", protocol)) for folder, protocol in INCOMPLETE
    ]
    ahead = sum(pair.mean > 0 for pair in found if pair is not None)
    sure = sum(pair.interval is not None and pair.interval[0] > 0 for pair in found if pair is not None)
    return f"{ahead} of {len(found)} that can be tried, {sure} of them beyond chance"


def _best() -> str:
    """In how many of the conditions that can be tried GAUGE is best, or tied, among the methods that were run."""
    ranked = [_ranked(folder, protocol) for folder, protocol in INCOMPLETE]
    there, here = (
        sum("gauge" in _winners(values).split(", ") for values in side) for side in zip(*ranked, strict=True)
    )
    return f"{here} of {len(ranked)} that can be tried; {there} of these in the paper"


def _ranked(folder: str, protocol: str) -> tuple[dict[str, float], dict[str, float]]:
    """The paper's numbers of the methods it compares, and ours of those that were run."""
    benchmark = folder.partition("/")[0]
    published = {row: each[protocol] for row, each in PUBLISHED[benchmark].items() if protocol in each}
    paper = {row: value for row, value in published.items() if row not in (*NOT_METHODS, *SCORERS[1:])}
    table = polymnist_methods().rows if benchmark == "polymnist" else cells(folder)
    if folder == "mst/long" and is_measured("mst/all"):
        table = cells("mst/all") | table
    return paper, {row: table[row][protocol].mean for row in paper if protocol in table.get(row, {})}


def conditions() -> str:
    """The paper's incomplete conditions that can be tried: which method is best there and here, and GAUGE minus DyMo_c."""
    lines = ["| condition | best in the paper | best here | GAUGE minus DyMo_c, paper | here |", "|---" * 5 + "|"]
    for folder, protocol in INCOMPLETE:
        paper, ours = _ranked(folder, protocol)
        pair = pair_of(seeds(folder, "gauge", protocol), seeds(folder, "dymo", protocol))
        best = [_winners(paper), f"{_winners(ours)} of {len(ours)}"]
        gain = f"{paper['gauge'] - paper['dymo']:+.2f}"
        lines.append(f"| {folder}, {protocol} | {' | '.join(best)} | {gain} | {_difference(pair)} |")
    return "\n".join(lines) + "\n"


def _winners(values: Mapping[str, float]) -> str:
    most = max(values.values())
    return ", ".join(row for row, value in values.items() if value == most)


def whole(
    folder: str, protocols: tuple[str, ...], tested: tuple[str, ...], references: tuple[str, ...] = REFERENCES
) -> str:
    """Every row of a comparison, and its differences under the conditions that are tested."""
    if not is_measured(folder):
        return NOT_MEASURED
    rows = tuple(dict.fromkeys((*ROWS, *cells(folder))))
    parts = [table_of(folder, protocols, rows).markdown()]
    return "\n".join([*parts, *(differences(folder, each, references, rows) for each in tested)])


def imputers(folder: str, other: str, protocols: tuple[str, ...]) -> str:
    """The same rows with other settings, such as another imputer: the first minus the second, seed by seed."""
    if not (is_measured(folder) and is_measured(other)):
        return NOT_MEASURED
    lines = [f"| points, {folder} minus {other} | {' | '.join(protocols)} |", "|---" * (len(protocols) + 1) + "|"]
    for row in cells(other):
        if row in cells(folder):
            found = [pair_of(seeds(folder, row, each), seeds(other, row, each)) for each in protocols]
            lines.append(f"| {row} | {' | '.join(map(_difference, found))} |")
    return "\n".join(lines) + "\n"


def against(folder: str, other: str, protocols: tuple[str, ...], tested: tuple[str, ...]) -> str:
    """Every row of a comparison, and its differences from the same rows of another one."""
    if not (is_measured(folder) and is_measured(other)):
        return NOT_MEASURED
    return f"{whole(folder, protocols, ())}\n{imputers(folder, other, tested)}"


def noise() -> str:
    """Rows that are one model trained twice, on every benchmark: what the order of additions on a GPU is worth."""
    lines = [
        "| benchmark | the same model twice | conditions | mean difference | largest in a seed |",
        "|---" * 5 + "|",
    ]
    for folder in FOLDERS:
        benchmark = BENCHMARKS.get(folder.partition("/")[0])
        rows = [
            Row.parse(row) for row in table_of(folder, tuple({each.protocol: 0 for each in results(folder)}), ROWS).rows
        ]
        for row in (row for row in rows if row.method == "gauge" and (twin(benchmark, row.variant) != row.variant)):
            other = Row("gauge", twin(benchmark, row.variant))
            found = [pair for pair in pairs(folder) if (pair.row, pair.other) == (str(row), str(other))]
            largest = max(abs(value) for pair in found for value in pair.differences)
            average = mean(abs(value) for pair in found for value in pair.differences)
            lines.append(f"| {folder} | {other} and {row} | {len(found)} | {average:.2f} | {largest:.2f} |")
    return "\n".join(lines) + "\n"


def power() -> str:
    """The true difference that each comparison would find in four of five repetitions, at p < 0.05 before correction."""
    head = " | ".join(f"gauge minus {other}" for other in REFERENCES)
    lines = [f"| points | backbones or divisions | {head} |", "|---" * 5 + "|"]
    for folder, protocol in FOLDERS.items():
        found = {pair.other: pair for pair in pairs(folder) if pair.row == "gauge" and pair.protocol == protocol}
        shown = ["–" if (pair := found.get(other)) is None else _detectable(pair) for other in REFERENCES]
        clusters = {len(set(pair.clusters)) for pair in found.values()}
        if {*shown} != {"–"}:
            lines.append(f"| {folder}, {protocol} | {', '.join(map(str, clusters))} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def _detectable(pair: Paired) -> str:
    return "–" if pair.detectable is None else f"{pair.detectable:.2f} (found {pair.mean:+.2f})"


def budgets() -> str:
    """How much the gates of GAUGE could train, and how far they went where it was recorded: means over seeds."""
    lines = ["| GAUGE on | epochs | kept epoch | steps | sum of the gates' rates | τ | ρ |", "|---" * 7 + "|"]
    for folder in FOLDERS:
        configs = _configs(folder)
        kept = [config["best"] or config["epochs"] for config in configs]
        steps, rates = _gate_budget(folder)
        cells = [
            f"{mean(config['epochs'] for config in configs):.0f}",
            f"{mean(kept):.0f}",
            f"{steps:,.0f}",
            f"{rates:.2g}",
        ]
        lines.append(f"| {folder} | {' | '.join((*cells, *(_learned(folder, name) for name in GATE)))} |")
    return "\n".join(lines) + "\n"


def _configs(folder: str) -> list[dict[str, Any]]:
    """How GAUGE was trained with each seed."""
    return list({each.seed: each.config for each in results(folder) if str(each.row) == "gauge"}.values())


def _gate_budget(folder: str) -> tuple[float, float]:
    """The steps until the kept epoch and the sum of the rates of the gates, means over seeds."""
    spent = []
    for config in _configs(folder):
        settings = TrainSettings.model_validate(config["settings"])
        rows = TRAIN_ROWS.get(folder) or config["train_rows"]
        steps, rates = budget(settings, rows, config["best"] or config["epochs"])
        spent.append((steps, settings.gate_rate * rates))
    return mean(steps for steps, _ in spent), mean(rates for _, rates in spent)


def _learned(folder: str, name: str) -> str:
    """The mean over seeds of a number of the gates after training, from the results or, before they had it, the audits."""
    recorded = [config.get("scalars") for config in _configs(folder)]
    if all(recorded):
        ends = [each["end"][f"gate.{name}"] for each in recorded if each]
    else:
        ends = [each[name] for records in _audits(folder).values() for each in records] if _has_audit(folder) else []
    return f"{mean(ends):.3f}" if ends else "not recorded"


def _has_audit(folder: str) -> bool:
    return (ROOT / "results" / folder / "audit.json").exists()


def published() -> str:
    """GAUGE and its ablations, ours and the paper's numbers side by side."""
    paper = PUBLISHED["polymnist"]
    rows = [row for row in NOT_SCORERS if row in paper]
    return table_of("polymnist/cosine", PAPER_ETA, rows, paper=paper).markdown()


def methods(folder: str) -> str:
    """All methods side by side, what differs from GAUGE beyond chance, and why some have no row."""
    refused = {}
    for row in METHODS:
        method, variant = Row.parse(row)
        if reason := Experiment(benchmark="leaf99", method=method, variant=variant).unsupported():
            refused[row] = reason
    return table_of(folder, GAMMA, METHODS, refused=refused, pairs=pairs(folder)).markdown()


def polymnist_methods() -> Table:
    """All methods on PolyMNIST. GAUGE's rows are those of the comparison with five seeds; another method differs from GAUGE
    beyond chance by the seeds that both have."""
    others = table_of("polymnist/all", PAPER_ETA, METHODS, paper=PUBLISHED["polymnist"])
    ours = table_of("polymnist/cosine", PAPER_ETA, METHODS, pairs=pairs("polymnist/cosine"))
    signs = dict(ours.signs)
    against = {column: seeds("polymnist/cosine", "gauge", column) for column in PAPER_ETA}
    rows = [(row, column) for row in others.rows if row not in ours.rows for column in others.rows[row]]
    found = [pair_of(seeds("polymnist/all", row, column), against[column]) for row, column in rows]
    for pair in corrected([each for each in found if each is not None]):
        if pair.p_corrected is not None and pair.p_corrected < CHANCE:
            signs[pair.row, pair.protocol] = "↑" if pair.mean > 0 else "↓"
    return replace(others, rows=others.rows | ours.rows, signs=signs)


def mst_methods() -> str:
    """All methods on MST, and those of the comparison in which gates could train."""
    if not is_measured("mst/all"):
        return NOT_MEASURED
    shown = ("complete", "missing=svhn+text", "missing=mnist+text")
    others, ours = (table_of(f"mst/{each}", shown, METHODS, paper=PUBLISHED["mst"]) for each in ("all", "long"))
    return replace(others, rows=others.rows | ours.rows).markdown()


def selection() -> str:
    """Methods whose epoch was chosen over all conditions, and on complete data as published."""
    rows = {}
    for name, how in {"baselines": "over all conditions", "complete": "on complete data"}.items():
        table = table_of(f"polymnist5k/{name}", PAPER_ETA, METHODS)
        rows |= {f"{row}, chosen {how}": cells for row, cells in table.rows.items()}
    return replace(table, rows=rows).markdown()


def published_selection() -> str:
    """Baselines whose epoch was chosen over all conditions, and the first best one on complete data as published."""
    if not is_measured("polymnist/complete100"):
        return NOT_MEASURED
    folders, shown = ("polymnist/all", "polymnist/complete100"), PAPER_ETA[1:]
    head = [f"{each}, {how}" for each in shown for how in ("all conditions", "complete data", "paper")]
    lines = [f"| accuracy, % | kept epochs | {' | '.join(head)} |", "|---" * (len(head) + 2) + "|"]
    for row in cells("polymnist/complete100"):
        kept = [
            ", ".join(f"{each.config['best']}" for each, _ in seeds(folder, row, "complete").values())
            for folder in folders
        ]
        values = [
            f"{cell}"
            for each in shown
            for cell in (*(cells(folder)[row][each] for folder in folders), f"{PUBLISHED['polymnist'][row][each]:.2f}")
        ]
        lines.append(f"| {row} | {' / '.join(kept)} | {' | '.join(values)} |")
    return "\n".join(lines) + "\n"


def gates_trained() -> str:
    """PolyMNIST at the paper's length, and the same rows with more for gates or another schedule beside it."""
    folder = "polymnist/cosine100"
    if not is_measured(folder):
        return NOT_MEASURED
    parts = [whole(folder, ETA, ("eta=0.8",))]
    for other in (f"polymnist/{name}" for name in ("gates50", "start0", "constant100")):
        if is_measured(other):
            parts += [whole(other, ETA, ()), imputers(other, folder, ("eta=0.6", "eta=0.8"))]
    return "\n".join(parts)


def speed(folder: str) -> str:
    """Samples a second in the training of every method, of the seed that ran with the fewest others beside it."""
    speeds = training_speed([result for result in results(folder) if result.seed == 0])
    lines = ["| method | samples a second |", "|---|---|"]
    return "\n".join([*lines, *(f"| {row} | {speeds[row]:,.0f} |" for row in METHODS if row in speeds)]) + "\n"


def scoring(
    folder: str,
    protocols: tuple[str, ...],
    rows: tuple[str, ...] = SCORERS,
    paper: Mapping[str, dict[str, float]] | None = None,
) -> str:
    """Gates from other scores: the metric, the difference to GAUGE seed by seed, and the paper's number."""
    compared = {(pair.row, pair.protocol): pair for pair in pairs(folder) if pair.other == "gauge"}
    head = [f"{each} | minus gauge" for each in protocols] + [f"{each}, paper" for each in protocols[:1] if paper]
    lines = [f"| scores | {' | '.join(head)} |", "|---" * (1 + 2 * len(protocols) + bool(paper)) + "|"]
    for row in rows:
        shown = [f"{cells(folder)[row][each]} | {_difference(compared.get((row, each)))}" for each in protocols]
        shown += [f"{paper[row][each]:.2f}" for each in protocols[:1] if paper]
        lines.append(f"| {row} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def audit(folder: str) -> str:
    """What `gauge audit` said of the trained GAUGE models: mean and deviation over seeds, predictions changed in all."""
    lines = [
        "| protocol | seeds | rank correlation with exact effects | gate: observed | imputed | imputed and right | imputed "
        "and wrong | AUC of the gate, right against wrong | imputed that is right | predictions changed: better, worse |",
        "|---" * 10 + "|",
    ]
    for protocol, records in _audits(folder).items():
        gates = [_spread(records, key) for key in ("gate_observed", "gate_imputed", "gate_right", "gate_wrong")]
        gate = _spread([each["separation"] for each in records], "gate")
        changed, better, worse = (sum(each[key] for each in records) for key in ("changed", "better", "worse"))
        right = 100 * sum(each["imputed_right"] for each in records) / len(records)
        lines.append(
            f"| {protocol} | {len(records)} | {_spread(records, 'rank_correlation')} | {' | '.join(gates)} | {gate} "
            f"| {right:.0f} % | {changed} of {sum(each['samples'] for each in records):,}: {better}, {worse} |"
        )
    return "\n".join(lines) + "\n"


def cell_audit(folder: str) -> str:
    """The same for tables, whose imputed cells are judged by their error."""
    if not _has_audit(folder):
        return NOT_MEASURED
    scores = ("gate", "taylor", "exact", "random")
    head = ("protocol", "seeds", "rank correlation with exact effects", "gate: observed", "imputed")
    head += (*(f"AUC of {name}" for name in scores), "accuracy without gates", "with gates", "imputed hidden")
    lines = [f"| {' | '.join((*head, 'predictions changed: better, worse'))} |", "|---" * (len(head) + 1) + "|"]
    for protocol, records in _audits(folder).items():
        found = [_spread(records, key) for key in ("rank_correlation", "gate_observed", "gate_imputed")]
        found += [_spread([each["separation_cells"] for each in records], name) for name in scores]
        percent = [{name: 100 * value for name, value in each["accuracy"].items()} for each in records]
        found += [_spread(percent, name, 1) for name in ("without gates", "with gates", "imputed hidden")]
        changed, better, worse = (sum(each[key] for each in records) for key in ("changed", "better", "worse"))
        total = sum(each["samples"] for each in records)
        lines.append(
            f"| {protocol} | {len(records)} | {' | '.join(found)} | {changed} of {total:,}: {better}, {worse} |"
        )
    return "\n".join(lines) + "\n"


def separation(folder: str) -> str:
    """How well each kind of score tells imputed units of the right class from those of a wrong one."""
    audits = {protocol: [each["separation"] for each in records] for protocol, records in _audits(folder).items()}
    lines = [f"| AUC, right against wrong | {' | '.join(audits)} |", "|---" * (len(audits) + 1) + "|"]
    for name in next(iter(audits.values()))[0]:
        lines.append(f"| {name} | {' | '.join(_spread(records, name) for records in audits.values())} |")
    return "\n".join(lines) + "\n"


def hidden(folder: str) -> str:
    """The accuracy of GAUGE's network with gates, without, and with units hidden instead."""
    audits = {protocol: [each["accuracy"] for each in records] for protocol, records in _audits(folder).items()}
    names = list(next(iter(audits.values()))[0])
    lines = [f"| accuracy, % | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for protocol, records in audits.items():
        percent = [{name: 100 * value for name, value in each.items()} for each in records]
        lines.append(f"| {protocol} | {' | '.join(_spread(percent, name) for name in names)} |")
    return "\n".join(lines) + "\n"


def _audits(folder: str) -> dict[str, list[dict]]:
    records: dict[str, list[dict]] = {}
    for record in _records(folder, "audit.json"):
        records.setdefault(record["protocol"], []).append(record)
    return records


def _spread(records: list[dict], key: str, digits: int = 2) -> str:
    values = [record[key] for record in records]
    return f"{mean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def scoring_cost() -> str:
    """Times at batch 1 and ratios at batch 256 on each machine that was measured."""
    header = ("machine", "layout", "N", "Taylor, ms", "exact sequential, ms", "exact batched, ms")
    header += ("Taylor recorded, ms", "exact batched recorded, ms", "Taylor / forward", "prediction / forward")
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for path in sorted((ROOT / "perf" / "results").glob("scoring_cost-*.json")):
        content = json.loads(path.read_text())
        threads = content["hardware"]["threads"]
        machine = content["hardware"].get("gpu") or f"CPU, {threads} thread{'s' * (threads > 1)}"
        for layout, row in content["rows"].items():
            times = [f"{row[key]:.2f}" for key in ("taylor_ms", "exact_sequential_ms", "exact_batched_ms")]
            recorded = (row.get(f"{score}_graph_ms") for score in ("taylor", "exact_batched"))
            times += ["–" if value is None else f"{value:.2f}" for value in recorded]
            mode = "_graph" if "forward_256_graph_ms" in row else ""
            ratios = [f"{row[f'{part}_over_forward_256{mode}']:.2f}" for part in ("taylor", "predict")]
            lines.append(f"| {machine} | {layout} | {row['units']} | {' | '.join(times + ratios)} |")
    return "\n".join(lines) + "\n"


def prediction_cost() -> str:
    """Whole predictions, eager and recorded, on each machine that was measured."""
    lines = ["| machine | batch | precision | how | ms a batch | predictions a second |", "|---" * 6 + "|"]
    for path in sorted((ROOT / "perf" / "results").glob("scoring_cost-*.json")):
        content = json.loads(path.read_text())
        if "prediction" not in content:
            continue
        machine, whole = content["hardware"].get("gpu") or "CPU", content["prediction"]
        recorded = "recorded" if content["hardware"].get("gpu") else "eager"
        for how in ("eager", "recorded", "compiled"):
            if f"{how}_ms" in whole["batch_1"] and (how != "recorded" or recorded == how):
                cost = whole["batch_1"][f"{how}_ms"]
                lines.append(f"| {machine} | 1 | float32 | {how} | {cost:.2f} | {1000 / cost:,.0f} |")
        for row in whole["large"]:
            how = f"compiled, {row['part']:,} at once" if row["compiled"] else f"{recorded}, {row['part']:,} at once"
            cells = (machine, f"{whole['large_batch']:,}", row["precision"], how, f"{row['ms']:.1f}")
            lines.append(f"| {' | '.join(cells)} | {row['predictions_per_second']:,} |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else NOT_MEASURED


def bound() -> str:
    """How much of the bounds of Theorem 1 and its corollary the effects of units use, by benchmark and kind of unit."""
    head = ("benchmark", "units", "measured", "remainder / its bound", "effect / its bound", "remainder / effect")
    head += ("signed term / score", "effect below the score")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for path in sorted((ROOT / "perf" / "results").glob("bound-*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        for name, row in ({"all": content["all"]} | content["groups"]).items():
            ratios = " | ".join(f"{row[key]:.1e}" for key in ("theorem", "corollary"))
            rest = (
                f"{row['remainder_of_effect']:.2f} | {row['cancelled']:.2f} | {100 * row['effect_within_score']:.0f} %"
            )
            lines.append(f"| {content['benchmark']} | {name} | {row['count']} | {ratios} | {rest} |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else NOT_MEASURED


def dymo_speed() -> str:
    """Seconds of DyMo's selection, all candidates stacked and candidate by candidate, on each machine that was measured."""
    head = "| machine | samples | selected alike | stacked, s | candidate by candidate, s | ratio |"
    lines = [head, "|---" * 6 + "|"]
    for path in sorted((ROOT / "perf" / "results").glob("dymo_speed-*.json")):
        row = json.loads(path.read_text(encoding="utf-8"))
        machine = row["hardware"].get("gpu") or f"CPU, {row['hardware']['threads']} thread"
        times = f"{row['seconds']['stacked']:.2f} | {row['seconds']['loop']:.2f} | {row['ratio']:.1f}"
        lines.append(f"| {machine} | {row['samples']} | {row['same_selections']} | {times} |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else NOT_MEASURED


def serving() -> str:
    """Requests over HTTP: latency and throughput with torch and ONNX, batched and one by one."""
    lines = ["| model | requests | connections | p50, ms | p99, ms | requests a second |", "|---" * 6 + "|"]
    for row in _perf("serving")["serving"]:
        cells = (row["engine"], row["mode"], row["clients"], f"{row['p50_ms']:.0f}", f"{row['p99_ms']:.0f}")
        lines.append(f"| {' | '.join(map(str, cells))} | {row['requests_per_second']:.0f} |")
    return "\n".join(lines) + "\n"


def export_cost() -> str:
    """Predictions of a classifier with torch and of its exported file with onnxruntime, on one CPU thread."""
    lines = ["| rows | torch, ms | ONNX, ms | torch / ONNX | largest difference |", "|---" * 5 + "|"]
    for row in _perf("serving")["export"]:
        cost = f"{row['torch_ms']:.0f} | {row['onnx_ms']:.0f} | {row['torch_over_onnx']:.2f}"
        lines.append(f"| {row['rows']:,} | {cost} | {row['difference']:.0e} |")
    return "\n".join(lines) + "\n"


def streaming() -> str:
    """Memory and speed of prediction and training, from files in parts and in memory."""
    lines = ["| | rows | read | memory, MB | rows a second |", "|---" * 5 + "|"]
    for task in ("predict", "fit"):
        for row in _perf(f"streaming-{task}-cpu")["runs"]:
            form = {"parts": "in parts", "memory": "at once"}[row["form"]]
            lines.append(f"| {task} | {row['rows']:,} | {form} | {row['peak_mb']:.0f} | {row['rows_per_second']:,} |")
    return "\n".join(lines) + "\n"


def on_ray() -> str:
    """Predictions by one process, and by Ray with one worker and with two."""
    lines = ["| | processes that predicted | seconds to start | rows a second | over one process |", "|---" * 5 + "|"]
    for row in _perf("ray-cpu")["runs"]:
        rate = f"{row['rows_per_second']:,} | {row['over_one_process']:.2f}"
        lines.append(f"| {row['form']} | {row['processes']} | {row['start']:.0f} | {rate} |")
    return "\n".join(lines) + "\n"


def _perf(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "perf" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def pipeline_cost() -> str:
    """Seconds an epoch of every stage, launched kernel by kernel and recorded, and samples a second."""
    head = ("benchmark", "stage", "s an epoch, eager", "s an epoch, recorded", "launch overhead", "samples a second")
    lines = [f"| {' | '.join(head)} | peak, GiB |", "|---" * (len(head) + 1) + "|"]
    for path in sorted((ROOT / "perf" / "results").glob("pipeline-*-cuda.json")):
        for name, row in json.loads(path.read_text())["rows"].items():
            if "recorded" in row:
                speed = f"{row['samples_per_second']:,.0f}" if "samples_per_second" in row else "–"
                shares = f"{100 * row['launch_share']:.0f} % | {speed} | {row['peak_gib']:.1f}"
                benchmark = path.stem.split("-")[1]
                lines.append(f"| {benchmark} | {name} | {row['eager']:.2f} | {row['recorded']:.2f} | {shares} |")
    return "\n".join(lines) + "\n"


def classifier_cost() -> str:
    """What GaugeClassifier takes for a table, on each machine that was measured."""
    lines = [
        "| machine | rows x columns | gates | fit, CPU s | rows answered a CPU second | peak memory, MB |",
        "|---" * 6 + "|",
    ]
    for path in sorted((ROOT / "perf" / "results").glob("classifier-*.json")):
        row = json.loads(path.read_text())
        machine = row["hardware"].get("gpu") or f"CPU, threads: {row['hardware']['threads']}"
        cost = f"{row['fit_seconds']:.0f} | {row['predicted_rows_per_second']:,} | {row['peak_mb']}"
        gates = "yes" if row.get("gates", True) else "no"
        lines.append(f"| {machine} | {row['rows']:,} x {row['columns']} | {gates} | {cost} |")
    return "\n".join(lines) + "\n"


def own_data() -> str:
    """Classifiers on tables with missing cells: mean and deviation over seeds."""
    blocks = []
    for path in sorted((ROOT / "results" / "tables").glob("*.json")):
        records = json.loads(path.read_text())
        metric = "auc" if "auc" in records[0] else "accuracy"
        rows: dict[str, dict[str, Cell]] = {}
        for record in records:
            cells = rows.setdefault(record["model"], {})
            before = cells[record["condition"]].values if record["condition"] in cells else ()
            cells[record["condition"]] = Cell((*before, 100 * record[metric]), (0.0, 100.0))
        blocks.append(Table(f"{path.stem}: {metric}", tuple(next(iter(rows.values()))), rows).markdown())
    return "\n".join(blocks)


def when() -> str:
    """What to use for which data, with the numbers that say so."""
    records = _beside_rivals()
    records = records[records["several"]].assign(auc=lambda each: 100 * each["auc"])
    auc = records.groupby(["model", "missing"])["auc"].mean()
    seconds = records.groupby("model")["cpu_seconds"].median()
    ours, trees = (" / ".join(f"{value:.1f}" for value in auc[name]) for name in ("gauge", "LightGBM"))
    found = mean(
        each["separation_modalities"]["trust"]
        for each in _records("polymnist/trust", "audit.json")
        if (each["variant"], each["protocol"]) == ("gauge_plus-trust", "swapped=0.2")
    )
    taught, alone = (
        100 * mean(each.value for each, _ in seeds("polymnist/unlabelled256", row, "eta=0.8").values())
        for row in ("gauge_plus:gauge_plus-taught", "gauge_plus")
    )
    rows = {
        "a table, with or without texts and images, cells blank or not": (
            "`GaugeClassifier`",
            f"AUC {ours} % with 0 / 30 / 70 % of the cells blank, LightGBM {trees} "
            f"(means over {records['table'].nunique()} [public tables](docs/own-data.md#how-good-it-is))",
        ),
        "a table, and every CPU second counts": (
            "boosted trees",
            f"a fit takes {seconds['LightGBM']:.1f} s instead of {seconds['gauge']:.0f}",
        ),
        "several modalities, any of them missing, in PyTorch": ("[GAUGE+](docs/gauge-plus.md)", "the table below"),
        "evidence that may be wrong, not only missing": (
            "GAUGE+ with [learned trust](docs/trust.md)",
            f"it finds swapped views with an AUC of {found:.3f}",
        ),
        "few labels, and many samples without one": (
            "[`gauge_plus-taught`](docs/trust.md#samples-without-a-label)",
            f"{taught:.1f} % with 256 labels and one view of five, {alone:.1f} without the other samples",
        ),
        "a fine-tuned Transformer whose units you want to weigh": (
            "[`gauge.wrap(model)`](docs/own-transformer.md)",
            "two parameters, the same logits with open gates",
        ),
        "one modality, always complete": ("something else", "nothing here helps"),
    }
    lines = ["| your data | use | because |", "|---" * 3 + "|"]
    return "\n".join([*lines, *(f"| {data} | {use} | {reason} |" for data, (use, reason) in rows.items())]) + "\n"


def table_networks() -> str:
    """The network of GaugeClassifier beside TabM: means over the tables, and on how many each has the better score."""
    records = pd.DataFrame(json.loads((ROOT / "perf" / "results" / "table_networks.json").read_text(encoding="utf-8")))
    lines = ["| cells blank | tables | network: AUC, % / log loss / CPU s | TabM | network better in AUC, log loss |"]
    lines.append("|---" * 5 + "|")
    for rate, each in records.groupby("missing"):
        pivot = each.pivot_table(index=["table", "seed"], columns="model", values=["auc", "log_loss", "cpu_seconds"])
        auc, loss, cost = (pivot[key] for key in ("auc", "log_loss", "cpu_seconds"))
        shown = [
            f"{100 * auc[model].mean():.1f} / {loss[model].mean():.3f} / {cost[model].mean():.1f}"
            for model in ("network", "TabM")
        ]
        wins = f"{(auc['network'] > auc['TabM']).sum()}, {(loss['network'] < loss['TabM']).sum()}"
        lines.append(f"| {rate:.0%} | {len(pivot)} | {' | '.join(shown)} | {wins} |".replace("%", " %"))
    return "\n".join(lines) + "\n"


def _beside_rivals() -> pd.DataFrame:
    """The fits of perf/tables.py that all models have, with their scores; `several` is False for a single text or image."""
    records = pd.DataFrame(json.loads((ROOT / "perf" / "results" / "tables.json").read_text(encoding="utf-8")))
    for name in ("accuracy", "log_loss", "auc", "calibration_error"):
        records[name] = [each[name] for each in records["plain"]]
    records["tempered"] = [
        (tempered if isinstance(tempered, dict) else plain)["log_loss"]
        for tempered, plain in zip(records["tempered"], records["plain"], strict=True)
    ]
    fit = ["table", "missing", "seed"]
    everywhere = records.groupby(fit)["model"].transform("nunique") == records["model"].nunique()
    records["several"] = records.groupby("table")["missing"].transform("nunique") > 1
    records = records[everywhere]
    return records.assign(rank=records.groupby(fit)["auc"].rank(ascending=False))


def rivals() -> str:
    """GaugeClassifier beside its rivals: means over the tables of ordinary packages, by the share of blank cells."""
    records = _beside_rivals()
    heads = (
        *(
            "mean rank",
            "AUC, %",
            "log loss",
            "with temperature",
            "accuracy, %",
            "calibration error, %",
            "CPU s, median",
        ),
        "gauge is better in AUC, log loss",
    )
    blocks = []
    for (several, rate), part in records.groupby(["several", "missing"], sort=False):
        seeds = part.groupby("table")["seed"].nunique()
        count = f"{len(seeds)} tables, {seeds.sum()} divisions"
        what = f"{100 * rate:.0f} % blank" if several else "a text or an image"
        lines = [f"| {what}, {count} | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
        ours = part[part["model"] == "gauge"].set_index(["table", "seed"])
        for model, own in sorted(part.groupby("model"), key=lambda item: item[1]["rank"].mean()):
            mean, own = own.mean(numeric_only=True), own.set_index(["table", "seed"])
            cells = [
                f"{mean['rank']:.2f}",
                f"{100 * mean['auc']:.2f}",
                f"{mean['log_loss']:.3f}",
                f"{mean['tempered']:.3f}",
            ]
            cells += [f"{100 * mean['accuracy']:.2f}", f"{100 * mean['calibration_error']:.1f}"]
            wins = (ours["auc"] > own["auc"]).sum(), (ours["tempered"] < own["tempered"]).sum()
            cells += [f"{own['cpu_seconds'].median():.1f}", "" if model == "gauge" else f"{wins[0]}, {wins[1]}"]
            lines.append(f"| {model} | {' | '.join(cells)} |")
        blocks.append("\n".join([*lines, ""]))
    return "\n".join([*blocks, _behind(records)])


def cell_trust() -> str:
    """How well the trust in cells tells right from wrong, on each table."""
    records = pd.DataFrame(json.loads((ROOT / "perf" / "results" / "cell_trust.json").read_text(encoding="utf-8")))
    heads = (
        "AUC, swapped cells",
        "AUC, imputed cells",
        "imputed cells right, %",
        "calibration error",
        "of imputed cells",
    )
    count = f"{records['seed'].nunique()} seeds"
    lines = [f"| {count} | rows x columns | {' | '.join(heads)} | CPU s |", "|---" * (len(heads) + 3) + "|"]
    for name, part in records.groupby("table", sort=False):
        mean = part.select_dtypes("number").mean()
        cells = [f"{mean['rows']:.0f} x {mean['columns']:.0f}", f"{mean['swapped']:.2f}", f"{mean['imputed']:.2f}"]
        cells += [f"{100 * mean['imputed_right']:.0f}", f"{mean['error_observed']:.3f}", f"{mean['error_imputed']:.3f}"]
        lines.append(f"| {name} | {' | '.join(cells)} | {mean['seconds']:.1f} |")
    return "\n".join(lines) + "\n"


def _behind(records: pd.DataFrame) -> str:
    """How the best single rival of each table and rate, by mean AUC, compares with `gauge`, over seeds."""
    ahead, behind = 0, []
    ours = records[records["model"] == "gauge"]
    for (table, rate), part in ours.groupby(["table", "missing"]):
        others = records[(records["table"] == table) & (records["missing"] == rate) & (records["model"] != "gauge")]
        best = others.groupby("model")["auc"].mean().idxmax()
        differences, errors = np.array([each[best] for each in part["auc_minus"]]).T
        mean, error = differences.mean(), (np.square(errors).sum()) ** 0.5 / len(errors)
        ahead += mean > 0
        if mean + 1.96 * error < -0.01:
            behind.append(f"{table} at {100 * rate:.0f} % ({100 * mean:+.1f} ± {196 * error:.1f}, {best})")
    groups = ours.groupby(["table", "missing"]).ngroups
    text = f"`gauge` has a higher AUC than the best single rival in {ahead} of {groups} pairs of table and rate. "
    text += "The paired 95 % interval lies wholly more than 1 point of AUC behind the best single rival on "
    return text + (", ".join(behind) or "none of them") + ".\n"


TABLES = {
    "headline": headline,
    "verdicts": verdicts,
    "when": when,
    **{name: partial(beside, *given) for name, given in PLUS.items()},
    "plus-goals": plus_goals,
    "plus-calibration": lambda: calibration("leaf99/disjoint", ("gauge_plus", "late_fusion", *SHARED), GAMMA),
    "plus-parts": lambda: beside(dict.fromkeys(PARTS, "polymnist5k/parts"), PAPER_ETA),
    "table-networks": table_networks,
    "trust-polymnist": trust,
    "trust-imputed": trust_imputed,
    "trust-goals": trust_goals,
    "trust-audit": lambda: trust_audit(
        *(f"{name}/trust" for name in ("polymnist", "leaf99", "ham10000", "celeba_table"))
    ),
    **{f"unlabelled{count}": partial(unlabelled, count) for count in (256, 1024, 4096)},
    "celeba": lambda: accuracy("celeba", FACES),
    "celeba-complete": lambda: differences("celeba", "complete"),
    "celeba-faces": lambda: differences("celeba", "missing=text"),
    "pipeline-cost": pipeline_cost,
    "own-data": own_data,
    "rivals": rivals,
    "cell-trust": cell_trust,
    "classifier-cost": classifier_cost,
    "polymnist5k": lambda: accuracy("polymnist5k", ("complete", "eta=0.6", "eta=0.8")),
    "polymnist5k-paired": lambda: differences("polymnist5k", "eta=0.8", ("gauge:v2", "gauge:masked")),
    "polymnist": lambda: accuracy("polymnist/cosine", ETA),
    "polymnist-every": lambda: accuracy("polymnist/cosine", EVERY),
    "polymnist-paired": lambda: differences("polymnist/cosine", "eta=0.8"),
    "polymnist-published": published,
    "polymnist-scoring": lambda: scoring("polymnist/cosine", ("eta=0.8", "every=0.8"), paper=PUBLISHED["polymnist"]),
    "polymnist-constant": lambda: accuracy("polymnist/constant", ETA),
    "polymnist-constant-paired": lambda: differences("polymnist/constant", "eta=0.8", ("gauge:v2", "gauge:masked")),
    "audit": lambda: audit("polymnist/cosine"),
    "polymnist5k-hidden": lambda: hidden("polymnist5k"),
    "separation": lambda: separation("polymnist/cosine"),
    "mst": lambda: accuracy("mst", DIGITS),
    "mst-methods": mst_methods,
    "mst-paired": lambda: differences("mst", "missing=mnist+text"),
    "mst-audit": lambda: audit("mst"),
    "mst-reversed": lambda: accuracy("mst/reversed", DIGITS),
    "claims": claims,
    "noise": noise,
    "power": power,
    "budgets": budgets,
    "conditions": conditions,
    "leaf99-disjoint": lambda: whole("leaf99/disjoint", GAMMA, ("gamma=0.9", "gamma=0.5")),
    "mst-long": lambda: whole("mst/long", DIGITS, ("missing=mnist+text", "complete")),
    "celeba-long": lambda: whole("celeba/long", FACES, ("missing=text", "complete")),
    "celeba-reversed": lambda: whole("celeba/reversed", FACES, ("missing=text",)),
    "ham10000-long": lambda: whole("ham10000/long", GAMMA, ("gamma=1", "complete")),
    "celeba-table": lambda: whole("celeba_table", GAMMA, ("gamma=1", "gamma=0.5", "complete")),
    "celeba-table-balanced": lambda: whole("celeba_table/balanced", GAMMA, ("gamma=1",)),
    "imputer-rows": lambda: imputers("celeba_table", "celeba_table/balanced", ("gamma=0.5", "gamma=0.9", "gamma=1")),
    "polymnist5k-readings": lambda: whole("polymnist5k/readings", PAPER_ETA, ("eta=0.8",), ("gauge", "dymo")),
    "polymnist5k-oracle": lambda: against("polymnist5k/oracle", "polymnist5k/readings", PAPER_ETA, PAPER_ETA),
    "shared-embedding": lambda: against("polymnist5k/shared", "polymnist5k/readings", PAPER_ETA, PAPER_ETA),
    "leaf99-readings": lambda: whole("leaf99/readings", GAMMA, ("gamma=0.9",), ("gauge", "dymo")),
    "leaf99-oracle": lambda: against("leaf99/oracle", "leaf99/readings", GAMMA, ("gamma=0.5", "gamma=0.9", "gamma=1")),
    "leaf99-audit": lambda: cell_audit("leaf99/readings"),
    "ham10000-audit": lambda: cell_audit("ham10000/long"),
    "scoring-cost": scoring_cost,
    "prediction-cost": prediction_cost,
    "serving": serving,
    "export-cost": export_cost,
    "streaming": streaming,
    "on-ray": on_ray,
    "bound": bound,
    "dymo-speed": dymo_speed,
    **{
        f"{name}-{what}": partial(write, name)
        for name in ("leaf99", "ham10000")
        for what, write in {"gamma": with_iterative, "paired": minus_gauge, "imputation": imputation}.items()
    },
    "leaf99-methods": lambda: methods("leaf99"),
    "leaf99-methods-100": lambda: methods("leaf99/epochs100"),
    "polymnist5k-selection": selection,
    "published-selection": published_selection,
    "gates-trained": gates_trained,
    "polymnist-speed": lambda: speed("polymnist/all"),
    "polymnist-methods": lambda: polymnist_methods().markdown(),
    "polymnist-longer": lambda: table_of("polymnist/all", PAPER_ETA, NOT_SCORERS[:-1]).markdown(),
    "leaf99-scoring": lambda: scoring("leaf99", ("gamma=1", "gamma=0.9"), (*SCORERS, *NORMALIZATIONS)),
    "ham10000-scoring": lambda: scoring("ham10000", ("gamma=1", "gamma=0.9"), (*SCORERS, *NORMALIZATIONS)),
    "ham10000-grids": lambda: table_of("ham10000", GAMMA, GRIDS).markdown(),
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


def _records(folder: str, name: str) -> list[dict]:
    return json.loads((ROOT / "results" / folder / name).read_text(encoding="utf-8"))


def generated(text: str) -> str:
    """The page with every table written anew."""

    def table(match: re.Match[str]) -> str:
        return f"<!-- table: {match[1]} -->\n{TABLES[match[1]]()}<!-- end -->"

    return re.sub(r"<!-- table: ([\w-]+) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)


def main() -> None:
    for name in PAGES:
        page = ROOT / name
        page.write_text(generated(page.read_text(encoding="utf-8")), encoding="utf-8")
    table = table_of("polymnist/cosine", PAPER_ETA)
    family = {row: ROWS[row] for row in table.rows if row != "gauge:v1"}
    draw_rows(table, family, ROOT / "docs" / "polymnist.svg")
    draw_rows(polymnist_methods(), METHODS, ROOT / "docs" / "methods.svg")
    draw_trust(ROOT / "docs" / "trust.svg")
    with matplotlib.rc_context(DRAWING):
        for name in ("leaf99", "ham10000"):
            table = table_of(name, GAMMA, DRAWN)
            draw_lines(
                table.rates(), table.metric, ROOT / "docs" / f"{name}.svg", across="share of the cells missing, γ"
            )
        table = table_of("leaf99/disjoint", GAMMA, ("gauge_plus", "late_fusion", *SHARED))
        path = ROOT / "docs" / "gauge-plus.svg"
        shown = {**ROWS, "gauge_plus": "GAUGE+", "gauge:masked": "missing units masked, no imputer"}
        named = {shown[row]: points for row, points in table.rates().items()}
        draw_lines(named, table.metric, path, across="share of the cells missing, γ")
        table = table_of("ham10000", GAMMA, GRIDS)
        grids = {name: points for name, points in table.grids().items() if name in ("complete", "gamma=0.5", "gamma=1")}
        draw_lines(grids, table.metric, ROOT / "docs" / "grids.svg", across="units of an image, down and across")


if __name__ == "__main__":
    main()
