"""Modules as graphs for any number of samples, in which backward passes are ordinary nodes: for torch.export and as ONNX.

torch traces three times on the way to ONNX. With a symbol for the number of samples each takes many seconds, so that ONNX is
traced with a number that nothing else is a multiple of, on tensors without content, and it is replaced afterwards.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel

from gauge.data.dataset import as_values
from gauge.data.graph import NEEDS_ONNX, OPSETS, ROWS
from gauge.methods.gauge_plus import GaugePlus
from gauge.model.gauge import Gauge
from gauge.types import Imputer
from gauge.values import Batch

SAMPLES = (
    211  # while tracing with a symbol: equal sizes count as the same size, so it should be one that nothing else has
)
PRIME = 1_000_003  # samples while tracing for ONNX; sizes that are multiples of it depend on the number of samples
RESTRIDING = (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_.default)  # ends pooling over all pixels
COUNT, SCALAR = f"{ROWS}.count", f"{ROWS}.scalar"  # values that hold the number of samples: [1], and without an axis


class Graphable(nn.Module):
    """A module as graphs want it: tensors in, tensors out, all of them with names."""

    inputs: Sequence[str]
    outputs: Sequence[str]


class Flat(Graphable):
    """A network that takes all inputs, then all flags."""

    def __init__(self, model: Gauge | GaugePlus, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)
        gated = model.gating.gates_units and (isinstance(model, Gauge) or model.applies_gates)
        self.inputs = [f"{kind}.{name}" for kind in ("inputs", "observed") for name in self.names]
        self.outputs = ("logits", "probabilities", *(("scores", "gates") if gated else ()))

    @torch.no_grad()
    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        count = len(self.names)
        inputs = dict(zip(self.names, map(as_values, tensors[:count]), strict=True))
        batch = Batch(inputs, dict(zip(self.names, tensors[count:], strict=True)))
        reading: Any = self.model.read(batch)  # of either class
        prediction = self.model.decide(reading)
        values = {"logits": prediction.logits, "probabilities": prediction.logits.softmax(1)}
        if prediction.gates is not None:
            values["gates"] = prediction.gates
        if prediction.evidence is not None:
            values["scores"] = prediction.evidence.scores
        return tuple(values[name] for name in self.outputs)


def check_exportable(model: Gauge | GaugePlus) -> None:
    """An error if the network has a part that no graph can hold."""
    imputer = getattr(model.imputer, "imputer", None)
    reason = imputer.unexportable() if isinstance(imputer, Imputer) else None
    if reason is not None:
        raise ValueError(f"the imputer {type(imputer).__name__} cannot be exported: {reason}")


def cycled(tensor: Tensor, count: int) -> Tensor:
    """`count` samples, the same ones over and over."""
    return tensor[torch.arange(count) % len(tensor)]


def trace(module: nn.Module, tensors: Sequence[Tensor]) -> torch.export.ExportedProgram:
    """A module as one program for any number of samples; backward passes inside it become part of the program."""
    tensors = [cycled(tensor, SAMPLES) for tensor in tensors]
    any_count = tuple({0: torch.export.Dim.DYNAMIC} for _ in tensors)
    with _tracing():
        graph = _graph_of(module, tensors, "symbolic")
        return torch.export.export(graph, tuple(tensors), dynamic_shapes=any_count, strict=False)


def to_onnx(module: nn.Module, tensors: Sequence[Tensor], inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    """A module as an ONNX model for any number of samples; of the tensors only shapes and types are read."""
    try:
        import onnx  # noqa: F401 - torch.onnx needs both
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ValueError(NEEDS_ONNX) from error
    with _tracing():
        with FakeTensorMode(allow_non_fake_inputs=True):
            examples = [torch.empty(PRIME, *tensor.shape[1:], dtype=tensor.dtype) for tensor in tensors]
        graph = _graph_of(module, examples, "fake")
        program = torch.export.export(graph, tuple(examples), strict=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's own, from inside its exporter
        result = torch.onnx.export(
            program,
            dynamo=True,
            verbose=False,
            optimize=False,  # onnxruntime does that when it reads the file
            opset_version=OPSETS[""],
            input_names=list(inputs),
            output_names=list(outputs),
        )
    assert result is not None
    return for_any_count(result.model_proto)


def _graph_of(module: nn.Module, tensors: Sequence[Tensor], mode: Any) -> torch.fx.GraphModule:
    from torch.fx.experimental.proxy_tensor import make_fx  # it imports sympy, which takes a second

    graph = make_fx(lambda *given: module(*given), tracing_mode=mode, _allow_non_fake_inputs=True)(*tensors)
    for node in graph.graph.nodes:
        if node.target in RESTRIDING and _same_layout(*node.args[:3]):
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
    graph.recompile()
    return graph


def _same_layout(node: torch.fx.Node, sizes: Sequence[Any], strides: Sequence[Any]) -> bool:
    """Whether a tensor has these sizes and strides already; those of axes with one entry do not matter."""
    value = node.meta["val"]
    if value.ndim != len(sizes):
        return False
    axes = zip(value.shape, sizes, value.stride(), strides, strict=True)
    return all(size == other and (size == 1 or stride == wanted) for size, other, stride, wanted in axes)


@contextmanager
def _tracing() -> Iterator[None]:
    try:
        with sdpa_kernel(SDPBackend.MATH):  # the only kernel whose backward pass consists of ordinary operations
            yield
    except Exception as error:  # torch raises many kinds, from within the component that cannot be traced
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"the network cannot be traced ({reason}); components in it must compute with tensors alone, for any number of "
            "samples, and not depend on their values"
        ) from error


def for_any_count(model: Any) -> Any:
    """A model that was traced with `PRIME` samples, made to take any number of them."""
    graph = model.graph
    _set_nodes(graph, list(_Sizes(graph).nodes()))
    for value in (*graph.input, *graph.output):
        first = value.type.tensor_type.shape.dim[0]
        first.Clear()
        first.dim_param = ROWS
    return model


class _Sizes:
    """The integers among the constants of a graph: those that are multiples of `PRIME` depend on the number of samples."""

    def __init__(self, graph: Any) -> None:
        from onnx import helper, numpy_helper

        self.make_node, self.to_array, self.from_array = (
            helper.make_node,
            numpy_helper.to_array,
            numpy_helper.from_array,
        )
        self.graph = graph
        self.known = {each.name: self.to_array(each) for each in graph.initializer if _may_be_sizes(each)}
        self.shapes = {value.name: _shape(value) for value in (*graph.value_info, *graph.input)}

    def nodes(self) -> Iterator[Any]:
        """The nodes of the graph with sizes that are computed from the first axis of its first input."""
        yield self.make_node("Shape", [self.graph.input[0].name], [COUNT], start=0, end=1)
        yield self.make_node("Squeeze", [COUNT], [SCALAR])
        for node in self.graph.node:
            first, output = [*node.input, ""][0], node.output[0]
            if node.op_type == "Constant" and (values := self._integers(*node.attribute)) is not None:
                self.known[output] = values
            if node.op_type == "Concat" and all(name in self.known and self.known[name].ndim for name in node.input):
                self.known[output] = np.concatenate([self.known[name] for name in node.input])
                yield self.make_node("Identity", [self._constant(self.known[output])], [output])
            elif node.op_type in ("Expand", "Reshape") and self._has_shape(first, node.input[1]):
                yield self.make_node("Identity", [first], [output])  # it has that shape already
            else:
                yield from self._with_computed(node)

    def _with_computed(self, node: Any) -> Iterator[Any]:
        """A node, after those that compute the sizes it needs."""
        for number, name in enumerate(node.input):
            values = self.known.get(name, np.zeros(0, np.int64))
            depends = (values != 0) & (values % PRIME == 0)
            if node.op_type == "Reshape" and depends.sum() == 1 and (values > 0).all():
                node.input[number] = self._constant(np.where(depends, -1, values))
            elif depends.any():
                factor = self._constant(np.where(depends, values // PRIME, 0))
                rest = self._constant(np.where(depends, 0, values))
                node.input[number] = f"{factor}.sum"
                count = COUNT if values.ndim else SCALAR
                yield self.make_node("Mul", [count, factor], [f"{factor}.product"])
                yield self.make_node("Add", [f"{factor}.product", rest], [f"{factor}.sum"])
        yield node

    def _constant(self, values: np.ndarray) -> str:
        name = f"{ROWS}.{len(self.graph.initializer)}"
        self.graph.initializer.append(self.from_array(values, name))
        return name

    def _has_shape(self, name: str, size: str) -> bool:
        return name in self.shapes and size in self.known and self.shapes[name] == self.known[size].tolist()

    def _integers(self, attribute: Any) -> np.ndarray | None:
        """Those of a node that makes a constant."""
        if attribute.name == "value" and _may_be_sizes(attribute.t):
            return np.asarray(self.to_array(attribute.t))
        if attribute.name == "value_ints":
            return np.array(attribute.ints, np.int64)
        return np.array(attribute.i, np.int64) if attribute.name == "value_int" else None


def _set_nodes(graph: Any, nodes: Sequence[Any]) -> None:
    """Replace the nodes of a graph, without those and the constants that no output needs."""
    needed = {value.name for value in graph.output}
    kept = []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(node.input)
    constants = [tensor for tensor in graph.initializer if tensor.name in needed]
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(reversed(kept))
    graph.initializer.extend(constants)


def _shape(value: Any) -> list[int]:
    return [each.dim_value for each in value.type.tensor_type.shape.dim]


def _may_be_sizes(tensor: Any) -> bool:
    return tensor.data_type == tensor.INT64 and len(tensor.dims) < 2
