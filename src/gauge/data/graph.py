"""Graph: an ONNX graph that grows node by node. Needs onnx, and nothing here imports torch."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

OPSETS = {"": 20, "ai.onnx.ml": 3}
NEEDS_ONNX = "exporting to ONNX needs onnx; install it with: pip install 'gauge-ml[onnx]'"


class Graph:
    """Values are known by their names, which methods take and return. All inputs and outputs have rows as their first axis.

    >>> graph = Graph()
    >>> x = graph.input("x", np.float32, (3,))
    >>> graph.output("twice", graph.node("Mul", x, graph.constant(np.float32(2))), np.float32, (3,))
    >>> [(node.op_type, list(node.output)) for node in graph.model().graph.node]
    [('Mul', ['Mul_1']), ('Identity', ['twice'])]
    """

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError as error:
            raise ValueError(NEEDS_ONNX) from error
        self.onnx: Any = onnx
        self.inputs: dict[str, Any] = {}
        self.outputs: dict[str, Any] = {}
        self._constants: dict[str, Any] = {}
        self._nodes: list[Any] = []

    def input(self, name: str, dtype: Any, shape: Sequence[int | str]) -> str:
        """An input, declared at its first use; `shape` is that of one row."""
        self.inputs.setdefault(name, self._value(name, dtype, shape))
        return name

    def output(self, name: str, value: str, dtype: Any, shape: Sequence[int | str]) -> None:
        """A value becomes an output of this name."""
        self._nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        self.outputs[name] = self._value(name, dtype, shape)

    def constant(self, values: Any) -> str:
        """Equal constants are one, so that runtimes recognise equal nodes."""
        array = np.ascontiguousarray(values).reshape(np.shape(values))
        name = hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).hexdigest()[:24]
        if name not in self._constants:
            self._constants[name] = self.onnx.numpy_helper.from_array(array, name)
        return name

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """The first output of a new node."""
        name = f"{operator}_{len(self._nodes) + 1}"
        node = self.onnx.helper.make_node(operator, list(inputs), [name], name=name, domain=domain, **attributes)
        self._nodes.append(node)
        return name

    def cast(self, value: str, dtype: Any) -> str:
        return self.node("Cast", value, to=self._type(dtype))

    def gather(self, values: str, index: Any, axis: int) -> str:
        """Entries of an axis by their numbers, which are constants or computed."""
        number = index if isinstance(index, str) else self.constant(np.asarray(index, np.int64))
        return self.node("Gather", values, number, axis=axis)

    def include(self, model: Any) -> Mapping[str, str]:
        """All of another model, its inputs under their own names; the names that its outputs have here."""
        from onnx.compose import add_prefix

        prefix = f"model_{len(self._nodes) + 1}/"
        graph = add_prefix(model, prefix, rename_inputs=False, inplace=True).graph
        self.inputs |= {value.name: value for value in graph.input if value.name not in self.inputs}
        self._constants |= {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            del node.metadata_props[:]  # paths of source files
            self._nodes.append(node)
        return {value.name.removeprefix(prefix): value.name for value in graph.output}

    def model(self) -> Any:
        helper = self.onnx.helper
        values = [list(each.values()) for each in (self.inputs, self.outputs, self._constants)]
        graph = helper.make_graph(self._nodes, "gauge", values[0], values[1], values[2])
        opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
        # the first that has operator set 20
        return helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="gauge")

    def _type(self, dtype: Any) -> int:
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def _value(self, name: str, dtype: Any, shape: Sequence[int | str]) -> Any:
        # the first axis of inputs and outputs is called "rows"
        return self.onnx.helper.make_tensor_value_info(name, self._type(dtype), ["rows", *shape])
