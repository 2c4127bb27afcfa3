"""Mean ranks over all benchmarks of the fair trial, with the difference that decides between two rows."""

from collections.abc import Callable, Mapping
from itertools import combinations
from statistics import mean

from gauge_lab.statistics import MIN_CLUSTERS, MeanRanks
from report.results import NOT_MEASURED, ROOT, label, results, trial

MIN_BENCHMARKS = 3
Scores = Mapping[str, Mapping[str, Mapping[int, float]]]
"""The value of every row, protocol and seed."""


def scores_of(benchmark: str) -> Scores:
    """The rows of the fair trial with enough seeds under all conditions of GAUGE+."""
    folders = trial(benchmark)
    rows: dict[str, dict[str, dict[int, float]]] = {}
    for folder in dict.fromkeys(folders.values()):
        for result in results(folder):
            if folders[str(result.row)] == folder:
                cells = rows.setdefault(str(result.row), {})
                cells.setdefault(result.protocol, {})[result.seed] = result.value
    protocols = rows.get("gauge_plus", {})
    return {
        row: {protocol: cells[protocol] for protocol in protocols}
        for row, cells in rows.items()
        if all(len(cells.get(protocol, ())) >= MIN_CLUSTERS for protocol in protocols)
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
    benchmarks = sorted(path.name for path in (ROOT / "results").iterdir() if path.is_dir())
    scores = {benchmark: own for benchmark in benchmarks if (own := scores_of(benchmark))}
    found = families(scores)
    if not found:
        return NOT_MEASURED
    made = [ranks_of({name: scores[name] for name in chosen}, rows) for chosen, rows in found]
    heads = [f"{len(each.benchmarks)} benchmarks" for each in made]
    lines = [f"| mean rank, in brackets over conditions | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    names = {row: _name(row, chosen) for chosen, rows in reversed(found) for row in rows}
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


def _name(row: str, benchmarks: tuple[str, ...]) -> str:
    """The row as tables name it, or as it is where these benchmarks have it with different settings."""
    labels = {label(trial(benchmark)[row], row) for benchmark in benchmarks}
    return labels.pop() if len(labels) == 1 else row


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
