"""MTL against its definition, written out for one sample and one subset at a time."""

import itertools

import helpers
import pytest
import torch
from helpers import DIM, SHAPES, count_calls, gradients, noise

from gauge.masks import subsets
from gauge.paper.network import hiding_bias
from gauge.randomness import seeded
from gauge_lab.methods.mtl import MTL, cls_hiding_bias, subset_code


def mtl():
    with seeded(0, "MTL"):
        return helpers.enlarged(MTL(helpers.unit_encoder(), helpers.network()))


@pytest.fixture
def complete():
    return helpers.incomplete_batch(4).as_observed()


def rows_without(method, sequence, hidden):
    """The CLS state, with attention one head and one query at a time; CLS (and it alone) skips the hidden positions."""
    for block in method.backbone.blocks:
        normed = block.attention_norm(sequence)
        query, key, value = (normed @ part.T for part in block.attention.qkv.weight.chunk(3))
        width = DIM // block.attention.heads
        gathered = torch.zeros_like(sequence)
        for head in range(block.attention.heads):
            channels = slice(head * width, (head + 1) * width)
            for row in range(len(sequence)):
                seen = [at for at in range(len(sequence)) if row != 0 or at not in hidden]
                weights = (key[seen, channels] @ query[row, channels] / width**0.5).softmax(0)
                gathered[row, channels] = weights @ value[seen, channels]
        sequence = sequence + block.attention.project(gathered)
        sequence = sequence + block.mlp(block.mlp_norm(sequence))
    return sequence[0]


def logits_of(method, units, row, visible):
    """One sample of which some units are visible; its CLS token is that of its whole modalities, or of its parts."""
    number = helpers.number_of_subset(units.modality, visible)
    tokens = [
        (units.content[row, at] if visible[at] else torch.zeros(DIM)) + units.embedding[at]
        for at in range(len(visible))
    ]
    sequence = torch.stack([method.cls_tokens[number] + method.cls_position, *tokens])
    hidden = {at + 1 for at in range(len(visible)) if not visible[at]}
    return method.head(rows_without(method, sequence, hidden))


@torch.no_grad()
def test_predictions_are_those_of_the_definition(batch):
    helpers.check_predictions(mtl(), logits_of, batch)


@torch.no_grad()
def test_the_loss_is_the_mean_over_all_subsets_of_the_modalities(batch):
    method, every = mtl(), itertools.product([False, True], repeat=3)
    expected = helpers.loss_over_subsets(method, logits_of, batch, list(every)[1:])
    torch.testing.assert_close(method.loss(batch)["task"], expected)


def test_every_step_trains_the_token_of_every_subset_from_one_encoding(complete):
    method = mtl()
    calls = count_calls(*method.encoder.encoders.values())
    found = gradients(method, method.loss(complete)["task"])
    assert calls == [len(complete)] * len(SHAPES)
    assert found["cls_tokens"].abs().sum(1).gt(0).all()
    assert found.keys() == dict(method.named_parameters()).keys()


def test_every_subset_of_whole_modalities_has_a_number_of_its_own():
    for count in (1, 2, 3, 5):
        modality = torch.arange(count).repeat_interleave(2)
        codes = subset_code(subsets(count)[:, modality], modality, count)
        assert sorted(codes.tolist()) == list(range(2**count - 1))


def test_a_modality_in_part_does_not_count_unless_no_other_is_whole():
    modality = torch.tensor([0, 1, 1, 1])
    visible = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 1], [0, 1, 0, 0], [0, 1, 1, 1], [1, 1, 1, 1]]).bool()
    assert subset_code(visible, modality, 2).tolist() == [0, 0, 1, 1, 2]


def test_units_attend_to_missing_ones_where_cls_does_not():
    method = mtl()
    visible = torch.tensor([[True, False, True]])
    sequence = noise(1, 4, DIM)
    attention = method.backbone.blocks[0].attention
    weights = attention.weights(sequence, cls_hiding_bias(visible))[0]
    assert (weights[:, 0, 2] == 0).all()
    assert (weights[:, 1:, 2] > 0).all()
    torch.testing.assert_close(weights[:, 1:], attention.weights(sequence)[0, :, 1:])
    assert (attention.weights(sequence, hiding_bias(visible))[0, :, :, 2] == 0).all()
