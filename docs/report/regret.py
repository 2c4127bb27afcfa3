"""The regret table: joint, separate and mixed training on every benchmark, and where GAUGE+ is level with the best."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from scipy.stats import wilcoxon

from gauge_lab.comparison import overlap_of
from gauge_lab.regret import MARGIN, Level, Regret, Scores, levels, regrets
from gauge_lab.statistics import Difference, holm
from gauge_lab.tables import CHANCE
from report.plus import CHOSEN_ON_TEST
from report.results import NOT_MEASURED, ROOT, is_measured, results

ROWS = {  # joint and separate training first
    "gauge_plus:gauge_plus-no-heads": "joint",
    "any_subset": "joint, any-subset backbone",
    "late_fusion": "separate, weighted votes",
    "late_fusion:unweighted": "separate, equal votes",
    "gauge_plus:gauge_plus-joint-heads": "joint heads",
    "gauge_plus:gauge_plus-detached-heads": "detached heads",
    "mmpareto": "MMPareto",
    "simmlm": "SimMLM",
    "gauge_plus": "GAUGE+",
}
CHANCE_AT_MOST = 52  # per cent; of two classes as often as each other, 2,000 test samples
RUNS = ("regret", "regret256")  # the runs of a benchmark that are in the table


def measured() -> tuple[Scores, dict[str, float]]:
    """The scores of all runs that are measured, and test rows / training rows where seeds divide the same rows."""
    scores: dict[str, dict[str, dict[str, dict[int, float]]]] = {}
    overlaps: dict[str, float] = {}
    for benchmark in sorted(path.name for path in (ROOT / "results").iterdir() if path.is_dir()):
        for folder in (f"{benchmark}/{run}" for run in RUNS if is_measured(f"{benchmark}/{run}", "gauge_plus")):
            name = folder.removesuffix("/regret")
            for result in results(folder):
                cells = scores.setdefault(name, {}).setdefault(result.protocol, {})
                cells.setdefault(str(result.row), {})[result.seed] = 100 * result.value
                overlaps[name] = max(overlap_of(result), overlaps.get(name, 0.0))  # divisions differ in size
    whole = {name: _common_seeds(conditions) for name, conditions in scores.items()}
    few = [
        name for name, cells in whole.items() if min(len(row) for cell in cells.values() for row in cell.values()) < 3
    ]
    return {name: cells for name, cells in whole.items() if name not in few}, overlaps  # two seeds have no interval


def _common_seeds(conditions: Mapping[str, Mapping[str, dict[int, float]]]) -> dict[str, dict[str, dict[int, float]]]:
    """The scores with the seeds that all rows have: a run that was stopped may have more of some rows."""
    seeds = set.intersection(*(set(scores) for cell in conditions.values() for scores in cell.values()))
    return {
        condition: {row: {seed: scores[seed] for seed in sorted(seeds)} for row, scores in cell.items()}
        for condition, cell in conditions.items()
    }


def regret() -> str:
    """The regret of every row that all benchmarks have: on each one, and its mean and maximum over them."""
    scores, _ = measured()
    if not scores:
        return NOT_MEASURED
    found = regrets(scores)
    plus = found["gauge_plus"]
    others = [row for row in found if row != "gauge_plus"]
    p_values = dict(zip(others, holm([_signed_ranks(found[row], plus) for row in others]), strict=True))
    head = ["points behind the best row", "mean", "worst", "mean minus that of GAUGE+", *scores]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in sorted(found, key=lambda row: found[row].mean):
        each, gap = found[row], found[row].behind(plus)
        more = (
            "–"
            if gap.interval is None
            else (f"{gap.mean:+.2f} [{gap.interval[0]:+.2f}, {gap.interval[1]:+.2f}] (p = {p_values[row]:.2g})")
        )
        shown = [ROWS.get(row, row), f"{each.mean:.2f}", f"{each.worst:.2f}", more]
        lines.append(f"| {' | '.join([*shown, *map('{:.2f}'.format, each.benchmarks.values())])} |")
    return "\n".join(lines) + f"\n\nChosen on test samples: {chosen_on_test(scores)}.\n"


def _signed_ranks(row: Regret, other: Regret) -> float:
    """The p value of Wilcoxon's signed rank test over benchmarks."""
    return float(wilcoxon([value - other.benchmarks[name] for name, value in row.benchmarks.items()]).pvalue)


def chosen_on_test(scores: Scores) -> str:
    """What was chosen by looking at test samples, on the benchmarks of the table."""
    benchmarks = dict.fromkeys(name.partition("/")[0] for name in scores)
    marked = [f"{name}: {CHOSEN_ON_TEST[name]}" for name in benchmarks if name in CHOSEN_ON_TEST]
    return ". ".join(marked) or "nothing"


