"""TIP: a table's missing cells from what is left of it and from an image, by a pre-trained Transformer (Du et al. 2024).

    loss = (contrast + matching + reconstruction) / 3

contrast: image and table of a sample find each other among the batch; matching: does this table belong to this image;
reconstruction: half of a sample's cells from the other half and the image.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.data import Dataset
from gauge.data.augmentation import corrupt
from gauge.model.nn.conv import ConvMap
from gauge.model.nn.resnet import ResNet
from gauge.model.nn.streams import side_by_side
from gauge.model.nn.tabular import CellHeads, Interaction, TabularTransformer, by_cell, check_columns, share_of
from gauge.randomness import choose, derive, uniform
from gauge.registry import pick
from gauge.types import Batch, Imputer

__all__ = ["TIP", "Sizes", "Pretraining", "Roles"]


@dataclass(frozen=True)
class Sizes:
    """Width, depth and heads of both Transformers, depth of the ResNet (0: a few convolutions instead) and the state file
    that it starts from, width of the space of the contrast; with `waves` columns of numbers have weights of their own."""

    width: int = 512
    depth: int = 4
    heads: int = 8
    resnet: int = 50
    projection: int = 128
    weights: str | None = None
    waves: int = 0


@dataclass(frozen=True)
class Pretraining:
    """The contrast's temperature, and the shares of a sample's observed cells that are hidden and that are corrupted."""

    temperature: float = 0.1
    masked: float = 0.5
    corrupted: float = 0.3


class Roles(NamedTuple):
    """What is the table, what is the image, and the shape of each."""

    table: str
    image: str
    shapes: dict[str, tuple[int, ...]]


class TIP(Imputer):
    """Fills the table alone: a sample without its image is an error. One deterministic pass, in eval mode.

    NOTE[PAPER] tip-categories: published code takes the likeliest category of all columns and clamps it into the column,
    which makes it the first or last one when it belonged elsewhere; ours is the likeliest of the column's own.
    `unrestricted=True` is the published choice.

    >>> inputs = {"photo": torch.rand(4, 3, 8, 8), "data": torch.tensor([[0.0, 0.3], [2, 0.1], [1, 0.7], [2, 0.5]])}
    >>> train = Dataset("train", inputs, torch.zeros(4).long())
    >>> imputer = TIP.of(train, cardinalities=(3, 1), width=16, depth=1, heads=2, resnet=18)
    >>> list(imputer.loss(train.batch(torch.arange(4))))
    ['contrast', 'matching', 'reconstruction']
    """

    needs_table = True
    needs_image = True

    def __init__(
        self,
        roles: Roles,
        cardinalities: Sequence[int],
        *,
        sizes: Sizes | None = None,
        pretraining: Pretraining | None = None,
        unrestricted: bool = False,
    ) -> None:
        super().__init__()
        sizes = sizes or Sizes()
        self.roles = roles
        self.pretraining = pretraining or Pretraining()
        transformer = {"depth": sizes.depth, "heads": sizes.heads}
        shape = roles.shapes[roles.image]
        self.photo = ResNet(shape, sizes.resnet, sizes.weights) if sizes.resnet else ConvMap(shape)
        columns = check_columns(roles.shapes[roles.table], cardinalities)
        self.table = TabularTransformer(columns, sizes.width, **transformer, waves=sizes.waves)
        self.interact = Interaction(self.photo.channels, sizes.width, **transformer)
        self.heads = CellHeads(self.table.columns, sizes.width, unrestricted=unrestricted)
        self.project_image = _projector(self.photo.channels, sizes.projection)
        self.project_table = _projector(sizes.width, sizes.projection)
        self.match = nn.Linear(sizes.width, 2)
        self.register_buffer("masked", share_of(self.pretraining.masked, len(cardinalities)), persistent=False)
        self.masked: Tensor

    @classmethod
    def of(
        cls,
        train: Dataset,
        table: str | None = None,
        image: str | None = None,
        *,
        cardinalities: Sequence[int] | None = None,
        unrestricted: bool = False,
        **options: Any,
    ) -> Self:
        """Table and image need no names where the data has one of each. Columns hold numbers unless `cardinalities` says
        how many categories they have. The other options are the fields of `Sizes` and `Pretraining`.
        """
        sizes = {each.name: options.pop(each.name) for each in fields(Sizes) if each.name in options}
        roles = _roles(train, table, image)
        _check_images(train.observed[roles.image], roles.image, torch.arange(len(train), device=train.device))
        return cls(
            roles,
            check_columns(roles.shapes[roles.table], cardinalities),
            sizes=Sizes(**sizes),
            pretraining=Pretraining(**options),
            unrestricted=unrestricted,
        )

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """A missing cell is neither read, nor corrupted or hidden, nor scored."""
        image, table, observed = self._readable(batch)
        hidden = choose(derive(batch.key, "masked"), observed, self.masked)
        tables = torch.cat([corrupt(table, observed, batch.key, self.pretraining.corrupted), table])
        visible = torch.cat([observed, observed & ~hidden])
        features, columns = side_by_side([partial(self.photo, image), partial(self.table, tables, visible)])
        (corrupted, half), seen = columns.chunk(2), self.interact.read(_tokens(features))

        likeness = self._likeness(features, corrupted)
        own = torch.arange(len(batch), device=table.device)
        contrast = (F.cross_entropy(likeness, own) + F.cross_entropy(likeness.T, own)) / 2
        wrong_table = hard_negatives(likeness, derive(batch.key, "table"))
        wrong_image = hard_negatives(likeness.T, derive(batch.key, "image"))

        tables = torch.cat([corrupted, corrupted[wrong_table], corrupted])
        images = seen[torch.cat([own, own, wrong_image])]
        pairs, half = self.interact(tables, images, reads=1), self.interact(half, seen)
        matches = (torch.arange(len(pairs), device=table.device) < len(batch)).long()
        matching = F.cross_entropy(self.match(pairs[:, 0]), matches)
        reconstruction = self.heads.cost(half[:, 1:], table, hidden)
        return {"contrast": contrast / 3, "matching": matching / 3, "reconstruction": reconstruction / 3}

    @torch.no_grad()
    def complete(self, batch: Batch) -> Batch:
        image, table, observed = self._readable(batch)
        features, columns = side_by_side([partial(self.photo, image), partial(self.table, table, observed)])
        states = self.interact(columns, self.interact.read(_tokens(features)))[:, 1:]
        return batch.filled({self.roles.table: self.heads(states)})

    def _readable(self, batch: Batch) -> tuple[Float[Tensor, "b ch h w"], Float[Tensor, "b f"], Bool[Tensor, "b f"]]:
        """Image and table with zeros where nothing was observed, and a flag for each cell.

        Only batches on the CPU are looked at for missing images: on a GPU the look would make the device wait.
        """
        shapes = {name: tuple(values.shape[1:]) for name, values in batch.inputs.items()}
        if shapes != self.roles.shapes:
            raise ValueError(
                f"the batch has {_text(shapes)}, this imputer was made for {_text(self.roles.shapes)}; "
                "make one for this data"
            )
        if not batch.key.is_cuda:
            _check_images(batch.observed[self.roles.image], self.roles.image, batch.index)
        clean = batch.filled({name: values.new_zeros(()) for name, values in batch.inputs.items()})
        table = clean.inputs[self.roles.table]
        return clean.inputs[self.roles.image], table, by_cell(batch.observed[self.roles.table], table)

    def _likeness(self, features: Float[Tensor, "b c h w"], table: Float[Tensor, "b s d"]) -> Float[Tensor, "b b"]:
        """How well each image (row) and each table (column) fit, in units of the temperature."""
        image = self.project_image(features.mean((2, 3)))
        table = self.project_table(table[:, 0])
        with torch.autocast(image.device.type, enabled=False):
            return F.normalize(image.float()) @ F.normalize(table.float()).T / self.pretraining.temperature


def hard_negatives(likeness: Float[Tensor, "b b"], key: Int[Tensor, "b"]) -> Int[Tensor, "b"]:
    """For every row another column, with probability proportional to softmax(likeness) + 1e-4; the largest of
    log p + Gumbel noise is such a draw."""
    weight = likeness.detach().softmax(1) + 1e-4
    gumbel = -(-uniform(key, len(weight)).log()).log()
    itself = torch.eye(len(weight), dtype=torch.bool, device=weight.device)
    return (weight.log() + gumbel).masked_fill(itself, -torch.inf).argmax(1)


def _projector(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, inputs), nn.ReLU(), nn.Linear(inputs, outputs))


def _tokens(features: Float[Tensor, "b c h w"]) -> Float[Tensor, "b n c"]:
    return features.flatten(2).transpose(1, 2)


def _roles(train: Dataset, table: str | None, image: str | None) -> Roles:
    flags = train.layout
    tables = [name for name, shape in train.shapes.items() if flags[name] is not None or len(shape) == 1]
    images = [name for name, shape in train.shapes.items() if len(shape) == 3 and flags[name] is None]
    for name in (table, image):
        if name is not None:
            pick(train.shapes, name, "modality")
    chosen = (table or _only(tables, "table"), image or _only(images, "image"))
    others = set(train.shapes) - set(chosen)
    if others:
        raise ValueError(f"TIP reads one table and one image; the data also has {sorted(others)}: leave it out")
    return Roles(*chosen, train.shapes)


def _only(names: Sequence[str], what: str) -> str:
    if len(names) != 1:
        raise ValueError(f"TIP needs one {what}, found {len(names)} {list(names)}; name it: {what}=...")
    return names[0]


def _check_images(observed: Tensor, name: str, index: Tensor) -> None:
    missing = ~observed.reshape(len(index), -1).all(1)
    if missing.any():
        raise ValueError(
            f"sample {int(index[missing][0])} has no {name!r} ({int(missing.sum())} such); TIP completes tables from "
            "images and cannot go without: drop these samples or choose another imputer"
        )


def _text(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
