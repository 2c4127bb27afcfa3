"""ResNet-18 and 50 without their classifier: image -> the last feature map, under torchvision's parameter names."""

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import load_file
from torch import Tensor, nn

from gauge.nn.conv import square_side, trunk_sides


class Basic(nn.Module):
    """Two 3x3 convolutions; the first takes the stride."""

    expansion = 1

    def __init__(self, before: int, inner: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, inner, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = nn.Conv2d(inner, inner, 3, padding=1, bias=False), nn.BatchNorm2d(inner)
        self.downsample = _shortcut(before, inner, stride)

    def forward(self, x: Tensor) -> Tensor:
        branch = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(branch + self.downsample(x))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions; the 3x3 one takes the stride."""

    expansion = 4

    def __init__(self, before: int, inner: int, stride: int) -> None:
        super().__init__()
        after = self.expansion * inner
        self.conv1, self.bn1 = nn.Conv2d(before, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = nn.Conv2d(inner, inner, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = nn.Conv2d(inner, after, 1, bias=False), nn.BatchNorm2d(after)
        self.downsample = _shortcut(before, after, stride)

    def forward(self, x: Tensor) -> Tensor:
        branch = torch.relu(self.bn1(self.conv1(x)))
        branch = torch.relu(self.bn2(self.conv2(branch)))
        return torch.relu(self.bn3(self.conv3(branch)) + self.downsample(x))


class ResNet(nn.Module):
    """A square image -> [b, channels, side, side], the side halved five times. `weights` is a state file of torchvision.

    >>> network = ResNet((3, 128, 128), 18)
    >>> network.channels, network.side
    (512, 4)
    """

    def __init__(self, shape: Sequence[int], depth: int = 50, weights: str | Path | None = None) -> None:
        stages = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}
        super().__init__()
        if depth not in stages:
            raise ValueError(f"there is no ResNet of depth {depth}; use one of {', '.join(map(str, stages))}")
        self.depth, self.side = depth, trunk_sides(square_side(shape), 5)[-1]
        block: type[Basic] | type[Bottleneck] = Basic if depth == 18 else Bottleneck
        self.conv1, self.bn1 = nn.Conv2d(shape[0], 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        before = 64
        for stage, count in enumerate(stages[depth]):
            inner, layers = 64 * 2**stage, []
            for index in range(count):
                layers.append(block(before, inner, stride=2 if stage and not index else 1))
                before = block.expansion * inner
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layers))
        self.channels = before
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        if weights is not None:
            self._load(weights)

    def forward(self, x: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b c side side"]:
        x = x.contiguous(memory_format=torch.channels_last)  # the layout that tensor cores read
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        for stage in range(1, 5):
            x = self.get_submodule(f"layer{stage}")(x)
        return x

    def _load(self, path: str | Path) -> None:
        """Loads everything but the classifier. Files of old PyTorch versions lack BatchNorm's `num_batches_tracked`."""
        state = {name: values for name, values in _read(Path(path)).items() if not name.startswith("fc.")}
        own = self.state_dict()
        wrong = {
            "lacks": {name for name in own if not name.endswith("num_batches_tracked")} - set(state),
            "also has": set(state) - set(own),
            "has other shapes of": {name for name in set(own) & set(state) if _shape(state[name]) != _shape(own[name])},
        }
        problems = [f"{what} {min(names)!r} ({len(names)} such)" for what, names in wrong.items() if names]
        if problems:
            raise ValueError(
                f"{path} does not fit ResNet-{self.depth} with {self.conv1.in_channels} channels: it "
                f"{', '.join(problems)}; give the state of torchvision's resnet{self.depth}"
            )
        self.load_state_dict(state)


def _shortcut(before: int, after: int, stride: int) -> nn.Module:
    if before == after and stride == 1:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after))


def _read(path: Path) -> dict[str, Any]:
    """The tensors in a state file; nothing in it is executed."""
    if path.suffix == ".safetensors":
        return load_file(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, pickle.UnpicklingError) as error:
        raise ValueError(
            f"{path} cannot be read, or holds more than tensors; give a plain state: torch.save(model.state_dict(), ...)"
        ) from error
    if not isinstance(state, dict):
        raise ValueError(f"{path} holds a {type(state).__name__}, not a state; save model.state_dict()")
    return state


def _shape(values: Any) -> tuple[int, ...] | None:
    return tuple(values.shape) if isinstance(values, Tensor) else None
