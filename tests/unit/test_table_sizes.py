"""Networks of tables and photographs have the published sizes, grids and names."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from gauge import UnitEncoder
from gauge.encoders.resnet_grid import ResnetGrid
from gauge.imputers.tip import TIP, Roles
from gauge.nn.resnet import ResNet
from gauge.registry import ENCODERS
from gauge_lab.encoders.tabular import Tabular

DVM = (22, 13, 3, 12) + (1,) * 13
UKBB = (2,) * 13 + (3, 6, 4, 3, 3, 8, 8, 8, 3, 8, 3, 4, 3) + (1,) * 49


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(("cardinalities", "size"), [(DVM, 12_641_280), (UKBB, 12_691_456)])
def test_the_encoder_of_a_table_has_the_published_size_and_so_has_its_projection(cardinalities, size):
    with torch.device("meta"):
        encoder = Tabular((len(cardinalities),), 256, cardinalities)
        vector = ENCODERS.get("tabular_vector")((len(cardinalities),), 256, cardinalities=cardinalities)
    assert parameters(encoder) == size
    assert parameters(UnitEncoder({"table": encoder}, 256).project) == 131_328
    assert parameters(vector) == size + 131_328


@pytest.mark.parametrize(("depth", "size", "width"), [(50, 23_508_032, 2048), (18, 11_176_512, 512)])
def test_a_resnet_has_the_published_size_and_so_has_its_projection(depth, size, width):
    with torch.device("meta"):
        encoder = ResnetGrid((3, 128, 128), 256, depth=depth)
        vector = ENCODERS.get("resnet_vector")((3, 128, 128), 256, depth=depth)
    assert parameters(encoder) == size
    assert encoder.width == width
    assert parameters(UnitEncoder({"photo": encoder}, 256).project) == width * 256 + 256
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


@pytest.mark.parametrize(("pixels", "side"), [(96, 3), (128, 4), (160, 5), (192, 6), (224, 7), (256, 8)])
def test_a_resnet_gives_the_published_grid(pixels, side):
    with torch.device("meta"):
        encoder = ResnetGrid((3, pixels, pixels), 256)
        units = encoder(torch.empty(2, 3, pixels, pixels), torch.empty(2, dtype=torch.bool))
    assert encoder.units == side * side
    assert units.shape == (2, side * side, 2048)


def test_units_of_a_resnet_go_row_by_row():
    encoder = ResnetGrid((3, 64, 64), 8, depth=18).eval()
    x = torch.rand(1, 3, 64, 64)
    grid = encoder.layers(x)
    torch.testing.assert_close(encoder(x, torch.ones(1) > 0)[0, 1], grid[0, :, 0, 1])


TORCHVISION = {  # names and shapes of torchvision's resnet50, here and there
    "conv1.weight": (64, 3, 7, 7),
    "bn1.running_mean": (64,),
    "layer1.0.conv1.weight": (64, 64, 1, 1),
    "layer1.0.downsample.0.weight": (256, 64, 1, 1),
    "layer1.0.downsample.1.running_var": (256,),
    "layer2.0.conv2.weight": (128, 128, 3, 3),
    "layer3.5.bn3.weight": (1024,),
    "layer4.2.conv3.weight": (2048, 512, 1, 1),
}


def test_parameters_are_named_as_torchvision_names_them():
    with torch.device("meta"):
        state = ResNet((3, 64, 64)).state_dict()
    assert {name: tuple(state[name].shape) for name in TORCHVISION} == TORCHVISION
    assert len(state) == 320 - 2  # torchvision's, without fc
    assert "layer1.1.downsample.0.weight" not in state
    assert ResNet((3, 64, 64), 18).layer2[0].conv1.stride == (2, 2)


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


def test_a_file_that_does_not_fit_is_an_error_that_says_what_differs(state, tmp_path):
    path = tmp_path / "weights.pth"
    torch.save(state, path)
    with pytest.raises(ValueError, match="does not fit ResNet-50 with 3 channels: it lacks 'layer1.0.bn3.bias'"):
        ResNet((3, 64, 64), 50, path)
    with pytest.raises(ValueError, match=r"it has other shapes of 'conv1.weight' \(1 such\); give the state of"):
        ResNet((1, 64, 64), 18, path)
    torch.save(state | {"head.weight": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match=r"it also has 'head.weight' \(1 such\)"):
        ResNet((3, 64, 64), 18, path)
    torch.save(nn.Linear(1, 1), path)
    with pytest.raises(ValueError, match="holds more than tensors; give a plain state file"):
        ResNet((3, 64, 64), 18, path)
    torch.save([torch.zeros(1)], path)
    with pytest.raises(ValueError, match="holds a list, not a state"):
        ResNet((3, 64, 64), 18, path)


def test_what_a_network_cannot_read_is_an_error():
    with pytest.raises(ValueError, match="there is no ResNet of depth 34; use one of 18, 50"):
        ResNet((3, 64, 64), 34)
    with pytest.raises(
        ValueError, match=r"cardinalities \[3, 1\] do not describe a table of 3 columns; give one number"
    ):
        Tabular((3,), 8, (3, 1))
    with pytest.raises(ValueError, match=r"a table has shape \[columns\], not \[3, 4\]"):
        Tabular((3, 4), 8)
