"""Networks of the paper and of compared methods have their published sizes."""

import helpers
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from gauge import Dataset, UnitEncoder
from gauge.encoders.resnet_grid import ResnetGrid
from gauge.imputers.mopoe import MoPoE
from gauge.nn.resnet import ResNet
from gauge.registry import ENCODERS
from gauge_lab.benchmarks import BENCHMARKS
from gauge_lab.coders import CODERS
from gauge_lab.imputers.tip import TIP, Roles
from gauge_lab.plans import last_stage

MST = {"mnist": (1, 28, 28), "svhn": (3, 32, 32), "text": (8, 71)}
CELEBA = {"img": (3, 64, 64), "text": (256, 71)}


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def zeros(shapes: dict[str, tuple[int, ...]]) -> Dataset:
    return Dataset("train", {name: torch.zeros(1, *shape) for name, shape in shapes.items()}, torch.zeros(1).long())


@pytest.mark.parametrize(
    ("name", "shape", "width", "options", "size"),
    [
        ("conv_grid", (3, 28, 28), 128, {}, 109_760),
        ("conv_flat", (3, 28, 28), 512, {}, 93_248 + 2048 * 512 + 512),
        ("conv_flat", (3, 28, 28), 128, {}, 93_248 + 2048 * 128 + 128),
        ("mlp", MST["mnist"], 32, {"hidden": 400}, 326_832),
        ("conv_vector", MST["svhn"], 32, {}, 235_328),
        ("conv_text", MST["text"], 32, {}, 144_672),
        ("residual_image", CELEBA["img"], 32, {}, 21_497_504),
        ("residual_text", CELEBA["text"], 32, {}, 13_189_280),
    ],
)
def test_an_encoder_has_the_published_size(name, shape, width, options, size):
    with torch.device("meta"):
        assert parameters(ENCODERS.get(name)(shape, width, **options)) == size


def test_the_imputer_of_polymnist_has_the_published_size():
    mopoe = MoPoE.from_dataset(zeros({f"m{view}": (3, 28, 28) for view in range(5)}), latent=512)
    assert parameters(mopoe.encoders["m0"]) == 1_667_648
    assert parameters(mopoe.decoders["m0"]) == 1_143_747
    assert parameters(mopoe) == 14_056_975


def test_the_imputer_of_mst_has_the_published_size():
    coders = {"mnist": "mlp", "svhn": CODERS["conv_vector"], "text": CODERS["conv_text"]}
    weights = {"mnist": 3072 / 784, "svhn": 1.0, "text": 384.0}
    assert parameters(MoPoE.from_dataset(zeros(MST), latent=20, coders=coders, weights=weights)) == 1_411_826


def test_the_imputer_of_celeba_has_the_published_size():
    mopoe = MoPoE.from_dataset(
        zeros(CELEBA),
        latent=32,
        style=32,
        beta_style=2.0,
        coders={"img": CODERS["residual_image"], "text": CODERS["residual_text"]},
        weights={"img": 1 / 3, "text": 16.0},
        style_weights={"img": 1.0, "text": 5.0},
    )
    assert parameters(mopoe) == 70_326_218


DVM = (22, 13, 3, 12) + (1,) * 13
UKBB = (2,) * 13 + (3, 6, 4, 3, 3, 8, 8, 8, 3, 8, 3, 4, 3) + (1,) * 49


@pytest.mark.parametrize(
    ("names", "shape", "options", "size", "width"),
    [
        (("tabular", "tabular_vector"), (len(DVM),), {"cardinalities": DVM}, 12_641_280, 512),
        (("tabular", "tabular_vector"), (len(UKBB),), {"cardinalities": UKBB}, 12_691_456, 512),
        (("resnet_grid", "resnet_vector"), (3, 128, 128), {"depth": 50}, 23_508_032, 2048),
        (("resnet_grid", "resnet_vector"), (3, 128, 128), {"depth": 18}, 11_176_512, 512),
    ],
)
def test_units_and_a_vector_of_a_table_or_an_image_have_the_published_size(names, shape, options, size, width):
    with torch.device("meta"):
        encoder, vector = (ENCODERS.get(name)(shape, 256, **options) for name in names)
    assert (parameters(encoder), encoder.width) == (size, width)
    assert parameters(UnitEncoder({"x": encoder}, 256).project) == width * 256 + 256
    assert parameters(vector) == size + width * 256 + 256


