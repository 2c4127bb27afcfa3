"""Where two rows are level: two one-sided t tests over seeds or divisions, with a margin of one point."""

from collections.abc import Callable
from typing import NamedTuple

from gauge_lab.comparison import pair_of
from gauge_lab.tables import CHANCE
from report.handwritten import TRAINED
from report.plus import FAIR
from report.results import ETA, FACES, HEADS_ONLY, seeds, trial

MARGIN = 1.0  # points
SUMS = ("polysum", "polysum_plain")  # which no vote can answer
PLUS, VOTE, STUDENT = "gauge_plus", "late_fusion", "gauge_plus:gauge_plus-student"
AUGMENTED = "polymnist/every_row256_augmented"


class Rivals(NamedTuple):
    """Two rows, and the folders of both under each condition."""

    row: str
    other: str
    where: dict[str, tuple[str, str]]


def rivals() -> dict[str, Rivals]:
    """Every comparison that a page calls level, by its name in the table."""
    compared = {
        benchmark: Rivals(PLUS, VOTE, dict.fromkeys(protocols, (folders[PLUS], folders[VOTE])))
        for benchmark, protocols in FAIR.values()
        if benchmark not in SUMS and VOTE in (folders := trial(benchmark))
    }
    views = {protocol: (folder, folder) for protocol, folder in TRAINED.items()}
    compared |= {f"handwritten, {row}": Rivals(PLUS, row, views) for row in (VOTE, HEADS_ONLY)}
    compared["celeba, simmlm"] = Rivals(PLUS, "simmlm", dict.fromkeys(FACES, ("celeba/regret", "celeba/regret")))
    compared["polymnist with 256 labels, augmented"] = Rivals(
        STUDENT, f"{VOTE}:student", dict.fromkeys(ETA, (AUGMENTED, AUGMENTED))
    )
    return compared


def level() -> str:
    """Under which conditions two rows are level within the margin, and under which that is not shown."""
    lines = [f"| | rows | level within {MARGIN:g} point | not shown |", "|---" * 4 + "|"]
    for name, (row, other, where) in rivals().items():
        found: dict[bool, list[str]] = {True: [], False: []}
        for protocol, (folder, rival) in where.items():
            pair = pair_of(seeds(folder, row, protocol), seeds(rival, other, protocol))
            p_value = None if pair is None else pair.difference.equivalence(MARGIN)
            found[p_value is not None and p_value < CHANCE].append(protocol)
        shown = (f"{len(found[each])}: {', '.join(found[each])}" if found[each] else "–" for each in (True, False))
        lines.append(f"| {name.partition(',')[0]} | {row}, {other} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


TABLES: dict[str, Callable[[], str]] = {"level": level}
