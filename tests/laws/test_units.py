"""Units: images may be read on another grid, and nothing else changes by it."""

import pytest
import torch
import torch.nn.functional as F
from helpers import DIM, incomplete_batch, noise, unit_encoder

from gauge import UnitEncoder
from gauge.model.encoders.conv_grid import ConvGrid
from gauge.model.encoders.mlp import Mlp
from gauge.model.encoders.resnet_grid import ResnetGrid
from gauge.model.units import Upsampled


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
    after = before.regrid(5)
    assert before.layout == {"image": 4, "signal": 1, "table": 5}
    assert after.layout == {"image": 25, "signal": 1, "table": 5}
    assert torch.equal(after.position_embedding[25:], before.position_embedding[4:])
    assert after.norms is before.norms
    assert after.modality_embedding is before.modality_embedding
    batch = incomplete_batch()
    units, finer = before(batch), after(batch)
    assert finer.content.shape == (6, 31, DIM)
    assert torch.equal(finer.content[:, 25:], units.content[:, 4:])
    assert torch.equal(finer.observed[:, :25], units.observed[:, :1].expand(-1, 25))


def test_without_a_grid_there_is_nothing_to_enlarge():
    with pytest.raises(ValueError, match="none of the encoders of .'signal'. makes a grid"):
        UnitEncoder({"signal": Mlp((7,), DIM)}, DIM).regrid(4)
