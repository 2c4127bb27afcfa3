"""Scripted: the answers of a network to few samples on a CPU, without Python between its operations.

A small network computes for a third of the time that it takes for one sample; the rest is Python's. A TorchScript trace of
the network leaves that out.
"""

import logging
import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Self

import torch
from torch import Tensor

from gauge.methods.gauge_plus import GaugePlus
from gauge.model.encoders._pretrained import PretrainedEncoder
from gauge.values import Batch

logger = logging.getLogger(__name__)

MAX_SAMPLES = 256  # of a batch that a trace answers; with more of them Python hardly matters
TRACED_SAMPLES, OTHER_SAMPLES = 8, 3  # that a network is traced with, and that its trace is checked with
WARM_UP_CALLS = 3  # after which TorchScript has optimised a trace
TOLERANCE = 1e-5  # of logits, between a trace and the network

Answer = Callable[..., Tensor]


class Scripted:
    """The logits of a network in eval mode, whose weights do not change any more. A batch of more than `MAX_SAMPLES` is
    computed as it is, and so are all if the network cannot be traced, or if its trace answers other samples than its own, or
    another number of them, differently."""

    def __init__(self, network: GaugePlus) -> None:
        self.network = network
        self.traces: dict[object, Answer | None] = {}

    @classmethod
    def of(cls, network: GaugePlus) -> Self | None:
        """None for a network with parts that may look at values before they decide what to compute."""
        pretrained = any(isinstance(module, PretrainedEncoder) for module in network.modules())
        return None if pretrained or network.imputer is not None else cls(network)

    def logits(self, batch: Batch) -> Tensor:
        if len(batch) > MAX_SAMPLES:
            return _logits(self.network, batch)
        tensors = [*batch.inputs.values(), *batch.observed.values()]
        key = (batch.modalities, *((each.shape[1:], each.dtype) for each in tensors))
        if key not in self.traces:
            self.traces[key] = self._trace(batch.modalities, tensors)
        traced = self.traces[key]
        return _logits(self.network, batch) if traced is None else traced(*tensors)

    def _trace(self, modalities: Sequence[str], tensors: Sequence[Tensor]) -> Answer | None:
        constant = deepcopy(self.network).requires_grad_(False)  # a function is traced in half the time of a module
        examples = tuple(map(_examples, tensors))

        def network(*tensors: Tensor) -> Tensor:
            inputs, observed = (dict(zip(modalities, part, strict=True)) for part in _halves(tensors))
            return _logits(constant, Batch(inputs, observed))

        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # that values become constants, which is checked, and that TorchScript is old
            try:
                traced: Answer = torch.jit.trace(network, examples, check_trace=False)
                for _ in range(WARM_UP_CALLS):
                    traced(*examples)
                checked = examples, tuple(each[:1] for each in examples), _others(examples)
                both = [(traced(*each), network(*each)) for each in checked]
            except Exception as error:  # whatever cannot be traced is computed as it is
                logger.info("the network is not traced: %s", str(error).partition("\n")[0])
                return None
        if not all(own.shape == other.shape and torch.allclose(own, other, atol=TOLERANCE) for own, other in both):
            logger.info("the network is not traced: its trace answers other samples differently")
            return None
        return traced


def _logits(network: GaugePlus, batch: Batch) -> Tensor:
    return network.decide(network.read(batch)).logits


def _examples(tensor: Tensor) -> Tensor:
    """The samples to trace with, of which some are the same if there are too few."""
    return tensor[torch.arange(TRACED_SAMPLES) % tensor.shape[0]]


def _halves(tensors: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The inputs, and the flags."""
    middle = len(tensors) // 2
    return tensors[:middle], tensors[middle:]


def _others(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Fewer samples, with other values than these and other features missing, of which each has one at least."""
    inputs, observed = _halves([each[:OTHER_SAMPLES] for each in tensors])
    values = [0.5 - each if each.is_floating_point() else each.flip(-1) for each in inputs]
    flags = [each if each.ndim == 1 else (~each).index_fill(1, torch.tensor(0), True) for each in observed]
    return (*values, *flags)
