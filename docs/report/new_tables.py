"""`GaugeClassifier` beside AutoGluon and single rivals, on tables that no development looked at."""

import json
from collections.abc import Callable
from typing import cast

import numpy as np
import pandas as pd
from scipy.stats import t, wilcoxon

from report.results import STUDIES

OURS = ("default", "best")  # the second is gone, and stays in the corrections of p values
SINGLE = ("LightGBM", "HistGradientBoosting", "CatBoost", "logistic regression")
AUTOGLUON = ("AutoGluon medium", "AutoGluon best")
SHOWN = ("default", "fast", "AutoGluon best", "AutoGluon medium", *SINGLE, "text stack")
MIN_TABLES = 5  # of a comparison
ALONE = ("fine_foods", "lfw")  # tables of one text or image
HIGHER = {"auc": 1, "accuracy": 1, "log_loss": -1}  # sign of what is better


def _records() -> pd.DataFrame:
    """A row for each fit; `kind` is the share of blank cells, or that a table is one text or image."""
    records = pd.DataFrame(json.loads((STUDIES / "new_tables.json").read_text(encoding="utf-8")))
    for name in HIGHER:
        records[name] = [plain[name] for plain in records["plain"]]
    kinds = [f"{100 * rate:.0f} % blank" for rate in records["missing"]]
    return records.assign(kind=np.where(records["columns"] == 1, "a text or an image", kinds))


def _scores(records: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The score of each model, by table, rate and seed."""
    return records.pivot_table(index=["table", "missing", "seed"], columns="model", values=metric)


def means() -> str:
    """Means over tables with the first seed by the share of blank cells, of the methods that have all of these tables."""
    records = _records()
    first = records[records["seed"] == 0]
    blocks = []
    for kind, part in first.groupby("kind"):
        heads = ("AUC, %", "log loss", "accuracy, %", "CPU s to fit, median", "of 1,000 rows, median")
        lines = [f"| {kind}, {part['table'].nunique()} tables | {' | '.join(heads)} |", "|---" * 6 + "|"]
        for model in SHOWN:
            own = part[part["model"] == model]
            if len(own) < part["table"].nunique():
                continue
            rows = pd.Series([test for _, test in own["rows"]], own.index)
            cells = [
                f"{100 * own['auc'].mean():.2f}",
                f"{own['log_loss'].mean():.3f}",
                f"{100 * own['accuracy'].mean():.2f}",
            ]
            cells += [f"{own['cpu_seconds'].median():.1f}", f"{(1000 * own['answering_seconds'] / rows).median():.2f}"]
            lines.append(f"| {model} | {' | '.join(cells)} |")
        blocks.append("\n".join([*lines, ""]))
    return "\n".join(blocks)


def _compared(own: pd.Series, other: pd.Series) -> tuple[float, float, float, int, int]:
    """Of differences whose unit is the table: mean, half of the 95 % interval, Wilcoxon's p-value, positive ones, tables."""
    each = (own - other).dropna().groupby("table").mean()
    if len(each) < MIN_TABLES:
        return float("nan"), float("nan"), float("nan"), 0, len(each)
    half = t.ppf(0.975, len(each) - 1) * each.sem()
    p = wilcoxon(each).pvalue if (each != 0).any() else 1.0
    return each.mean(), half, p, int((each > 0).sum()), len(each)


def _holm(values: list[float]) -> list[float]:
    """p-values, corrected for their number."""
    corrected, largest = [float("nan")] * len(values), 0.0
    known = [index for index in np.argsort(values) if np.isfinite(values[index])]
    for rank, index in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * values[index]))
        corrected[index] = largest
    return corrected


def differences() -> str:
    """Ours minus theirs by table, on the seeds that both have, with tests that are corrected over the whole table."""
    records = _records()
    records = records[records["kind"] != "a text or an image"]
    lines, tests = [], []
    for metric, unit in (("auc", "AUC, points"), ("log_loss", "log loss")):
        scores = _scores(records, metric)
        for own in OURS:
            for rival in (name for name in (*AUTOGLUON, *SINGLE) if {own, name} <= set(scores)):
                for rate, part in scores.groupby("missing"):
                    result = _compared(part[own], part[rival])
                    lines.append((unit, own, rival, rate, result, HIGHER[metric]))
                    tests.append(result[2])
    shown: dict[tuple[str, str, str], list[str]] = {}
    for (unit, own, rival, _, (mean, half, _, positive, count), sign), p in zip(lines, _holm(tests), strict=True):
        better = positive if sign > 0 else count - positive
        scale, digits = (100, 2) if unit.startswith("AUC") else (1, 3)
        cell = f"{scale * mean:+.{digits}f} ± {scale * half:.{digits}f}, {better} of {count}, p {p:.3f}"
        shown.setdefault((unit, own, rival), []).append(cell if count >= MIN_TABLES else "")
    rates = " | ".join(f"{100 * rate:.0f} % blank" for rate in sorted(records["missing"].unique()))
    head = f"| | ours | minus | {rates} |"
    body = [
        f"| {unit} | {own} | {rival} | {' | '.join(cells)} |"
        for (unit, own, rival), cells in shown.items()
        if own in SHOWN and any(cells)
    ]
    return "\n".join([head, "|---" * (3 + records["missing"].nunique()) + "|", *body, ""])


