"""What scoring and prediction cost: Taylor beside exact scoring, GAUGE beside a forward pass, eager beside recorded.

    python perf/scoring_cost.py --out perf/results                  # on a GPU, a few minutes, most of them to compile
    python perf/scoring_cost.py --device cpu --out perf/results
    python perf/scoring_cost.py --no-rows --precisions "bf16 weights" --before perf/results/scoring_cost-cuda.json --out DIR

Needs the package, no data. `rows`: every layout, from the encoded units on, with random weights. Batch 1 is as in the
paper's appendix "Scoring Cost Comparison": 20 warm-ups, then 500 samples, synchronised around each. Batch 256: the median of
20 calls; on a GPU also replayed as CUDA graphs, since eager calls of networks this small wait for launches, not for
arithmetic. `prediction`: a whole `Gauge` for a table of 91 columns, mean imputer and encoder included, with `Gauge.predict`
and with `Recorded.predict`; `part` is the number of samples that are recorded together, `bf16` is autocast, `bf16 weights`
a converted model. All ratios are within this one run; `before` is the `prediction` of an older file.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from gauge.encoders.columns import Columns
from gauge.imputers.mean import Mean
from gauge.nn.attention import Transformer
from gauge.paper.gauge import Gate, Gauge, attention_bias, normalize_scores, taylor_evidence
from gauge.paper.network import Network
from gauge.paper.scoring.exact import exact_effects
from gauge.paper.units import UnitEncoder
from gauge.training.recorded import Precision, Recorded
from gauge.values import Batch, Prediction
from gauge_lab.recording import origin, write_record

PRECISIONS = ("float32", "bf16", "bf16 weights")
LAYOUTS = {  # units, width, heads, classes
    "MST": (3, 32, 2, 10),
    "PolyMNIST": (20, 128, 4, 10),
    "DVM": (33, 256, 8, 286),
    "CAD": (91, 256, 8, 2),
}
LARGE_BATCH = {"cuda": 4096, "cpu": 64}  # samples of a large batch
PARTS = {"cuda": (512, 4096), "cpu": (64,)}  # samples of it that are recorded together
COMPILED = {"cuda": (4096,), "cpu": (64,)}  # the same, where the prediction is compiled too, which takes a while
GOALS = {"eager_over_fast": 10, "exact_over_taylor_recorded": 1, "predictions_per_second": 450_000}
LIMITS = {"prediction_over_forward": 3.1}


def times(call: Callable[[], object], device: torch.device, *, warm_ups: int, repeats: int) -> list[float]:
    """Milliseconds of each call."""

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    for _ in range(warm_ups):
        call()
    cost = []
    for _ in range(repeats):
        started = now()
        call()
        cost.append(1000 * (now() - started))
    return cost


def replayed(call: Callable[[], object]) -> Callable[[], object]:
    """The call captured once as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def measure(name: str, device: torch.device, samples: int) -> dict[str, float]:
    """Milliseconds and ratios for one layout."""
    units, dim, heads, classes = LAYOUTS[name]
    network = Network(Transformer(dim, heads=heads, depth=2), dim, classes).to(device).eval()
    gate = Gate().to(device)
    one, many = torch.randn(1, units, dim, device=device), torch.randn(256, units, dim, device=device)
    labels = torch.randint(classes, (256,), device=device)
    parameters = [*network.parameters(), *gate.parameters()]

    @torch.no_grad()
    def forward() -> torch.Tensor:
        return network(many)

    def gated() -> torch.Tensor:
        return network(many, attention_bias(gate(normalize_scores(taylor_evidence(network, many).scores))))

    @torch.no_grad()
    def predict() -> torch.Tensor:
        return gated()

    def step(logits: Callable[[], torch.Tensor]) -> None:
        torch.autograd.grad(F.cross_entropy(logits(), labels), parameters, allow_unused=True)

    def mean_of_one(call: Callable[[], object]) -> float:
        return statistics.mean(times(call, device, warm_ups=20, repeats=samples))

    def median_of_many(call: Callable[[], object]) -> float:
        return statistics.median(times(call, device, warm_ups=5, repeats=20))

    cost = {
        "units": units,
        "taylor_ms": mean_of_one(lambda: taylor_evidence(network, one)),
        "exact_sequential_ms": mean_of_one(lambda: exact_effects(network, one, units_at_once=1)),
        "exact_batched_ms": mean_of_one(lambda: exact_effects(network, one)),
        "forward_256_ms": median_of_many(forward),
        "taylor_256_ms": median_of_many(lambda: taylor_evidence(network, many)),
        "predict_256_ms": median_of_many(predict),
        "plain_step_256_ms": median_of_many(lambda: step(lambda: network(many))),
        "gauge_step_256_ms": median_of_many(lambda: step(gated)),
    }
    cost["sequential_over_taylor"] = cost["exact_sequential_ms"] / cost["taylor_ms"]
    cost["batched_over_taylor"] = cost["exact_batched_ms"] / cost["taylor_ms"]
    cost["step_over_plain_step_256"] = cost["gauge_step_256_ms"] / cost["plain_step_256_ms"]
    modes = [""]
    if device.type == "cuda":
        modes.append("_graph")
        cost["taylor_graph_ms"] = mean_of_one(replayed(lambda: taylor_evidence(network, one)))
        cost["exact_batched_graph_ms"] = mean_of_one(replayed(lambda: exact_effects(network, one)))
        cost["batched_over_taylor_graph"] = cost["exact_batched_graph_ms"] / cost["taylor_graph_ms"]
        cost["forward_256_graph_ms"] = median_of_many(replayed(forward))
        cost["taylor_256_graph_ms"] = median_of_many(replayed(lambda: taylor_evidence(network, many)))
        cost["predict_256_graph_ms"] = median_of_many(replayed(predict))
    for mode in modes:
        for part in ("taylor", "predict"):
            cost[f"{part}_over_forward_256{mode}"] = cost[f"{part}_256{mode}_ms"] / cost[f"forward_256{mode}_ms"]
    return {key: round(value, 4) for key, value in cost.items()}


