"""Mean ranks of the rows of the regret table, with the difference that decides between two of them."""

from collections.abc import Callable, Mapping
from statistics import mean

from gauge_lab.regret import Scores
from gauge_lab.statistics import MeanRanks
from report.regret import ROWS, measured
from report.results import NOT_MEASURED


def ranks() -> str:
    """The mean rank of every row of the regret table over its benchmarks, the critical difference, and what it decides."""
    scores, _ = measured()
    if not scores:
        return NOT_MEASURED
    ranked = ranks_of(scores)
    lines = ["| | mean rank | over conditions |", "|---" * 3 + "|"]
    for row in sorted(ranked.ranks, key=ranked.ranks.__getitem__):
        lines.append(f"| {row} | {ranked.ranks[row]:.2f} | {ranked.conditions[row]:.2f} |")
    lines.append(f"| critical difference | {ranked.critical:.2f} | |")
    p_value = "–" if ranked.p_value is None else f"{ranked.p_value:.2g}"
    lines.append(f"| p value of no difference | {p_value} | |")
    decided = "; ".join(f"{row} before {other}" for row, other in ranked.decided) or "nothing"
    count = f"n = {len(scores)} benchmarks with {sum(map(len, scores.values()))} conditions"
    return "\n".join(lines) + f"\n\n{count}. Decided: {decided}.\n"


def ranks_of(scores: Scores) -> MeanRanks:
    """The mean ranks of the rows, each condition by the seeds that all of them have."""
    cells = {benchmark: [_means(cell) for cell in conditions.values()] for benchmark, conditions in scores.items()}
    return MeanRanks.from_scores(cells)


def _means(cell: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    seeds = set.intersection(*map(set, cell.values()))
    return {ROWS.get(row, row): mean(values[seed] for seed in seeds) for row, values in cell.items()}


TABLES: dict[str, Callable[[], str]] = {"ranks": ranks}
