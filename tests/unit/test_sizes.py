"""Networks have the published sizes: parameters one by one, sides layer by layer."""

import pytest
import torch
from torch import Tensor, nn

from gauge import Dataset
from gauge.imputers.mopoe import MoPoE
from gauge.nn import residual
from gauge.nn.conv import block_maxima, folded
from gauge.registry import ENCODERS

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
    coders = {"mnist": "mlp", "svhn": "conv_vector", "text": "conv_text"}
    weights = {"mnist": 3072 / 784, "svhn": 1.0, "text": 384.0}
    assert parameters(MoPoE.from_dataset(zeros(MST), latent=20, coders=coders, weights=weights)) == 1_411_826


def test_the_imputer_of_celeba_has_the_published_size():
    mopoe = MoPoE.from_dataset(
        zeros(CELEBA),
        latent=32,
        style=32,
        beta_style=2.0,
        coders={"img": "residual_image", "text": "residual_text"},
        weights={"img": 1 / 3, "text": 16.0},
        style_weights={"img": 1.0, "text": 5.0},
    )
    assert parameters(mopoe) == 70_326_218


def sides(network: nn.Sequential, x: Tensor) -> list[int]:
    """The side after every convolution or block."""
    emitted: list[int] = []
    kinds = (residual.ResidualBlock, nn.Conv1d, nn.Conv2d, nn.ConvTranspose1d, nn.ConvTranspose2d)
    for layer in network:
        if isinstance(layer, kinds):
            layer.register_forward_hook(lambda module, inputs, output: emitted.append(output.shape[-1]))
    network.eval()(x)
    return emitted


def test_residual_networks_halve_and_double_as_published():
    image, text = CELEBA.values()
    assert sides(residual.residual_image(image, 5, 2), torch.zeros(1, *image)) == [33, 16, 8, 4, 1]
    assert sides(residual.residual_text(text, 5, 2), torch.zeros(1, *text)) == [128, 64, 32, 16, 8, 4, 1]
    assert sides(residual.residual_image_decoder(image, 5, 2), torch.zeros(1, 5)) == [4, 8, 16, 32, 64]
    assert sides(residual.residual_text_decoder(text, 5, 2), torch.zeros(1, 5)) == [4, 8, 16, 32, 64, 128, 256]


def test_a_residual_block_is_twice_its_shortcut_and_a_third_of_its_branch():
    block = residual.ResidualBlock(3, 4, dims=2).eval()
    x = torch.rand(2, 3, 8, 8)
    torch.testing.assert_close(block(x), 2 * block.shortcut(x) + 0.3 * block.branch(x))
    dropout = [type(layer) for layer in block.branch if isinstance(layer, nn.Dropout | nn.Dropout2d)]
    assert dropout == [nn.Dropout2d] * 2
    assert [type(layer) for layer in residual.ResidualBlock(3, 4, dims=1).branch].count(nn.Dropout) == 2


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_maxima_of_blocks_are_those_of_a_pool(layout):
    x = torch.randn(3, 5, 6, 4).contiguous(memory_format=layout)
    assert torch.equal(block_maxima(x), nn.functional.max_pool2d(x, 2))


def test_a_folded_norm_is_part_of_its_convolution():
    convolution, norm = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4).eval()
    for values in (*norm.parameters(), norm.running_mean, norm.running_var):
        nn.init.uniform_(values, 0.5, 2.0)
    x = torch.rand(2, 3, 8, 8)
    torch.testing.assert_close(nn.functional.conv2d(x, *folded(convolution, norm)), norm(convolution(x)))


@pytest.mark.parametrize(("name", "shape"), [("conv_vector", (3, 28, 28)), ("residual_text", (8, 71))])
def test_a_network_that_does_not_fit_the_input_says_what_it_reads(name, shape):
    with pytest.raises(ValueError, match=f"{name} reads .* not .*; resize the input or choose another network"):
        ENCODERS.get(name)(shape, 8)
