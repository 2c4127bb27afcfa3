"""`GaugeClassifier` on tables, beside its rivals."""

import json
from collections.abc import Callable
from statistics import mean
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy.stats import t

from gauge_lab.formats import Table, TableCell
from report.results import NOT_MEASURED, ROOT, STUDIES


def own_data() -> str:
    """Classifiers on tables with missing cells: mean and deviation over seeds."""
    blocks = []
    for path in sorted((ROOT / "results" / "tables").glob("*.json")):
        records = json.loads(path.read_text())
        metric = "auc" if "auc" in records[0] else "accuracy"
        rows: dict[str, dict[str, TableCell]] = {}
        for record in records:
            cells = rows.setdefault(record["model"], {})
            before = cells[record["condition"]].values if record["condition"] in cells else ()
            cells[record["condition"]] = TableCell((*before, 100 * record[metric]), (0.0, 100.0))
        blocks.append(Table(f"{path.stem}: {metric}", tuple(next(iter(rows.values()))), rows).markdown())
    return "\n".join(blocks)


def cars() -> str:
    """The cars of `gauge demo --table`, as `make pictures` measured them."""
    shares = json.loads((ROOT / "docs" / "evidence-page.json").read_text(encoding="utf-8"))["cars"]
    lines = ["| cars, accuracy in % | 0 % blank | 30 % blank | 70 % blank |", "|---" * 4 + "|"]
    return "\n".join([*lines, *(f"| {name} | {' | '.join(map(str, each))} |" for name, each in shares.items()), ""])


def table_networks() -> str:
    """The network of GaugeClassifier beside TabM: means over the tables, and on how many each has the better score."""
    records = pd.DataFrame(json.loads((STUDIES / "table_networks.json").read_text(encoding="utf-8")))
    lines = ["| cells blank | tables | network: AUC, % / log loss / CPU s | TabM | network better in AUC, log loss |"]
    lines.append("|---" * 5 + "|")
    for rate, group in records.groupby("missing"):
        pivot = group.pivot_table(index=["table", "seed"], columns="model", values=["auc", "log_loss", "cpu_seconds"])
        auc, loss, cost = (pivot[key] for key in ("auc", "log_loss", "cpu_seconds"))
        shown = [
            f"{100 * auc[model].mean():.1f} / {loss[model].mean():.3f} / {cost[model].mean():.1f}"
            for model in ("network", "TabM")
        ]
        wins = f"{(auc['network'] > auc['TabM']).sum()}, {(loss['network'] < loss['TabM']).sum()}"
        lines.append(f"| {rate:.0%} | {len(pivot)} | {' | '.join(shown)} | {wins} |".replace("%", " %"))
    return "\n".join(lines) + "\n"


def _beside_rivals() -> pd.DataFrame:
    """The fits of studies/tables.py that all models have, with scores; `several` is False for a single text or image."""
    records = pd.DataFrame(json.loads((STUDIES / "tables.json").read_text(encoding="utf-8")))
    for name in ("accuracy", "log_loss", "auc", "calibration_error"):
        records[name] = [plain[name] for plain in records["plain"]]
    records["tempered"] = [
        (tempered if isinstance(tempered, dict) else plain)["log_loss"]
        for tempered, plain in zip(records["tempered"], records["plain"], strict=True)
    ]
    fit = ["table", "missing", "seed"]
    everywhere = records.groupby(fit)["model"].transform("nunique") == records["model"].nunique()
    records["several"] = records.groupby("table")["missing"].transform("nunique") > 1
    records = records[everywhere]
    return records.assign(rank=records.groupby(fit)["auc"].rank(ascending=False))


