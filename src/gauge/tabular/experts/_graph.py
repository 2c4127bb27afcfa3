"""GraphRows: the rows of a table in an ONNX graph, in the forms in which experts read them."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from gauge.data.graph import Graph
from gauge.tabular.table.schema import Encoded, Schema


class GraphRows:
    """What `Rows` is to prediction. Inputs of the graph are declared where an expert reads them: `inputs.MODALITY` and
    `observed.MODALITY`; for an expert that counts words also `terms.MODALITY`, the numbers of all terms of a text in a
    vocabulary, and `counts.MODALITY`, how often each occurs, 0 after the last one; and for one that tells rare categories
    apart `rare`, the `rare_levels` of the columns that have them; and for dates and times their `cycles`."""

    def __init__(self, graph: Graph, schema: Schema) -> None:
        self.graph, self.schema = graph, schema
        self.vocabularies: dict[str, Sequence[str]] = {}

    @cached_property
    def example(self) -> Encoded:
        """A row without content, for the shapes and types of inputs."""
        return self.schema.blank(1)

    def values(self, modality: str) -> str:
        array = self.example.inputs[modality]
        return self.graph.input(f"inputs.{modality}", array.dtype, array.shape[1:])

    def observed(self, modality: str) -> str:
        """Whether a modality is observed: [rows], or [rows, columns] for the table."""
        return self.graph.input(f"observed.{modality}", bool, self.example.observed[modality].shape[1:])

    @cached_property
    def flags(self) -> str:
        """Which columns each row has, in the order of modalities: [rows, columns]."""
        graph, last = self.graph, self.graph.constant(np.array([1]))
        table = [self.observed("table")] if "table" in self.example.inputs else []
        contents = [graph.node("Unsqueeze", self.observed(modality), last) for modality in self.schema.contents]
        return graph.node("Concat", *table, *contents, axis=1)

    @cached_property
    def cells(self) -> str | None:
        """As `Rows.cells`; None where there are none."""
        if "table" not in self.example.inputs:
            return None
        missing = self.graph.constant(np.float32(np.nan))
        return self.graph.node("Where", self.observed("table"), self.values("table"), missing)

    def levels(self, position: int) -> tuple[str, str]:
        """As `Rows.levels`, 0 where a cell is missing, for a column of the table; and where it is observed: [rows, 1]."""
        graph, column = self.graph, self.schema.table[position]
        observed = graph.gather(self.observed("table"), np.array([position]), 1)
        codes = graph.gather(self.values("table"), np.array([position]), 1)
        levels = graph.cast(graph.node("Where", observed, codes, graph.constant(np.float32(0))), np.int64)
        rare_columns = [each.name for each in self.schema.table if each.tells_rare_apart]
        if column.name in rare_columns:
            rare = graph.input("rare", np.int64, [len(rare_columns)])
            rare = graph.gather(rare, np.array([rare_columns.index(column.name)]), 1)
            levels = graph.node("Where", graph.node("Equal", levels, graph.constant(column.rare_code)), rare, levels)
        return graph.node("Squeeze", levels, graph.constant(np.array([1]))), observed

    @property
    def table(self) -> list[str]:
        """The `cells`, if there are any, and the cycles of dates and times."""
        graph, positions = self.graph, self.schema.cycle_positions
        if self.cells is None or not len(positions):
            return [] if self.cells is None else [self.cells]
        observed = graph.gather(self.observed("table"), positions, 1)
        cycles = graph.input("cycles", np.float32, [len(positions)])
        return [self.cells, graph.node("Where", observed, cycles, graph.constant(np.float32(np.nan)))]

    def terms(self, column: str, vocabulary: Sequence[str]) -> tuple[str, str]:
        """The terms of the texts of a column and their counts, both [rows, terms]."""
        (modality,) = (name for name, content in self.schema.contents.items() if content.name == column)
        self.vocabularies[modality] = vocabulary
        terms, counts = (
            self.graph.input(f"{kind}.{modality}", np.int64, [f"terms.{modality}"]) for kind in ("terms", "counts")
        )
        return terms, counts
