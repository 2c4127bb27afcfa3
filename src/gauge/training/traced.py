"""Modules as graphs for any number of samples, in which backward passes are ordinary nodes: for torch.export and as ONNX."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from gauge.data.dataset import as_values
from gauge.data.graph import NEEDS_ONNX, OPSETS
from gauge.paper.gauge import Gauge
from gauge.plus.gauge_plus import GaugePlus
from gauge.types import Imputer
from gauge.values import Batch


class Graphable(nn.Module):
    """A module as graphs want it: tensors in, tensors out, all of them with names."""

    inputs: Sequence[str]
    outputs: Sequence[str]


class Flat(Graphable):
    """A network that takes all inputs, then all flags."""

    def __init__(self, model: Gauge | GaugePlus, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)
        self.inputs = [f"{kind}.{name}" for kind in ("inputs", "observed") for name in self.names]
        self.outputs = ("logits", "probabilities", *(("scores", "gates") if model.gating.gates_units else ()))

    @torch.no_grad()
    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        count = len(self.names)
        inputs = dict(zip(self.names, map(as_values, tensors[:count]), strict=True))
        batch = Batch(inputs, dict(zip(self.names, tensors[count:], strict=True)))
        reading: Any = self.model.read(batch)  # of either class
        prediction = self.model.decide(reading)
        some = batch.any_observed().any(1, keepdim=True)
        # a graph cannot refuse a sample of which nothing is known
        logits = torch.where(some, prediction.logits, torch.nan)
        values = {"logits": logits, "probabilities": logits.softmax(1)}
        if prediction.gates is not None:
            values["gates"] = prediction.gates
        if prediction.evidence is not None:
            values["scores"] = prediction.evidence.scores
        return tuple(values[name] for name in self.outputs)


def check_exportable(model: Gauge | GaugePlus) -> None:
    """An error if the network has a part that no graph can hold."""
    imputer = model.imputer.imputer if isinstance(model, Gauge) and model.imputer is not None else None
    reason = imputer.unexportable() if isinstance(imputer, Imputer) else None
    if reason is not None:
        raise ValueError(f"the imputer {type(imputer).__name__} cannot be exported: {reason}")


def cycled(tensor: Tensor, count: int) -> Tensor:
    """`count` samples, the same ones over and over."""
    return tensor[torch.arange(count) % len(tensor)]


def trace(module: nn.Module, tensors: Sequence[Tensor]) -> torch.export.ExportedProgram:
    """A module as one program for any number of samples; backward passes inside it become part of the program."""
    from torch._decomp import get_decompositions
    from torch.fx.experimental.proxy_tensor import make_fx  # it imports sympy, which takes a second

    # while tracing, equal sizes count as the same size, so the number of samples should be one that nothing else has
    tensors = [cycled(tensor, 211) for tensor in tensors]
    any_count = tuple({0: torch.export.Dim.DYNAMIC} for _ in tensors)
    restriding = (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_.default)  # ends pooling over all pixels
    without_form: Any = get_decompositions([torch.ops.aten.silu_backward, torch.ops.aten.mish_backward])  # in ONNX
    with _tracing():
        # torch.export does not trace through torch.autograd.grad, make_fx does
        tracing = make_fx(lambda *given: module(*given), without_form, "symbolic", _allow_non_fake_inputs=True)
        graph = tracing(*tensors)
        for node in graph.graph.nodes:
            if node.target in restriding and _same_layout(*node.args[:3]):
                node.replace_all_uses_with(node.args[0])
                graph.graph.erase_node(node)
        graph.recompile()
        return torch.export.export(graph, tuple(tensors), dynamic_shapes=any_count, strict=False)


def to_onnx(module: nn.Module, tensors: Sequence[Tensor], inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    """A module as an ONNX model for any number of samples; of the tensors only shapes and types are read."""
    try:
        import onnx  # noqa: F401 - torch.onnx needs both
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ValueError(NEEDS_ONNX) from error
    program = trace(module, tensors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's own, from inside its exporter
        try:
            result = torch.onnx.export(
                program,
                dynamo=True,
                verbose=False,
                optimize=False,  # onnxruntime does that when it reads the file
                opset_version=OPSETS[""],
                input_names=list(inputs),
                output_names=list(outputs),
            )
        except torch.onnx.OnnxExporterError as error:
            cause: BaseException = error
            while cause.__cause__ is not None:
                cause = cause.__cause__
            reason = f"{cause}".partition("\n")[0]
            raise ValueError(f"the network has an operation without a form in ONNX ({reason}); replace it") from error
    assert result is not None
    return result.model_proto


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
            "samples (x.shape[0], not len(x)), and not depend on their values"
        ) from error
