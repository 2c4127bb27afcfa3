"""Tables of single comparisons: methods, scores, imputers and the choice of the epoch."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from statistics import mean

from gauge_lab.comparison import corrected, pair_of
from gauge_lab.experiment import Experiment, Row
from gauge_lab.formats import Table, TableCell
from gauge_lab.published import PUBLISHED
from gauge_lab.results import training_speed
from gauge_lab.tables import CHANCE
from report.results import (
    DIGITS,
    ETA,
    FACES,
    GAMMA_SHOWN,
    METHODS,
    NORMALIZATIONS,
    NOT_MEASURED,
    NOT_SCORERS,
    PAPER_ETA,
    ROOT,
    SCORERS,
    accuracy,
    against,
    cells,
    difference,
    differences,
    imputers,
    is_measured,
    label,
    pairs,
    results,
    seeds,
    table_of,
    whole,
)


def with_iterative(folder: str) -> str:
    """Every γ, and GAUGE also with another imputer."""
    table = table_of(folder, GAMMA_SHOWN, tuple(row for row in NOT_SCORERS if row not in NORMALIZATIONS))
    other = {"gauge on the iterative imputer": table_of(f"{folder}/iterative", GAMMA_SHOWN).rows["gauge"]}
    return replace(table, rows=table.rows | other).markdown()


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
        shown = [f"{mean(numbers):.2f}" for numbers in columns.values()]
        if key == "categories_right":
            shown = [f"{100 * mean(numbers):.1f} %" for numbers in columns.values()]
        lines.append(f"| {imputer} | {key.replace('_', ' ')} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def methods(folder: str) -> str:
    """All methods side by side, what differs from GAUGE beyond chance, and why some have no row."""
    refused = {}
    for row in METHODS:
        method, variant = Row.parse(row)
        if reason := Experiment(benchmark="leaf99", method=method, variant=variant).unsupported():
            refused[row] = reason
    return table_of(folder, GAMMA_SHOWN, METHODS, refused=refused, pairs=pairs(folder)).markdown()


def polymnist_methods() -> Table:
    """All methods on PolyMNIST. GAUGE's rows are those of the comparison on ten backbones; another method differs from GAUGE
    beyond chance by the seeds that both have."""
    others = table_of("polymnist/all", PAPER_ETA, METHODS, paper=PUBLISHED["polymnist"])
    ours = table_of("polymnist/ten", PAPER_ETA, METHODS, pairs=pairs("polymnist/ten"))
    signs = dict(ours.signs)
    against = {column: seeds("polymnist/ten", "gauge", column) for column in PAPER_ETA}
    rows = [(row, column) for row in others.rows if row not in ours.rows for column in others.rows[row]]
    compared = [pair_of(seeds("polymnist/all", row, column), against[column]) for row, column in rows]
    for pair in corrected([pair for pair in compared if pair is not None]):
        if pair.p_corrected is not None and pair.p_corrected < CHANCE:
            signs[pair.row, pair.protocol] = "↑" if pair.mean > 0 else "↓"
    return replace(others, rows=others.rows | ours.rows, signs=signs, names={**others.names, **ours.names})


def mst_methods() -> str:
    """All methods on MST, and those of the comparison in which gates could train."""
    if not is_measured("mst/all"):
        return NOT_MEASURED
    shown = ("complete", "missing=svhn+text", "missing=mnist+text")
    others, ours = (table_of(f"mst/{run}", shown, METHODS, paper=PUBLISHED["mst"]) for run in ("all", "long"))
    return replace(others, rows=others.rows | ours.rows, names={**others.names, **ours.names}).markdown()


def selection() -> str:
    """Methods whose epoch was chosen over all conditions, and on complete data as published."""
    rows: dict[str, dict[str, TableCell]] = {}
    for name, how in {"baselines": "over all conditions", "complete": "on complete data"}.items():
        table = table_of(f"polymnist5k/{name}", PAPER_ETA, METHODS)
        rows |= {f"{row}, chosen {how}": cells for row, cells in table.rows.items()}
    return replace(table, rows=rows).markdown()


def published_selection() -> str:
    """Baselines whose epoch was chosen over all conditions, and the first best one on complete data as published."""
    if not is_measured("polymnist/complete100"):
        return NOT_MEASURED
    folders, shown = ("polymnist/all", "polymnist/complete100"), PAPER_ETA[1:]
    head = [f"{protocol}, {how}" for protocol in shown for how in ("all conditions", "complete data", "paper")]
    lines = [f"| accuracy, % | kept epochs | {' | '.join(head)} |", "|---" * (len(head) + 2) + "|"]
    for row in cells("polymnist/complete100"):
        kept = [
            ", ".join(f"{result.config['best']}" for result, _ in seeds(folder, row, "complete").values())
            for folder in folders
        ]
        values = [
            f"{cell}"
            for protocol in shown
            for cell in (
                *(cells(folder)[row][protocol] for folder in folders),
                f"{PUBLISHED['polymnist'][row][protocol]:.2f}",
            )
        ]
        lines.append(f"| {label(folders[1], row)} | {' / '.join(kept)} | {' | '.join(values)} |")
    return "\n".join(lines) + "\n"


def speed(folder: str) -> str:
    """Samples a second in the training of every method, of the seed that ran with the fewest others beside it."""
    speeds = training_speed([result for result in results(folder) if result.seed == 0])
    lines = ["| method | samples a second |", "|---|---|"]
    return "\n".join([*lines, *(f"| {row} | {speeds[row]:,.0f} |" for row in METHODS if row in speeds)]) + "\n"


def scoring(
    folder: str,
    protocols: tuple[str, ...],
    paper: Mapping[str, dict[str, float]] | None = None,
) -> str:
    """Gates from other scores: the metric, the difference to GAUGE seed by seed, and the paper's number."""
    compared = {(pair.row, pair.protocol): pair for pair in pairs(folder) if pair.other == "gauge"}
    head = [f"{protocol} | minus {label(folder, 'gauge')}" for protocol in protocols] + [
        f"{protocol}, paper" for protocol in protocols[:1] if paper
    ]
    lines = [f"| scores | {' | '.join(head)} |", "|---" * (1 + 2 * len(protocols) + bool(paper)) + "|"]
    for row in SCORERS:
        shown = [
            f"{cells(folder)[row][protocol]} | {difference(compared.get((row, protocol)))}" for protocol in protocols
        ]
        shown += [f"{paper[row][protocol]:.2f}" for protocol in protocols[:1] if paper]
        lines.append(f"| {label(folder, row)} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


TABLES: dict[str, Callable[[], str]] = {
    "celeba": lambda: accuracy("celeba", FACES),
    "polymnist5k": lambda: accuracy("polymnist5k", ("complete", "eta=0.6", "eta=0.8")),
    "polymnist5k-paired": lambda: differences("polymnist5k", "eta=0.8", ("gauge:v2", "gauge:masked")),
    "polymnist": lambda: accuracy("polymnist/ten", ETA),
    "polymnist-paired": lambda: differences("polymnist/ten", "eta=0.8"),
    "polymnist-scoring": lambda: scoring("polymnist/ten", ("eta=0.8", "every=0.8"), paper=PUBLISHED["polymnist"]),
    "mst": lambda: accuracy("mst", DIGITS),
    "mst-methods": mst_methods,
    "leaf99-disjoint": lambda: whole("leaf99/disjoint", GAMMA_SHOWN, ("gamma=0.9", "gamma=0.5")),
    "mst-long": lambda: whole("mst/long", DIGITS, ("missing=mnist+text", "complete")),
    "celeba-long": lambda: whole("celeba/long", FACES, ("missing=text", "complete")),
    "ham10000-long": lambda: whole("ham10000/long", GAMMA_SHOWN, ("gamma=1", "complete")),
    "celeba-table": lambda: whole("celeba_table", GAMMA_SHOWN, ("gamma=1", "gamma=0.5", "complete")),
    "imputer-rows": lambda: imputers("celeba_table", "celeba_table/balanced", ("gamma=0.5", "gamma=0.9", "gamma=1")),
    "polymnist5k-oracle": lambda: against("polymnist5k/oracle", "polymnist5k/readings", PAPER_ETA, PAPER_ETA),
    **{
        f"{name}-{what}": partial(write, name)
        for name in ("leaf99", "ham10000")
        for what, write in {"gamma": with_iterative, "imputation": imputation}.items()
    },
    "leaf99-methods": lambda: methods("leaf99"),
    "leaf99-methods-100": lambda: methods("leaf99/epochs100"),
    "polymnist5k-selection": selection,
    "published-selection": published_selection,
    "gates-trained": lambda: whole("polymnist/cosine100", ETA, ("eta=0.8",)),
    "polymnist-speed": lambda: speed("polymnist/all"),
    "polymnist-methods": lambda: polymnist_methods().markdown(),
    "polymnist-longer": lambda: table_of("polymnist/all", PAPER_ETA, NOT_SCORERS[:-1]).markdown(),
}
