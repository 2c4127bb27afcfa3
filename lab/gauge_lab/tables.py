"""Results as tables: rows and columns in the order of the results, with the paper's numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gauge_lab.comparison import Paired
from gauge_lab.formats import Table, TableCell
from gauge_lab.results import GATES, Result

CHANCE = 0.05


def result_table(
    results: Sequence[Result],
    refused: Mapping[str, str] | None = None,
    pairs: Sequence[Paired] = (),
    paper: Mapping[str, Mapping[str, float]] | None = None,
) -> Table:
    """The table of some results; `pairs` decide which cells differ from GAUGE's beyond chance."""
    sign_note = (
        f"↑ ↓: above or below gauge, p < {CHANCE:g} in a paired t test over seeds, clustered by backbone and "
        "corrected by Holm over the rows of a column."
    )
    if not results:
        raise ValueError("there are no results to put into a table")
    if len({(result.benchmark, result.metric) for result in results}) > 1:
        raise ValueError("a table holds results of one benchmark and one metric; filter them first")
    cells: dict[str, dict[str, list[Result]]] = {}
    for result in results:
        cells.setdefault(str(result.row), {}).setdefault(result.protocol, []).append(result)
    rows = {row: {protocol: _cell(seeds) for protocol, seeds in columns.items()} for row, columns in cells.items()}
    rows |= {row: {} for row in refused or {}}
    columns = tuple(dict.fromkeys(result.protocol for result in results))
    signs = {
        (pair.row, pair.protocol): "↑" if pair.mean > 0 else "↓"
        for pair in pairs
        if pair.other == "gauge" and pair.p_corrected is not None and pair.p_corrected < CHANCE
    }
    notes = tuple(filter(None, (gate_note(cells[row]) for row in cells)))
    names = {str(result.row): result.label for result in results}
    return Table(str(results[0].metric), columns, rows, refused or {}, signs, sign_note, paper or {}, notes, names)


def gate_note(columns: Mapping[str, Sequence[Result]]) -> str:
    """What training did to the gates of a row, as means over seeds; nothing for rows without gates, or where it was not
    recorded."""
    seeds = {result.seed: result.config for results in columns.values() for result in results}
    configs = [config for config in seeds.values() if config.get("scalars")]
    values = {(when, end): _scalars(configs, when, end) for when in ("start", "end") for end in GATES}
    if not any(values.values()):
        return ""

    def mean(name: str) -> float:
        return float(np.mean([config[name] for config in configs]))

    moved = [
        f"{symbol} {np.mean(values['start', end]):.3f} to {np.mean(values['end', end]):.3f}"
        for end, symbol in GATES.items()
        if values["end", end]
    ]
    rates = np.mean([config["sum_of_rates"] * config["settings"].get("gate_rate", 1) for config in configs])
    spent = f"{mean('steps'):,.0f} steps, sum of the gates' rates {rates:.3g}, kept epoch {mean('best'):.0f}"
    label = next(result.label for results in columns.values() for result in results)
    return f"{label}: {', '.join(moved)}; {spent}."


def _scalars(configs: Sequence[Mapping[str, Any]], when: str, end: str) -> list[float]:
    """A learned number of every run that has one, by the end of its name: the start of the name depends on the model."""
    return [value for config in configs for name, value in config["scalars"][when].items() if name.endswith(end)]


def _cell(results: list[Result]) -> TableCell:
    seeds = {result.seed: result for result in results}
    low, high = results[0].interval
    return TableCell(tuple(100 * result.value for result in seeds.values()), (100 * low, 100 * high))
