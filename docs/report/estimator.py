"""`GaugeClassifier` on tables, beside its rivals."""

import json
from collections.abc import Callable
from statistics import mean
from typing import cast

import numpy as np
import pandas as pd
from scipy.stats import t, wilcoxon

from gauge.reports.tables import Cell, Table
from report.results import ROOT, STUDIES, read_records, seeds


def own_data() -> str:
    """Classifiers on tables with missing cells: mean and deviation over seeds."""
    blocks = []
    for path in sorted((ROOT / "results" / "tables").glob("*.json")):
        records = json.loads(path.read_text())
        metric = "auc" if "auc" in records[0] else "accuracy"
        rows: dict[str, dict[str, Cell]] = {}
        for record in records:
            cells = rows.setdefault(record["model"], {})
            before = cells[record["condition"]].values if record["condition"] in cells else ()
            cells[record["condition"]] = Cell((*before, 100 * record[metric]), (0.0, 100.0))
        blocks.append(Table(f"{path.stem}: {metric}", tuple(next(iter(rows.values()))), rows).markdown())
    return "\n".join(blocks)


def _trust_found() -> tuple[float, list[float]]:
    """The AUC of trust for swapped views of PolyMNIST, and those for imputed cells of every benchmark with a table."""
    swapped = mean(
        record["separation_modalities"]["trust"]
        for record in read_records("polymnist/trust", "audit.json")
        if (record["variant"], record["protocol"]) == ("gauge_plus-trust", "swapped=0.2")
    )
    cells = [
        record["separation_cells"]["trust"]
        for benchmark in ("leaf99", "ham10000", "celeba_table")
        for record in read_records(f"{benchmark}/trust", "audit.json")
        if record["protocol"] == "gamma=0.5" and record["variant"] == "gauge_plus-trust-imputed"
    ]
    return swapped, cells


def _few_labels(row: str, protocol: str, folder: str = "polymnist/unlabelled256") -> float:
    return 100 * mean(result.value for result, _ in seeds(folder, row, protocol).values())


def when() -> str:
    """Which estimator to use for which data, with the numbers that support it."""
    records = _beside_rivals()
    records = records[records["several"]].assign(auc=lambda frame: 100 * frame["auc"])
    auc = records.groupby(["model", "missing"])["auc"].mean()
    seconds = records.groupby("model")["cpu_seconds"].median()
    others = auc.drop("gauge").unstack("model")
    ours = " / ".join(f"{value:.1f}" for value in auc["gauge"])
    gains = " / ".join(f"{value:.1f}" for value in auc["gauge"] - others.max(axis=1))
    best = ", ".join(
        f"{name} with {value:.1f}" for value, name in zip(others.max(axis=1), others.idxmax(axis=1), strict=True)
    )
    swapped, cells = _trust_found()
    distilled = _few_labels("gauge_plus:gauge_plus-distilled", "eta=0.8")
    alone, teacher = (_few_labels("gauge_plus", protocol) for protocol in ("eta=0.8", "complete"))
    votes = _few_labels("late_fusion:distilled", "eta=0.8", "polymnist/students256")
    rows = {
        "a table, with or without texts and images, cells blank or not": (
            "`GaugeClassifier`",
            f"it contains boosted trees and a linear model; with 0 / 30 / 70 % of the cells blank its AUC is {ours} %, "
            f"{gains} points above the best single rival in the mean ({best}), over {records['table'].nunique()} "
            "[tables of development](docs/own-data.md#how-good-it-is)",
        ),
        "a table, and every CPU second counts": (
            "boosted trees",
            f"a fit takes {seconds['LightGBM']:.1f} s instead of {seconds['gauge']:.0f}",
        ),
        "several modalities, any of them missing, in PyTorch": (
            "[GAUGE+](docs/gauge-plus.md), or a vote of single classifiers",
            "level where every modality knows the answer, GAUGE+ alone where evidence has to be put together; see below",
        ),
        "evidence that may be wrong, not only missing": (
            "GAUGE+ with [learned trust](docs/trust.md)",
            f"it finds views of digits that were swapped as in training with an AUC of {swapped:.3f} (PolyMNIST), wrongly "
            f"imputed cells of tables with {min(cells):.2f} to {max(cells):.2f}",
        ),
        "few labels, and many samples without one": (
            "[`gauge_plus-distilled`](docs/trust.md#samples-without-a-label)",
            f"digits, 256 labels, one view of five: {distilled:.1f} %, {alone:.1f} without the other samples; so have votes "
            f"that are distilled ({votes:.1f} %); measured on PolyMNIST alone, where its teacher knows {teacher:.1f} % of "
            "complete samples",
        ),
        "a fine-tuned Transformer whose units you want to weigh": (
            "[`gauge.wrap(model)`](docs/own-transformer.md)",
            "two parameters, the same logits with open gates",
        ),
        "one modality, always complete": ("something else", "nothing here helps"),
    }
    lines = ["| your data | use | because |", "|---" * 3 + "|"]
    return "\n".join([*lines, *(f"| {data} | {use} | {reason} |" for data, (use, reason) in rows.items())]) + "\n"


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


