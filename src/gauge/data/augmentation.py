"""Training augmentation: random changes of the images and tables of a batch, each drawn by its sample's key."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gauge.choices import pick
from gauge.masks import FeatureCounts
from gauge.randomness import choose, derive, uniform
from gauge.values import Batch, over_values

KERNEL, SIGMA = 29, (0.1, 2.0)  # of the blur, in pixels


@dataclass(frozen=True)
class Augmentation:
    """Random changes of a training sample, made to image and table together with probability `applied`.

    `jitter` is the largest deviation of brightness, contrast and saturation from 1, `hue` the largest turn of the hue (1:
    once around), both with probability `jittered`. `rotate` is the largest angle in degrees, with probability `rotated`,
    `crop` the range of the kept area, `corrupt` a share of the columns. The others are probabilities.
    """

    jitter: float = 0.0
    hue: float = 0.0
    jittered: float = 0.0
    grayscale: float = 0.0
    blur: float = 0.0
    rotate: float = 0.0
    rotated: float = 0.0
    crop: tuple[float, float] = (1.0, 1.0)
    flip: float = 0.0
    upend: float = 0.0  # flips top and bottom
    corrupt: float = 0.3
    applied: float = 0.95


CARS = Augmentation(jitter=0.8, hue=0.2, jittered=0.8, grayscale=0.2, blur=0.5, crop=(0.6, 1.0), flip=0.5)
HEARTS = Augmentation(jitter=0.5, hue=0.2, jittered=0.5, rotate=45.0, rotated=0.5, crop=(0.6, 1.0), flip=0.5)
LESIONS = Augmentation(jitter=0.2, jittered=1.0, rotate=180.0, rotated=1.0, crop=(0.7, 1.0), flip=0.5, upend=0.5)
LEAVES = Augmentation(rotate=180.0, rotated=1.0, crop=(0.8, 1.0), flip=0.5, upend=0.5)

AUGMENTATIONS = {
    "cars": CARS,
    "hearts": HEARTS,
    "lesions": LESIONS,
    "leaves": LEAVES,
    "faces": Augmentation(crop=(0.8, 1.0), flip=0.5, corrupt=0.0),  # no cell changes: each is part of the question
    "digits": Augmentation(rotate=12.0, rotated=1.0, crop=(0.75, 1.0), corrupt=0.0),
    # TIP corrupts tables itself, and is published with smaller crops than the classifiers
    "cars-tip": replace(CARS, crop=(0.08, 1.0), corrupt=0.0),
    "hearts-tip": replace(HEARTS, crop=(0.2, 1.0), corrupt=0.0),
    "lesions-tip": replace(LESIONS, corrupt=0.0),
    "leaves-tip": replace(LEAVES, corrupt=0.0),
}


def mixes_samples(name: str, features: FeatureCounts) -> bool:
    """Whether the augmentation of a sample depends on its batch: cells of tables are replaced by those of other samples."""
    cells = any(count is not None for count in features.values())
    return bool(name) and cells and pick(AUGMENTATIONS, name, "augmentation").corrupt > 0


def augment(batch: Batch, name: str) -> Batch:
    """The batch with random changes of images (values from 0 to 1) and of tables with a flag for each cell. Images of one
    channel have no colour that could change. Missing values stay unchanged.

    >>> batch = Batch({"photo": torch.rand(4, 3, 8, 8)}, {"photo": torch.tensor([True, True, True, False])})
    >>> same = augment(batch, "cars").inputs["photo"] == batch.inputs["photo"]
    >>> same.flatten(1).all(1).tolist()
    [False, False, False, True]
    """
    how = pick(AUGMENTATIONS, name, "augmentation")
    key = derive(batch.key, "augmentation")
    applied = uniform(key, 1)[:, 0] < how.applied
    inputs = dict(batch.inputs)
    for modality, values in inputs.items():
        observed, own = batch.observed[modality], derive(key, modality)
        if values.ndim == 4 and values.shape[1] in (1, 3) and observed.ndim == 1:
            changed = _change(values.float(), how, own).to(values.dtype)
            inputs[modality] = torch.where(over_values(applied & observed, values), changed, values)
        elif values.ndim == 2 and observed.ndim == 2 and how.corrupt:
            inputs[modality] = torch.where(applied[:, None], corrupt(values, observed, own, how.corrupt), values)
    return replace(batch, inputs=inputs)


def corrupt(
    table: Float[Tensor, "b f"], observed: Bool[Tensor, "b f"], key: Int[Tensor, "b"], share: float
) -> Float[Tensor, "b f"]:
    """The table with that share of each sample's observed cells, rounded down, replaced by cells of other samples.

    NOTE[PAPER] tip-marginals: published code draws replacements from the column in the whole split; ours from the batch.
    """
    counts = (share * torch.arange(table.shape[1] + 1, dtype=torch.float64, device=table.device)).long()
    chosen = choose(derive(key, "corrupted"), observed, counts)
    count = observed.sum(0)
    donors = (~observed).to(torch.uint8).argsort(dim=0, stable=True)  # samples with a value first
    position = (uniform(derive(key, "donors"), table.shape[1]) * count).long().minimum(count - 1).clamp_min(0)
    return torch.where(chosen, table.gather(0, donors.gather(0, position)), table)


def _change(image: Float[Tensor, "b c h w"], how: Augmentation, key: Int[Tensor, "b"]) -> Float[Tensor, "b c h w"]:
    """NOTE[PAPER] augmentation-order: the library of the published code draws the order of brightness, contrast, saturation
    and hue for each image, and rotates hearts before changing their colours; here the order is fixed."""
    coloured = image.shape[1] == 3
    if how.jittered and coloured:
        whether, *draws = _draws(key, "colour", 5)
        image = torch.where(whether < how.jittered, _jitter(image, how, draws), image)
    if how.grayscale and coloured:
        (whether,) = _draws(key, "grayscale", 1)
        image = torch.where(whether < how.grayscale, _gray(image), image)
    if how.blur:
        whether, sigma = _draws(key, "blur", 2)
        image = torch.where(whether < how.blur, _blur(image, _between(*SIGMA, sigma)), image)
    return _move(image, how, _draws(key, "place", 8)).clamp(0, 1)


def _jitter(image: Tensor, how: Augmentation, draws: Sequence[Tensor]) -> Tensor:
    light, contrast, saturation = (_between(max(0.0, 1 - how.jitter), 1 + how.jitter, draw) for draw in draws[:3])
    image = (image * light).clamp(0, 1)
    image = torch.lerp(_gray(image).mean((2, 3), keepdim=True), image, contrast).clamp(0, 1)
    image = torch.lerp(_gray(image), image, saturation).clamp(0, 1)
    return _turn_hue(image, _between(-how.hue, how.hue, draws[3])) if how.hue else image


def _gray(image: Tensor) -> Float[Tensor, "b 1 h w"]:
    red, green, blue = image.split(1, 1)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def _turn_hue(image: Tensor, turn: Tensor) -> Tensor:
    """From RGB to HSV and back. The hue is in sixths of a turn: red 0, green 2, blue 4."""
    value, largest = image.max(1, keepdim=True)
    chroma = value - image.amin(1, keepdim=True)
    others = (image.roll(-1, 1) - image.roll(1, 1)).gather(1, largest)  # green - blue where red is largest
    hue = 2 * largest + others / chroma.clamp_min(1e-8) + 6 * turn
    away = (5 - 2 * torch.arange(3, device=hue.device)[:, None, None] + hue) % 6
    return value - chroma * away.minimum(4 - away).clamp(0, 1)


def _blur(image: Tensor, sigma: Tensor) -> Tensor:
    """A separate Gaussian for each image, first across, then down."""
    reach = min(KERNEL // 2, *(side - 1 for side in image.shape[2:]))
    distance = torch.arange(-reach, reach + 1, device=image.device)
    kernel = (-0.5 * (distance / sigma).square()).softmax(-1).repeat_interleave(image.shape[1], 0)
    flat = F.pad(image, (reach,) * 4, mode="reflect").flatten(0, 1)[None]
    for weight in (kernel, kernel.mT):
        flat = F.conv2d(flat, weight, groups=len(kernel))
    return flat.view_as(image)


def _move(image: Tensor, how: Augmentation, draws: Sequence[Tensor]) -> Tensor:
    """Crop, rotation and flips as one map from positions in the new image to those in the old one."""
    rotated, angle, area, shape, left, top, flip, upend = (draw[:, 0] for draw in draws)
    height, width = image.shape[2:]
    angle = torch.where(rotated < how.rotated, _between(-how.rotate, how.rotate, angle), 0.0).deg2rad()
    area = _between(*how.crop, area)
    longest = 4 / 3  # sides of a crop, the longer to the shorter
    shape = torch.exp(_between(-1.0, 1.0, shape) * (-area.log()).clamp_max(math.log(longest)))  # within the image
    wide, high = (area * shape).sqrt(), (area / shape).sqrt()
    x = _between(-1.0, 1.0, left) * (1 - wide) + wide * _centres(width, image.device)
    y = _between(-1.0, 1.0, top) * (1 - high) + high * _centres(height, image.device)[:, None]
    across = angle.cos() * x - angle.sin() * y * (height / width)
    down = angle.sin() * x * (width / height) + angle.cos() * y
    grid = torch.stack([torch.where(flip < how.flip, -across, across), torch.where(upend < how.upend, -down, down)], -1)
    return F.grid_sample(image, grid, padding_mode="reflection", align_corners=False)


def _centres(pixels: int, device: torch.device) -> Float[Tensor, "{pixels}"]:
    """The centres of pixels between -1 and 1."""
    return (2 * torch.arange(pixels, device=device) + 1) / pixels - 1


def _draws(key: Int[Tensor, "b"], purpose: str, count: int) -> tuple[Float[Tensor, "b 1 1 1"], ...]:
    return uniform(derive(key, purpose), count).T[..., None, None, None].unbind()


def _between(low: float, high: float, draw: Tensor) -> Tensor:
    return low + (high - low) * draw