def regret_sentence() -> str:
    """The sentence of the README: how far GAUGE+, separate and joint training are behind the best row."""
    scores, _ = measured()
    if not scores:
        return NOT_MEASURED
    found = {ROWS[row]: each for row, each in regrets(scores).items()}
    plus, votes, joint = (found[name] for name in ("GAUGE+", "separate, weighted votes", "joint"))
    after = found["detached heads"]
    for number in (lambda each: each.mean, lambda each: each.worst):
        if sorted(found.values(), key=number)[:2] != [plus, after]:
            raise ValueError(
                "GAUGE+ and detached heads have no longer the smallest regrets; rewrite the README's sentence"
            )
    if _signed_ranks(after, plus) < CHANCE:
        raise ValueError("GAUGE+ is told from detached heads now; rewrite the sentence of the README")
    where = {name: max(each.benchmarks, key=each.benchmarks.__getitem__) for name, each in found.items()}
    if (where["separate, weighted votes"], where["joint"]) != ("polysum", "celeba_match"):
        raise ValueError("separate or joint training is worst elsewhere; rewrite the sentence of the README")
    runs = scores["celeba_match"]["complete"]["gauge_plus:gauge_plus-no-heads"].values()
    return (
        "**GAUGE+** trains one network on all modalities and a classifier for each alone, and combines them. "
        f"Of the {len(found)} ways of training that were compared on {len(scores)} benchmarks it is nearest to the best, "
        f"on average ({plus.mean:.1f} points behind) and at worst ({plus.worst:.1f}); its variant with detached heads "
        f"({after.mean:.1f} and {after.worst:.1f}) is not told apart from it. A vote of separate classifiers is "
        f"{votes.worst:.0f} points behind on sums modulo ten, joint training {joint.benchmarks['polymnist/regret256']:.1f} "
        f"where labels are few and {joint.worst:.1f} where {sum(score < CHANCE_AT_MOST for score in runs)} of {len(runs)} "
        f"runs learned nothing. [Results](docs/results-gauge-plus.md), and what was chosen on test samples there.\n"
    )


def regret_level() -> str:
    """GAUGE+ minus the best other row under every condition, and whether a test says that it is level or not behind."""
    scores, overlaps = measured()
    if not scores:
        return NOT_MEASURED
    verdicts: dict[str, list[str]] = defaultdict(list)
    shown: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for level in levels(scores, "gauge_plus", overlaps):
        verdict, _, p_value = _verdict(level).partition(" (")
        best = ROWS.get(level.best, level.best) + (f", {p_value}" if p_value else ")")
        verdicts[verdict].append(level.condition)
        shown[level.benchmark][verdict].append(f"{level.condition} {level.difference:+.2f} ({best}")
    heads = [
        verdict for verdict in ("level", "not behind", "undecided", "behind", "too few seeds") if verdict in verdicts
    ]
    lines = [f"| benchmark | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    for benchmark, conditions in shown.items():
        lines.append(f"| {benchmark} | {' | '.join('; '.join(conditions[verdict]) for verdict in heads)} |")
    counts = {verdict: len(verdicts[verdict]) for verdict in heads}
    ending = f"Margin {MARGIN:g} point, p values corrected by Holm over all {sum(counts.values())} conditions: "
    ending += ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return "\n".join(lines) + f"\n\n{ending}. In parentheses the best other row.\n"


def regret_better() -> str:
    """GAUGE+ minus the better of joint and separate training on every benchmark, averaged over its conditions."""
    scores, overlaps = measured()
    if not scores:
        return NOT_MEASURED
    lines = [
        "| benchmark | the better of the two | GAUGE+ minus it | 95 % interval | within one point |",
        "|---" * 5 + "|",
    ]
    pooled = {name: {"mean": _over_conditions([*conditions.values()])} for name, conditions in scores.items()}
    compared = levels(pooled, "gauge_plus", overlaps)
    for level in compared:
        interval = f"{level.interval[0]:+.2f} to {level.interval[1]:+.2f}" if level.interval else "–"
        lines.append(
            f"| {level.benchmark} | {ROWS[level.best]} | {level.difference:+.2f} | {interval} | {_verdict(level)} |"
        )
    mean = Difference.from_values([level.difference for level in compared])
    low, high = mean.interval or (0.0, 0.0)
    ending = (
        f"\n\nMean {mean.mean:+.2f} [{low:+.2f}, {high:+.2f}] over benchmarks; p values corrected by Holm over the "
        f"{len(compared)} of them.\n"
    )
    return "\n".join(lines) + ending


def _over_conditions(cells: Sequence[Mapping[str, Mapping[int, float]]]) -> dict[str, dict[int, float]]:
    """The mean over conditions for every seed of GAUGE+, and of the two rows each of joint and of separate training."""
    rows = ("gauge_plus", *[*ROWS][:4])
    return {row: {seed: sum(cell[row][seed] for cell in cells) / len(cells) for seed in cells[0][row]} for row in rows}


def _verdict(level: Level) -> str:
    if level.p_level is None or level.p_not_behind is None:
        return "too few seeds"
    if level.p_level < CHANCE:
        return f"level (p = {level.p_level:.2g})" if level.p_level else "level (the same in every seed)"
    if level.p_behind is not None and level.p_behind < CHANCE:
        return f"behind (p = {level.p_behind:.2g})"
    return f"not behind (p = {level.p_not_behind:.2g})" if level.p_not_behind < CHANCE else "undecided"


TABLES: dict[str, Callable[[], str]] = {
    "regret": regret,
    "regret-sentence": regret_sentence,
    "regret-better": regret_better,
    "regret-level": regret_level,
}