def best_single() -> str:
    """In how many pairs of table and rate each of ours is above the best of the single rivals of that pair, and by how much
    above the rival that is best on the other divisions: the best of four on the same test rows owes some of it to chance."""
    records = _records()
    parts, means = [], []
    for own in OURS:
        if own not in SHOWN or records.loc[records["model"] == own, "table"].nunique() < MIN_TABLES:
            continue
        counts = []
        for metric, name in (("auc", "AUC"), ("accuracy", "accuracy"), ("log_loss", "log loss")):
            scores = HIGHER[metric] * _scores(records, metric)
            scores = scores[[own, *(rival for rival in SINGLE if rival in scores)]].dropna()
            pairs = scores.groupby(["table", "missing"]).mean()
            above = (pairs[own] > pairs.drop(columns=own).max(axis=1)).sum()
            counts.append(f"{above} of {len(pairs)} pairs in {name}")
            rivals = scores.drop(columns=own)
            same = rivals.groupby(["table", "missing"])
            others = (same.transform("sum") - rivals)[same.transform("size") > 2]  # at least two other divisions
            if metric != "log_loss" and len(others):
                chosen = rivals.loc[others.index].to_numpy()[np.arange(len(others)), others.to_numpy().argmax(1)]
                mean, half, *_ = _compared(scores.loc[others.index, own], pd.Series(chosen, others.index))
                means.append(f"{100 * mean:+.2f} ± {100 * half:.2f} points of {name} (`{own}`)")
        parts.append(f"`{own}`: {', '.join(counts)}")
    return (
        f"Better than the best single rival of the pair of table and rate, over the seeds: {'; '.join(parts)}. Minus the "
        f"rival that is best in the other divisions of the pair: {', '.join(means)}.\n"
    )


