"""GAUGE+: its goals, its calibration and the hardest conditions."""

from collections.abc import Callable, Mapping
from functools import partial
from statistics import mean, stdev

from gauge.experiments.manifest import Manifest
from report.results import (
    DIGITS,
    ETA,
    FACES,
    GAMMA,
    HEADS_ONLY,
    NO_HEADS,
    PAPER_ETA,
    ROOT,
    SHARED,
    VOTES,
    beside,
    difference,
    label,
    minus_each,
    seeds,
)


def _with_plus(folder: str) -> dict[str, str]:
    """GAUGE+ and late fusion, and the rows on one backbone of the earlier comparison on the same benchmark."""
    return dict.fromkeys(("gauge_plus", VOTES), f"{folder}/plus") | dict.fromkeys(SHARED, folder)


PLUS: dict[str, tuple[Mapping[str, str], tuple[str, ...]]] = {  # table of GAUGE+ -> the folder of each row, protocols
    "plus-polymnist": (
        {"gauge_plus": "polymnist/plus"}
        | dict.fromkeys((VOTES, *SHARED), "polymnist/cosine")
        | {"mtl": "polymnist/all"},
        ETA,
    ),
    **{
        f"plus-labels{count}": (dict.fromkeys(("gauge_plus", VOTES, *more), f"polymnist/labels{count}"), ETA)
        for count, more in {256: ("gauge_plus:gauge_plus-no-heads",), 1024: (), 4096: ()}.items()
    },
    "plus-leaf99": (dict.fromkeys(("gauge_plus", VOTES, *SHARED), "leaf99/disjoint"), GAMMA),
    "plus-mst": (_with_plus("mst"), DIGITS),
    "plus-celeba": (_with_plus("celeba"), FACES),
    "plus-celeba-table": (dict.fromkeys(("gauge_plus", VOTES, *SHARED[:2]), "celeba_table"), GAMMA),
    "plus-ham10000": (_with_plus("ham10000"), GAMMA),
}
FAIR = ("gauge_plus", HEADS_ONLY, "late_fusion")  # the same encoders, training masks, epochs and labels
SUMS = ("complete", "views=2", "views=1", "eta=0.5")
FAIR_TABLES: dict[str, tuple[Mapping[str, str], tuple[str, ...]]] = {  # table -> the folder of each row, protocols
    "fair-polymnist": (dict.fromkeys(FAIR, "polymnist/fair"), ETA),
    "fair-leaf99": (dict.fromkeys((*FAIR, "simmlm", "shaspec", "flex_moe"), "leaf99/fair"), GAMMA),
    "fair-mst": (dict.fromkeys(FAIR, "mst/fair"), DIGITS),
    "fair-celeba": (dict.fromkeys(FAIR, "celeba/fair"), FACES),
    "fair-match": (dict.fromkeys(FAIR[:2], "celeba_match/plus"), GAMMA),
    "polysum-rate1e3": (dict.fromkeys((*FAIR[:2], NO_HEADS), "polysum/rate1e3"), SUMS),
    "polysum": (dict.fromkeys(("gauge_plus", NO_HEADS), "polysum/plus"), SUMS),
}
GOALS: dict[str, dict[str, float]] = {  # table of GAUGE+ -> protocol -> percent
    "plus-polymnist": {"eta=0.6": 99.95, "eta=0.8": 99.0},
    "plus-labels256": {"eta=0.8": 78},
    "plus-labels1024": {"eta=0.8": 92},
    "plus-labels4096": {"eta=0.8": 96},
    "plus-leaf99": {"complete": 99, "gamma=0.5": 96.5, "gamma=0.7": 92, "gamma=0.9": 74, "gamma=1": 40},
    "plus-mst": {"complete": 99.9, "missing=mnist+text": 70},
    "plus-ham10000": {"complete": 90.5},
}
MAX_RIVAL_PERCENT = 99.5  # percent of the best other row, above which nobody can be ahead


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
            compared = minus_each(rivals, "gauge_plus", protocol)
            below += [
                f"{difference(pair)} to {label(rivals[row], row)} on {rivals['gauge_plus']}, {protocol}"
                for row, pair in compared.items()
                if pair.mean < 0 and pair.p_over_seeds is not None and (pair.p_corrected or 0) < 0.05
            ]
            ours, *others = (_percent(folder, row, protocol) for row, folder in rivals.items())
            ahead += ours >= max(others) and max(others) < MAX_RIVAL_PERCENT
            conditions += max(others) < MAX_RIVAL_PERCENT
    shown = "; ".join(below) or "never"
    lines.append(f"| below no other row beyond chance | {shown} | {'no' if below else 'yes'} |")
    share = f"{ahead} of {conditions}"
    highest = f"the highest mean in half of the conditions whose best other row is under {MAX_RIVAL_PERCENT} %"
    lines.append(f"| {highest} | {share} | {'yes' if 2 * ahead >= conditions else 'no'} |")
    return "\n".join(lines) + "\n"


