"""What every table is made of: result files, the rows and conditions of tables, and differences between rows."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from gauge_lab.comparison import Paired, pair_of, paired
from gauge_lab.formats import Table, TableCell
from gauge_lab.results import Result, read_results
from gauge_lab.statistics import holm
from gauge_lab.tables import result_table

ROOT = Path(__file__).parents[2]
VOTES = "late_fusion:equal-votes"
HEADS_ONLY = "gauge_plus:gauge_plus-heads-only"
# the runs of a benchmark whose rows have the same budget, or say what they have
TRIAL = ("regret", "published", "equal", "fair")
TIMINGS, STUDIES = ROOT / "perf" / "results", ROOT / "studies" / "results"


def is_measured(folder: str, variant: str = "") -> bool:
    """Whether there are results, of that variant if one is given."""
    path, quote = ROOT / "results" / folder / "results.json", '"' if variant else ""
    return path.exists() and f'"variant": "{variant}{quote}' in path.read_text(encoding="utf-8")


DRAWING: Any = {"svg.hashsalt": "gauge", "svg.fonttype": "none", "font.size": 11}
ROWS = {
    "any_subset": "backbone as trained, missing units masked",
    "gauge:masked": "the same, fine-tuned: no imputer",
    "dymo": "DyMo_c",
    "gauge:v1": "v1: all recovered, no fine-tuning",
    "gauge:v2": "v2: fine-tuned on imputed inputs, no gates",
    "gauge:v3": "v3: one gate per modality",
    "gauge": "GAUGE",
    "gauge:gauge-random": "GAUGE, scores at random",
    "gauge:gauge-feature-norm": "GAUGE, norms of the units",
    "gauge:gauge-gradient-norm": "GAUGE, norms of the gradients",
    "gauge:gauge-attention": "GAUGE, attention on the units",
    "gauge:gauge-zscore": "GAUGE, always z-scores",
    "gauge:gauge-raw": "GAUGE, always raw scores",
    VOTES: "voting, trained on complete samples",
    "late_fusion": "voting, trained as GAUGE+",
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
    row: ROWS[row] for row in (VOTES, "any_subset", "gauge:masked", "dymo", "gauge:v1", "gauge:v2", "gauge:v3", "gauge")
}
ETA = ("complete", "eta=0.2", "eta=0.4", "eta=0.6", "eta=0.8")
PAPER_ETA = ("complete", "eta=0.6", "eta=0.8")
SCORERS = ("gauge", *(f"gauge:gauge-{name}" for name in ("random", "feature-norm", "gradient-norm", "attention")))
NORMALIZATIONS = ("gauge:gauge-zscore", "gauge:gauge-raw")
NOT_SCORERS = tuple(row for row in ROWS if row not in SCORERS[1:])
NOT_MEASURED = "*Not measured yet.*\n"
GAMMA = ("complete", "gamma=0.1", "gamma=0.3", "gamma=0.5", "gamma=0.7", "gamma=0.9", "gamma=1")
GAMMA_SHOWN = ("complete", "gamma=0.5", "gamma=0.9", "gamma=1")  # the other rates are in the files of results
SHOWN: dict[tuple[str, ...], tuple[str, ...]] = {GAMMA: GAMMA_SHOWN, ETA: PAPER_ETA}  # of long tables
GRIDS = tuple(f"gauge:gauge-grid{side}" for side in (3, 4, 5, 6, 8))
FACES = ("complete", "missing=img", "missing=text")
DIGITS: tuple[str, ...] = (
    "complete",
    "missing=svhn",
    "missing=text",
    "missing=svhn+text",
    "missing=mnist",
    "missing=mnist+svhn",
)
DIGITS += ("missing=mnist+text",)
REFERENCES = ("gauge:v2", "dymo", "gauge:masked")
SHARED = ("gauge:masked", "gauge:v2", "gauge", "dymo")  # rows on one backbone that GAUGE+ is compared with


READ: set[str] = set()
"""The folders that tables were made from, since it was last cleared: the runs that the manifest has to name."""


def results(folder: str) -> tuple[Result, ...]:
    """The committed results of one comparison, in the order of the rows and by seed."""
    READ.add(folder)
    return _results(folder)


@cache
def _results(folder: str) -> tuple[Result, ...]:
    order = {row: index for index, row in enumerate(ROWS)}
    unsorted = read_results(ROOT / "results" / folder / "results.json")
    return tuple(sorted(unsorted, key=lambda result: (order.get(str(result.row), len(order)), result.seed)))


def table_of(folder: str, protocols: tuple[str, ...], rows: Iterable[str] = NOT_SCORERS, **more: Any) -> Table:
    """Mean ± deviation over seeds, the best of each column in bold."""
    by_cell: dict[tuple[str, str], list[Result]] = {}
    for result in results(folder):
        by_cell.setdefault((str(result.row), result.protocol), []).append(result)
    chosen = [result for row in rows for protocol in protocols for result in by_cell.get((row, protocol), ())]
    return result_table(chosen, **more)


def accuracy(folder: str, protocols: tuple[str, ...]) -> str:
    return table_of(folder, protocols).markdown()


def seeds(folder: str, row: str, protocol: str) -> dict[int, tuple[Result, None]]:
    READ.add(folder)
    return _seeds(folder).get((row, protocol), {})


@cache
def _seeds(folder: str) -> dict[tuple[str, str], dict[int, tuple[Result, None]]]:
    """The results of each row under each protocol, by seed."""
    by_cell: dict[tuple[str, str], dict[int, tuple[Result, None]]] = {}
    for result in results(folder):
        by_cell.setdefault((str(result.row), result.protocol), {})[result.seed] = (result, None)
    return by_cell


def label(folder: str, row: str) -> str:
    """The row as tables name it, by the settings of its results."""
    return next((result.label for result in results(folder) if str(result.row) == row), row)


def gate_rate(folder: str, row: str = "gauge") -> str:
    """What the label of a row adds to its name: nothing, or the rate of its gates."""
    return label(folder, row).removeprefix(row)


def named(folder: str, rows: Iterable[str], names: Mapping[str, str]) -> dict[str, str]:
    """The names of rows in a figure. GAUGE says for how many epochs it was fine-tuned, and rows what their labels say."""
    shown = {row: f"{names.get(row, row)}{gate_rate(folder, row)}" for row in rows}
    epochs = {result.config["epochs"] for result in results(folder) if str(result.row) == "gauge"}
    if "gauge" in shown and epochs:
        shown["gauge"] += f", {' to '.join(map(str, sorted({min(epochs), max(epochs)})))} epochs"
    return shown


def beside(folders: Mapping[str, str], protocols: tuple[str, ...], tested: tuple[str, ...] = ()) -> str:
    """Rows, each from its folder, and the first minus every other over the seeds that both have, under the protocols that
    are `tested` (all by default); p values are corrected by Holm over the rows of one condition."""
    first, *others = folders
    protocols = SHOWN.get(protocols, protocols)
    tables = [table_of(folder, protocols, (row,)) for row, folder in folders.items()]
    names = {row: label(folder, row) for row, folder in folders.items()}
    table = replace(tables[0], rows={row: cells for part in tables for row, cells in part.rows.items()}, names=names)
    tested = tested or protocols
    columns = [minus_each(folders, first, protocol) for protocol in tested]
    lines = [f"| points, {first} minus | {' | '.join(tested)} |", "|---" * (len(tested) + 1) + "|"]
    lines += [f"| {names[row]} | {' | '.join(difference(column.get(row)) for column in columns)} |" for row in others]
    return table.markdown() + "\n" + "\n".join(lines) + "\n"


def minus_each(folders: Mapping[str, str], first: str, protocol: str) -> dict[str, Paired]:
    pairs = {
        row: pair
        for row, folder in folders.items()
        if row != first
        if (pair := _pair((folders[first], first), (folder, row), protocol)) is not None
    }
    p_values = holm([1.0 if pair.p_over_seeds is None else pair.p_over_seeds for pair in pairs.values()])
    return {
        row: pair.model_copy(update={"p_corrected": p}) for (row, pair), p in zip(pairs.items(), p_values, strict=True)
    }


def _pair(one: tuple[str, str], other: tuple[str, str], protocol: str) -> Paired | None:
    READ.update((one[0], other[0]))
    return _cached_pair(one, other, protocol)


@cache
def _cached_pair(one: tuple[str, str], other: tuple[str, str], protocol: str) -> Paired | None:
    return pair_of(seeds(*one, protocol), seeds(*other, protocol))


def rows_in(*folders: str) -> dict[str, str]:
    """Every row that these folders have results of, with the first folder that has it: GAUGE+ first, then its variants and
    votes, then all others."""
    rows: dict[str, str] = {}
    for folder in folders:
        if (ROOT / "results" / folder / "results.json").exists():
            rows |= {str(result.row): folder for result in results(folder) if str(result.row) not in rows}
    first = ("gauge_plus", HEADS_ONLY, *(row for row in rows if row.startswith("gauge_plus:")), "late_fusion", VOTES)
    return {row: rows[row] for row in (*dict.fromkeys(first), *rows) if row in rows}


def trial(benchmark: str) -> dict[str, str]:
    """The rows of a benchmark's fair trial. Those with the budget of GAUGE+ come before the same rows with another one; the
    network of an older GAUGE+ does not count."""
    rows = rows_in(*(f"{benchmark}/{run}" for run in TRIAL))
    return {row: folder for row, folder in rows.items() if row != HEADS_ONLY}


def measured(folders: Mapping[str, str]) -> dict[str, str]:
    """The rows that their folders have results of."""
    available = {
        (str(result.row), folder)
        for folder in set(folders.values())
        if (ROOT / "results" / folder / "results.json").exists()
        for result in results(folder)
    }
    return {row: folder for row, folder in folders.items() if (row, folder) in available}


def pairs(folder: str) -> tuple[Paired, ...]:
    READ.add(folder)
    return _pairs(folder)


@cache
def _pairs(folder: str) -> tuple[Paired, ...]:
    return tuple(paired([(result, None) for result in results(folder)]))


def cells(folder: str) -> dict[str, dict[str, TableCell]]:
    return result_table(results(folder)).rows


def differences(
    folder: str, protocol: str, references: tuple[str, ...] = REFERENCES, rows: tuple[str, ...] = NOT_SCORERS
) -> str:
    """Every row minus each reference row on the same samples, masks and seeds."""
    compared = {(pair.row, pair.other): pair for pair in pairs(folder) if pair.protocol == protocol}
    lines = [
        f"| points at {protocol} | seeds | {' | '.join(f'minus {label(folder, other)}' for other in references)} |",
        "|---" * (len(references) + 2) + "|",
    ]
    for row in rows:
        mine = [compared.get((row, other)) for other in references]
        if any(mine):
            count = len(cells(folder)[row][protocol].values)
            lines.append(f"| {label(folder, row)} | {count} | {' | '.join(difference(pair) for pair in mine)} |")
    return "\n".join(lines) + "\n"


def difference(pair: Paired | None) -> str:
    """Mean, 95 % interval, and the p value before and after Holm's correction."""
    if pair is None:
        return "–"
    if pair.interval is None or pair.p_over_seeds is None or pair.p_corrected is None:
        return f"{pair.mean:+.2f}"
    low, high = pair.interval
    after = "" if pair.p_corrected == pair.p_over_seeds else f" → {pair.p_corrected:.2g}"
    return f"{pair.mean:+.2f} [{low:+.2f}, {high:+.2f}] (p = {pair.p_over_seeds:.2g}{after})"


