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
    NOT_MEASURED,
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
IMPUTED, SWAPS = f"{TRUST}-imputed", "gauge_plus:gauge_plus-swaps"
DYNAMIC = ("qmf", "pdf", "dynmm")  # methods that weigh modalities for each sample
TRUST_ROWS = dict.fromkeys((TRUST, IMPUTED, SWAPS), "polymnist/trust")
TRUST_ROWS |= dict.fromkeys(("gauge_plus", VOTES), "polymnist/sound") | dict.fromkeys(DYNAMIC, "polymnist/dynamic")


def trust() -> str:
    """Accuracy with missing and with swapped modalities, and trust minus each other row."""
    folders = {TRUST: "polymnist/trust", SWAPS: "polymnist/trust"}
    folders |= dict.fromkeys(("gauge_plus", VOTES), "polymnist/sound")
    return beside(measured(folders | dict.fromkeys(DYNAMIC, "polymnist/dynamic")), (*ETA, *WRONG))


def trust_imputed() -> str:
    """Accuracy on imputed inputs, gated by trust, minus that without an imputer."""
    folders = measured({IMPUTED: "polymnist/trust", "gauge_plus": "polymnist/sound", VOTES: "polymnist/sound"})
    return beside(folders, ETA) if IMPUTED in folders else NOT_MEASURED


def trust_audit(*folders: str) -> str:
    """AUC of the trust and of the paper's gate for right against wrong units, and the calibration error of the trust."""
    kinds = {"separation": "imputed units", "separation_observed": "observed units"}
    kinds |= {"separation_modalities": "observed modalities", "separation_cells": "imputed cells"}
    lines = ["| benchmark | row | protocol | seeds | right against wrong | AUC, trust | AUC, the paper's gate |"]
    lines += ["|---" * 7 + "|"]
    for (benchmark, variant, protocol), records in trust_records(*folders).items():
        head = f"| {benchmark} | {variant} | {protocol} | {len(records)} |"
        for kind, name in kinds.items():
            if all("trust" in record[kind] for record in records):
                values = (spread([record[kind] for record in records], key, 3) for key in ("trust", "gate"))
                lines.append(f"{head} {name} | {' | '.join(values)} |")
        for name in records[0]["calibration"]:
            error = spread([record["calibration"][name] for record in records], "ece", 3)
            lines.append(f"{head} calibration error, {name} units | {error} | – |")
    return "\n".join(lines) + "\n"


