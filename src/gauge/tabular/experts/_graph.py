"""GraphRows: the rows of a table in an ONNX graph, in the forms in which experts read them."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from gauge.data.graph import Graph
from gauge.tabular.table.schema import Schema
from gauge.types import Batch


class GraphRows:
    """What `Rows` is to prediction. Inputs of the graph are declared where an expert reads them: `inputs.MODALITY` and
    `observed.MODALITY`; for an expert that counts words also `terms.MODALITY`, the numbers of all terms of a text in a
    vocabulary, and `counts.MODALITY`, how often each occurs, 0 after the last one."""

    def __init__(self, graph: Graph, schema: Schema) -> None:
        self.graph, self.schema = graph, schema
        self.vocabularies: dict[str, Sequence[str]] = {}
        self.outputs: dict[str, str] = {}
        """Values beside the answers that an expert offers, by the name of the output."""

    @cached_property
    def example(self) -> Batch:
        """A row without content, for the shapes and types of inputs."""
        blank = self.schema.blank(1)
        return Batch(blank.inputs, blank.observed)

    def values(self, modality: str) -> str:
        """The encoded values of a modality."""
        tensor = self.example.inputs[modality]
        return self.graph.input(f"inputs.{modality}", str(tensor.dtype).removeprefix("torch."), tensor.shape[1:])

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

    def terms(self, column: str, vocabulary: Sequence[str]) -> tuple[str, str]:
        """The terms of the texts of a column and their counts, both [rows, terms]."""
        (modality,) = (name for name, content in self.schema.contents.items() if content.name == column)
        self.vocabularies[modality] = vocabulary
        terms, counts = (self.graph.input(f"{kind}.{modality}", np.int64, ["terms"]) for kind in ("terms", "counts"))
        return terms, counts