def _percent(folder: str, row: str, protocol: str) -> float:
    return 100 * mean(result.value for result, _ in seeds(folder, row, protocol).values())


def calibration(folder: str, rows: tuple[str, ...], protocols: tuple[str, ...]) -> str:
    """Expected calibration error in percent and log loss, means over the seeds."""
    lines = [f"| calibration error, % / log loss | {' | '.join(protocols)} |", "|---" * (len(protocols) + 1) + "|"]
    for row in rows:
        measured = [[result for result, _ in seeds(folder, row, protocol).values()] for protocol in protocols]
        means = [[mean(float(getattr(result, key)) for result in group) for key in CALIBRATION] for group in measured]
        shown = " | ".join(f"{100 * error:.1f} / {loss:.3f}" for error, loss in means)
        lines.append(f"| {label(folder, row)} | {shown} |")
    return "\n".join(lines) + "\n"


PARTS = Manifest.from_folder(ROOT / "results").groups["parts"]
CALIBRATION = ("calibration_error", "log_loss")
HEADLINE = {  # column -> folder of the fair trial, folder of the rows on one backbone, protocol
    "digits, one view of five": ("polymnist/fair", "polymnist/cosine", "eta=0.8"),
    "leaves, one cell of ten": ("leaf99/fair", "leaf99/disjoint", "gamma=0.9"),
    "leaves, image alone": ("leaf99/fair", "leaf99/disjoint", "gamma=1"),
    "house numbers, image alone": ("mst/fair", "mst", "missing=mnist+text"),
    "faces, image alone": ("celeba/fair", "celeba", "missing=text"),
}


def headline() -> str:
    """GAUGE+, what it is compared with, and the paper's GAUGE in the hardest condition of each benchmark."""
    names = {"gauge_plus": (0, "GAUGE+"), HEADS_ONLY: (0, "GAUGE+ whose network does not answer")}
    names |= {"late_fusion": (0, "one classifier for each modality, voting")}
    names |= {"gauge": (1, "GAUGE, the paper's method"), "gauge:masked": (1, "its network without imputer and gates")}
    lines = [f"| accuracy, % | {' | '.join(HEADLINE)} |", "|---" * (len(HEADLINE) + 1) + "|"]
    for row, (index, name) in names.items():
        cells = []
        for *folders, protocol in HEADLINE.values():
            values = [100 * result.value for result, _ in seeds(folders[index], row, protocol).values()]
            cells.append(f"{mean(values):.1f} ± {stdev(values):.1f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


TABLES: dict[str, Callable[[], str]] = {
    "headline": headline,
    **{name: partial(beside, *given) for name, given in (PLUS | FAIR_TABLES).items()},
    "plus-goals": plus_goals,
    "plus-calibration": lambda: calibration("leaf99/disjoint", ("gauge_plus", VOTES, *SHARED), GAMMA),
    "plus-parts": lambda: beside(dict.fromkeys(PARTS, "polymnist5k/parts"), PAPER_ETA),
}
