"""The network of a table before it is trained: units of cells, words and parts of images, a backbone, heads."""

from pydantic import Field

from gauge.encoders._with_whole import WithWhole
from gauge.encoders.cells import Cells
from gauge.encoders.flat_table import FlatTable
from gauge.nn.attention import Transformer
from gauge.paper.network import Network
from gauge.paper.units import UnitEncoder
from gauge.plus.gauge_plus import GaugePlus
from gauge.tabular.experts._recipe import NetworkSize
from gauge.tabular.table.columns import FINE_COLUMNS
from gauge.tabular.table.schema import Schema
from gauge.training.settings import Settings
from gauge.types import Encoder


class Architecture(Settings):
    """What a trained network is built from again, beside the columns of the table."""

    classes: int = Field(ge=1, strict=True)
    size: str


def build(schema: Schema, classes: int, size: NetworkSize, *, pretrained: bool = False) -> GaugePlus:
    """The untrained network for these columns: one unit for every number, category, word and part of an image, one more for
    each modality as a whole, and a head for each of several modalities. More than `FINE_COLUMNS` numbers and categories are
    one unit in all. `pretrained` reads the weights of pretrained encoders, which a saved classifier has in its own file.
    """
    encoders: dict[str, Encoder] = {}
    for modality, columns in schema.modalities.items():
        whole: Encoder | None = None
        if modality == "table":
            whole = FlatTable((len(columns),), size.dim, schema.cardinalities)
            if len(columns) > FINE_COLUMNS:
                encoders[modality] = whole
                continue
            fine: Encoder = Cells((len(columns),), size.dim, schema.cardinalities)
        else:
            content = schema.contents[modality]
            fine = content.encoder(size.dim, size.channels, weights=pretrained)
        # numbers in the units of a text or an image that one more unit reads; pretrained have more
        small = fine.units * fine.width <= 8192 or whole is not None
        encoders[modality] = WithWhole(fine, whole) if small and fine.units > 1 else fine
    network = Network(Transformer(size.dim, heads=size.heads, depth=size.depth), size.dim, classes)
    # a single modality has one subset, and a head of it would know no more than the network
    several = len(encoders) > 1
    return GaugePlus(
        UnitEncoder(encoders, size.dim), network, subsets_per_step=1 + several, heads="validated" if several else "none"
    )
