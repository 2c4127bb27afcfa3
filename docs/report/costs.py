"""What things cost, from the files in perf/results, and the tightness of the bounds."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from report.results import NOT_MEASURED, STUDIES, TIMINGS

LATENCIES = ("p50_ms", "p99_ms", "requests_per_second")


def scoring_cost() -> str:
    """Times at batch 1 and ratios at batch 256 on each machine that was measured."""
    header: tuple[str, ...] = ("machine", "layout", "N", "Taylor, ms", "exact sequential, ms", "exact batched, ms")
    header += ("Taylor recorded, ms", "exact batched recorded, ms", "Taylor / forward", "prediction / forward")
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for path in sorted(TIMINGS.glob("scoring_cost-*.json")):
        content = json.loads(path.read_text())
        threads = content["hardware"]["threads"]
        machine = content["hardware"].get("gpu") or f"CPU, {threads} thread{'s' * (threads > 1)}"
        for layout, row in content["rows"].items():
            times = [f"{row[key]:.2f}" for key in ("taylor_ms", "exact_sequential_ms", "exact_batched_ms")]
            recorded = (row.get(f"{score}_graph_ms") for score in ("taylor", "exact_batched"))
            times += ["–" if value is None else f"{value:.2f}" for value in recorded]
            mode = "_graph" if "forward_256_graph_ms" in row else ""
            ratios = [f"{row[f'{part}_over_forward_256{mode}']:.2f}" for part in ("taylor", "predict")]
            lines.append(f"| {machine} | {layout} | {row['units']} | {' | '.join(times + ratios)} |")
    return "\n".join(lines) + "\n"


def prediction_cost() -> str:
    """Whole predictions, eager and recorded, on each machine that was measured."""
    lines = ["| machine | batch | precision | how | ms a batch | predictions a second |", "|---" * 6 + "|"]
    for path in sorted(TIMINGS.glob("scoring_cost-*.json")):
        content = json.loads(path.read_text())
        if "prediction" not in content:
            continue
        machine, whole = content["hardware"].get("gpu") or "CPU", content["prediction"]
        recorded = "recorded" if content["hardware"].get("gpu") else "eager"
        for how in ("eager", "recorded", "compiled") if "recorded_ms" in whole["batch_1"] else ():
            if f"{how}_ms" in whole["batch_1"] and (how != "recorded" or recorded == how):
                cost = whole["batch_1"][f"{how}_ms"]
                lines.append(f"| {machine} | 1 | float32 | {how} | {cost:.2f} | {1000 / cost:,.0f} |")
        for row in whole["large"]:
            how = f"compiled, {row['part']:,} at once" if row["compiled"] else f"{recorded}, {row['part']:,} at once"
            cells = (machine, f"{whole['large_batch']:,}", row["precision"], how, f"{row['ms']:.1f}")
            lines.append(f"| {' | '.join(cells)} | {row['predictions_per_second']:,} |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else NOT_MEASURED


def bound() -> str:
    """How much of the bounds of Theorem 1 and its corollary the effects of units use, by benchmark and kind of unit."""
    head: tuple[str, ...] = (
        "benchmark",
        "units",
        "measured",
        "remainder / its bound",
        "effect / its bound",
        "remainder / effect",
    )
    head += ("signed term / score", "effect below the score")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for path in sorted(STUDIES.glob("bound-*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        for name, row in ({"all": content["all"]} | content["groups"]).items():
            ratios = " | ".join(f"{row[key]:.1e}" for key in ("theorem", "corollary"))
            rest = (
                f"{row['remainder_of_effect']:.2f} | {row['cancelled']:.2f} | {100 * row['effect_within_score']:.0f} %"
            )
            lines.append(f"| {content['benchmark']} | {name} | {row['count']} | {ratios} | {rest} |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else NOT_MEASURED


def dymo_speed() -> str:
    """Seconds of DyMo's selection, all candidates stacked and candidate by candidate, on each machine that was measured."""
    head = "| machine | samples | selected alike | stacked, s | candidate by candidate, s | ratio |"
    lines = [head, "|---" * 6 + "|"]
    for path in sorted(TIMINGS.glob("dymo_speed-*.json")):
        row = json.loads(path.read_text(encoding="utf-8"))
        machine = row["hardware"].get("gpu") or f"CPU, {row['hardware']['threads']} thread"
        times = f"{row['seconds']['stacked']:.2f} | {row['seconds']['loop']:.2f} | {row['ratio']:.1f}"
        lines.append(f"| {machine} | {row['samples']} | {row['same_selections']} | {times} |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else NOT_MEASURED


def serving() -> str:
    """Requests over HTTP: latency, throughput and CPU time, on a CPU and on a GPU."""
    return _table(
        ("device", "model", "requests", "connections", "p50, ms", "p99, ms", "requests a second", "CPU ms a request"),
        (
            (
                record["hardware"].get("gpu", "CPU"),
                *(row[key] for key in ("engine", "mode", "clients")),
                *(f"{row[key]:.0f}" for key in LATENCIES),
                f"{row['server_cpu_ms']:.1f}",
            )
            for record in (_perf("serving"), _perf("serving-cuda"))
            for row in record["serving"]
            if row["version"] == "after"
        ),
    )


def latency() -> str:
    """CPU time of predictions in process, of the last version that was measured, beside LightGBM's own on the same rows."""
    head = (
        *("gates", "one row, CPU ms", "exported", "rows a CPU second", "speed over LightGBM's"),
        *("in parts of 100", "of 1,000", "of 10,000"),
    )
    version = _last_latency()
    return _table(
        head,
        (
            (
                *(_gates(key, row), *(_number(version[f"one_row_{form}ms_p50"], 1) for form in ("", "onnx_"))),
                *_speeds(row),
            )
            for key in ("no_gates", "auto", "gates")
            if key in version
            for row in (version[key],)
        ),
    )


def large_tables() -> str:
    """The same for tables of many columns and of many classes."""
    version = _last_latency()
    head = ("columns", "classes", "experts", "one row, CPU ms", "rows a CPU second", "speed over LightGBM's")
    return _table(
        (*head, "in parts of 100", "of 1,000", "of 10,000"),
        (
            (
                *(f"{row['columns']:,}", row["classes"], ", ".join(row["experts"])),
                *(f"{row['one_row_ms_p50']:.1f}", *_speeds(row)),
            )
            for row in (version["many_columns"], version["many_classes"])
        ),
    )


def _last_latency() -> dict[str, Any]:
    """The record of the last version that was measured."""
    *_, version = _perf("latency-cpu").values()
    return version


def _speeds(row: dict[str, Any]) -> tuple[str, ...]:
    """Rows a second, and the speed over LightGBM's and in parts over that at once."""
    parts = row["speed_of_parts_over_whole"]
    shares = (row["speed_over_lightgbm"], parts["100"], parts.get("1000"), parts.get("10000"))
    return f"{row['rows_per_second']:,}", *(_number(share, 2) for share in shares)


def _gates(key: str, row: dict[str, Any]) -> str:
    if key == "auto":
        return "auto: they answer" if row["gates_answer"] else "auto: evidence alone"
    return "yes" if key == "gates" else "no"


def _number(value: float | None, digits: int) -> str:
    return "not measured" if value is None else f"{value:.{digits}f}"


def export_cost() -> str:
    """Predictions of a classifier with torch and of its exported file with onnxruntime, on one CPU thread."""
    return _table(
        ("rows", "torch, ms", "ONNX, ms", "torch / ONNX", "largest difference"),
        (
            (
                *(f"{row['rows']:,}", f"{row['torch_ms']:.0f}", f"{row['onnx_ms']:.0f}"),
                *(f"{row['torch_over_onnx']:.2f}", f"{row['difference']:.0e}"),
            )
            for row in _perf("serving")["export"]
        ),
    )


def streaming() -> str:
    """Memory and speed of prediction and training, from files in parts and in memory."""
    forms = {"parts": "in parts", "memory": "at once"}
    return _table(
        ("", "rows", "read", "memory, MB", "rows a second"),
        (
            (
                *(f"{task} on a GPU" if device == "cuda" else task, f"{row['rows']:,}", forms[row["form"]]),
                *(f"{row['peak_mb']:.0f}", f"{row['rows_per_second']:,}"),
            )
            for task in ("predict", "fit")
            for device in ("cpu", "cuda")
            if device == "cpu" or (TIMINGS / f"streaming-{task}-cuda.json").is_file()
            for row in _perf(f"streaming-{task}-{device}")["runs"]
        ),
    )


def on_ray() -> str:
    """Predictions by one process, and by Ray with one worker and with two."""
    return _table(
        ("", "processes that predicted", "seconds to start", "rows a second", "over one process"),
        (
            (
                *(row["form"], row["processes"], f"{row['start']:.0f}"),
                *(f"{row['rows_per_second']:,}", f"{row['over_one_process']:.2f}"),
            )
            for row in _perf("ray-cpu")["runs"]
        ),
    )


def _table(head: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [f"| {' | '.join(map(str, row))} |" for row in (head, *rows)]
    lines.insert(1, "|---" * len(head) + "|")
    return "\n".join(lines).replace("|  |", "| |") + "\n"


def _perf(name: str) -> dict[str, Any]:
    return json.loads((TIMINGS / f"{name}.json").read_text(encoding="utf-8"))


def pipeline_cost() -> str:
    """Seconds an epoch of every stage, launched kernel by kernel and recorded, and samples a second."""
    head = ("benchmark", "stage", "s an epoch, eager", "s an epoch, recorded", "launch overhead", "samples a second")
    lines = [f"| {' | '.join(head)} | peak, GiB |", "|---" * (len(head) + 1) + "|"]
    for path in sorted(TIMINGS.glob("pipeline-*-cuda.json")):
        for name, row in json.loads(path.read_text())["rows"].items():
            if "recorded" in row:
                speed = f"{row['samples_per_second']:,.0f}" if "samples_per_second" in row else "–"
                shares = f"{100 * row['launch_share']:.0f} % | {speed} | {row['peak_gib']:.1f}"
                benchmark = ", ".join(path.stem.split("-")[1:-1])
                lines.append(f"| {benchmark} | {name} | {row['eager']:.2f} | {row['recorded']:.2f} | {shares} |")
    return "\n".join(lines) + "\n"


def classifier_cost() -> str:
    """What GaugeClassifier takes for a table, on each machine that was measured."""
    lines = [
        "| machine | rows x columns | gates | fit, CPU s | rows answered a CPU second | peak memory, MB |",
        "|---" * 6 + "|",
    ]
    for path in sorted(TIMINGS.glob("classifier-*.json")):
        row = json.loads(path.read_text())
        machine = row["hardware"].get("gpu") or f"CPU, threads: {row['hardware']['threads']}"
        cost = f"{row['fit_seconds']:.0f} | {row['predicted_rows_per_second']:,} | {row['peak_mb']}"
        gates = "yes" if row.get("gates", True) else "no"
        lines.append(f"| {machine} | {row['rows']:,} x {row['columns']} | {gates} | {cost} |")
    return "\n".join(lines) + "\n"


TABLES: dict[str, Callable[[], str]] = {
    "pipeline-cost": pipeline_cost,
    "classifier-cost": classifier_cost,
    "scoring-cost": scoring_cost,
    "prediction-cost": prediction_cost,
    "serving": serving,
    "latency": latency,
    "latency-large": large_tables,
    "export-cost": export_cost,
    "streaming": streaming,
    "on-ray": on_ray,
    "bound": bound,
    "dymo-speed": dymo_speed,
}