@pytest.mark.parametrize(("cardinalities", "size"), [(DVM, 26_163), (UKBB, 46_683)])
def test_the_imputer_of_a_table_has_the_published_heads(cardinalities, size):
    with torch.device("meta"):
        tip = TIP(Roles("table", "image", {"table": (len(cardinalities),), "image": (3, 128, 128)}), cardinalities)
    assert parameters(tip.heads) == size
    assert parameters(tip.photo) == 23_508_032
    assert parameters(tip.interact) == 17_857_024
    assert parameters(tip.project_image) == 2048 * 2048 + 2048 + 2048 * 128 + 128
    assert parameters(tip.project_table) == 512 * 512 + 512 + 512 * 128 + 128


def test_units_of_a_resnet_go_row_by_row():
    encoder = ResnetGrid((3, 64, 64), 8, depth=18).eval()
    x = torch.rand(1, 3, 64, 64)
    grid = encoder.layers(x)
    torch.testing.assert_close(encoder(x, torch.ones(1) > 0)[0, 1], grid[0, :, 0, 1])


@pytest.fixture
def state():
    fresh = ResNet((3, 64, 64), 18).state_dict()
    old = {name: torch.rand_like(values) for name, values in fresh.items() if "num_batches" not in name}
    return old | {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
def test_a_file_of_torchvision_is_loaded_without_its_classifier(state, ending, tmp_path):
    path = tmp_path / f"weights.{ending}"
    torch.save(state, path) if ending == "pth" else save_file(state, path)
    loaded = ResnetGrid((3, 64, 64), 8, depth=18, weights=str(path)).layers.state_dict()
    assert all(torch.equal(loaded[name], values) for name, values in state.items() if not name.startswith("fc."))


VECTORS = 5 * 1_142_336  # of PolyMNIST: trunks of 93,248 and Linear(2048, 512)
BLOCK = 197_888
CODE = (2560 * 512 + 512) + (512 * 512 + 512)
AUTOENCODER = 4 * BLOCK + 2 * 256 + (128 * 128 + 128) + (6 + 1 + 11) * 128
BASELINES = {
    "any_subset": {"polymnist": 958_858},
    "concat": {"polymnist": VECTORS + 25_610},
    "dynmm": {"polymnist": 1_314_310},
    "late_fusion:unimodal": {"polymnist": VECTORS + 5 * 5_130},
    "m3care": {"polymnist": 2_591_834},
    "m3care:m3care-dagger": {"polymnist": 2_591_834},
    "map": {"polymnist": 1_045_834, "mst": 732_826 + 7 * 2 * 4 * 32},
    "map:map-dagger": {"polymnist": 1_045_834, "mst": 732_826 + 7 * 2 * 4 * 32},
    "moddrop": {"polymnist": 950_602, "mst": 732_826, "celeba": 34_712_386},
    "mopoe": {"polymnist": 5_130},
    "mtl": {"polymnist": 954_442},
    "multiae": {"polymnist": CODE + 5_130},
    "muse": {"polymnist": 2_075_978},
    "online_mae": {
        "polymnist": VECTORS + 5 * (512 * 128 + 128 + 2 * 128) + AUTOENCODER + 2 * BLOCK + 1290 + (1 + 1 + 5) * 128
    },
    "pdf": {"polymnist": VECTORS + 5 * 5_130 + 5 * 1_050_625},
    "qmf": {"polymnist": VECTORS + 5 * 5_130},
}


@pytest.mark.parametrize(("row", "name"), [(row, name) for row, sizes in BASELINES.items() for name in sizes])
def test_a_baseline_has_the_published_size(row, name):
    method, _, variant = row.partition(":")
    benchmark = BENCHMARKS.get(name)
    stage = last_stage(benchmark, method, variant or method, 0)
    module = (helpers.weightless if stage.needs else helpers.untrained)(stage, helpers.zeros(benchmark))
    assert sum(each.numel() for each in module.parameters() if each.requires_grad) == BASELINES[row][name]
