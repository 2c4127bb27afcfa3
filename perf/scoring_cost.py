"""What scoring costs: Taylor beside exact counterfactual scoring, and GAUGE beside a plain forward pass.

    python perf/scoring_cost.py [--device cuda] [--out perf/results]

Batch 1 follows the paper's appendix "Scoring Cost Comparison": 20 warm-ups, then 500 samples, synchronised around each.
Batch 256: the median of 20 calls; on a GPU also replayed as CUDA graphs, since eager calls of networks this small wait for
launches, not for arithmetic. All from the encoded units on, with random weights; ratios are within this one run.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import torch
import torch.nn.functional as F

from gauge.model.backbones.transformer import Transformer
from gauge.model.gates import Gate, attention_bias, normalize_scores
from gauge.model.network import Network
from gauge.model.scoring.exact import exact_effects
from gauge.model.scoring.taylor import taylor_evidence
from gauge.training.provenance import commit, hardware

LAYOUTS = {  # units, width, heads, classes
    "MST": (3, 32, 2, 10),
    "PolyMNIST": (20, 128, 4, 10),
    "DVM": (33, 256, 8, 286),
    "CAD": (91, 256, 8, 2),
}


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
        cost["forward_256_graph_ms"] = median_of_many(replayed(forward))
        cost["taylor_256_graph_ms"] = median_of_many(replayed(lambda: taylor_evidence(network, many)))
        cost["predict_256_graph_ms"] = median_of_many(replayed(predict))
    for mode in modes:
        for part in ("taylor", "predict"):
            cost[f"{part}_over_forward_256{mode}"] = cost[f"{part}_256{mode}_ms"] / cost[f"forward_256{mode}_ms"]
    return {key: round(value, 4) for key, value in cost.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--samples", type=int, default=500, help="samples at batch 1")
    parser.add_argument("--out", type=Path, help="folder for the result file; printed only when left out")
    options = parser.parse_args()
    device = torch.device(options.device)
    rows = {name: measure(name, device, options.samples) for name in LAYOUTS}
    result = {"commit": commit(), "date": str(date.today()), "hardware": hardware(device), "samples": options.samples}
    text = json.dumps({**result, "rows": rows}, indent=2)
    print(text)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / f"scoring_cost-{device.type}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
