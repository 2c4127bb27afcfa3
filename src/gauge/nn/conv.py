"""Small convolution networks, image or text -> [b, outputs] and back: each ends, or begins, in one Linear layer."""

import math
from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

CHANNELS = (32, 64, 128)  # PolyMNIST's
GPU_LAYOUT = torch.channels_last  # the one that tensor cores read


def for_convolution(images: Tensor) -> Tensor:
    """The same images, in the layout in which convolutions are fast on their device."""
    return images.contiguous(memory_format=GPU_LAYOUT) if images.is_cuda else images


def conv_trunk(channels: Sequence[int]) -> nn.Sequential:
    """3x3 convolutions of stride 2 with ReLU: [b, channels[0], side, side] -> [b, channels[-1], side / 2^d, ...]."""
    layers: list[nn.Module] = []
    for before, after in pairwise(channels):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.ReLU()]
    return nn.Sequential(*layers)


def deep_trunk(channels: Sequence[int]) -> "DeepTrunk":
    """Two 3x3 convolutions with BatchNorm and ReLU before each halving; the same sides as `conv_trunk`. Pooling comes before
    the second ReLU, which gives the same and leaves it a quarter of the values."""
    layers: list[nn.Module] = []
    for before, after in pairwise(channels):
        for inputs in (before, after):
            layers += [nn.Conv2d(inputs, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        layers.insert(-1, Halve(ceil_mode=True))
    return DeepTrunk(*layers)


class ConvMap(nn.Module):
    """A square image -> its last feature map, [b, channels, side, side]: a small stand-in for `ResNet`."""

    def __init__(self, shape: Sequence[int], channels: Sequence[int] = CHANNELS) -> None:
        super().__init__()
        self.side, self.channels = trunk_sides(square_side(shape), len(channels))[-1], channels[-1]
        self.trunk = conv_trunk((shape[0], *channels))

    def forward(self, x: Tensor) -> Tensor:
        return self.trunk(x)


def trunk_sides(side: int, depth: int) -> list[int]:
    """The side before and after every layer of a trunk.

    >>> trunk_sides(28, 3)
    [28, 14, 7, 4]
    """
    return [math.ceil(side / 2**layer) for layer in range(depth + 1)]


def square_side(shape: Sequence[int]) -> int:
    """The side of a square image of shape [channels, side, side]."""
    if len(shape) != 3 or shape[1] != shape[2]:
        raise ValueError(f"a convolution stack reads square images [channels, side, side], not {list(shape)}")
    return shape[1]


def check_shape(name: str, shape: Sequence[int], wanted: Sequence[int | str]) -> None:
    """Raise an error unless the shape is the expected one, in which a word stands for any number."""
    fitting = [given if isinstance(size, str) else size for size, given in zip(wanted, shape, strict=False)]
    if len(shape) != len(wanted) or list(shape) != fitting:
        raise ValueError(
            f"{name} reads [{', '.join(map(str, wanted))}], not {list(shape)}; resize the input or choose another network"
        )


class DeepTrunk(nn.Sequential):
    """Groups of convolution, BatchNorm and ReLU, which pools interrupt. Where nothing is learned on a GPU, a group is one
    kernel before its pool, whose convolution has the scale and the shift of its BatchNorm."""

    def forward(self, x: Tensor) -> Tensor:
        x = for_convolution(x)
        if self.training or torch.is_grad_enabled() or not x.is_cuda or torch.is_autocast_enabled("cuda"):
            return super().forward(x)
        layers = iter(self)
        for layer in layers:
            if isinstance(layer, nn.Conv2d):
                assert not isinstance(layer.padding, str)
                weight, shift = folded(layer, next(layers))
                x = torch.cudnn_convolution_relu(
                    x, weight, shift, layer.stride, layer.padding, layer.dilation, layer.groups
                )
            elif not isinstance(layer, nn.ReLU):
                x = layer(x)
        return x


class Halve(nn.MaxPool2d):
    """A 2x2 max-pool. Where nothing is learned on a GPU, it is a maximum if the sides are even: torch's pooling also writes
    where each maximum was, and takes twice as long."""

    def __init__(self, *, ceil_mode: bool = False) -> None:
        super().__init__(2, ceil_mode=ceil_mode)

    def forward(self, x: Tensor) -> Tensor:
        if not x.is_cuda or torch.is_grad_enabled() or x.shape[2] % 2 or x.shape[3] % 2:
            return super().forward(x)
        return block_maxima(x)


def block_maxima(x: Tensor) -> Tensor:
    """The largest of every 2x2 block of an image with even sides."""
    count, channels, height, width = x.shape
    blocks = x.permute(0, 2, 3, 1).reshape(count, height // 2, 2, width // 2, 2, channels)
    return blocks.amax((2, 4)).permute(0, 3, 1, 2)


def folded(convolution: nn.Conv2d, norm: nn.Module) -> tuple[Tensor, Tensor]:
    """The weights and the bias of a convolution without bias that a BatchNorm with running statistics follows."""
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
    return convolution.weight * scale[:, None, None, None], norm.bias - norm.running_mean * scale


class Transpose(nn.Module):
    """Text [b, length, symbols] -> [b, symbols, length], as convolutions read it, and back."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


def conv_image(
    shape: Sequence[int], outputs: int, channels: Sequence[int] = CHANNELS, hidden: int | None = None
) -> nn.Sequential:
    """A square image through the trunk and, with `hidden`, a hidden layer."""
    features = channels[-1] * trunk_sides(square_side(shape), len(channels))[-1] ** 2
    layers: OrderedDict[str, nn.Module] = OrderedDict(trunk=conv_trunk((shape[0], *channels)))
    if hidden is None:
        layers["flatten"] = nn.Flatten()
    else:
        layers["hidden"] = nn.Sequential(nn.Flatten(), nn.Linear(features, hidden), nn.ReLU())
    layers["heads"] = nn.Linear(hidden or features, outputs)
    return nn.Sequential(layers)


def conv_image_decoder(shape: Sequence[int], latent: int, channels: Sequence[int] = CHANNELS) -> nn.Sequential:
    """The mirror image of the trunk in transposed convolutions, without output activation."""
    sides, widths = trunk_sides(square_side(shape), len(channels)), (shape[0], *channels)
    first = (widths[-1], sides[-1], sides[-1])
    start = nn.Sequential(nn.Linear(latent, math.prod(first)), nn.ReLU(), nn.Unflatten(1, first))
    layers: list[nn.Module] = []
    for (after, before), (large, small) in reversed([*zip(pairwise(widths), pairwise(sides), strict=True)]):
        upsample = nn.ConvTranspose2d(before, after, 3, stride=2, padding=1, output_padding=large - 2 * small + 1)
        layers += [upsample, nn.ReLU()]
    return nn.Sequential(OrderedDict(start=start, layers=nn.Sequential(*layers[:-1])))


def conv_vector(shape: Sequence[int], outputs: int) -> nn.Sequential:
    """An image of side 32 through four 4x4 convolutions of stride 2, down to a single position (SVHN)."""
    check_shape("conv_vector", shape, ("channels", 32, 32))
    layers: list[nn.Module] = []
    for (before, after), padding in zip(pairwise((shape[0], 32, 64, 64, 128)), (1, 1, 1, 0), strict=True):
        layers += [nn.Conv2d(before, after, 4, stride=2, padding=padding), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128, outputs))


def conv_vector_decoder(shape: Sequence[int], latent: int) -> nn.Sequential:
    """From a single position back to an image of side 32, without output activation."""
    check_shape("conv_vector", shape, ("channels", 32, 32))
    layers: list[nn.Module] = [nn.Linear(latent, 128), nn.ReLU(), nn.Unflatten(1, (128, 1, 1))]
    layers.append(nn.ConvTranspose2d(128, 64, 4))
    for before, after in pairwise((64, 64, 32, shape[0])):
        layers += [nn.ReLU(), nn.ConvTranspose2d(before, after, 4, stride=2, padding=1)]
    return nn.Sequential(*layers)


def conv_text(shape: Sequence[int], outputs: int, width: int = 128) -> nn.Sequential:
    """One-hot text of eight positions through a 1x1 and two 4x1 convolutions, down to a single position (MST)."""
    check_shape("conv_text", shape, (8, "symbols"))
    return nn.Sequential(
        Transpose(),
        nn.Conv1d(shape[1], width, 1),
        nn.ReLU(),
        nn.Conv1d(width, width, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv1d(width, width, 4, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(width, outputs),
    )


def conv_text_decoder(shape: Sequence[int], latent: int, width: int = 128) -> nn.Sequential:
    """From a single position back to eight: the logits of every symbol at every position."""
    check_shape("conv_text", shape, (8, "symbols"))
    return nn.Sequential(
        nn.Linear(latent, width),
        nn.Unflatten(1, (width, 1)),
        nn.ConvTranspose1d(width, width, 4),
        nn.ReLU(),
        nn.ConvTranspose1d(width, width, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv1d(width, shape[1], 1),
        Transpose(),
    )
