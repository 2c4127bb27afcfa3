"""One training step, from the indices and keys of a batch to the optimizer.

Networks this small spend their time on kernel launches, not on arithmetic. On a GPU a training step is therefore recorded
once as a CUDA graph and replayed.
"""

import inspect
import logging
import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from gauge.data import Dataset
from gauge.data.augmentation import augment, mixes_samples
from gauge.nn.shards import total
from gauge.nn.streams import join
from gauge.training.distributed import shard, sum_gradients, synchronise, world_size
from gauge.training.recorded import WARM_UP_CALLS, record, warm_up
from gauge.training.settings import TrainSettings
from gauge.types import Trainable
from gauge.values import Batch

logger = logging.getLogger(__name__)

RATE_FACTOR = "factor"  # of a group of parameters: its learning rate over that of the settings


class AdamW(torch.optim.AdamW):
    """`torch.optim.AdamW`, step for step; steps cannot be differentiated themselves.

    torch wraps some methods for `torch.compile`, and the first call of one imports the compiler, which takes longer than
    most tables take to learn. Here the methods below the wrappers are called.
    """

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)
    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


def make_optimizer(method: Trainable, settings: TrainSettings, device: torch.device) -> AdamW:
    """AdamW for all trainable parameters. On a GPU its learning rate is a tensor, which a recorded step can read."""
    trained = [parameter for parameter in method.parameters() if parameter.requires_grad]
    factors = dict.fromkeys(method.gate_parameters(), settings.gate_rate)
    parts: dict[tuple[float, float], list[Tensor]] = {(1.0, 0.0): []}
    for parameter in trained:
        decay = settings.weight_decay if parameter.ndim > 1 else 0.0
        parts.setdefault((factors.get(parameter, 1.0), decay), []).append(parameter)
    graph = device.type == "cuda"
    groups: list[dict[str, Any]] = []
    for (factor, decay), parameters in parts.items():
        rate = settings.learning_rate * factor
        lr = torch.tensor(rate, device=device) if graph else rate
        groups.append({"params": parameters, "lr": lr, "weight_decay": decay, RATE_FACTOR: factor})
    return AdamW([group for group in groups if group["params"]], fused=True, capturable=graph)


@dataclass(frozen=True)
class _Recording:
    """A recorded step: `graph` reads `index` and `key`, and writes `terms`."""

    index: Tensor
    key: Tensor
    graph: torch.cuda.CUDAGraph
    terms: dict[str, Tensor]


