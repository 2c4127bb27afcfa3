"""MultiAE against its definition, written out for one subset and one sample at a time."""

import pytest
import torch
import torch.nn.functional as F
from helpers import CLASSES, DIM, SHAPES, SUBSETS, assert_equal, shown, weightless, zeros
from torch import nn

from gauge import TrainSettings, fit
from gauge.encoders._vector import Vector
from gauge.nn.likelihoods import Laplace
from gauge.randomness import seeded
from gauge_lab.benchmarks.polymnist import BENCHMARK as POLYMNIST
from gauge_lab.methods.multiae import AutoEncoder, MultiAE
from gauge_lab.plans import last_stage
from gauge_lab.vectors import VectorEncoder

SIZES = {name: int(torch.tensor(shape).prod()) for name, shape in SHAPES.items()}


def encoder():
    """With all that must not move once it is frozen: BatchNorm and dropout."""
    with seeded(0, "vectors"):
        layers = {
            name: nn.Sequential(nn.Flatten(), nn.Linear(size, DIM), nn.BatchNorm1d(DIM), nn.Dropout(0.5))
            for name, size in SIZES.items()
        }
        return VectorEncoder({name: Vector(each, DIM) for name, each in layers.items()})


def auto_encoder(subsets_per_step=3):
    with seeded(0, "decoders"):
        decoders = {name: nn.Sequential(nn.Linear(DIM, SIZES[name]), nn.Unflatten(1, SHAPES[name])) for name in SHAPES}
        return AutoEncoder(encoder(), decoders, dict.fromkeys(SHAPES, Laplace()), subsets_per_step=subsets_per_step)


def multiae(subsets_per_step=None):
    start = auto_encoder()
    with seeded(0, "head"):
        return MultiAE(start.encoder, start.fuse, CLASSES, subsets_per_step=subsets_per_step)


def code(method, batch, row, members):
    """z of one sample from the members of a subset that are there, or from all that is there when none is."""
    vectors = dict.fromkeys(SHAPES, torch.zeros(DIM))
    for name, x in shown(batch, row, members).items():
        vectors[name] = method.encoder.encoders[name].layers(x[None])[0]
    _, first, _, second = method.fuse
    return second(torch.relu(first(torch.cat([*vectors.values()]))))


def test_pretraining_decodes_every_observed_value_from_every_subset(batch):
    method = auto_encoder(len(SUBSETS)).eval()
    expected = 0.0
    for members in SUBSETS:
        for name, flags in batch.observed.items():
            errors = []
            for row in range(len(batch)):
                difference = method.decoders[name](code(method, batch, row, members)[None])[0] - batch.inputs[name][row]
                errors += difference[flags[row].expand(SHAPES[name])].square().tolist()
            expected += sum(errors) / len(errors) / len(SUBSETS)
    assert method.loss(batch)["reconstruction"].item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("subsets_per_step", [None, len(SUBSETS)])
def test_loss_is_the_mean_over_subsets_of_the_cross_entropy_of_their_codes(batch, subsets_per_step):
    method, costs = multiae(subsets_per_step), []
    for members in SUBSETS if subsets_per_step else SUBSETS[-1:]:
        logits = torch.stack([method.head(code(method, batch, row, members)) for row in range(len(batch))])
        costs.append(F.cross_entropy(logits, batch.labels))
    torch.testing.assert_close(method.train().loss(batch)["task"], torch.stack(costs).mean())


def test_prediction_is_that_of_the_code_of_what_is_observed(batch):
    method = multiae(2)
    logits = torch.stack([method.head(code(method, batch, row, (0, 1, 2))) for row in range(len(batch))])
    torch.testing.assert_close(method.predict(batch).logits, logits)


def test_encoders_stay_as_they_were_pretrained_bit_for_bit(train):
    method = multiae(2)
    before = {name: values.clone() for name, values in method.state_dict().items()}
    fit(method, train, settings=TrainSettings(epochs=2, batch_size=16))
    after = method.train().state_dict()
    frozen = [name for name in before if name.startswith("encoder.")]
    assert_equal({name: before[name] for name in frozen}, {name: after[name] for name in frozen})
    assert all(not torch.equal(before[name], after[name]) for name in before if name not in frozen)
    assert method.fuse.training
    assert not any(part.training for part in method.encoder.modules())


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_polymnist_has_the_published_size_and_decodes_pixels():
    stage, data = last_stage(POLYMNIST, "multiae", "multiae", 0), zeros(POLYMNIST)
    start, method = weightless(stage.needs[0], data), weightless(stage, data)
    encoders, decoder, code = parameters(start.encoder), start.decoders["m0"], parameters(start.fuse)
    assert encoders == 5 * (93_248 + 2048 * 512 + 512)
    assert parameters(decoder) == 1_143_747
    assert code == (2560 * 512 + 512) + (512 * 512 + 512)
    assert parameters(method) == encoders + code + 5_130
    assert isinstance(decoder[-1], nn.Sigmoid)
