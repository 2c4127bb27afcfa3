"""MMPareto: gradients of heads and network are integrated so that none is raised by the step of the other."""

import helpers
import pytest
import torch

from gauge_lab.methods.mmpareto import ENHANCED, MMPareto, integrated

OWNER = torch.tensor([[True, True, False], [False, False, True]])


def pareto():
    return MMPareto(helpers.unit_encoder(), helpers.network())


def pair(angle):
    """Gradients of network and heads of two modalities; those of the first agree or not."""
    network, heads = helpers.noise(4, 3, 5, seed=0), helpers.noise(4, 3, 5, seed=1)
    heads[:, :2] += angle * network[:, :2]
    return network, heads


def test_gradients_that_agree_are_added():
    network, heads = pair(2.0)
    first = integrated(network, heads, OWNER)[:, :2]
    torch.testing.assert_close(first, ENHANCED * (network + heads)[:, :2])


@pytest.mark.parametrize("angle", [-0.5, -1.0, -5.0])
def test_gradients_in_conflict_give_a_step_that_raises_neither_loss(angle):
    network, heads = pair(angle)
    first, network, heads = (values[:, :2] for values in (integrated(network, heads, OWNER), network, heads))
    assert (first * network).sum() >= -1e-4
    assert (first * heads).sum() >= -1e-4
    assert first.norm() >= ENHANCED * (network + heads).norm() * 0.999


def test_the_values_that_network_and_heads_read_are_those_of_the_encoder_and_all_parts_learn(batch):
    method = pareto()
    terms = method.loss(batch)
    sum(terms.values()).backward()
    assert set(terms) == {"task", "heads"}
    silent = [name for name, value in method.named_parameters() if value.grad is None or not value.grad.any()]
    assert not silent
