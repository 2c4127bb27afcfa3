"""Gates may have a learning rate of their own."""

import pytest
import torch
from helpers import SETTINGS, any_subset, assert_equal, dataset, gauge

from gauge import fit
from gauge.imputers.mean import Mean
from gauge_lab.benchmarks import Overrides
from gauge_lab.benchmarks.polymnist import BENCHMARK
from gauge_lab.plans import last_stage

TRAIN = dataset("train", 16)
ONE_STEP = SETTINGS.model_copy(update={"epochs": 1, "batch_size": 16, "selection": (), "learning_rate": 1e-3})


def moved(rate: float, **gating) -> dict[str, torch.Tensor]:
    """How far each parameter goes in the first step of Adam, which is its learning rate wherever there is a gradient."""
    model = gauge(Mean.from_dataset(TRAIN), **gating)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    fit(model, TRAIN, settings=ONE_STEP.model_copy(update={"gate_rate": rate}))
    return {name: (value.detach() - before[name]).abs() for name, value in model.named_parameters()}


def test_gates_move_by_their_own_rate_and_everything_else_as_before():
    usual, fast = moved(1.0), moved(50.0)
    gates = {"gate.threshold", "gate.log_temperature"}
    assert gates < usual.keys()
    for name in gates:
        assert float(usual[name]) == pytest.approx(1e-3, rel=0.01)
        assert float(fast[name]) == pytest.approx(50e-3, rel=0.01)
    assert_equal(
        {name: usual[name] for name in usual.keys() - gates}, {name: fast[name] for name in fast.keys() - gates}
    )


def test_a_model_without_gates_trains_as_before():
    assert_equal(moved(1.0, granularity="none"), moved(50.0, granularity="none"))
    assert any_subset().gate_parameters() == []


def test_the_rate_of_gates_tells_stages_apart_and_its_default_keeps_their_keys():
    stages = [
        last_stage(BENCHMARK.with_overrides(Overrides(finetune=finetune)), "gauge", "gauge", 0).identity
        for finetune in (None, {"gate_rate": 1.0}, {"gate_rate": 50.0})
    ]
    assert stages[0] == stages[1] != stages[2]


def test_options_that_no_plan_has_are_errors():
    for options, message in (
        ({"any_subset": {"projektion": 8}}, "is no option of any_subset 'projektion'; did you mean 'projection'?"),
        ({"guage": {"projection": 8}}, "there is no method 'guage'; did you mean 'gauge'?"),
    ):
        with pytest.raises(ValueError, match=message):
            last_stage(BENCHMARK.with_overrides(Overrides(method_options=options)), "gauge", "gauge", 0)