def whole(
    folder: str, protocols: tuple[str, ...], tested: tuple[str, ...], references: tuple[str, ...] = REFERENCES
) -> str:
    """Every row of a comparison, and its differences under the conditions that are tested."""
    if not is_measured(folder):
        return NOT_MEASURED
    rows = tuple(dict.fromkeys((*ROWS, *cells(folder))))
    parts = [table_of(folder, protocols, rows).markdown()]
    return "\n".join([*parts, *(differences(folder, protocol, references, rows) for protocol in tested)])


def imputers(folder: str, other: str, protocols: tuple[str, ...]) -> str:
    """The same rows with other settings, such as another imputer: the first minus the second, seed by seed."""
    if not (is_measured(folder) and is_measured(other)):
        return NOT_MEASURED
    lines = [f"| points, {folder} minus {other} | {' | '.join(protocols)} |", "|---" * (len(protocols) + 1) + "|"]
    for row in cells(other):
        if row in cells(folder):
            compared = [pair_of(seeds(folder, row, protocol), seeds(other, row, protocol)) for protocol in protocols]
            lines.append(f"| {label(folder, row)} | {' | '.join(map(difference, compared))} |")
    return "\n".join(lines) + "\n"


def against(folder: str, other: str, protocols: tuple[str, ...], tested: tuple[str, ...]) -> str:
    """Every row of a comparison, and its differences from the same rows of another one."""
    if not (is_measured(folder) and is_measured(other)):
        return NOT_MEASURED
    return f"{whole(folder, protocols, ())}\n{imputers(folder, other, tested)}"


def read_records(folder: str, name: str) -> list[dict]:
    READ.add(folder)
    return json.loads((ROOT / "results" / folder / name).read_text(encoding="utf-8"))