def unlabelled() -> str:
    """What rows without a label bring, by the number of labelled rows: means, and differences whose unit is the table."""
    records = pd.DataFrame(json.loads((STUDIES / "unlabelled.json").read_text(encoding="utf-8")))
    heads = (
        "tables, divisions",
        "AUC, %",
        "log loss",
        "AUC of `with` minus it (95 %), p",
        "better on",
        "CPU s, median",
    )
    blocks = []
    for key, part in records.groupby(["setting", "labelled"]):
        setting, count = cast("tuple[str, int]", key)
        lines = [f"| {setting}, {count} labelled rows | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
        ours = part[part["model"] == "with"].set_index(["table", "seed"])
        for model, own in part.groupby("model", sort=False):
            own = own.set_index(["table", "seed"])
            cells = [f"{own.index.get_level_values(0).nunique()}, {len(own)}", f"{100 * own['auc'].mean():.2f}"]
            cells += [f"{own['log_loss'].mean():.3f}", *_paired(ours["auc"], own["auc"], str(model))]
            lines.append(f"| {model} | {' | '.join(cells)} | {own['cpu_seconds'].median():.1f} |")
        blocks.append("\n".join([*lines, ""]))
    return "\n".join([*blocks, _unlabelled_costs(records)])


def _paired(ours: pd.Series, own: pd.Series, model: str) -> tuple[str, str]:
    """The mean difference of the tables in points, with its interval and p-value, and on how many of them it is positive."""
    if model == "with":
        return "", ""
    means = 100 * (ours - own).groupby("table").mean()
    half = t.ppf(0.975, len(means) - 1) * means.sem()
    return f"{means.mean():+.2f} ± {half:.2f}, {wilcoxon(means).pvalue:.3f}", f"{(means > 0).sum()} of {len(means)}"


def _unlabelled_costs(records: pd.DataFrame) -> str:
    """How much longer a fit takes with rows without a label, and how often experts learned from them."""
    lines = []
    for setting, part in records.groupby("setting"):
        cost = part.pivot_table(index=["table", "labelled", "seed"], columns="model", values="cpu_seconds")
        taught = [bool(each["experts"]) for each in part["unlabelled"] if isinstance(each, dict)]
        lines.append(
            f"- {setting}: the median fit with them takes {(cost['with'] / cost['without']).median():.1f} times as long as "
            f"without; experts learned from them in {sum(taught)} of {len(taught)} fits."
        )
    return "\n".join([*lines, ""])


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
    "when": when,
    "table-networks": table_networks,
    "own-data": own_data,
    "rivals": rivals,
    "cell-trust": cell_trust,
    "unlabelled-tables": unlabelled,
}
