"""TIP: missing table cells from the other cells and an image, by a pre-trained Transformer (Du et al. 2024)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.choices import pick
from gauge.data import Dataset
from gauge.data.augmentation import corrupt
from gauge.nn.contrast import hard_negatives, projector
from gauge.nn.conv import ConvMap
from gauge.nn.resnet import ResNet
from gauge.nn.streams import side_by_side
from gauge.nn.tabular import CellHeads, by_cell, check_columns, share_of
from gauge.randomness import choose, derive
from gauge.types import Imputer, UnsupportedError
from gauge.values import Batch
from gauge_lab.transformers import Interaction, TabularTransformer

__all__ = ["TIP", "Sizes", "Roles"]


@dataclass(frozen=True)
class Sizes:
    """Width, depth and heads of both Transformers, depth of the ResNet (0: a few convolutions instead) and its initial
    state file, width of the contrast's space; with `waves` numeric columns have their own weights."""

    width: int = 512
    depth: int = 4
    heads: int = 8
    resnet: int = 50
    projection: int = 128
    weights: str | None = None
    waves: int = 0


class Roles(NamedTuple):
    """The names of the table and the image, and the shape of each modality."""

    table: str
    image: str
    shapes: dict[str, tuple[int, ...]]


class TIP(Imputer):
    """Imputes only the table, in one deterministic pass; a sample without its image is an error.

        loss = (contrast + matching + reconstruction) / 3

    contrast: image and table of a sample are matched within the batch; matching: does this table belong to this image;
    reconstruction: half of a sample's cells from the other half and the image.

    NOTE[PAPER] tip-categories: published code takes the most likely category of all columns and clamps it to the column's
    range (`unrestricted=True`); ours is the most likely category of the column itself.

    >>> inputs = {"photo": torch.rand(4, 3, 8, 8), "data": torch.tensor([[0.0, 0.3], [2, 0.1], [1, 0.7], [2, 0.5]])}
    >>> train = Dataset("train", inputs, torch.zeros(4).long())
    >>> imputer = TIP.from_dataset(train, cardinalities=(3, 1), width=16, depth=1, heads=2, resnet=18)
    >>> list(imputer.loss(train.batch(torch.arange(4))))
    ['contrast', 'matching', 'reconstruction']
    """

    def __init__(
        self, roles: Roles, cardinalities: Sequence[int], *, sizes: Sizes | None = None, unrestricted: bool = False
    ) -> None:
        super().__init__()
        sizes = sizes or Sizes()
        self.roles = roles
        shape = roles.shapes[roles.image]
        self.photo = ResNet(shape, sizes.resnet, sizes.weights) if sizes.resnet else ConvMap(shape)
        columns = check_columns(roles.shapes[roles.table], cardinalities)
        self.table = TabularTransformer(columns, sizes.width, depth=sizes.depth, heads=sizes.heads, waves=sizes.waves)
        self.interact = Interaction(self.photo.channels, sizes.width, depth=sizes.depth, heads=sizes.heads)
        self.heads = CellHeads(self.table.columns, sizes.width, unrestricted=unrestricted)
        self.project_image = projector(self.photo.channels, sizes.projection)
        self.project_table = projector(sizes.width, sizes.projection)
        self.match = nn.Linear(sizes.width, 2)
        self.masked = nn.Buffer(share_of(0.5, len(cardinalities)), persistent=False)

    @classmethod
    def from_dataset(
        cls,
        train: Dataset,
        table: str | None = None,
        image: str | None = None,
        *,
        cardinalities: Sequence[int] | None = None,
        unrestricted: bool = False,
        **sizes: Any,
    ) -> Self:
        """`table` and `image` need no names if the data has one of each. Columns are numeric unless `cardinalities` gives
        their number of categories. The other options are the fields of `Sizes`."""
        roles = _roles(train, table, image)
        _check_images(train.observed[roles.image], roles.image, torch.arange(len(train), device=train.device))
        columns = check_columns(roles.shapes[roles.table], cardinalities)
        return cls(roles, columns, sizes=Sizes(**sizes), unrestricted=unrestricted)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Missing cells are neither read, corrupted, hidden nor scored."""
        image, table, observed = self._readable(batch)
        hidden = choose(derive(batch.key, "masked"), observed, self.masked)
        tables = torch.cat([corrupt(table, observed, batch.key, 0.3), table])
        visible = torch.cat([observed, observed & ~hidden])
        features, columns = side_by_side([partial(self.photo, image), partial(self.table, tables, visible)])
        (corrupted, half), context = columns.chunk(2), self.interact.read(_tokens(features))

        likeness, own = self._likeness(features, corrupted), torch.arange(len(batch), device=table.device)
        contrast = (F.cross_entropy(likeness, own) + F.cross_entropy(likeness.T, own)) / 2
        wrong_table = hard_negatives(likeness, derive(batch.key, "table"))
        wrong_image = hard_negatives(likeness.T, derive(batch.key, "image"))

        tables = torch.cat([corrupted, corrupted[wrong_table], corrupted])
        images = torch.cat([context, context, context[wrong_image]])
        pairs, half = self.interact(tables, images, first=True), self.interact(half, context)
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
        """Image and table with zeros where nothing was observed, and a flag for each cell."""
        self.check_shapes(batch, self.roles.shapes)
        if self.may_inspect(batch):
            _check_images(batch.observed[self.roles.image], self.roles.image, batch.index)
        clean = batch.blanked().inputs
        table = clean[self.roles.table]
        return clean[self.roles.image], table, by_cell(batch.observed[self.roles.table], table)

    def _likeness(self, features: Float[Tensor, "b c h w"], table: Float[Tensor, "b s d"]) -> Float[Tensor, "b b"]:
        """The similarity of each image (row) and table (column) of the batch, divided by the temperature 0.1."""
        image, table = self.project_image(features.mean((2, 3))), self.project_table(table[:, 0])
        with torch.autocast(image.device.type, enabled=False):
            return F.normalize(image.float()) @ F.normalize(table.float()).T / 0.1


def _tokens(features: Float[Tensor, "b c h w"]) -> Float[Tensor, "b n c"]:
    return features.flatten(2).transpose(1, 2)


def _roles(train: Dataset, table: str | None, image: str | None) -> Roles:
    flags = train.feature_counts
    tables = [name for name, shape in train.shapes.items() if flags[name] is not None or len(shape) == 1]
    images = [name for name, shape in train.shapes.items() if len(shape) == 3 and flags[name] is None]
    for name in filter(None, (table, image)):
        pick(train.shapes, name, "modality")
    chosen = (table or _only(tables, "table"), image or _only(images, "image"))
    others = set(train.shapes) - set(chosen)
    if others:
        raise UnsupportedError(f"TIP reads one table and one image; the data also has {sorted(others)}: remove it")
    return Roles(*chosen, train.shapes)


def _only(names: Sequence[str], what: str) -> str:
    if len(names) != 1:
        raise UnsupportedError(f"TIP needs one {what}, found {len(names)} {list(names)}; name it: {what}=...")
    return names[0]


def _check_images(observed: Tensor, name: str, index: Tensor) -> None:
    missing = ~observed.reshape(len(index), -1).all(1)
    if missing.any():
        raise UnsupportedError(
            f"sample {int(index[missing][0])} has no {name!r} ({int(missing.sum())} such); TIP completes tables from "
            "images and needs all of them; drop these samples or choose another imputer"
        )
