"""ShaSpec: residual fusion, generated features of missing modalities, and the two objectives for features."""

import math

import helpers
import torch
import torch.nn.functional as F
from helpers import noise

from gauge.masks import draw_subsets, visible_under
from gauge_lab.methods.shaspec import ALIGNMENT, DOMAIN, ShaSpec, alignment, domain_loss

COUNT = len(helpers.SHAPES)


def shaspec():
    specific = [helpers.network() for _ in range(COUNT)]
    with helpers.seeded(0, "shaspec"):
        method = ShaSpec(helpers.unit_encoder(), helpers.network(), specific)
    return helpers.enlarged(method)


def test_what_is_fused_is_the_shared_part_and_a_residual(batch):
    method = shaspec()
    shared, specific, _ = method.features(batch)
    everything = torch.ones(len(batch), COUNT, dtype=torch.bool)
    residual = method.residual(torch.cat([shared, specific], -1))
    torch.testing.assert_close(method.fuse(shared, specific, everything), shared + residual)
    torch.nn.init.zeros_(method.residual.weight)
    assert torch.equal(method.fuse(shared, specific, everything), shared)


def test_a_missing_modality_gets_the_mean_of_what_the_others_share(batch):
    method = shaspec()
    shared, specific, available = method.features(batch)
    fused = method.fuse(shared, specific, available)
    for row, flags in enumerate(available):
        for place in range(COUNT):
            if not flags[place]:
                torch.testing.assert_close(fused[row, place], shared[row, flags].mean(0))


def test_alignment_is_zero_if_all_share_the_same_and_leaves_missing_modalities_out():
    shared, available = noise(6, 1, 8).repeat(1, COUNT, 1), torch.ones(6, COUNT, dtype=torch.bool)
    assert alignment(shared, available) == 0
    other = shared.clone()
    other[:, 1] += 0.5
    torch.testing.assert_close(alignment(other, available), torch.tensor(1.0))
    available[:, 1] = False
    assert alignment(other, available) == 0


def test_domain_loss_is_low_if_specific_features_tell_their_modality():
    available = torch.tensor([[True, True, False]])
    torch.testing.assert_close(domain_loss(torch.zeros(1, 3, 3), available), torch.tensor(math.log(3)))
    assert domain_loss(50 * torch.eye(3)[None], available) < 1e-6
    wrong = 50 * torch.eye(3)[None]
    wrong[0, 2] = wrong[0, 1]
    assert domain_loss(wrong, available) < 1e-6


def test_the_loss_has_the_published_weights(batch):
    method = shaspec()
    shared, specific, available = method.features(batch)
    terms = method.loss(batch)
    torch.testing.assert_close(terms["alignment"], 0.1 * alignment(shared, available))
    torch.testing.assert_close(terms["domain"], 0.02 * domain_loss(method.domain(specific), available))
    assert (ALIGNMENT, DOMAIN) == (0.1, 0.02)
    chosen = draw_subsets(batch.key, method.subsets, 2)
    costs = [
        F.cross_entropy(method.classify(shared, specific, visible), batch.labels)
        for visible in visible_under(available, chosen)
    ]
    torch.testing.assert_close(terms["task"], sum(costs) / 2)
