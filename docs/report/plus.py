"""GAUGE+: its goals, its calibration and the hardest conditions."""

from collections.abc import Callable, Mapping
from functools import partial
from statistics import mean, stdev
from typing import NamedTuple

from gauge_lab.comparison import experiment_of
from report.results import (
    DIGITS,
    ETA,
    FACES,
    GAMMA,
    GAMMA_SHOWN,
    NOT_MEASURED,
    SHARED,
    VOTES,
    beside,
    difference,
    gate_rate,
    label,
    minus_each,
    results,
    rows_in,
    seeds,
    trial,
)

PLUS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # table of GAUGE+ -> folders, protocols
    "plus-polymnist": (("polymnist/plus", "polymnist/ten", "polymnist/all"), ETA),
    "plus-labels256": (("polymnist/regret256", "polymnist/labels256"), ETA),
    **{f"plus-labels{count}": ((f"polymnist/fair{count}", f"polymnist/labels{count}"), ETA) for count in (1024, 4096)},
    "plus-leaf99": (("leaf99/disjoint",), GAMMA),
    "plus-mst": (("mst/plus", "mst"), DIGITS),
    "plus-celeba": (("celeba/plus", "celeba"), FACES),
    "plus-celeba-table": (("celeba_table",), GAMMA),
    "plus-ham10000": (("ham10000/plus", "ham10000"), GAMMA),
}
SHOWN = ("plus-labels256", "plus-celeba-table")  # the goals are read from all
SUMS = ("complete", "views=2", "views=1", "eta=0.5")
FAIR: dict[str, tuple[str, tuple[str, ...]]] = {  # table of the fair trial -> benchmark, protocols
    "fair-polymnist": ("polymnist", ETA),
    "fair-leaf99": ("leaf99", GAMMA),
    "fair-mst": ("mst", DIGITS),
    "fair-celeba": ("celeba", FACES),
    "fair-ham10000": ("ham10000", GAMMA),
    "fair-celeba-table": ("celeba_table", GAMMA),
    "fair-match": ("celeba_match", GAMMA),
    "polysum": ("polysum", SUMS),
    "polysum-plain": ("polysum_plain", SUMS),
}
CHOSEN_ON_TEST = {  # by benchmark, what was chosen by looking at test samples
    "leaf99": "epochs and image trunk of GAUGE+, on two divisions",
    "polysum": "the rate: 1e-3 was tried first and gave 27 % with joint heads",
    "polysum_plain": "the rate, that of polysum; how heads train the encoders of GAUGE+, after test scores of other rules "
    "were seen",
    "celeba": "image encoder of GAUGE+",
    "celeba_match": "the image encoder of all rows, on faces of CelebA",
    "polymnist5k": "normalisation of the image trunk of GAUGE+",
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
        folder = rows_in(*PLUS[name][0])["gauge_plus"]
        for protocol, goal in goals.items():
            value = _percent(folder, "gauge_plus", protocol)
            verdict = "yes" if value >= goal else f"no, by {goal - value:.2f}"
            lines.append(f"| {folder}, {protocol}: at least {goal:g} | {value:.2f} | {verdict} |")
    below, ahead, conditions = [], 0, 0
    for folders, protocols in PLUS.values():
        rivals = {row: folder for row, folder in rows_in(*folders).items() if not row.startswith("gauge_plus:")}
        for protocol in protocols:
            compared = minus_each(rivals, "gauge_plus", protocol)
            below += [
                f"{difference(pair)} to {label(rivals[row], row)} on {rivals['gauge_plus']}, {protocol}"
                for row, pair in compared.items()
                if pair.interval is not None and pair.interval[1] < 0  # a correction would hide what we lose
            ]
            available = [row for row, folder in rivals.items() if seeds(folder, row, protocol)]
            ours, *others = (_percent(rivals[row], row, protocol) for row in available)
            ahead += ours >= max(others) and max(others) < MAX_RIVAL_PERCENT
            conditions += max(others) < MAX_RIVAL_PERCENT
    shown = "; ".join(below) or "never"
    lines.append(f"| below no other row beyond chance, before correction | {shown} | {'no' if below else 'yes'} |")
    share = f"{ahead} of {conditions}"
    highest = f"the highest mean in half of the conditions whose best other row is under {MAX_RIVAL_PERCENT} %"
    lines.append(f"| {highest} | {share} | {'yes' if 2 * ahead >= conditions else 'no'} |")
    return "\n".join(lines) + "\n"


def all_rows(read: Callable[..., dict[str, str]], arguments: tuple[str, ...], protocols: tuple[str, ...]) -> str:
    """All measured rows, GAUGE+ minus every other one, and what each row was given."""
    folders = read(*arguments)
    return f"{beside(folders, protocols)}\n{budget_table(folders)}" if "gauge_plus" in folders else NOT_MEASURED


class Budget(NamedTuple):
    """What a row was given. `epochs` are those of its stages, one after the other; a stage may have stopped before."""

    epochs: str
    width: str
    masks: str
    labels: str
    samples: str
    seeds: int
    kept: str


def budget_of(folder: str, row: str) -> Budget:
    own = [result for result in results(folder) if str(result.row) == row]
    config = own[0].config
    experiment = experiment_of(own[0])
    stages = experiment.stage(experiment.configured()).all()
    epochs = [stage.settings.epochs for stage in stages[:-1]] + [config["epochs"]]
    last = next((each for each in reversed(stages) if each.settings.epochs and each.split == "train"), stages[-1])
    widths = [stage.arguments["parts"].dim for stage in stages if "parts" in stage.arguments]
    subsets = last.arguments.get("subsets_per_step")
    masks = str(config["settings"]["masks"] if config["epochs"] else last.settings.masks)
    masks += f", {subsets} subsets a step" if subsets else ""
    rows = config.get("train_rows")
    groups = own[0].data.get("groups")
    return Budget(
        " + ".join(str(count) for count in epochs if count) or "–",
        f"{widths[-1]}" if widths else "–",
        masks,
        "not recorded" if rows is None else f"{rows:,}",
        f"{own[0].data['samples']:,}" + (f" in {groups:,} groups" if groups else ""),
        len({result.seed for result in own}),
        "best on validation" if last.settings.selection else "last",
    )


def budget_table(folders: Mapping[str, str]) -> str:
    """What each row was given, rows with the same budget together, and what was chosen on test samples."""
    budgets: dict[Budget, list[str]] = {}
    for row, folder in folders.items():
        budgets.setdefault(budget_of(folder, row), []).append(label(folder, row))
    heads: tuple[str, ...] = ("budget of", "epochs", "width", "masks of training samples", "training labels")
    heads += ("test samples", "seeds", "kept epoch")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines += [f"| {', '.join(rows)} | {' | '.join(map(str, budget))} |" for budget, rows in budgets.items()]
    benchmark = next(iter(folders.values())).partition("/")[0]
    chosen = CHOSEN_ON_TEST.get(benchmark, "nothing of this benchmark")
    return "\n".join(lines) + f"\n\nChosen on test samples: {chosen}.\n"


def _percent(folder: str, row: str, protocol: str) -> float:
    return 100 * mean(result.value for result, _ in seeds(folder, row, protocol).values())


def calibration(folders: Mapping[str, str], protocols: tuple[str, ...]) -> str:
    """Expected calibration error in percent and log loss of rows, each from its folder, means over the seeds."""
    lines = [f"| calibration error, % / log loss | {' | '.join(protocols)} |", "|---" * (len(protocols) + 1) + "|"]
    for row, folder in folders.items():
        measured = [[result for result, _ in seeds(folder, row, protocol).values()] for protocol in protocols]
        means = [[mean(float(getattr(result, key)) for result in group) for key in CALIBRATION] for group in measured]
        shown = " | ".join(f"{100 * error:.1f} / {loss:.3f}" for error, loss in means)
        lines.append(f"| {label(folder, row)} | {shown} |")
    return "\n".join(lines) + "\n"


CALIBRATION = ("calibration_error", "log_loss")
LEAVES = dict.fromkeys(("gauge_plus", "late_fusion"), "leaf99/regret") | dict.fromkeys(
    (VOTES, *SHARED), "leaf99/disjoint"
)
HEADLINE = {  # column -> folder of the fair trial, folder of the rows on one backbone, protocol
    "digits, one view of five": ("polymnist/regret", "polymnist/ten", "eta=0.8"),
    "leaves, one cell of ten": ("leaf99/regret", "leaf99/disjoint", "gamma=0.9"),
    "leaves, image alone": ("leaf99/regret", "leaf99/disjoint", "gamma=1"),
    "house numbers, image alone": ("mst/regret", "mst", "missing=mnist+text"),
    "faces, image alone": ("celeba/regret", "celeba", "missing=text"),
}


def headline() -> str:
    """GAUGE+, what it is compared with, and the paper's GAUGE in the hardest condition of each benchmark, with budgets."""
    own = [budget_of(folder, "gauge") for _, folder, _ in HEADLINE.values()]
    last = [int(budget.epochs.rpartition("+")[2]) for budget in own]
    fitted = f"{min(last)} to {max(last)} epochs" if len({*last}) > 1 else f"{last[0]} epochs"
    names = {"gauge_plus": (0, "GAUGE+"), "gauge_plus:gauge_plus-no-heads": (0, "one network on all modalities")}
    names |= {"late_fusion": (0, "one classifier for each modality, voting")}
    names |= {"gauge": (1, f"GAUGE, the paper's method, fine-tuned for {fitted}")}
    names |= {"gauge:masked": (1, "its network without imputer and gates")}
    lines = [f"| accuracy, % | {' | '.join(HEADLINE)} |", "|---" * (len(HEADLINE) + 1) + "|"]
    for row, (index, name) in names.items():
        cells = []
        for *folders, protocol in HEADLINE.values():
            values = [100 * result.value for result, _ in seeds(folders[index], row, protocol).values()]
            cells.append(f"{mean(values):.1f} ± {stdev(values):.1f}")
        rates = {gate_rate(folders[index], row) for *folders, _ in HEADLINE.values()}
        lines.append(f"| {name}{''.join(sorted(rates))} | {' | '.join(cells)} |")
    plus = [budget_of(folder, "gauge_plus") for folder, _, _ in HEADLINE.values()]
    both = list(zip(plus, own, strict=True))
    facts = {
        "epochs: first three rows": [budget.epochs for budget in plus],
        "epochs: backbone + imputer + GAUGE": [budget.epochs for budget in own],
        "width: first three rows; last two": [f"{first.width}; {second.width}" for first, second in both],
        "training labels; test samples": [f"{budget.labels}; {budget.samples}" for budget in plus],
        "chosen on test samples": [
            CHOSEN_ON_TEST.get(folder.partition("/")[0], "–") for folder, _, _ in HEADLINE.values()
        ],
    }
    lines += [f"| *{name}* | {' | '.join(shown)} |" for name, shown in facts.items()]
    return "\n".join(lines) + "\n"


TABLES: dict[str, Callable[[], str]] = {
    "headline": headline,
    **{name: partial(all_rows, rows_in, *PLUS[name]) for name in SHOWN},
    **{name: partial(all_rows, trial, (benchmark,), protocols) for name, (benchmark, protocols) in FAIR.items()},
    "polysum-rate1e3": lambda: all_rows(rows_in, ("polysum/rate1e3",), SUMS),
    "plus-goals": plus_goals,
    "plus-calibration": lambda: calibration(LEAVES, GAMMA_SHOWN),
}
