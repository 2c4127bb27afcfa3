"""Flex-MoE: what the bank stands in for, how the router gates, and which experts its loss asks for."""

import helpers
import pytest
import torch
import torch.nn.functional as F
from helpers import noise

from gauge_lab.methods.flex_moe import EXPERTS, LARGEST, Experts, FlexMoE, Router, Routes, router_loss

COUNT = len(helpers.SHAPES)


def flex_moe(**options):
    with helpers.seeded(0, "flex"):
        method = FlexMoE(helpers.unit_encoder(), helpers.network(), **options)
    return helpers.enlarged(method)


def test_the_bank_is_read_only_where_units_are_missing_by_the_observed_combination(batch):
    method = flex_moe()
    units = method.encoder(batch)
    combination = method.combination(units, units.observed)
    filled = method.filled(units, units.observed, combination)
    assert torch.equal(filled.content[units.observed], units.content[units.observed])
    assert torch.equal(filled.content[~units.observed], method.bank[combination][~units.observed])


def test_every_combination_has_an_expert_and_complete_samples_have_the_first(batch):
    method = flex_moe()
    units = method.encoder(batch)
    numbers = {}
    for bits in range(1, 2**COUNT):
        shown = torch.tensor([bool(bits >> place & 1) for place in range(COUNT)])
        visible = shown[units.modality].expand(len(batch), -1)
        numbers[bits] = int(method.combination(units, visible)[0])
    assert sorted(numbers.values()) == list(range(2**COUNT - 1))
    assert numbers[2**COUNT - 1] == 0


def test_a_token_uses_four_experts_whose_gates_add_up_to_one():
    router = helpers.enlarged(Router(8, EXPERTS))
    for mode in (True, False):
        gates = router.train(mode)(noise(5, 3, 8), torch.arange(5)).gates
        assert ((gates > 0).sum(-1) == LARGEST).all()
        torch.testing.assert_close(gates.sum(-1), torch.ones(5, 3))


def test_the_router_draws_noise_in_training_only_and_from_the_keys():
    router, tokens = helpers.enlarged(Router(8, EXPERTS)), noise(5, 3, 8)
    key = torch.arange(5)
    noisy = router.train()(tokens, key).logits
    assert torch.equal(router(tokens, key).logits, noisy)
    assert not torch.equal(router(tokens, key + 7).logits, noisy)
    assert torch.equal(router.eval()(tokens, key).logits, router(tokens, key + 7).logits)
    assert torch.equal(router(tokens, key).logits, router.score(tokens))


def test_the_load_is_the_share_of_draws_in_which_an_expert_is_among_the_largest():
    router = helpers.enlarged(Router(8, 6, largest=2)).train()
    routes = router(noise(1, 1, 8).repeat(20_000, 1, 1), torch.arange(20_000))
    torch.testing.assert_close(routes.load.mean(0), (routes.gates > 0).float().mean(0), atol=0.02, rtol=0)


def test_experts_with_a_gate_of_zero_say_nothing():
    experts = helpers.enlarged(Experts(8, 5))
    tokens, gates = noise(4, 3, 8), torch.tensor([0.0, 0.25, 0.0, 0.75, 0.0]).expand(4, 3, 5)

    def expert(index):
        hidden = F.gelu(tokens @ experts.inner[index] + experts.inner_bias[index])
        return hidden @ experts.outer[index] + experts.outer_bias[index]

    torch.testing.assert_close(experts(tokens, gates), 0.25 * expert(1) + 0.75 * expert(3))


def routes_of(logits):
    gates = logits.softmax(-1)
    return Routes(gates, logits, gates)


def test_incomplete_samples_are_asked_for_the_expert_of_their_combination():
    combination = torch.tensor([2, 3])
    right = routes_of(9 * F.one_hot(combination, 4)[:, None].float())
    wrong = routes_of(9 * F.one_hot(combination - 1, 4)[:, None].float())
    assert router_loss(right, combination) + 8 < router_loss(wrong, combination)


def test_complete_samples_are_asked_to_use_all_experts_alike():
    complete = torch.zeros(4, dtype=torch.long)
    assert router_loss(routes_of(torch.zeros(4, 2, 4)), complete) < 1e-6
    spread = routes_of(9 * torch.eye(4)[:, None])  # each sample another expert: balanced as well
    assert router_loss(spread, complete) < 1e-6
    assert router_loss(routes_of(9 * torch.eye(4)[:1].repeat(4, 1)[:, None]), complete) > 5


def test_a_backbone_without_blocks_is_refused():
    network = helpers.network()
    network.backbone = torch.nn.Identity()
    with pytest.raises(ValueError, match="Flex-MoE puts experts into the first block, which Identity does not expose"):
        FlexMoE(helpers.unit_encoder(), network)
