"""Mean ranks over all benchmarks of the fair trial, with the difference that decides between two rows."""

from collections.abc import Callable, Mapping
from itertools import combinations
from statistics import mean

from gauge.experiments.statistics import MIN_CLUSTERS, MeanRanks
from report.results import HEADS_ONLY, NOT_MEASURED, ROOT, is_measured, label, results

MIN_BENCHMARKS = 3
Scores = Mapping[str, Mapping[str, Mapping[int, float]]]
"""The value of every row, protocol and seed."""


def trial_folders() -> dict[str, str]:
    """The folder of each benchmark's fair trial: one that has GAUGE+ whose network does not answer, `fair` before `plus`."""
    variant = HEADS_ONLY.partition(":")[2]
    order = ("fair", "plus")
    paths = sorted(
        (str(path.parent.relative_to(ROOT / "results")) for path in (ROOT / "results").glob("*/*/results.json")),
        key=lambda folder: order.index(name) if (name := folder.partition("/")[2]) in order else len(order),
    )
    folders: dict[str, str] = {}
    for folder in paths:
        if is_measured(folder, variant):
            folders.setdefault(folder.partition("/")[0], folder)
    return dict(sorted(folders.items()))


def scores_of(folder: str) -> Scores:
    """The rows with all protocols of the comparison, and with enough seeds."""
    rows: dict[str, dict[str, dict[int, float]]] = {}
    for result in results(folder):
        rows.setdefault(str(result.row), {}).setdefault(result.protocol, {})[result.seed] = result.value
    protocols = {protocol for cells in rows.values() for protocol in cells}
    return {
        row: cells
        for row, cells in rows.items()
        if cells.keys() == protocols and min(map(len, cells.values())) >= MIN_CLUSTERS
    }


def families(scores: Mapping[str, Scores]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Benchmarks and the rows that they share: as many benchmarks as possible, then fewer where they share more rows."""
    found: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    most = 1
    for count in range(len(scores), MIN_BENCHMARKS - 1, -1):
        shared = {
            chosen: tuple(row for row in scores[chosen[0]] if all(row in scores[name] for name in chosen))
            for chosen in combinations(scores, count)
        }
        chosen = max(shared, key=lambda names: len(shared[names]))
        if len(shared[chosen]) > most:
            most = len(shared[chosen])
            found.append((chosen, shared[chosen]))
    return found


def ranks_of(scores: Mapping[str, Scores], rows: tuple[str, ...]) -> MeanRanks:
    """The mean ranks of rows, each condition by the seeds that all of them have."""
    return MeanRanks.from_scores(
        {
            benchmark: [
                {row: mean(own[row][protocol][seed] for seed in _seeds(own, rows, protocol)) for row in rows}
                for protocol in own[rows[0]]
            ]
            for benchmark, own in scores.items()
        }
    )


def _seeds(scores: Scores, rows: tuple[str, ...], protocol: str) -> list[int]:
    return sorted(set.intersection(*(set(scores[row][protocol]) for row in rows)))


def ranks() -> str:
    """The mean rank of every row that enough benchmarks share, the critical difference, and what it decides."""
    folders = trial_folders()
    scores = {benchmark: own for benchmark, folder in folders.items() if (own := scores_of(folder))}
    found = families(scores)
    if not found:
        return NOT_MEASURED
    made = [ranks_of({name: scores[name] for name in chosen}, rows) for chosen, rows in found]
    heads = [f"{len(each.benchmarks)} benchmarks" for each in made]
    lines = [f"| mean rank, in brackets over conditions | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    names = {row: label(folders[chosen[0]], row) for chosen, rows in found for row in rows}
    for row in sorted(names, key=lambda row: [each.ranks.get(row, 0.0) for each in reversed(made)]):
        shown = [f"{each.ranks[row]:.2f} ({each.conditions[row]:.2f})" if row in each.ranks else "–" for each in made]
        lines.append(f"| {names[row]} | {' | '.join(shown)} |")
    lines.append(f"| critical difference | {' | '.join(f'{each.critical:.2f}' for each in made)} |")
    shown = ["–" if each.p_value is None else f"{each.p_value:.2g}" for each in made]
    lines.append(f"| p value of no difference | {' | '.join(shown)} |")
    notes = [
        _decided(each, names, sum(len(next(iter(scores[name].values()))) for name in each.benchmarks)) for each in made
    ]
    return "\n".join(lines) + "\n" + "".join(f"\n{note}\n" for note in notes)


def _decided(ranks: MeanRanks, names: Mapping[str, str], conditions: int) -> str:
    """What the critical difference decides, and what it cannot decide."""
    count, rows = len(ranks.benchmarks), len(ranks.ranks)
    decided = [f"{names[row]} before {names[other]}" for row, other in ranks.decided]
    where = f"{', '.join(ranks.benchmarks)}: n = {count} benchmarks with {conditions} conditions, {rows} rows."
    most = f"Mean ranks can differ by {rows - 1} at most, and {ranks.critical:.2f} is needed"
    needed = f"{most}: {_needed(ranks)}."
    return f"{where} {needed} Decided: {'; '.join(decided) or 'nothing'}."


def _needed(ranks: MeanRanks) -> str:
    if ranks.critical >= len(ranks.ranks) - 1:
        return "no difference between two rows is decidable"
    if ranks.critical >= 1:
        return "two rows that are next to each other on every benchmark cannot be told apart"
    return "a row that is one rank ahead on every benchmark is told apart, a smaller lead is not"


TABLES: dict[str, Callable[[], str]] = {"ranks": ranks}
