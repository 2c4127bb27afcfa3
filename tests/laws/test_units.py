"""Units: images may be read on another grid, and nothing else changes by it."""

import pytest
import torch
import torch.nn.functional as F
from helpers import DIM, incomplete_batch, noise, unit_encoder

from gauge.encoders.conv_grid import ConvGrid
from gauge.encoders.resnet_grid import ResnetGrid
from gauge_lab.regrid import Upsampled, regrid


@pytest.mark.parametrize("grid", [3, 5, 8])
@pytest.mark.parametrize("kind", [ConvGrid, ResnetGrid])
def test_an_enlarged_image_gives_the_units_of_the_grid(kind, grid):
    options = {"channels": (4, 4)} if kind is ConvGrid else {"depth": 18}
    encoder = kind((3, 32, 32), 8, **options).eval()
    finer = Upsampled(encoder, grid)
    image = noise(2, 3, 32, 32)
    units = finer(image, torch.ones(2, dtype=torch.bool))
    assert units.shape == (2, grid**2, encoder.width)
    enlarged = F.interpolate(image, (grid * encoder.stride,) * 2, mode="bilinear", align_corners=False)
    assert torch.equal(units, encoder(enlarged, torch.ones(2, dtype=torch.bool)))


def test_only_the_positions_of_images_start_anew():
    before = unit_encoder()
    after = regrid(before, 5)
    assert before.unit_counts == {"image": 4, "signal": 1, "table": 5}
    assert after.unit_counts == {"image": 25, "signal": 1, "table": 5}
    assert torch.equal(after.position_embedding[25:], before.position_embedding[4:])
    assert after.norms is before.norms
    assert after.modality_embedding is before.modality_embedding
    batch = incomplete_batch()
    units, finer = before(batch), after(batch)
    assert finer.content.shape == (6, 31, DIM)
    assert torch.equal(finer.content[:, 25:], units.content[:, 4:])
    assert torch.equal(finer.observed[:, :25], units.observed[:, :1].expand(-1, 25))


def test_shared_embeddings_are_one_for_all_modalities_but_the_first_and_change_nothing_else():
    """As in DyMo's code for PolyMNIST, where a boolean tensor looks them up."""
    batch = incomplete_batch()
    own = unit_encoder().eval()
    shared = unit_encoder().eval()
    shared.shared_embedding = True
    shared.load_state_dict(own.state_dict())
    first, second = own(batch), shared(batch)
    names = own.modality_embedding.weight
    moved = (second.embedding - first.embedding).detach()
    torch.testing.assert_close(moved, (names[own.modality.clamp_max(1)] - names[own.modality]).detach())
    assert not moved[own.modality <= 1].any()
    assert moved[own.modality > 1].any()
    assert torch.equal(first.content, second.content)
