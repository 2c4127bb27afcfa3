"""SimMLM: gates over the experts of what is available, and the ranking of more against fewer modalities."""

from dataclasses import replace

import helpers
import pytest
import torch
import torch.nn.functional as F
from helpers import CLASSES

from gauge.masks import subsets
from gauge_lab.methods.simmlm import RANKING, SimMLM, UnitExperts, draw_pairs, nested_pairs, ranking


def simmlm():
    experts = UnitExperts(helpers.unit_encoder(), [helpers.network() for _ in helpers.SHAPES])
    return helpers.enlarged(SimMLM(experts, CLASSES))


def test_a_missing_modality_has_a_gate_of_exactly_zero_and_the_others_add_up_to_one(batch):
    method = simmlm()
    outputs = method.experts.read(batch)
    gates = method.gates(outputs, outputs.available)
    assert (gates[~outputs.available] == 0).all()
    assert (gates[outputs.available] > 0).all()
    torch.testing.assert_close(gates.sum(1), torch.ones(len(batch), CLASSES))


def test_a_single_modality_answers_as_its_expert_does(batch):
    method = simmlm()
    outputs = method.experts.read(batch)
    for place in range(len(helpers.SHAPES)):
        alone = torch.zeros_like(outputs.available)
        alone[:, place] = True
        torch.testing.assert_close(method.mix(outputs, alone), outputs.logits[:, place])


def test_the_ranking_loss_is_zero_where_more_has_less_loss_and_grows_with_the_excess_otherwise():
    fewer = torch.tensor([1.0, 2.0])
    assert ranking(fewer - 0.5, fewer) == 0
    assert ranking(fewer, fewer) == 0
    assert ranking(fewer + torch.tensor([0.5, -3.0]), fewer) == pytest.approx(0.25)
    assert ranking(fewer + 0.5, fewer) == pytest.approx(0.5)


def test_the_loss_is_that_of_both_subsets_and_their_ranking(batch):
    method = simmlm()
    outputs = method.experts.read(batch)
    more, fewer = draw_pairs(batch.key, method.pairs, outputs.available).unbind(1)
    rankings = []
    for label in range(CLASSES):
        labelled = replace(batch, labels=torch.full_like(batch.labels, label))
        costs = [F.cross_entropy(method.mix(outputs, x), labelled.labels, reduction="none") for x in (more, fewer)]
        terms = method.loss(labelled)
        torch.testing.assert_close(terms["task"], (costs[0].mean() + costs[1].mean()) / 2)
        torch.testing.assert_close(terms["ranking"], RANKING * (costs[0] - costs[1]).clamp_min(0).mean())
        rankings.append(terms["ranking"])
    assert max(rankings) > 0


@pytest.mark.parametrize("count", [2, 3, 5])
def test_every_pair_is_a_set_and_a_smaller_one_inside_it_and_every_subset_occurs(count):
    pairs = nested_pairs(count)
    more, fewer = pairs.unbind(1)
    assert ((more | fewer) == more).all()
    assert (fewer.sum(1) < more.sum(1)).all()
    assert fewer.any(1).all()
    assert {tuple(row) for row in pairs.flatten(0, 1).tolist()} == {tuple(row) for row in subsets(count).tolist()}
