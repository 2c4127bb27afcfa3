"""What only a GPU can show: recorded steps and predictions equal eager ones, half precision trains, deterministic runs
repeat, exported programs compile.

Run by hand: `make gpu-test`, which leaves perf/results/gpu-tests.json.
"""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from gauge import Batch, Dataset, Prediction, Recorded, TrainSettings, fit
from gauge.encoders.conv_grid import ConvGrid
from gauge.encoders.deep_grid import DeepGrid
from gauge.masks import AnyModalities
from gauge.paper.gauge import Gauge
from gauge.randomness import sample_keys, seeded
from gauge.training.inference import predict_split
from gauge.training.step import training_step
from gauge.types import Method
from gauge_lab.benchmarks.polymnist5k import BENCHMARK, VIEWS
from gauge_lab.encoders.residual_image import ResidualImage
from gauge_lab.plans import last_stage, plan_of
from gauge_lab.registry import METHODS

# what torch.compile imports is deprecated in some versions of torch, and it recommends a lower precision
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning", "ignore:TensorFloat32 tensor cores:UserWarning"),
]

SMALL = replace(BENCHMARK, dim=16, imputer_options={"latent": 4, "channels": (2, 4, 4), "hidden": 8})
METHODS_OF_IMAGES = [method for method in METHODS.names() if plan_of(method).unsupported(SMALL) is None]
ROWS = [(method, variant) for method in METHODS_OF_IMAGES for variant in plan_of(method).variants]
SETTINGS = TrainSettings(epochs=2, batch_size=16, masks=AnyModalities(), precision="float32")
FIXED = SETTINGS.model_copy(update={"deterministic": True})
SIZES = (16, 10)  # samples of a batch, in turn
STEPS = 12  # three of each size are eager before the recording


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
    """The loss of some training steps. Dropout is off, as a recording draws from another stream of numbers, and cuDNN keeps
    to one algorithm: those that it finds fastest round otherwise, which twelve steps on random images make visible."""
    method = build(last_stage(SMALL, *row, 0), train)
    for layer in method.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    with seeded(0, "steps"), torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True):
        step = training_step(method, train, FIXED, record=record)
        values = []
        for number in range(STEPS):
            index = torch.arange(SIZES[number % 2], device=train.device)
            values.append(sum(step(index, sample_keys(index, number), 1e-3).values()).item())
    assert set(step.recordings) == (set(SIZES) if record else set())
    return values


@pytest.mark.parametrize("row", ROWS, ids=":".join)
def test_a_recorded_step_is_the_eager_step(row, train):
    if not build(last_stage(SMALL, *row, 0), train).is_trainable:
        pytest.skip("the method has nothing to train")
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


@pytest.fixture(scope="module")
def model(train) -> Gauge:
    model = build(last_stage(SMALL, "gauge", "gauge", 0), train)
    assert isinstance(model, Gauge)
    return model.eval()


def batch_of(train: Dataset, count: int) -> Batch:
    index = torch.arange(count, device=train.device) % len(train)
    key = sample_keys(index, 0)
    return train.batch(index, keep=AnyModalities().keep(train.feature_counts, key), key=key)


@pytest.mark.parametrize("compile", [False, True])
def test_a_recorded_prediction_is_the_eager_prediction(model, train, compile):
    fast = Recorded(model, compile=compile, sizes=(1, 16))
    for count in (1, 7, 16, 40, 1):
        batch = batch_of(train, count)
        own, other = model.predict(batch), fast.predict(batch)
        torch.testing.assert_close(other.logits, own.logits, atol=2e-3, rtol=2e-3)
        torch.testing.assert_close(other.gates, own.gates, atol=2e-3, rtol=2e-3)
    assert len(fast.calls) == 2


def test_a_recorded_prediction_is_refused_where_the_eager_one_is(model, train):
    fast, batch = Recorded(model, sizes=(4,)), batch_of(train, 4)
    own = fast.predict(batch)
    hidden = {name: torch.zeros_like(flags) for name, flags in batch.observed.items()}
    with pytest.raises(ValueError, match="nothing is observed in sample 0"):
        fast.predict(replace(batch, observed=hidden))
    torch.testing.assert_close(fast.predict(batch).logits, own.logits)


@pytest.mark.parametrize("row", [("gauge", "gauge"), ("gauge", "v2"), ("gauge_plus", "gauge_plus")], ids=":".join)
def test_recorded_validation_follows_the_weights(row, train):
    model = build(last_stage(SMALL, *row, 0), train).eval()
    predict = Recorded(model, sizes=(48,)).predict  # 64 samples: a whole part, and a part that is filled up
    for _ in range(2):
        own = predict_split(model, train, "eta=0.4", batch_size=48)
        fast = predict_split(model, train, "eta=0.4", batch_size=48, predict=predict)
        np.testing.assert_allclose(fast.probabilities, own.probabilities, atol=2e-3)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.1)


def test_predictions_in_half_precision_are_close(model, train):
    batch = batch_of(train, 16)
    half = Recorded(model, precision="bf16", sizes=(16,)).predict(batch).logits.float().softmax(1)
    assert (half - model.predict(batch).logits.softmax(1)).abs().max() < 0.05


@pytest.mark.parametrize("weights", [torch.float32, torch.bfloat16])
def test_compiled_predictions_in_half_precision_are_close(model, train, weights):
    batch = batch_of(train, 16)
    given = replace(batch, inputs={name: values.to(weights) for name, values in batch.inputs.items()})
    precision = "bf16" if weights == torch.float32 else "float32"
    half = Recorded(deepcopy(model).to(weights), precision=precision, compile=True, sizes=(16,))
    probabilities = half.predict(given).logits.float().softmax(1)
    assert (probabilities - model.predict(batch).logits.softmax(1)).abs().max() < 0.05


@pytest.mark.parametrize(
    "encoder", [DeepGrid((3, 28, 28), 16), ConvGrid((3, 28, 28), 16), ResidualImage((3, 64, 64), 16)]
)
def test_the_layout_and_the_kernels_of_images_do_not_change_what_is_read(encoder):
    for buffer in encoder.buffers():
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5)
    images, observed = torch.rand(5, *encoder.example_shape), torch.ones(5, dtype=torch.bool)
    encoder.eval()
    with torch.no_grad():
        own = encoder.cpu()(images, observed)
        other = encoder.cuda()(images.cuda(), observed.cuda())
    torch.testing.assert_close(other.cpu(), own, atol=2e-3, rtol=2e-3)