def gauge_of(layout: str, device: torch.device) -> tuple[Gauge, Callable[[int], Batch]]:
    """A GAUGE model for a table with as many columns as the layout has units, and a function that makes batches for it."""
    units, dim, heads, classes = LAYOUTS[layout]
    encoder = UnitEncoder({"table": Columns((units,), dim)}, dim)
    network = Network(Transformer(dim, heads=heads, depth=2), dim, classes)
    model = Gauge(encoder, network, Mean({"table": torch.zeros(units)})).to(device).eval()

    def batch(count: int) -> Batch:
        table = torch.randn(count, units, device=device)
        return Batch({"table": table}, {"table": torch.rand(count, units, device=device) < 0.7})

    return model, batch


def predictions(device: torch.device, samples: int, *, compiled: bool, precisions: Sequence[str]) -> dict[str, Any]:
    """Whole predictions of the layout CAD, eager, recorded and compiled."""
    model, batch_of = gauge_of("CAD", device)
    one, many = batch_of(1), batch_of(LARGE_BATCH[device.type])
    half, rounded = deepcopy(model).bfloat16(), replace(many, inputs={"table": many.inputs["table"].bfloat16()})
    ways: dict[str, tuple[Gauge, Batch, Precision]] = {
        "float32": (model, many, "float32"),
        "bf16": (model, many, "bf16"),
        "bf16 weights": (half, rounded, "float32"),
    }
    eager = statistics.mean(times(lambda: model.predict(one), device, warm_ups=20, repeats=samples))
    batch_1: dict[str, float] = {"eager_ms": eager}
    result: dict[str, Any] = {"units": 91, "batch_1": batch_1, "large_batch": len(many), "large": [], "refused": []}
    for compiling in (False, True) if compiled else (False,):
        name = "compiled" if compiling else "recorded"
        if "float32" in precisions:
            fast = Recorded(model, compile=compiling, sizes=(1,))
            cost = statistics.mean(times(partial(fast.predict, one), device, warm_ups=20, repeats=samples))
            batch_1 |= {f"{name}_ms": cost, f"eager_over_{name}": eager / cost}
            batch_1[f"{name}_difference"] = apart(model.predict(one), fast.predict(one))
            print(batch_1, flush=True)
        for precision, part in product(precisions, (COMPILED if compiling else PARTS)[device.type]):
            weights, given, autocast = ways[precision]
            fast = Recorded(weights, precision=autocast, compile=compiling, sizes=(part,))
            row: dict[str, Any] = {"precision": precision, "compiled": compiling, "part": part}
            try:
                cost = statistics.median(times(partial(fast.predict, given), device, warm_ups=3, repeats=10))
                row |= {"ms": round(cost, 3), "predictions_per_second": round(1000 * len(many) / cost)}
                row["difference"] = apart(model.predict(many), fast.predict(given))
                result["large"].append(row)
            except RuntimeError as error:  # torch.compile refuses what it cannot trace
                row["error"] = str(error).partition("\n")[0]
                result["refused"].append(row)
            print(row, flush=True)
    return result


