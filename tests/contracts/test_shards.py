"""What the package ships learns from shards of a batch what it learns from the whole batch; other modules are given that."""

from collections.abc import Callable, Iterator

import helpers
import pytest
import torch
from torch import Tensor

from gauge import GaugePlus, SelfSupervised, TrainSettings
from gauge.masks import AnyModalities, Corruption
from gauge.plus.heads import Heads
from gauge.plus.late_fusion import WeightedVote
from gauge.randomness import sample_keys, seeded
from gauge.tabular.experts._training import Weighted
from gauge.training.step import training_step
from gauge.types import Trainable

SIZE = 13  # of the batch: 7 and 6 samples in two processes
SETTINGS = TrainSettings(epochs=1, masks=AnyModalities(), corrupt=Corruption(swapped=0.3))


def gauge_plus(**options: object) -> GaugePlus:
    return GaugePlus(helpers.unit_encoder(), helpers.network(), **options)


def weighted_vote() -> Trainable:
    encoder = helpers.unit_encoder()
    return WeightedVote(encoder, Heads(encoder, helpers.DIM, helpers.CLASSES))


def self_supervised() -> Trainable:
    return SelfSupervised(helpers.unit_encoder(), helpers.network(), tables={"table": (1,) * 5})


SHARED: dict[str, Callable[[], Trainable]] = {
    "Gauge": helpers.gauge,
    "GaugePlus": gauge_plus,
    "GaugePlus with trust": lambda: gauge_plus(gating="trust"),
    "network of a table": lambda: Weighted(gauge_plus(), torch.linspace(0.1, 2, 24)),
    "WeightedVote": weighted_vote,
}
WHOLE: dict[str, Callable[[], Trainable]] = {
    "AnySubset": helpers.any_subset,
    "SelfSupervised": self_supervised,
    "BatchNorm and dropout": helpers.Wobbly,
}


def learned() -> dict[str, Tensor]:
    """Of every component the number of samples that it sees, the losses and gradients of a batch, and all buffers after an
    epoch."""
    values = {}
    for component, make in (SHARED | WHOLE).items():
        with seeded(0, component):
            module = make()
        values |= {f"{component}: {name}": value for name, value in _step(module)}
    return values


def _step(module: Trainable) -> Iterator[tuple[str, Tensor]]:
    """The weights are large enough for every token to count."""
    step = training_step(helpers.enlarged(module), helpers.dataset("train", 24), SETTINGS)
    index = torch.arange(SIZE)
    key = sample_keys(index, 0)
    yield "samples", torch.tensor(len(step.batch(index, key)))
    with seeded(0, "epoch"):
        for name, term in step(index, key, 0.0).items():
            yield f"loss {name}", term
    module.end_epoch()
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            yield f"gradient of {name}", parameter.grad
    for name, buffer in module.named_buffers():
        yield f"buffer {name}", buffer


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What one process learns, and each of two."""
    with helpers.unchecked():
        return learned(), *helpers.in_two_processes(learned, tmp_path_factory.mktemp("shards"))


@pytest.mark.parametrize("component", SHARED | WHOLE)
def test_two_processes_have_the_losses_gradients_and_buffers_of_one(component, results):
    alone, first, second = (
        {
            name.removeprefix(f"{component}: "): value
            for name, value in values.items()
            if name.startswith(f"{component}: ")
        }
        for values in results
    )
    assert first.keys() == second.keys() == alone.keys()
    samples = [int(values.pop("samples")) for values in (alone, first, second)]
    assert samples == ([13, 7, 6] if component in SHARED else [13, 13, 13])
    gradients = [float(value.abs().max()) for name, value in alone.items() if "gradient" in name]
    for name, expected in alone.items():
        atol = 3e-4 * max(gradients) if "gradient" in name else 1e-5
        torch.testing.assert_close(first[name], expected, rtol=1e-4, atol=atol, msg=lambda m, name=name: name + m)
        assert torch.equal(first[name], second[name]), name