def trust_goals() -> str:
    """What learned trust was meant to reach, and what it reaches."""
    lines = ["| goal | measured | reached |", "|---" * 3 + "|"]
    names = ("polymnist", "leaf99", "ham10000", "celeba_table")
    audits = trust_records(*(f"{name}/trust" for name in names))
    swapped, views = ("polymnist", "gauge_plus-trust", WRONG[0]), ("polymnist", "gauge_plus-trust-imputed", "eta=0.8")
    measured: dict[str, tuple[float | None, float]] = {
        "AUC, imputed views": (_mean_of(audits.get(views), "separation", "trust"), 0.88),
        f"AUC, views at {WRONG[0]}": (_mean_of(audits.get(swapped), "separation_modalities", "trust"), 0.90),
        f"calibration error, observed units at {WRONG[0]}": (
            _mean_of(audits.get(swapped), "calibration", "observed"),
            -0.05,
        ),
        "calibration error, imputed views": (_mean_of(audits.get(views), "calibration", "imputed"), -0.05),
    }
    for name in names[1:]:
        records = audits.get((name, "gauge_plus-trust-imputed", "gamma=0.5"))
        measured[f"AUC, imputed cells of {name} at gamma=0.5"] = _mean_of(records, "separation_cells", "trust"), 0.75
    for name, (value, limit) in measured.items():
        goal = f"{name}: at {'least' if limit > 0 else 'most'} {abs(limit):.2f}"
        shown = "–" if value is None else f"{value:.3f}"
        verdict = (
            "not measured" if value is None else "yes" if (value >= limit if limit > 0 else value <= -limit) else "no"
        )
        lines.append(f"| {goal} | {shown} | {verdict} |")
    for row, other, protocols, above in (
        (TRUST, "gauge_plus", ETA, False),
        (IMPUTED, "gauge_plus", ETA, False),
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
    compared = {row: folders[row]} | {name: folder for name, folder in folders.items() if name not in (TRUST, IMPUTED)}
    pairs = [minus_each(compared, row, protocol)[other] for protocol in protocols]
    chance = [pair.p_corrected is None or pair.p_corrected >= 0.05 for pair in pairs]
    reached = [
        pair.mean > 0 and not luck if above else pair.mean >= 0 or luck
        for pair, luck in zip(pairs, chance, strict=True)
    ]
    least = min(pairs, key=lambda pair: pair.mean)
    return f"{head} least: {difference(least)} at {least.protocol} | {'yes' if all(reached) else 'no'} |"


def trust_records(*folders: str) -> dict[tuple[str, str, str], list[dict]]:
    """The audits of learned trust by benchmark, row and protocol; one for each seed."""
    audits: dict[tuple[str, str, str], list[dict]] = {}
    for folder in folders:
        if (ROOT / "results" / folder / "audit.json").exists():
            for record in read_records(folder, "audit.json"):
                audits.setdefault((record["benchmark"], record["variant"], record["protocol"]), []).append(record)
    return audits


def draw_trust(path: Path) -> None:
    """ROC curves of the trust and of the paper's gate, and the reliability of the trust, as means over seeds."""
    drawn = {"swapped views": (f"{TRUST.partition(':')[2]}", "swapped=0.2", "observed")}
    drawn |= {"imputed views": (f"{IMPUTED.partition(':')[2]}", "eta=0.8", "imputed")}
    audits = {
        name: (trust_records("polymnist/trust").get(("polymnist", variant, protocol), []), kind)
        for name, (variant, protocol, kind) in drawn.items()
    }
    with matplotlib.rc_context(DRAWING):
        figure = Figure(figsize=(9.4, 4.2), layout="constrained")
        roc, reliability = figure.subplots(1, 2)
        for (name, (records, kind)), colour in zip(audits.items(), ("#0068a3", "#b34a00"), strict=True):
            curves = [record["curves"][kind] for record in records if record.get("curves", {}).get(kind)]
            for value, shown, style in (("trust", "trust", "-"), ("gate", "the paper's gate", "--")):
                if curves:
                    points = np.mean([curve[value] for curve in curves], 0)
                    rates = np.linspace(0, 1, len(points))
                    roc.plot(rates, points, style, color=colour, label=f"{shown}, {name}")
            bins = np.array(
                [row for record in records for row in record["calibration"].get(kind, {"bins": []})["bins"]]
            )
            if len(bins):
                tenth = np.minimum((10 * bins[:, 0]).astype(int), 9)
                means = [
                    np.average(bins[tenth == index], axis=0, weights=bins[tenth == index][:, 2]) for index in set(tenth)
                ]
                reliability.plot(*np.array(means)[:, :2].T, "o-", color=colour, label=name)
        for axes in (roc, reliability):
            axes.plot([0, 1], [0, 1], color="#a5b0ba", linewidth=1)
            axes.grid(color="#d8dde2")
            axes.legend(frameon=False, fontsize=9)
        roc.set(xlabel="wrong units taken for right ones", ylabel="right units found")
        reliability.set(xlabel="trust", ylabel="share of units that are right")
        figure.savefig(path, metadata={"Date": None})


TABLES: dict[str, Callable[[], str]] = {
    "trust-polymnist": trust,
    "trust-imputed": trust_imputed,
    "trust-goals": trust_goals,
    "trust-audit": lambda: trust_audit(
        *(f"{name}/trust" for name in ("polymnist", "leaf99", "ham10000", "celeba_table"))
    ),
}
