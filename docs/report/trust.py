"""Learned trust: its goals, its audits and its figure."""

from collections.abc import Callable
from pathlib import Path
from statistics import mean

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from report.audits import spread
from report.results import (
    DRAWING,
    ETA,
    ROOT,
    VOTES,
    beside,
    difference,
    measured,
    minus_each,
    read_records,
)

WRONG = ("swapped=0.2", "swapped=0.4")
TRUST = "gauge_plus:gauge_plus-trust"
SWAPS = "gauge_plus:gauge_plus-swaps"
DYNAMIC = ("qmf", "pdf", "dynmm")  # methods that weigh modalities for each sample
TRUST_ROWS = dict.fromkeys((TRUST, SWAPS), "polymnist/trust") | dict.fromkeys(("gauge_plus", VOTES), "polymnist/sound")
TRUST_ROWS |= dict.fromkeys(DYNAMIC, "polymnist/dynamic")


def trust() -> str:
    """Accuracy with missing and with swapped modalities, and trust minus each other row."""
    return beside(measured(TRUST_ROWS), (*ETA, *WRONG))


def trust_audit() -> str:
    """AUC of the trust and of the paper's gate for right against wrong units, and the calibration error of the trust."""
    kinds = {"separation_observed": "observed units", "separation_modalities": "observed modalities"}
    lines = ["| benchmark | row | protocol | seeds | right against wrong | AUC, trust | AUC, the paper's gate |"]
    lines += ["|---" * 7 + "|"]
    for (benchmark, variant, protocol), records in trust_records().items():
        head = f"| {benchmark} | {variant} | {protocol} | {len(records)} |"
        for kind, name in kinds.items():
            if all("trust" in record[kind] for record in records):
                values = (spread([record[kind] for record in records], key, 3) for key in ("trust", "gate"))
                lines.append(f"{head} {name} | {' | '.join(values)} |")
        error = spread([record["calibration"]["observed"] for record in records], "ece", 3)
        lines.append(f"{head} calibration error, observed units | {error} | – |")
    return "\n".join(lines) + "\n"


def trust_goals() -> str:
    """What learned trust was meant to reach, and what it reaches."""
    lines = ["| goal | measured | reached |", "|---" * 3 + "|"]
    swapped = trust_records().get(("polymnist", "gauge_plus-trust", WRONG[0]))
    measured: dict[str, tuple[float | None, float]] = {
        f"AUC, views at {WRONG[0]}": (_mean_of(swapped, "separation_modalities", "trust"), 0.90),
        f"calibration error, observed units at {WRONG[0]}": (_mean_of(swapped, "calibration", "observed"), -0.05),
    }
    for name, (value, limit) in measured.items():
        goal = f"{name}: at {'least' if limit > 0 else 'most'} {abs(limit):.2f}"
        shown = "–" if value is None else f"{value:.3f}"
        verdict = (
            "not measured" if value is None else "yes" if (value >= limit if limit > 0 else value <= -limit) else "no"
        )
        lines.append(f"| {goal} | {shown} | {verdict} |")
    for row, other, protocols, above in (
        (TRUST, "gauge_plus", ETA, False),
        (TRUST, SWAPS, WRONG, False),
        *((TRUST, other, WRONG, True) for other in ("gauge_plus", VOTES, *DYNAMIC)),
    ):
        lines.append(_accuracy_goal(row, other, protocols, above))
    return "\n".join(lines) + "\n"


def _mean_of(records: list[dict] | None, kind: str, name: str) -> float | None:
    """The mean over audits of an AUC, or of a calibration error."""
    if not records:
        return None
    values = [record[kind][name] for record in records]
    return mean(value["ece"] if isinstance(value, dict) else value for value in values)


def _accuracy_goal(row: str, other: str, protocols: tuple[str, ...], above: bool) -> str:
    """Whether a row is above another under all protocols, or below it under none, beyond chance after Holm's correction."""
    folders = measured(TRUST_ROWS)
    head = f"| accuracy, {row} {'above' if above else 'not below'} {other} under {protocols[0]} to {protocols[-1]} |"
    if other not in folders or row not in folders:
        return f"{head} – | not measured |"
    pairs = [minus_each(folders, row, protocol)[other] for protocol in protocols]
    chance = [pair.p_corrected is None or pair.p_corrected >= 0.05 for pair in pairs]
    reached = [
        pair.mean > 0 and not luck if above else pair.mean >= 0 or luck
        for pair, luck in zip(pairs, chance, strict=True)
    ]
    least = min(pairs, key=lambda pair: pair.mean)
    return f"{head} least: {difference(least)} at {least.protocol} | {'yes' if all(reached) else 'no'} |"


def trust_records() -> dict[tuple[str, str, str], list[dict]]:
    """The audits of learned trust by benchmark, row and protocol; one for each seed."""
    audits: dict[tuple[str, str, str], list[dict]] = {}
    if (ROOT / "results" / "polymnist" / "trust" / "audit.json").exists():
        for record in read_records("polymnist/trust", "audit.json"):
            audits.setdefault((record["benchmark"], record["variant"], record["protocol"]), []).append(record)
    return audits


def draw_trust(path: Path) -> None:
    """ROC curves of the trust in swapped views and of the paper's gate, and how often trusted units are right, as means over
    seeds."""
    records = trust_records().get(("polymnist", "gauge_plus-trust", WRONG[0]), [])
    with matplotlib.rc_context(DRAWING):
        figure = Figure(figsize=(9.4, 4.2), layout="constrained")
        roc, reliability = figure.subplots(1, 2)
        for value, shown, style in (("trust", "trust", "-"), ("gate", "the paper's gate", "--")):
            points = np.mean([record["curves"]["observed"][value] for record in records], 0)
            roc.plot(np.linspace(0, 1, len(points)), points, style, color="#0068a3", label=shown)
        bins = np.array([row for record in records for row in record["calibration"]["observed"]["bins"]])
        tenth = np.minimum((10 * bins[:, 0]).astype(int), 9)
        means = [np.average(bins[tenth == each], axis=0, weights=bins[tenth == each][:, 2]) for each in set(tenth)]
        reliability.plot(*np.array(means)[:, :2].T, "o-", color="#0068a3", label="trust")
        for axes in (roc, reliability):
            axes.plot([0, 1], [0, 1], color="#a5b0ba", linewidth=1)
            axes.grid(color="#d8dde2")
            axes.legend(frameon=False, fontsize=9)
        roc.set(xlabel="wrong units taken for right ones", ylabel="right units found")
        reliability.set(xlabel="trust", ylabel="share of units that are right")
        figure.savefig(path, metadata={"Date": None})


TABLES: dict[str, Callable[[], str]] = {
    "trust-polymnist": trust,
    "trust-goals": trust_goals,
    "trust-audit": trust_audit,
}
