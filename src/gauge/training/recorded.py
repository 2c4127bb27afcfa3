"""Recorded: predictions at the speed of the hardware. Calls are recorded as CUDA graphs, as training steps are.

At small batches a GPU waits for Python to launch kernels: a prediction with its scoring pass launches hundreds of them.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, Self, TypeVar, runtime_checkable

import torch
from torch import Tensor

from gauge.layout import informative
from gauge.nn.streams import forget, side_by_side
from gauge.values import Batch, Evidence, Prediction

logger = logging.getLogger(__name__)

WARM_UP_CALLS = 3  # calls before a recording, to allocate memory

Precision = Literal["float32", "bf16"]
T = TypeVar("T")


def warm_up(call: Callable[[], T]) -> T:
    """The result of a call off the default stream, as it has to run before it is recorded."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        result = call()
    torch.cuda.current_stream().wait_stream(aside)
    return result


def record(call: Callable[[], T], what: str) -> tuple[torch.cuda.CUDAGraph, T] | None:
    """A CUDA graph of the call, and the result that each replay writes anew. None, with a warning, if it cannot be recorded,
    for instance because it waits for the device."""
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    before = generator.clone_state()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            result = call()
    except RuntimeError as error:
        generator.graphsafe_set_state(before)  # the current state is still marked as recording
        reason = str(error).partition("\n")[0]
        logger.warning("this %s cannot be recorded as a CUDA graph and runs eagerly: %s", what, reason)
        return None
    finally:
        forget()
    return graph, result


@dataclass(frozen=True)
class Call:
    """A prediction of one size: `run` reads `inputs` and returns its results by name, in memory of their own."""

    inputs: Sequence[Tensor]
    run: Callable[[], dict[str, Tensor]]


@runtime_checkable
class Recordable(Protocol):
    """What `Recorded` needs of a model such as `Gauge` or `GaugePlus`: `decide(read(batch))` is `predict(batch)` without its
    checks, so it never waits for the device."""

    def eval(self) -> Self: ...

    def predict(self, batch: Batch) -> Prediction: ...

    def read(self, batch: Batch) -> Any: ...

    def decide(self, reading: Any) -> Prediction: ...