def apart(own: Prediction, other: Prediction) -> float:
    """The largest difference of a probability."""
    return float((own.logits.float().softmax(1) - other.logits.float().softmax(1)).abs().max())


def goals(row: dict[str, float], whole: dict[str, Any]) -> dict[str, dict[str, float | bool]]:
    """The goals for prediction on a GPU beside what was measured."""
    batch_1 = whole["batch_1"]
    speeds = [record["predictions_per_second"] for record in whole["large"] if record["precision"] != "float32"]
    reached: dict[str, float] = {"predictions_per_second": max(speeds)} if speeds else {}
    if "eager_over_recorded" in batch_1:
        reached["eager_over_fast"] = max(batch_1["eager_over_recorded"], batch_1.get("eager_over_compiled", 0.0))
    if row:
        reached["exact_over_taylor_recorded"] = row["batched_over_taylor_graph"]
        reached["prediction_over_forward"] = row["predict_over_forward_256_graph"]
    asked = GOALS | LIMITS
    met = {name: value <= asked[name] if name in LIMITS else value >= asked[name] for name, value in reached.items()}
    return {name: {"goal": asked[name], "measured": reached[name], "met": met[name]} for name in reached}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--samples", type=int, default=500, help="samples at batch 1")
    parser.add_argument("--no-compile", action="store_true", help="leave out what torch.compile makes")
    parser.add_argument("--no-rows", action="store_true", help="leave out the layouts")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS, help="of large batches")
    parser.add_argument(
        "--before", type=Path, help="an older result file, whose predictions are kept beside the new ones"
    )
    parser.add_argument("--name", help="of the result file, after the device")
    parser.add_argument("--out", type=Path, help="folder for the result file; printed only when left out")
    options = parser.parse_args()
    device = torch.device(options.device)
    before = json.loads(options.before.read_text(encoding="utf-8")) if options.before else {}
    rows = {} if options.no_rows else {name: measure(name, device, options.samples) for name in LAYOUTS}
    print(json.dumps(rows.get("CAD")), flush=True)
    whole = predictions(device, options.samples, compiled=not options.no_compile, precisions=options.precisions)
    result = origin(options, device) | {"samples": options.samples, "rows": rows, "prediction": whole}
    if before:
        result["before"] = {"commit": before["commit"], "prediction": before["prediction"]}
    if device.type == "cuda":
        result["goals"] = goals(rows.get("CAD", {}), whole)
    print(json.dumps(result, indent=2))
    if options.out:
        name = f"{device.type}-{options.name}" if options.name else device.type
        write_record(options.out / f"scoring_cost-{name}.json", result)


if __name__ == "__main__":
    main()
