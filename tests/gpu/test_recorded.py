"""What only a GPU can show: recorded steps equal eager ones, half precision trains, deterministic runs repeat.

Run by hand: `make gpu-test`, which leaves perf/results/gpu-tests.json.
"""

from dataclasses import replace

import pytest
import torch
from torch import nn

from gauge import Batch, Dataset, Prediction, TrainSettings, fit
from gauge.experiments.benchmarks.polymnist5k import BENCHMARK, VIEWS
from gauge.experiments.plans import last_stage, plan_of
from gauge.masks import AnyModalities
from gauge.randomness import sample_keys, seeded
from gauge.registry import METHODS
from gauge.training.step import training_step
from gauge.types import Method

pytestmark = pytest.mark.gpu

ROWS = [(method, variant) for method in METHODS.names() for variant in plan_of(method).variants]
SMALL = replace(BENCHMARK, dim=16, imputer_options={"latent": 4, "channels": (2, 4, 4), "hidden": 8})
SETTINGS = TrainSettings(epochs=2, batch_size=16, masks=AnyModalities(), precision="float32")
STEPS = 6  # three of them eager before the recording


@pytest.fixture(scope="module")
def train() -> Dataset:
    draw = torch.Generator().manual_seed(0)
    views = {name: torch.randint(256, (64, 3, 28, 28), dtype=torch.uint8, generator=draw) for name in VIEWS}
    return Dataset("train", views, torch.arange(64) % 10).to("cuda")


def build(stage, train) -> Method:
    module = stage.build(train, [build(need, train) for need in stage.needs]).to(train.device)
    if isinstance(module, Method):
        module.eval().prepare(train)
    return module


def losses(row, train, *, record: bool) -> list[float]:
    """The loss of some training steps; dropout is off, as a recording draws from another stream of numbers."""
    method = build(last_stage(SMALL, *row, 0), train)
    for layer in method.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    with seeded(0, "steps"):
        step = training_step(method, train, SETTINGS, record=record)
        index = torch.arange(16, device=train.device)
        values = [sum(step(index, sample_keys(index, number), 1e-3).values()).item() for number in range(STEPS)]
    assert (step.graph is not None) == record
    return values


@pytest.mark.parametrize("row", ROWS, ids=":".join)
def test_a_recorded_step_is_the_eager_step(row, train):
    if not build(last_stage(SMALL, *row, 0), train).is_trainable:
        return
    torch.testing.assert_close(
        torch.tensor(losses(row, train, record=True)),
        torch.tensor(losses(row, train, record=False)),
        atol=2e-3,
        rtol=2e-3,
    )


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_lower_precision_trains(precision, train):
    settings = SETTINGS.model_copy(update={"precision": precision, "epochs": 4})
    history = fit(build(last_stage(SMALL, "gauge", "gauge", 0), train), train, settings=settings).history
    assert all(torch.isfinite(torch.tensor(list(epoch["losses"].values()))).all() for epoch in history)


def test_a_deterministic_run_repeats_bit_for_bit(train, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    settings = SETTINGS.model_copy(update={"deterministic": True})
    states = []
    for _ in range(2):
        method = build(last_stage(SMALL, "gauge", "gauge", 0), train)
        fit(method, train, settings=settings)
        states.append({name: tensor.cpu() for name, tensor in method.state_dict().items()})
    assert all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())


class Unrecordable(Method):
    """Draws from torch's generator, then waits for the device, which no recording allows."""

    def __init__(self) -> None:
        super().__init__()
        with seeded(0, "unrecordable"):
            self.head = nn.Linear(3 * 28 * 28, 10)

    def loss(self, batch: Batch) -> dict[str, torch.Tensor]:
        x = nn.functional.dropout(batch.inputs[VIEWS[0]].flatten(1), 0.5)
        loss = nn.functional.cross_entropy(self.head(x), batch.labels)
        assert loss.item() > 0
        return {"task": loss}

    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self.head(batch.inputs[VIEWS[0]].flatten(1)))


def test_a_step_that_cannot_be_recorded_runs_eagerly(train, caplog):
    progress = fit(Unrecordable(), train, settings=SETTINGS.model_copy(update={"epochs": 3}))
    assert "cannot be recorded as a CUDA graph" in caplog.text
    assert progress.epoch == 3
    assert torch.rand(2, device="cuda").isfinite().all()