class Recorded:
    """A model that predicts faster, with the same results up to rounding.

    On a GPU, a prediction is recorded as a CUDA graph for each of a few `sizes` and replayed: a batch is cut into parts of
    the largest size, and the last part is padded to the next one. On a CPU, predictions stay eager. The model is put into
    eval mode. Its weights may change in place later; wrap it again after moving it to another device.

    Parameters
    ----------
    model
        A `Gauge` or a `GaugePlus`.
    precision
        "bf16" predicts under autocast.
    compile
        Whether torch.compile fuses the kernels, on either device, which takes a minute for each size.
    sizes
        The numbers of samples of which predictions are recorded.

    Examples
    --------
    >>> from gauge import Gauge, Network, Transformer, UnitEncoder
    >>> from gauge.encoders.columns import Columns
    >>> encoder = UnitEncoder({"table": Columns((5,), 8)}, dim=8)
    >>> fast = Recorded(Gauge(encoder, Network(Transformer(8, heads=2, depth=1), dim=8, num_classes=3)))
    >>> batch = Batch({"table": torch.rand(2, 5)}, {"table": torch.ones(2, 5, dtype=torch.bool)})
    >>> fast.predict(batch).logits.shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        model: Recordable,
        *,
        precision: Precision = "float32",
        compile: bool = False,
        sizes: Sequence[int] = (1, 8, 64, 512),  # samples of a recorded call
    ) -> None:
        if not isinstance(model, Recordable):
            raise ValueError(f"{type(model).__name__} cannot be recorded; give a Gauge or a GaugePlus")
        if not sizes or min(sizes) < 1:
            raise ValueError(f"sizes are {tuple(sizes)}; give at least one, each a positive number of samples")
        self.model, self.half, self.compile = model.eval(), precision == "bf16", compile
        self.sizes = sorted(sizes)
        self.calls: dict[object, Call] = {}

    def predict(self, batch: Batch) -> Prediction:
        """Return the prediction with evidence and gates; a batch that the model's `predict` refuses is refused here too.

        Parameters
        ----------
        batch
            As for the model.

        Returns
        -------
        Prediction
            As the model's, up to rounding.

        Examples
        --------
        >>> fast.predict(batch).gates.shape
        torch.Size([2, 5])
        """
        if not (self.compile or batch.index.is_cuda) or not len(batch):
            return self._eager(batch)
        keys = [batch.index] if batch.key is batch.index else [batch.index, batch.key]
        tensors, most = [*batch.inputs.values(), *batch.observed.values(), *keys], self.sizes[-1]
        cut = [tensors] if len(batch) <= most else zip(*(tensor.split(most) for tensor in tensors), strict=True)
        parts = [self._part(batch.modalities, list(part)) for part in cut]
        results = (
            parts[0] if len(parts) == 1 else {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        )
        if not all(results.pop("sound").tolist()):
            return self._eager(batch)  # raises the error, or logs the warning
        evidence = Evidence(results["scores"], results["ungated"]) if "scores" in results else None
        return Prediction(results["logits"], evidence, results.get("gates"), results.get("trust"))

    def _eager(self, batch: Batch) -> Prediction:
        with self._autocast(batch.index.device):
            return self.model.predict(batch)

    def _decide(self, batch: Batch) -> Prediction:
        with self._autocast(batch.index.device):
            return self.model.decide(self.model.read(batch))

    def _autocast(self, device: torch.device) -> torch.autocast:
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.half)

    def _part(self, modalities: tuple[str, ...], tensors: list[Tensor]) -> dict[str, Tensor]:
        """The results of at most as many samples as the largest size."""
        count = len(tensors[0])
        size = next(size for size in self.sizes if size >= count)
        key = (size, modalities, *((tensor.shape[1:], tensor.dtype, tensor.device) for tensor in tensors))
        if key not in self.calls:
            repeated = torch.arange(size, device=tensors[0].device) % count  # the first samples fill the rest
            self.calls[key] = self._make(modalities, [tensor[repeated] for tensor in tensors])
        call = self.calls[key]
        for static, tensor in zip(call.inputs, tensors, strict=True):  # a graph reads the memory it was recorded with
            if count == size:
                static.copy_(tensor)
            else:
                static[:count].copy_(tensor)
                static[count:].copy_(tensor[:1].expand_as(static[count:]))
        return {name: values[:count] for name, values in call.run().items()}

    def _make(self, modalities: tuple[str, ...], inputs: list[Tensor]) -> Call:
        predict = self._predict(modalities)
        if self.compile:
            from torch.fx.experimental.proxy_tensor import make_fx  # it imports sympy, which takes a second

            predict = torch.compile(make_fx(predict)(*inputs), dynamic=False)

        @torch.no_grad()
        def run() -> dict[str, Tensor]:
            return predict(*inputs)

        if not inputs[0].is_cuda:
            return Call(inputs, run)
        for _ in range(WARM_UP_CALLS):
            warm_up(run)
        recording = record(run, "prediction")
        if recording is None:
            return Call(inputs, run)
        graph, results = recording

        def replay() -> dict[str, Tensor]:
            graph.replay()
            return {name: values.clone() for name, values in results.items()}  # the next replay writes there again

        return Call(inputs, replay)

    def _predict(self, modalities: tuple[str, ...]) -> Callable[..., dict[str, Tensor]]:
        """The prediction as a function of tensors that never waits for the device: errors in the batch are returned as a
        result."""

        @torch.no_grad()
        def predict(*tensors: Tensor) -> dict[str, Tensor]:
            count = len(modalities)
            inputs, observed = (
                dict(zip(modalities, part, strict=True)) for part in (tensors[:count], tensors[count : 2 * count])
            )
            batch = Batch(inputs, observed, None, tensors[2 * count], tensors[-1])
            calls: list[Callable[[], Any]] = [batch.sound, partial(self._decide, batch)]
            sound, prediction = side_by_side(calls)
            results = {"logits": prediction.logits, "gates": prediction.gates, "trust": prediction.trust}
            if prediction.evidence is not None:
                evidence = prediction.evidence
                results |= {"scores": evidence.scores, "ungated": evidence.logits}
                sound = sound & informative(evidence.scores)
            results["sound"] = sound[None].float()
            return {name: values for name, values in results.items() if values is not None}

        return predict
