"""The network of a table before it is trained: units of cells, words and parts of images, a backbone, gates, an imputer."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, get_args

from gauge.choices import pick
from gauge.methods.gauge_plus import GaugePlus
from gauge.model.encoders._pretrained import PretrainedEncoder, Tune
from gauge.model.encoders._with_whole import WithWhole
from gauge.model.encoders.cells import Cells
from gauge.model.encoders.flat_table import FlatTable
from gauge.model.gauge import UNGATED, Gating
from gauge.model.network import Network
from gauge.model.nn.attention import Transformer
from gauge.model.units import UnitEncoder
from gauge.registry import IMPUTERS
from gauge.tabular.experts._recipe import Strategy
from gauge.tabular.table.columns import FINE_COLUMNS
from gauge.tabular.table.schema import Schema
from gauge.types import Encoder, Imputer, SupportsComplete

MAX_WHOLE_VALUES = (
    8192  # numbers in the units of a text or an image that one more unit reads; pretrained ones have more
)
MAX_SAVED_COUNT = 10**12  # of classes, donors and training rows
MAX_BLANK_ROWS = 10**7  # that the donors of an imputer are drawn from again


@dataclass(frozen=True)
class Size:
    """Width, heads and depth of the backbone, and the channels of the image encoder."""

    dim: int
    heads: int
    depth: int
    channels: tuple[int, ...]


SIZES = {
    "small": Size(32, 4, 2, (16, 32, 64)),
    "medium": Size(64, 4, 3, (32, 64, 128)),
    "large": Size(128, 8, 4, (64, 128, 256)),
}


@dataclass(frozen=True)
class Architecture:
    """What a trained network is built from again, beside the columns of the table: `rows` and `donors` are those of the
    training split that its imputer is made for. Unless `gates_answer`, gates are evidence alone."""

    classes: int
    size: str
    strategy: Strategy
    gates: bool
    imputer: str | SupportsComplete
    donors: int
    seed: int
    rows: int
    gates_answer: bool = True

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """What was saved; an error if it is not of this form or asks for too much."""
        types = {
            "classes": int,
            "size": str,
            "strategy": str,
            "gates": bool,
            "imputer": str,
            "donors": int,
            "seed": int,
            "rows": int,
            "gates_answer": bool,
        }
        content = {"gates_answer": True, **content}  # that of files which do not say so
        if {name: type(value) for name, value in content.items()} != types:
            raise ValueError("the architecture of the network is not complete, or of another form")
        architecture = cls(**content)
        pick(SIZES, architecture.size, "size")
        pick(dict.fromkeys(get_args(Strategy)), architecture.strategy, "strategy")
        for name in ("classes", "donors", "rows"):
            if not 1 <= content[name] <= MAX_SAVED_COUNT:
                raise ValueError(f"the network has {content[name]:.3g} {name}; 1 to {MAX_SAVED_COUNT} are supported")
        return architecture

    def build(self, schema: Schema) -> tuple[GaugePlus, Imputer | None]:
        """The network and its imputer, with all of their tensors still to be loaded."""
        imputer = None
        if self.strategy == "impute":
            assert isinstance(self.imputer, str)  # others are not saved
            kind, options = imputer_for(self.imputer, schema, donors=self.donors, seed=self.seed)
            imputer = kind.blank(schema.blank(min(self.rows, MAX_BLANK_ROWS)), **options)
        gating = Gating() if self.gates else UNGATED
        model = build(schema, self.classes, SIZES[self.size], gating=gating, imputer=imputer)
        model.applies_gates = self.gates_answer
        return model, imputer


def build(
    schema: Schema,
    classes: int,
    size: Size,
    *,
    gating: Gating = UNGATED,
    imputer: SupportsComplete | None = None,
    pretrained: bool = False,
    tune: Mapping[str, Tune] | None = None,
) -> GaugePlus:
    """The untrained network for these columns: one unit for every number, category, word and part of an image, one more for
    each modality as a whole, and a head for each modality. More than `FINE_COLUMNS` numbers and categories are one unit in
    all. `pretrained` reads the weights of pretrained encoders, which a saved classifier has in its own file; `tune` says by
    column what is trained of them.
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
            if tune and content.name in tune and isinstance(fine, PretrainedEncoder):
                fine.tune(tune[content.name])
        small = fine.units * fine.width <= MAX_WHOLE_VALUES or whole is not None
        encoders[modality] = WithWhole(fine, whole) if small and fine.units > 1 else fine
    network = Network(Transformer(size.dim, heads=size.heads, depth=size.depth), size.dim, classes)
    subsets = min(2, len(encoders))  # a single modality has one subset
    return GaugePlus(UnitEncoder(encoders, size.dim), network, imputer, subsets_per_step=subsets, gating=gating)


def tuned_columns(tune: str | Mapping[str, str], schema: Schema) -> dict[str, Tune]:
    """What is trained of the pretrained encoders of each column, where that is more than the projection."""
    encoders = schema.encoders
    if not isinstance(tune, str):
        for column in tune:
            pick(encoders, column, "pretrained encoder of column")
    elif tune != "head" and not encoders:
        raise ValueError(f"tune={tune!r} trains pretrained encoders, and there are none; give some with encoders=")
    wanted = dict.fromkeys(encoders, tune) if isinstance(tune, str) else dict(tune)
    kinds: dict[str, Tune] = {kind: kind for kind in get_args(Tune)}
    chosen = {column: pick(kinds, kind, "tune") for column, kind in wanted.items()}
    return {column: kind for column, kind in chosen.items() if kind != "head"}


def freeze(network: GaugePlus) -> None:
    """End the training of pretrained encoders: low-rank changes become part of the weights."""
    for module in network.modules():
        if isinstance(module, PretrainedEncoder):
            module.tune("head")


def imputer_for(name: str, schema: Schema, **known: Any) -> tuple[type[Imputer], dict[str, Any]]:
    """The registered imputer and those of the known options that it takes; `nearest` replaces one that needs a table where
    there is none."""
    kind = IMPUTERS.get(name)
    if kind.needs_table and not schema.table:
        kind = IMPUTERS.get("nearest")
    known = {"cardinalities": schema.cardinalities, **known}
    return kind, {name: known[name] for name in inspect.signature(kind.from_dataset).parameters if name in known}