def contents() -> str:
    """Tables with texts or images: ours against the stack, TF-IDF with a linear model, and LightGBM."""
    records = _records()
    contents = records[records["auc_minus"].notna()] if "auc_minus" in records else records[:0]
    lines = [
        "| tables with texts or images | AUC minus it, points | log loss minus it | behind it beyond chance |",
        "|---" * 4 + "|",
    ]
    names = set(contents["table"])
    loss = _scores(records[records["table"].isin(names)], "log_loss")
    for own in (name for name in OURS if name in SHOWN and name in set(contents["model"])):
        mine = contents[contents["model"] == own]
        rivals = dict.fromkeys(rival for each in mine["auc_minus"] for rival in each)
        for rival in rivals:
            means, behind = {}, []
            for key, part in mine.groupby(["table", "missing"]):
                table, rate = cast("tuple[str, float]", key)
                found = [each[rival] for each in part["auc_minus"] if rival in each]
                if found:
                    difference, errors = np.array(found).T
                    mean, error = difference.mean(), np.square(errors).sum() ** 0.5 / len(errors)
                    means[table, rate] = mean
                    if mean + 1.96 * error < 0:
                        behind.append(f"{table} at {100 * rate:.0f} % ({100 * mean:+.1f} ± {196 * error:.1f})")
            each = pd.Series(means).groupby(level=0).mean()
            half = t.ppf(0.975, max(1, len(each) - 1)) * each.sem()
            mean, error, *_ = _compared(loss[own], loss[rival])
            cells = [
                f"{100 * each.mean():+.2f} ± {100 * half:.2f}",
                f"{mean:+.3f} ± {error:.3f}",
                ", ".join(behind) or "nowhere",
            ]
            lines.append(f"| `{own}` minus {rival}, {len(each)} tables | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _rates(records: pd.DataFrame) -> str:
    return ", ".join(f"{100 * rate:.0f}" for rate in sorted(records["missing"].unique()))


def costs() -> str:
    """How many times the CPU seconds of ours AutoGluon's best preset takes: medians over tables with the first seed."""
    records = _records()
    medians = records[records["seed"] == 0].groupby(["model", "missing"])["cpu_seconds"].median()
    times = {own: [f"{each:.0f}" for each in medians["AutoGluon best"] / medians[own]] for own in OURS if own in SHOWN}
    shown = "; ".join(f"`{own}` {', '.join(each)}" for own, each in times.items())
    return f"AutoGluon best takes so many times the CPU seconds, with {_rates(records)} % blank: {shown}.\n"


def how_good() -> str:
    """The README's table: mean AUC by the share of blank cells, and CPU seconds, of some models with the first seed."""
    records = _records()
    records = records[(records["seed"] == 0) & (records["kind"] != "a text or an image")]
    names = {"fast": "GaugeClassifier, `fast`", "default": "GaugeClassifier, `default`"}
    names |= {name: name for name in ("AutoGluon best", "CatBoost", "LightGBM")}
    scores = 100 * records.pivot_table(index="model", columns="missing", values="auc")
    seconds = records.groupby("model")["cpu_seconds"].median()
    heads = " | ".join(f"{100 * rate:.0f} % blank" for rate in sorted(records["missing"].unique()))
    lines = [f"| mean AUC in %, {records['table'].nunique()} tables | {heads} | CPU s |", "|---" * 5 + "|"]
    for model, name in names.items():
        cells = " | ".join(f"{score:.1f}" for score in scores.loc[model])
        lines.append(f"| {name} | {cells} | {seconds[model]:.1f} |")
    return "\n".join([*lines, ""])


def new_tables() -> str:
    """All of it, or how to get it."""
    if not (STUDIES / "new_tables.json").exists():
        return "`python studies/new_tables.py` has not been run.\n"
    return "\n".join([means(), costs(), differences(), best_single(), contents()])


def latest(file: str = "last_tables") -> str:
    """Ours with the commit before a change and with one after it, on tables that both have and that were looked at once."""
    keys = ["table", "missing", "seed"]
    runs = {"before": _with_scores(f"{file}-before"), "after": _with_scores(file)}
    rivals = runs["after"][runs["after"]["model"].isin(SINGLE)].groupby(keys)[["auc", "accuracy"]].max()
    own = {name: run[run["model"] == "default"].set_index(keys) for name, run in runs.items()}
    both = own["before"].index.intersection(own["after"].index)
    own = {name: run.loc[both] for name, run in own.items()}
    with_rivals = both.intersection(rivals.index)

    def above(run: pd.DataFrame, metric: str) -> str:
        return f"{(run.loc[with_rivals, metric] > rivals.loc[with_rivals, metric]).sum()} of {len(with_rivals)}"

    cells = {
        f"mean AUC, {len({key[:2] for key in both})} pairs of table and rate": lambda run: f"{run['auc'].mean():.4f}",
        "mean log loss": lambda run: f"{run['log_loss'].mean():.4f}",
        "mean log loss, more than two classes": lambda run: f"{run.loc[run['classes'] > 2, 'log_loss'].mean():.4f}",
        "mean accuracy": lambda run: f"{run['accuracy'].mean():.4f}",
        "above the best single rival by AUC": lambda run: above(run, "auc"),
        "by accuracy": lambda run: above(run, "accuracy"),
        "CPU seconds of a fit, mean": lambda run: f"{run['cpu_seconds'].mean():.1f}",
    }
    lines = [f"| `default` | {' | '.join(own)} |", "|---" * 3 + "|"]
    lines += [f"| {name} | {' | '.join(map(cell, own.values()))} |" for name, cell in cells.items()]
    return "\n".join([*lines, ""])


def new_before() -> str:
    """The default of an earlier look beside today's, and the difference of their AUC by the share of blank cells."""
    scores = [
        _scores(run[run["model"] == "default"], "auc") for run in map(_with_scores, ("new_tables", "new_tables-before"))
    ]
    each = ((scores[0] - scores[1])["default"]).drop(list(ALONE), level="table", errors="ignore")
    words = []
    for rate, part in each.groupby("missing"):
        mean, half, p, positive, count = _compared(part, 0 * part)
        cell = f"{100 * mean:+.2f} ± {100 * half:.2f} points, higher on {positive} of {count} tables, p {p:.3f}"
        words.append(f"with {100 * cast('float', rate):.0f} % blank {cell}")
    return f"{latest('new_tables')}\nThe AUC of today's minus that of the earlier one, not corrected: {'; '.join(words)}.\n"


def _with_scores(file: str) -> pd.DataFrame:
    records = pd.DataFrame(json.loads((STUDIES / f"{file}.json").read_text(encoding="utf-8")))
    return records.assign(**{metric: [plain[metric] for plain in records["plain"]] for metric in HIGHER})


def fresh() -> str:
    """Ours and single rivals on the tables of the last look, by classes, over the pairs of a table and a rate that all have;
    and in how many of them ours is above the best rival."""
    records, keys = _with_scores("fresh_tables"), ["table", "missing"]
    models = ["default", "fast", *(name for name in SINGLE if name in set(records["model"]))]
    scores = records.pivot_table(index=[*keys, "classes"], columns="model", values=[*HIGHER, "cpu_seconds"]).dropna()
    blocks = []
    for kind, part in (("two classes", scores.query("classes == 2")), ("more classes", scores.query("classes > 2"))):
        columns = "AUC, % | log loss | accuracy, % | CPU s, median | above the best rival by AUC | by accuracy"
        lines = [f"| {kind}, {len(part)} pairs | {columns} |", "|---" * 7 + "|"]
        for model in models:
            means = {metric: part[metric][model].mean() for metric in HIGHER}
            best = {metric: part[metric].filter(models[2:]).to_numpy().max(1) for metric in ("auc", "accuracy")}
            wins = [f"{(part[metric][model] > each).sum()}" * (model in models[:2]) for metric, each in best.items()]
            cells = f"{100 * means['auc']:.1f} | {means['log_loss']:.3f} | {100 * means['accuracy']:.1f}"
            cost = f"{part['cpu_seconds'][model].median():.1f}"
            lines.append(f"| {model} | {cells} | {cost} | {' | '.join(wins)} |")
        blocks.append("\n".join([*lines, ""]))
    return "\n".join(blocks)


def fresh_autogluon() -> str:
    """AutoGluon's best preset on the complete tables of the last look that it was fitted on, beside ours and CatBoost."""
    records = pd.concat([_with_scores("fresh_tables"), _with_scores("fresh_tables-autogluon")])
    records, models = records[records["missing"] == 0], ["default", "fast", "AutoGluon best", "CatBoost"]
    scores = {name: _scores(records, name)[models].dropna() for name in (*HIGHER, "cpu_seconds")}
    lines = [
        f"| 0 % blank, {len(scores['auc'])} tables | AUC, % | log loss | accuracy, % | CPU s, median |",
        "|---" * 5 + "|",
    ]
    for model in models:
        auc, accuracy, loss = (scores[name][model].mean() for name in HIGHER)
        seconds = scores["cpu_seconds"][model].median()
        lines.append(f"| {model} | {100 * auc:.1f} | {loss:.3f} | {100 * accuracy:.1f} | {seconds:.1f} |")
    words = []
    for name, sign in HIGHER.items():
        own, other = (scores[name][model] for model in ("default", "AutoGluon best"))
        mean, half, p, positive, count = _compared(sign * own, sign * other)
        unit, digits = (100, 2) if name != "log_loss" else (1, 3)
        gap = f"{sign * unit * mean:+.{digits}f} ± {unit * half:.{digits}f}"
        words.append(
            f"{name.replace('_', ' ').replace('auc', 'AUC')} {gap} (better on {positive} of {count}, p {p:.2f})"
        )
    return "\n".join([*lines, "", f"`default` minus AutoGluon best, not corrected: {'; '.join(words)}.", ""])


def complete_tables() -> str:
    """`default` minus `fast` where no cell is blank: what the network brings there."""
    lines = ["| tables | AUC, points | log loss | tables on which the log loss is lower |", "|---" * 4 + "|"]
    last = _with_scores("last_tables")
    for name, records in (("the first tables of this page", _records()), ("those of the latest changes", last)):
        part = records[(records["missing"] == 0) & (records["columns"] > 1)]
        auc, loss = (
            _compared(scores["default"], scores["fast"])
            for scores in (_scores(part, key) for key in ("auc", "log_loss"))
        )
        cells = (f"{100 * auc[0]:+.2f} ± {100 * auc[1]:.2f}", f"{loss[0]:+.3f} ± {loss[1]:.3f}")
        lines.append(f"| {name} | {' | '.join(cells)} | {loss[4] - loss[3]} of {loss[4]} |")
    return "\n".join([*lines, ""])


def pytabkit() -> str:
    """Models of pytabkit beside ours and single rivals: means over the tables that all have, by the share of blank cells."""
    records = _with_scores("pytabkit")
    blocks = []
    for rate in sorted(set(records["missing"])):
        part = records[records["missing"] == rate]
        have = part.groupby("table")["model"].nunique() == part["model"].nunique()
        part = part[part["table"].isin(have.index[have])]
        tables = ", ".join(sorted(set(part["table"])))
        lines = [f"| {100 * rate:.0f} % blank: {tables} | AUC, % | log loss | accuracy, % | CPU s |", "|---" * 5 + "|"]
        means = part.groupby("model")[["auc", "log_loss", "accuracy", "cpu_seconds"]].mean()
        for model, row in means.sort_values("auc", ascending=False).iterrows():
            cells = (
                f"{100 * row['auc']:.1f}",
                f"{row['log_loss']:.3f}",
                f"{100 * row['accuracy']:.1f}",
                f"{row['cpu_seconds']:.1f}",
            )
            lines.append(f"| {model} | {' | '.join(cells)} |")
        blocks.append("\n".join([*lines, ""]))
    return "\n".join(blocks)


def wide() -> str:
    """Tables of many columns: the version before, the last one, a lasso and LightGBM."""
    records = pd.DataFrame(json.loads((STUDIES / "wide.json").read_text(encoding="utf-8")))
    names = {
        "fast before": "`fast` before",
        "fast after": "`fast`",
        "lasso after": "lasso",
        "LightGBM after": "LightGBM",
    }
    lines = [f"| AUC, % / log loss / CPU s | rows x columns | {' | '.join(names.values())} |", "|---" * 6 + "|"]
    for kind, part in records.groupby("kind", sort=False):
        own = part.set_index(part["model"] + " " + part["name"]).to_dict("index")
        cells = (
            f"{100 * own[key]['auc']:.1f} / {own[key]['log_loss']:.3f} / {own[key]['cpu_seconds']:.1f}" for key in names
        )
        lines.append(f"| {kind} | {part['rows'].iloc[0]} x {part['columns'].iloc[0]} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def gaps() -> str:
    """Models that learned from complete rows, by the share of blank cells of the rows that they predict."""
    records = pd.DataFrame(json.loads((STUDIES / "gaps.json").read_text(encoding="utf-8")))
    last, before = records[records["name"] == "after"], records[records["name"] == "before"]
    means = last.pivot_table(index="model", columns="missing", values=[*HIGHER])
    heads = " | ".join(f"{100 * rate:.0f} % blank" for rate in sorted(set(records["missing"])))
    lines = [f"| AUC, % / log loss / accuracy, %; {last['table'].nunique()} tables | {heads} |"]
    lines.append("|---" * (1 + records["missing"].nunique()) + "|")
    for model in ("default", "fast", *SINGLE):
        auc, accuracy, loss = (means[name].loc[model] for name in HIGHER)
        cells = (f"{100 * auc[rate]:.1f} / {loss[rate]:.3f} / {100 * accuracy[rate]:.1f}" for rate in auc.index)
        lines.append(f"| {model} | {' | '.join(cells)} |")
    heads = "above the best of the four others by AUC | by accuracy | AUC minus the version before | log loss minus it"
    lines += [
        "",
        f"| of {last['table'].nunique()} tables, with {_rates(records)} % blank | {heads} |",
        "|---" * 5 + "|",
    ]
    scores = {name: _scores(last, name) for name in HIGHER}
    for model in ("default", "fast"):
        own = {name: each[model] for name, each in scores.items()}
        rivals = {name: each[[*SINGLE]].max(axis=1) for name, each in scores.items()}
        above = [(own[name] > rivals[name]).groupby("missing").sum() for name in ("auc", "accuracy")]
        columns = [", ".join(map(str, each)) for each in above]
        for name, unit, digits in (("auc", 100, 2), ("log_loss", 1, 3)):
            gains = (own[name] - _scores(before, name)[model]).groupby("missing")
            compared = [_compared(part, 0 * part) for _, part in gains]
            columns.append(
                ", ".join(f"{unit * mean:+.{digits}f} ± {unit * half:.{digits}f}" for mean, half, *_ in compared)
            )
        lines.append(f"| {model} | {' | '.join(columns)} |")
    return "\n".join([*lines, ""])


TABLES: dict[str, Callable[[], str]] = {
    "new-tables": new_tables,
    "how-good": how_good,
    "wide": wide,
    "gaps": gaps,
    "latest": latest,
    "fresh": fresh,
    "fresh-autogluon": fresh_autogluon,
    "fresh-before": lambda: latest("fresh_tables"),
    "new-before": new_before,
    "complete-tables": complete_tables,
    "pytabkit": pytabkit,
}