def rivals() -> str:
    """GaugeClassifier beside its rivals: means over the tables of ordinary packages, by the share of blank cells."""
    records = _beside_rivals()
    heads = (
        *(
            "mean rank",
            "AUC, %",
            "log loss",
            "with temperature",
            "accuracy, %",
            "calibration error, %",
            "CPU s, median",
        ),
        "gauge is better in AUC, log loss",
    )
    blocks = []
    for key, part in records.groupby(["several", "missing"], sort=False):
        several, rate = cast("tuple[bool, float]", key)
        seeds = part.groupby("table")["seed"].nunique()
        count = f"{len(seeds)} tables, {seeds.sum()} divisions"
        what = f"{100 * rate:.0f} % blank" if several else "a text or an image"
        lines = [f"| {what}, {count} | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
        ours = part[part["model"] == "gauge"].set_index(["table", "seed"])
        for model, own in sorted(part.groupby("model"), key=lambda item: item[1]["rank"].mean()):
            mean, own = own.mean(numeric_only=True), own.set_index(["table", "seed"])
            cells = [
                f"{mean['rank']:.2f}",
                f"{100 * mean['auc']:.2f}",
                f"{mean['log_loss']:.3f}",
                f"{mean['tempered']:.3f}",
            ]
            cells += [f"{100 * mean['accuracy']:.2f}", f"{100 * mean['calibration_error']:.1f}"]
            wins = (ours["auc"] > own["auc"]).sum(), (ours["tempered"] < own["tempered"]).sum()
            cells += [f"{own['cpu_seconds'].median():.1f}", "" if model == "gauge" else f"{wins[0]}, {wins[1]}"]
            lines.append(f"| {model} | {' | '.join(cells)} |")
        blocks.append("\n".join([*lines, ""]))
    return "\n".join([*blocks, _behind(records)])


def texts() -> str:
    """Tables with texts, images or a category of many levels: means over tables and rates of what all of them have."""
    records = pd.DataFrame(json.loads((STUDIES / "texts.json").read_text(encoding="utf-8")))
    scores = records.pivot_table(
        index=["table", "missing", "seed"], columns="model", values=["auc", "log_loss", "cpu_seconds"]
    )
    models = sorted(set(records["model"]) - {"gauge"}, key=lambda model: -scores["auc"][model].mean())
    lines = [f"| {records['table'].nunique()} tables | AUC, % | log loss | CPU s |", "|---" * 4 + "|"]
    for model in models:
        auc, loss, cost = (scores[key][model].mean() for key in ("auc", "log_loss", "cpu_seconds"))
        lines.append(f"| {model} | {100 * auc:.1f} | {loss:.3f} | {cost:.1f} |")
    return "\n".join(lines) + "\n"


def cell_trust() -> str:
    """How well the trust in cells tells right from wrong, on each table."""
    records = pd.DataFrame(json.loads((STUDIES / "cell_trust.json").read_text(encoding="utf-8")))
    heads = (
        "AUC, swapped cells",
        "AUC, imputed cells",
        "imputed cells right, %",
        "calibration error",
        "of imputed cells",
    )
    count = f"{records['seed'].nunique()} seeds"
    lines = [f"| {count} | rows x columns | {' | '.join(heads)} | CPU s |", "|---" * (len(heads) + 3) + "|"]
    for name, part in records.groupby("table", sort=False):
        mean = part.select_dtypes("number").mean()
        cells = [f"{mean['rows']:.0f} x {mean['columns']:.0f}", f"{mean['swapped']:.2f}", f"{mean['imputed']:.2f}"]
        cells += [f"{100 * mean['imputed_right']:.0f}", f"{mean['error_observed']:.3f}", f"{mean['error_imputed']:.3f}"]
        lines.append(f"| {name} | {' | '.join(cells)} | {mean['seconds']:.1f} |")
    return "\n".join(lines) + "\n"


def advice() -> str:
    """The log loss while missing values are acquired, in three orders."""
    records = pd.DataFrame(json.loads((STUDIES / "advice.json").read_text(encoding="utf-8")))
    kinds = ("random", "importance", "advice")
    numbers = (0, 1, 2, 4, 6)
    heads = [f"{number} values" for number in numbers]
    lines = [f"| log loss, mean over tables | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for kind in kinds:
        means = np.mean([curves[kind] for curves in records["curves"]], 0)
        lines.append(f"| {kind} | {' | '.join(f'{means[number]:.3f}' for number in numbers)} |")
    heads = [
        "mean log loss, " + ", ".join(kinds),
        "advice − random",
        "advice − importance",
        "advised gain: expected, measured",
    ]
    lines += ["", f"| table | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name, part in records.groupby("table", sort=False):
        means = [np.mean([curves[kind][1:] for curves in part["curves"]]) for kind in kinds]
        cells = [" / ".join(f"{mean:.3f}" for mean in means)]
        cells += [_difference(part, kind) for kind in ("random", "importance")]
        pairs = [pair for pair in part["advised_gain"] if pair]
        cells.append(", ".join(f"{mean:.3f}" for mean in np.mean(pairs, 0)) if pairs else "none advised")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    text = []
    for kind in ("random", "importance"):
        means = np.array([np.mean([minus[kind][0] for minus in part["minus"]]) for _, part in records.groupby("table")])
        error = means.std(ddof=1) / len(means) ** 0.5
        text.append(
            f"{means.mean():+.4f} ± {1.96 * error:.4f} against {kind}, lower on {(means < 0).sum()} of {len(means)}"
        )
    noise = records["noise_advised"].sum()
    lines += ["", f"Advice, mean over tables with a 95 % interval: {'; '.join(text)}. Noise was advised {noise} times."]
    return "\n".join(lines) + "\n"


def _difference(part: pd.DataFrame, kind: str) -> str:
    """The mean log loss of advice minus that of another order, with a 95 % interval from test rows."""
    differences, errors = np.array([minus[kind] for minus in part["minus"]]).T
    return f"{differences.mean():+.3f} ± {1.96 * np.square(errors).sum() ** 0.5 / len(errors):.3f}"


KINDS = {  # of rows that prediction sets are asked for
    "alike": "as many blank as in training",
    "more": "learned from complete rows",
    "fixed": "the same half of the columns",
}


def coverage() -> str:
    """How often prediction sets hold the right class, by the experts: means over tables, and by share of missing values."""
    return "\n".join(_coverage_of(records, experts) for experts, records in _coverage_records().items())


def _coverage_records() -> dict[str, list[dict[str, Any]]]:
    """The records of studies/coverage.py by the experts that were asked for."""
    records: dict[str, list[dict[str, Any]]] = {}
    for record in json.loads((STUDIES / "coverage.json").read_text(encoding="utf-8")):
        experts = record["arguments"]["experts"]
        records.setdefault("default" if experts == ["auto"] else ", ".join(experts), []).append(record)
    return records


def _coverage_of(records: list[dict[str, Any]], experts: str) -> str:
    tables, seeds = ({each[key] for each in records} for key in ("table", "seed"))
    counts = f"{len(tables)} tables, seeds: {len(seeds)}, {experts}"
    promised = [key for key in records[0] if key.startswith("0.")]
    heads = [f"coverage, {100 * float(key):.0f} % promised" for key in promised]
    lines = [f"| {counts} | cells blank | fits | {' | '.join(heads)} | within chance at 90 % | classes at 90 % |"]
    lines.append("|---" * (len(promised) + 5) + "|")
    for (kind, rate), group in pd.DataFrame(records).groupby(["kind", "blank"], sort=True):
        part: list[Any] = group.to_dict("records")
        means = [100 * mean(each[key]["covered"] / each["test"] for each in part) for key in promised]
        sizes = mean(each["0.9"]["size"] for each in part)
        cells = [f"{100 * float(str(rate)):.0f} %", str(len(part)), *(f"{value:.1f} %" for value in means)]
        within = sum(_within_chance(each, 0.9) for each in part)
        lines.append(f"| {KINDS[str(kind)]} | {' | '.join(cells)} | {within} of {len(part)} | {sizes:.2f} |")
    return "\n".join(lines) + "\n\n" + _coverage_by_share([each for each in records if each["kind"] != "fixed"])


def coverage_sentence() -> str:
    """How often sets of the default classifier hold the right class where 90 % are promised."""
    records = [each for each in _coverage_records().get("default", []) if each["kind"] != "fixed"]
    if not records:
        return NOT_MEASURED
    gaps = pd.DataFrame({"table": [each["table"] for each in records]})
    gaps["gap"] = [100 * (each["0.9"]["covered"] / each["test"] - 0.9) for each in records]
    tables = gaps.groupby("table")["gap"].mean()
    half = t.ppf(0.975, len(tables) - 1) * tables.sem()
    within = sum(_within_chance(each, 0.9) for each in records)
    return (
        f"Sets of the default classifier that promise 90 % held the right class of {90 + tables.mean():.1f} % of the test "
        f"rows (mean over {len(tables)} tables, ± {half:.1f} with 95 %), and {within} of {len(records)} measurements were "
        "within chance. The rows held out that calibrate the sets also choose the weights of the experts.\n"
    )


def _within_chance(record: dict[str, Any], promised: float) -> bool:
    """Whether the coverage is as near to the promise as rows held out and test rows let it be, with 95 %."""
    variance = promised * (1 - promised) * (1 / record["test"] + 1 / (record["held_out"] + 2))
    return bool(abs(record[str(promised)]["covered"] / record["test"] - promised) <= 1.96 * variance**0.5)


def _coverage_by_share(records: list[dict[str, Any]]) -> str:
    """At 90 %, over the rows of all tables: by the share of the columns that a row misses."""
    ends = {"none": 0.0, "up to a quarter": 0.25, "up to a half": 0.5, "up to three quarters": 0.75, "more": 1.0}
    rows, covered = dict.fromkeys(ends, 0), dict.fromkeys(ends, 0)
    for record in records:
        for count, number in record["missing_values"].items():
            share = int(count) / record["columns"]
            name = next(name for name, end in ends.items() if share <= end)
            rows[name] += number
            covered[name] += record["0.9"]["by_missing_values"][count]
    lines = [f"| columns that a row misses | {' | '.join(ends)} |", "|---" * (len(ends) + 1) + "|"]
    lines.append(f"| test rows | {' | '.join(f'{rows[name]:,}' for name in ends)} |")
    shares = (f"{100 * covered[name] / rows[name]:.1f} %" if rows[name] else "–" for name in ends)
    lines.append(f"| coverage, 90 % promised | {' | '.join(shares)} |")
    return "\n".join(lines) + "\n"


def _behind(records: pd.DataFrame) -> str:
    """How the best single rival of each table and rate, by mean AUC, compares with `gauge`, over seeds."""
    ahead, behind = 0, []
    ours = records[records["model"] == "gauge"]
    for key, part in ours.groupby(["table", "missing"]):
        table, rate = cast("tuple[str, float]", key)
        others = records[(records["table"] == table) & (records["missing"] == rate) & (records["model"] != "gauge")]
        best = others.groupby("model")["auc"].mean().idxmax()
        differences, errors = np.array([models[best] for models in part["auc_minus"]]).T
        mean, error = differences.mean(), (np.square(errors).sum()) ** 0.5 / len(errors)
        ahead += mean > 0
        if mean + 1.96 * error < -0.01:
            behind.append(f"{table} at {100 * rate:.0f} % ({100 * mean:+.1f} ± {196 * error:.1f}, {best})")
    groups = ours.groupby(["table", "missing"]).ngroups
    text = f"`gauge` has a higher AUC than the best single rival in {ahead} of {groups} pairs of table and rate. "
    text += "The paired 95 % interval lies wholly more than 1 point of AUC behind the best single rival on "
    return text + (", ".join(behind) or "none of them") + ".\n"


TABLES: dict[str, Callable[[], str]] = {
    "cars": cars,
    "table-networks": table_networks,
    "own-data": own_data,
    "rivals": rivals,
    "cell-trust": cell_trust,
    "advice": advice,
    "coverage": coverage,
    "texts": texts,
    "coverage-sentence": coverage_sentence,
}
