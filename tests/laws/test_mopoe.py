"""MoPoE classification against its definition: a Linear on the posterior mean of one sample and subset at a time."""

from dataclasses import replace

import helpers
import pytest
import torch
import torch.nn.functional as F
from helpers import CLASSES, SHAPES, SUBSETS, assert_equal, shown
from torch import nn

from gauge import TrainSettings, fit
from gauge.imputers.mopoe import Coder, MoPoE, tamed
from gauge.randomness import seeded
from gauge_lab.benchmarks.polymnist import BENCHMARK
from gauge_lab.methods.mopoe import LatentClassifier
from gauge_lab.plans import last_stage

LATENT = 4


def classifier(train, subsets_per_step=None):
    with seeded(0, "mopoe"):
        vae = helpers.linear_mopoe(train, LATENT)
        return LatentClassifier(vae, LATENT, CLASSES, subsets_per_step=subsets_per_step)


def mean_of(vae, batch, row, members):
    """The precision-weighted mean of the members that are there; N(0, I) joins when that is all modalities."""
    seen = shown(batch, row, members)
    total, weighted = float(len(seen) == len(SHAPES)) * torch.ones(LATENT), torch.zeros(LATENT)
    for name, x in seen.items():
        mean, log_variance = vae.encoders[name](x[None])[0].chunk(2)
        total = total + 1 / log_variance.exp()
        weighted = weighted + mean / log_variance.exp()
    return weighted / total


@pytest.mark.parametrize("subsets_per_step", [None, len(SUBSETS)])
def test_loss_is_the_mean_over_subsets_of_the_cross_entropy_of_their_latents(train, batch, subsets_per_step):
    method, costs = classifier(train, subsets_per_step), []
    for members in SUBSETS if subsets_per_step else SUBSETS[-1:]:
        latents = torch.stack([mean_of(method.vae, batch, row, members) for row in range(len(batch))])
        costs.append(F.cross_entropy(method.head(latents), batch.labels))
    torch.testing.assert_close(method.loss(batch)["task"], torch.stack(costs).mean())


def test_prediction_is_linear_in_the_mean_of_the_imputers_own_posterior(train, batch):
    method = classifier(train, 2)
    mean, _ = method.vae.posterior(batch)
    torch.testing.assert_close(method.predict(batch).logits, method.head(mean))


def test_only_the_linear_layer_learns_and_the_imputer_stays_bit_for_bit(train):
    sizes = {name: int(torch.tensor(shape).prod()) for name, shape in SHAPES.items()}
    vae = MoPoE(
        {
            name: Coder(
                shape,
                nn.Sequential(
                    nn.Flatten(), nn.BatchNorm1d(sizes[name]), nn.Dropout(0.5), nn.Linear(sizes[name], 2 * LATENT)
                ),
                nn.Sequential(nn.Linear(LATENT, sizes[name]), nn.Unflatten(1, shape)),
            )
            for name, shape in SHAPES.items()
        }
    )
    method = LatentClassifier(vae, LATENT, CLASSES, subsets_per_step=2)
    before = {name: values.clone() for name, values in vae.state_dict().items()}
    head = method.head.weight.clone()
    fit(method, train, settings=TrainSettings(epochs=2, batch_size=16))
    method.train()
    assert_equal(before, vae.state_dict())
    assert not any(part.training for part in vae.modules())
    assert not torch.equal(method.head.weight, head)
    assert set(method.state_dict()) == {"head.weight", "head.bias"}


def test_both_variants_stand_on_the_imputer():
    plain, dagger = (last_stage(BENCHMARK, "mopoe", name, 0) for name in ("mopoe", "mopoe-dagger"))
    assert plain.needs[0].key("") == dagger.needs[0].key("")
    assert plain.key("") != dagger.key("")


def test_another_imputer_has_no_such_latent():
    with pytest.raises(ValueError, match="'mopoe' cannot serve polymnist: it reads the latent of the imputer 'mopoe'"):
        last_stage(replace(BENCHMARK, imputer="mean", imputer_options={}), "mopoe", "mopoe", 0)


def test_a_posterior_as_wide_as_can_be_stays_finite_and_keeps_its_gradient():
    wide = torch.tensor([-40.0, 0.0, 5.0, 60.0, 1e4], requires_grad=True)
    tame = tamed(wide)
    assert torch.equal(tame[:3], wide[:3])
    assert torch.isfinite(tame.exp()).all()
    tame.sum().backward()
    assert (wide.grad > 0).all()


def test_converted_weights_complete_in_half_precision(train, batch):
    """Draws have the precision of the weights."""
    inputs = {name: values.bfloat16() for name, values in batch.inputs.items()}
    completed = helpers.linear_mopoe(train, LATENT).bfloat16().complete(replace(batch, inputs=inputs))
    assert all(values.dtype == torch.bfloat16 and values.isfinite().all() for values in completed.inputs.values())
