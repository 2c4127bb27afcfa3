"""Every registered method, imputer and pre-trainer learns from the shards of a batch what it learns from the whole batch."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from helpers import Wobbly, dataset, enlarged, imputer, in_two_processes, network, unchecked, unit_encoder, untrained
from small_benchmarks import LEAF99_TIP, SMALL, samples
from torch import Tensor

from gauge import TrainSettings
from gauge.data import Dataset
from gauge.experiments.plans import last_stage, plan_of
from gauge.masks import AnyModalities, Complete, Corruption
from gauge.randomness import sample_keys, seeded
from gauge.registry import IMPUTERS, METHODS, PRETRAINERS
from gauge.training.step import training_step
from gauge.types import Imputer, Trainable

SIZE = 13  # of the batch: 7 and 6 samples in two processes
FURTHER = {
    "gauge_plus": "gauge_plus-student",
    "late_fusion": "equal-votes",
    "m3care": "m3care-dagger",
}

Component = tuple[Callable[[], Trainable], Dataset]


class Dropping(Wobbly):
    """BatchNorm and dropout, and nothing that counts over an epoch."""

    end_epoch = Trainable.end_epoch


def components() -> dict[str, Component]:
    """All that is trained for any method on images or on an image and a table, and all imputers and pre-trainers."""
    small, leaf, mixed = samples(SMALL), samples(LEAF99_TIP), dataset("train", 24)
    found: dict[str, Component] = {"dropout": (Dropping, mixed)}
    for name in METHODS.names():
        benchmark, train = (LEAF99_TIP, leaf) if plan_of(name).unsupported(SMALL) else (SMALL, small)
        for variant in dict.fromkeys([name, FURTHER.get(name, name)]):
            for stage in last_stage(benchmark, name, variant, 0).all():
                found.setdefault(stage.name, (partial(untrained, stage, train), train))
    for name in IMPUTERS.names():
        if IMPUTERS.get(name).needs_image:
            found[f"imputer {name}"] = partial(_imputer_of_images, name, leaf), leaf
        else:
            found[f"imputer {name}"] = partial(imputer, name, mixed), mixed
    for name in PRETRAINERS.names():
        found[f"pre-trainer {name}"] = partial(_pretrainer, name), mixed
    return found


def _imputer_of_images(name: str, train: Dataset) -> Imputer:
    with seeded(0, "imputer"):
        return IMPUTERS.get(name).from_dataset(train, **LEAF99_TIP.imputer_options)


def _pretrainer(name: str) -> Trainable:
    with seeded(0, "pre-trainer"):
        return PRETRAINERS.get(name)(unit_encoder(), network(), tables={"table": (1,) * 5})


def learned() -> dict[str, Tensor]:
    """Of every component the losses and gradients of a batch, and all buffers after an epoch."""
    values = {}
    for component, (make, train) in components().items():
        module = make()
        if module.is_trainable:
            values |= {f"{component}: {name}": value for name, value in _steps(module, train)}
    return values


def _steps(module: Trainable, train: Dataset) -> Iterator[tuple[str, Tensor]]:
    """The weights are large enough for every token to count."""
    masks = Complete() if getattr(module, "needs_image", False) else AnyModalities()
    settings = TrainSettings(epochs=1, masks=masks, corrupt=Corruption(swapped=0.3), augment="leaves")
    step = training_step(enlarged(module), train, settings)
    index = torch.arange(SIZE)
    with seeded(0, "epoch"):
        for name, term in step(index, sample_keys(index, 0), 0.0).items():
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
    with unchecked():
        return learned(), *in_two_processes(learned, tmp_path_factory.mktemp("shards"))


@pytest.mark.parametrize("component", components())
def test_two_processes_have_the_losses_gradients_and_buffers_of_one(component, results):
    alone, first, second = (
        {name.removeprefix(component): value for name, value in values.items() if name.startswith(f"{component}: ")}
        for values in results
    )
    assert first.keys() == second.keys() == alone.keys()
    if not alone:
        assert not components()[component][0]().is_trainable, "only what is not trained has nothing to compare"
        return
    gradients = [float(value.abs().max()) for name, value in alone.items() if "gradient" in name]
    for name, expected in alone.items():
        atol = 3e-4 * max(gradients) if "gradient" in name else 1e-5
        torch.testing.assert_close(first[name], expected, rtol=1e-4, atol=atol, msg=lambda m, name=name: name + m)
        if "loss" not in name:
            assert torch.equal(first[name], second[name]), name