class Step:
    """Runs a training step for the indices and keys of a batch; returns the loss terms.

    On a GPU, batches of a size run eagerly a few times and are then recorded and replayed. If recording fails, all steps
    stay eager, with a warning.
    """

    def __init__(
        self, method: Trainable, optimizer: AdamW, train: Dataset, settings: TrainSettings, *, record: bool
    ) -> None:
        self.method, self.optimizer, self.train, self.settings = method, optimizer, train, settings
        synchronise(method.train())
        self.shards = (
            world_size() > 1 and _shardable(method) and not mixes_samples(settings.augment, train.feature_counts)
        )
        if world_size() > 1 and not self.shards:
            logger.warning(
                "every process trains %s on whole batches, so several are not faster than one: its loss, BatchNorm, dropout "
                "or augmentation needs all samples of a batch",
                type(method).__name__,
            )
        self.record = record and world_size() == 1 and train.device.type == "cuda" and train.resident
        self.half = settings.precision == "bf16" and train.device.type == "cuda"
        self.eager_steps: Counter[int] = Counter()  # of each size
        self.recordings: dict[int, _Recording] = {}

    def ahead(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor, Batch | None]]:
        """The indices and keys of batches; of mapped data also the batch, which a thread reads during the step before."""
        if not self.train.mapped:
            yield from ((index, key, None) for index, key in batches)
            return
        with ThreadPoolExecutor(1) as reader:
            reading: deque[tuple[Tensor, Tensor, Future[Batch]]] = deque()
            for index, key in batches:
                reading.append((index, key, reader.submit(self.batch, index, key)))
                if len(reading) > 1:
                    yield _read(*reading.popleft())
            yield from (_read(*pending) for pending in reading)

    def __call__(self, index: Tensor, key: Tensor, rate: float, batch: Batch | None = None) -> dict[str, Tensor]:
        """The `batch` of these samples is read here if it is not given."""
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):  # in place: a recorded step reads this memory
                group["lr"].fill_(rate * group[RATE_FACTOR])
            else:
                group["lr"] = rate * group[RATE_FACTOR]
        size = len(index)
        if not self.record:
            return self._run(index, key, batch)
        if self.eager_steps[size] < WARM_UP_CALLS:
            self.eager_steps[size] += 1
            return self._warm_up(index, key)
        if size not in self.recordings and not self._recorded(index, key):
            return self._run(index, key)
        recording = self.recordings[size]
        recording.index.copy_(index)  # the graph has no arguments: it reads the memory that it was recorded with
        recording.key.copy_(key)
        recording.graph.replay()
        return {name: term.clone() for name, term in recording.terms.items()}

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        """The batch that this process learns from."""
        if self.shards:
            index, key = shard(index), shard(key)
        keep = self.settings.masks.keep(self.train.feature_counts, key)
        batch = self.train.batch(index, keep=keep, key=key, corrupt=self.settings.corrupt)
        return augment(batch, self.settings.augment) if self.settings.augment else batch

    def _run(self, index: Tensor, key: Tensor, batch: Batch | None = None) -> dict[str, Tensor]:
        batch = self.batch(index, key) if batch is None else batch
        share = len(batch) / len(index) if len(batch) < len(index) else 1 / world_size()  # its weight in the sum of all
        with torch.autocast(index.device.type, dtype=torch.bfloat16, enabled=self.half):
            terms = self.method.loss(batch)
        self.optimizer.zero_grad(set_to_none=True)
        losses = torch.stack([term.float() for term in terms.values()])
        (losses.sum() * share).backward()
        join()  # with the side streams, before anything reads their gradients
        sum_gradients(self.method)
        self.optimizer.step()
        return dict(zip(terms, total(losses.detach() * share), strict=True))

    def _warm_up(self, index: Tensor, key: Tensor) -> dict[str, Tensor]:
        """A step as it has to run before it is recorded; cuDNN chooses its algorithms here."""
        with self._cudnn():
            return warm_up(lambda: self._run(index, key))

    def _cudnn(self) -> AbstractContextManager[None]:
        fixed = self.settings.deterministic
        return torch.backends.cudnn.flags(enabled=True, benchmark=not fixed, deterministic=fixed)

    def _recorded(self, index: Tensor, key: Tensor) -> bool:
        index, key = index.clone(), key.clone()
        self.optimizer.zero_grad(set_to_none=True)
        with self._cudnn():
            recording = record(lambda: self._run(index, key), "step")
        if recording is None:
            self.optimizer.zero_grad(set_to_none=True)
            self.record = False
        else:
            self.recordings[len(index)] = _Recording(index, key, *recording)
        return self.record


def _shardable(method: Trainable) -> bool:
    """Whether training on shards equals training on whole batches, which have their own statistics and dropout."""
    modules = [module for module in method.modules() if module.training]
    return method.shardable and not any(isinstance(module, (_BatchNorm, _DropoutNd)) for module in modules)


def _read(index: Tensor, key: Tensor, batch: "Future[Batch]") -> tuple[Tensor, Tensor, Batch]:
    return index, key, batch.result()


def training_step(method: Trainable, train: Dataset, settings: TrainSettings, *, record: bool = True) -> Step:
    """The step that `fit` repeats, with its own optimizer: (index, key, learning rate) -> loss terms."""
    method.to(train.device)
    return Step(method, make_optimizer(method, settings, train.device), train, settings, record=record)


@contextmanager
def arithmetic(settings: TrainSettings, device: torch.device) -> Iterator[None]:
    """The precision of matrix products and the determinism that the settings ask for."""
    if settings.deterministic and device.type == "cuda" and "CUBLAS_WORKSPACE_CONFIG" not in os.environ:
        raise ValueError("deterministic=True on a GPU needs the environment variable CUBLAS_WORKSPACE_CONFIG=:4096:8")
    changes = settings.deterministic and not torch.are_deterministic_algorithms_enabled()
    if changes:  # otherwise it is not called: it imports torch's compiler
        torch.use_deterministic_algorithms(True)
    # otherwise it is not asked for: torch refuses to tell where `torch.backends....fp32_precision` is set
    rounds = settings.precision == "tf32" and device.type == "cuda"
    precision = torch.get_float32_matmul_precision() if rounds else ""
    if rounds:
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        if changes:
            torch.use_deterministic_algorithms(False)
        if rounds:
            torch.set_float32_matmul_precision(precision)
