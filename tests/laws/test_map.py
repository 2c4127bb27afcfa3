"""MAP against its definition: prompts of the observed subset stand before the sequence at every block."""

import helpers
import pytest
import torch
from helpers import CLASSES, DIM, gradients

from gauge import Dataset, Network
from gauge.masks import draw_subsets
from gauge.randomness import seeded
from gauge_lab.benchmarks import polymnist
from gauge_lab.methods.map import MAP
from gauge_lab.plans import last_stage, plan_of

LENGTH, SUBSETS = 2, 7
NOTHING = Dataset("train", {"x": torch.zeros(1, 1)}, torch.zeros(1).long())


def map_(subsets_per_step=0):
    with seeded(0, "MAP"):
        return helpers.enlarged(
            MAP(helpers.unit_encoder(), helpers.network(), length=LENGTH, subsets_per_step=subsets_per_step)
        )


@pytest.fixture
def complete():
    return helpers.incomplete_batch(4).as_observed()


def logits_of(method, units, row, visible):
    """One sample: prompts before the sequence, as published, so that CLS stands after those of all blocks."""
    prompts = method.prompts[helpers.number_of_subset(units.modality, visible)]
    tokens = [
        (units.content[row, at] if visible[at] else torch.ones(DIM)) + units.embedding[at] for at in range(len(visible))
    ]
    classifier = method.classifier
    sequence = torch.stack([classifier.cls_token + classifier.cls_position, *tokens])
    for block, own in zip(classifier.backbone.blocks, prompts, strict=True):
        sequence = block(torch.cat([own, sequence])[None])[0]
    assert len(sequence) == 1 + len(tokens) + 2 * LENGTH
    return classifier.head(sequence[2 * LENGTH])


@torch.no_grad()
def test_predictions_are_those_of_the_definition(batch):
    helpers.check_predictions(map_(), logits_of, batch)


@torch.no_grad()
def test_the_loss_is_the_mean_over_the_subsets_of_the_step(batch):
    everything = torch.ones(1, 3, dtype=torch.bool)
    method = map_()
    torch.testing.assert_close(
        method.loss(batch)["task"], helpers.loss_over_subsets(method, logits_of, batch, everything)
    )
    method = map_(subsets_per_step=3)
    chosen = draw_subsets(batch.key, method.subsets, 3)
    assert len(chosen) == 3
    torch.testing.assert_close(method.loss(batch)["task"], helpers.loss_over_subsets(method, logits_of, batch, chosen))


def test_the_last_block_sees_the_prompts_of_all_blocks(batch):
    method, lengths = map_(), []
    for block in method.classifier.backbone.blocks:
        block.attention_norm.register_forward_hook(lambda module, inputs, output: lengths.append(inputs[0].shape[1]))
    method.predict(batch)
    units = sum(method.encoder.unit_counts.values())
    assert lengths == [1 + units + LENGTH, 1 + units + 2 * LENGTH]


def trained(method, batch):
    """The numbers of the subsets whose prompts get a gradient."""
    found = gradients(method, method.loss(batch)["task"])["prompts"]
    assert found.abs().sum((2, 3)).gt(0).all(1).tolist() == found.abs().sum((1, 2, 3)).gt(0).tolist()
    return {number for number in range(SUBSETS) if found[number].any()}


def test_on_complete_input_only_the_prompts_of_the_full_set_train(complete):
    assert trained(map_(), complete) == {SUBSETS - 1}


def test_only_the_prompts_of_the_subsets_of_the_step_train(complete):
    method = map_(subsets_per_step=3)
    chosen = draw_subsets(complete.key, method.subsets, 3)
    assert trained(method, complete) == {int((row * 2 ** torch.arange(3)).sum()) - 1 for row in chosen}


def test_a_backbone_without_blocks_is_refused():
    network = Network(lambda sequence, bias: sequence, DIM, CLASSES)
    with pytest.raises(ValueError, match="adds prompts before every block, which FromFunction does not expose; use"):
        MAP(helpers.unit_encoder(), network)


@pytest.mark.parametrize("variant", plan_of("map").variants)
def test_prompts_have_the_published_shape(variant):
    method = last_stage(polymnist.BENCHMARK, "map", variant, 0).build(NOTHING, [])
    assert method.prompts.shape == (31, 2, 12, 128)
    assert method.subsets_per_step == (5 if variant == "map-dagger" else 0)
