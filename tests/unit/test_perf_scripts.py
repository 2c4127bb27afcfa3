"""What the scripts in perf/ and studies/ measure is what they say."""

import runpy
from pathlib import Path

import pytest
import torch

from gauge import Batch, Dataset
from gauge.masks import parse_protocol
from gauge.paper.gauge import Gauge
from gauge.reports.figures import draw_gates
from gauge.training.inference import masked_batches
from gauge_lab.benchmarks.polymnist5k import BENCHMARK
from gauge_lab.parts import Parts

ROOT = Path(__file__).parents[2]


def script(name):
    (path,) = (path for folder in ("perf", "studies") if (path := ROOT / folder / f"{name}.py").is_file())
    return runpy.run_path(str(path))


def a_batch(rows):
    torch.manual_seed(rows)
    observed = {name: torch.arange(rows) % 5 == place for place, name in enumerate(BENCHMARK.modalities)}
    inputs = {name: torch.rand(rows, 3, 28, 28) for name in BENCHMARK.modalities}
    return Batch(inputs, observed, torch.arange(rows) % 10)


def a_gauge():
    torch.manual_seed(0)
    return Gauge(*Parts.from_benchmark(BENCHMARK).unit_network()).eval()


def test_curvature_is_the_operator_norm_of_the_hessian():
    matrix = torch.tensor([[3.0, 1.0, 0.0], [1.0, -5.0, 2.0], [0.0, 2.0, 1.0]], dtype=torch.float64)
    norm = script("bound")["curvature"](
        lambda x: 0.5 * (x @ matrix * x).sum(-1), torch.zeros(2, 3, dtype=torch.float64)
    )
    expected = torch.linalg.matrix_norm(matrix, 2)
    torch.testing.assert_close(norm, expected.expand(2), rtol=0.02, atol=0)


def test_the_bounds_hold_and_the_score_is_not_below_its_signed_term(monkeypatch):
    bound = script("bound")
    monkeypatch.setitem(bound["largest_curvature"].__globals__, "POINTS", (0.0, 0.9, 1.0))
    monkeypatch.setitem(bound["measured"].__globals__, "POINTS", (0.0, 0.9, 1.0))
    records = bound["measured"](a_gauge(), a_batch(2), [0])
    assert len(records) == 2
    for each in records:
        assert abs(each["exact"] - each["first_order"]) <= each["remainder_bound"]
        assert abs(each["first_order"]) <= each["score"]
    assert bound["summary"](records)["violations"] == 0


def test_the_loop_over_candidates_selects_what_stacked_passes_select():
    speed = script("dymo_speed")
    method = speed["network"](torch.device("cpu"))
    method.prepare(Dataset("train", a_batch(20).inputs, torch.arange(20) % 10))
    batch = a_batch(6)
    assert torch.equal(speed["Loop"](method).select(batch), method.select(batch).visible_modalities)


def test_gates_are_recorded_and_drawn(tmp_path):
    gates, method, batch = script("gates"), a_gauge(), a_batch(10)
    data = Dataset("test", batch.inputs, batch.labels)
    samples, means = (gates[name](method, data, "eta=0.8", *rest) for name, rest in (("shown", (2,)), ("means", ())))
    assert [len(each["gate"]) for each in samples] == [20, 20]
    assert sum(samples[0]["observed"]) == 4
    (masked,) = masked_batches(data, parse_protocol("eta=0.8"), 10, torch.arange(10))
    expected, observed = method.predict(masked).gates, method.read(masked).units.observed
    assert means["mean"]["observed"] == pytest.approx(expected[observed].mean().item(), abs=1e-4)
    assert means["mean"]["imputed"] == pytest.approx(expected[~observed].mean().item(), abs=1e-4)
    assert sum(means["histogram"]["imputed"]) == 160
    content = {"benchmark": "made", "protocol": "eta=0.8", "test_samples": 10, "samples": samples, "seeds": [means]}
    draw_gates(content | {"mean": means["mean"]}, tmp_path / "gates.svg")
    assert "observed, mean" in (tmp_path / "gates.svg").read_text()
