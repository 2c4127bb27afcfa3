"""wrap() and FromTimm on timm's ViT, DeiT and EVA-02; skipped where timm or the torchvision it needs is missing.

Run by hand: `python perf/marked_tests.py timm`, which leaves perf/results/timm-tests.json.
"""

import pytest
import torch

from gauge import FromTimm, check_backbone, wrap
from gauge.randomness import seeded

pytestmark = [pytest.mark.timm, pytest.mark.filterwarnings("ignore")]  # of timm's own imports
MODELS = {"ViT": "vit_tiny_patch16_224", "DeiT": "deit_tiny_distilled_patch16_224", "EVA-02": "eva02_tiny_patch14_224"}
SIZES = {"img_size": 16, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2, "num_classes": 3}


def built(name, **options):
    try:
        import timm
    except (ImportError, RuntimeError) as error:  # torchvision raises RuntimeError beside another build of torch
        pytest.skip(f"timm cannot be imported here: {error}")
    with seeded(0, name):
        return timm.create_model(name, **SIZES, **options).eval().double()


@pytest.fixture(scope="module", params=MODELS)
def wrapped(request):
    return wrap(built(MODELS[request.param]))


@pytest.fixture
def images():
    return torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0)).double()


def test_every_patch_has_a_gate_and_no_other_position(wrapped, images):
    assert wrapped.predict(images).gates.shape == (2, 4)
    assert wrapped.read(images).fixed == wrapped.model.num_prefix_tokens


@pytest.mark.parametrize(
    ("name", "options", "fixed"),
    [
        ("cait_xxs24_224", {}, 0),  # its class token comes after the blocks
        ("vit_tiny_patch16_224", {"class_token": False, "global_pool": "avg"}, 0),
        ("vit_tiny_patch16_224", {"class_token": False, "global_pool": "map"}, 0),
        ("vit_tiny_patch16_224", {"reg_tokens": 4}, 5),
    ],
)
def test_what_precedes_the_patches_is_found_for_every_kind_of_head(images, name, options, fixed):
    other = wrap(built(name, **options))
    assert other.predict(images).gates.shape == (2, 4)
    assert other.fixed == fixed
    assert other.leak < 1e-6


def test_the_blocks_keep_the_contract_of_a_backbone(wrapped):
    check_backbone(FromTimm(wrapped.model.blocks), dim=32)
