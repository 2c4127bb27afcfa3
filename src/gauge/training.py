"""fit(): one loop for every method and imputer, with exact resume.

Batch order, masks and noise are pure functions of (seed, epoch, sample), and torch's own draws are seeded for each
epoch, so a run that is killed and started again ends bit for bit where the uninterrupted one does.

Networks this small wait for kernel launches, not for arithmetic. On a GPU a training step, from the batch's indices to
the optimizer, is therefore recorded once as a CUDA graph and replayed.
"""

import json
import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gauge import checkpoint
from gauge.config import TrainSettings
from gauge.data import Dataset
from gauge.data.augmentation import augment
from gauge.inference import masked_batches, predict_split
from gauge.masks import parse_protocol
from gauge.nn.streams import forget, join
from gauge.randomness import permutation, sample_keys, seeded

logger = logging.getLogger(__name__)

MIN_GAIN = 1e-4  # what counts as an improvement for patience
EAGER_STEPS = 3  # before a step is recorded: they allocate what it needs
LARGE = 2**20  # bytes: a larger state is saved only
SAVE_SECONDS = 10  # so often, a smaller one after every epoch
LAST = "last.safetensors"


@dataclass(frozen=True)
class Epoch:
    """What one epoch brought."""

    number: int
    of: int
    losses: dict[str, float]
    score: float | None
    seconds: float


@dataclass
class Progress:
    """Where training stands; saved with every checkpoint."""

    epoch: int = 0
    best_score: float | None = None
    best_epoch: int = 0
    patience_score: float | None = None
    waited: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


def fit(
    method: Any,
    train: Dataset,
    val: Dataset | None = None,
    *,
    settings: TrainSettings,
    folder: Path | None = None,
    on_epoch: Callable[[Epoch], object] = lambda epoch: None,
    record: bool = True,
) -> Progress:
    """Train a module that offers `loss(batch)`; it ends with its best epoch's weights, or the last's without `selection`.

    It ends early when `on_epoch` returns True. With a folder, training leaves `last.safetensors` there, and a second call
    continues from it; an exception that `on_epoch` raises to stop it loses no finished epoch. `end_epoch()`, where the
    module has it, runs after each epoch.
    `record=False` launches every step anew on a GPU too.
    """
    if settings.selection and val is None:
        raise ValueError(f"settings select by {', '.join(settings.selection)} but no validation split was given")
    _check_batches(method, train, settings)
    method.to(train.device)
    optimizer = _adam(method, settings, train.device)
    # with a constant rate a longer run is the shorter one continued
    identity = settings.model_dump(mode="json", exclude={"epochs"} if settings.schedule == "constant" else None)
    run = {"settings": identity, "data": train.fingerprint}
    progress, best = _resume(method, optimizer, folder, train.device, run)
    keeper = _Keeper(folder, method, optimizer, run)
    step = _Step(method, optimizer, train, settings, record=record)
    while progress.epoch < settings.epochs and not _patience_is_over(progress, settings):
        started = time.perf_counter()
        with seeded(settings.seed, "epoch", progress.epoch), _arithmetic(settings, train.device):
            losses = _train_epoch(step, progress.epoch)
            score = _validate(method, val, settings) if val is not None and settings.selection else None
        progress.epoch += 1
        if _improved(progress, score):
            best = _state(method)
        epoch = Epoch(progress.epoch, settings.epochs, losses, score, time.perf_counter() - started)
        progress.history.append(asdict(epoch))
        keeper.save(progress, best)
        try:
            enough = on_epoch(epoch)
        except BaseException:
            keeper.save(progress, best, now=True)
            raise
        if enough is True:
            break
    keeper.save(progress, best, now=True)
    if best is not None:
        checkpoint.load_into(method, best, Path("the best epoch"))
    method.eval()
    return progress


def _check_batches(method: Any, train: Dataset, settings: TrainSettings) -> None:
    """No sample is alone in a batch of a method whose samples learn from each other."""
    alone = settings.batch_size == 1 or len(train) % settings.batch_size == 1
    if alone and getattr(method, "looks_across_batch", False):
        raise ValueError(
            f"{type(method).__name__} learns from samples side by side, but {len(train)} samples in batches of "
            f"{settings.batch_size} leave one alone; set another batch_size"
        )


def _adam(method: nn.Module, settings: TrainSettings, device: torch.device) -> torch.optim.Adam:
    """On a GPU the learning rate is a tensor: a recorded step reads it anew at every replay."""
    trained = [parameter for parameter in method.parameters() if parameter.requires_grad]
    if device.type != "cuda":
        return torch.optim.Adam(trained, lr=settings.learning_rate, fused=True)
    rate = torch.tensor(settings.learning_rate, device=device)
    return torch.optim.Adam(trained, lr=rate, fused=True, capturable=True)


class _Step:
    """One training step, from the indices and keys of a batch to the optimizer; returns the loss terms.

    On a GPU full batches run eagerly a few times and are then recorded and replayed; what is left over at the end of an
    epoch runs eagerly. Where recording fails, steps stay eager and a warning says why.
    """

    def __init__(
        self, method: Any, optimizer: torch.optim.Adam, train: Dataset, settings: TrainSettings, *, record: bool
    ) -> None:
        self.method, self.optimizer, self.train, self.settings = method, optimizer, train, settings
        self.protocol = parse_protocol(settings.masks)
        self.record = record and train.device.type == "cuda"
        self.half = settings.precision == "bf16" and train.device.type == "cuda"
        self.eager_steps = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, index: Tensor, key: Tensor, rate: float) -> dict[str, Tensor]:
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        if not self.record or len(index) != self.settings.batch_size:
            return self._run(index, key)
        if self.eager_steps < EAGER_STEPS:
            self.eager_steps += 1
            return self._run_aside(index, key)
        if self.graph is None and not self._recorded(index, key):
            return self._run(index, key)
        assert self.graph is not None
        self.index.copy_(index)
        self.key.copy_(key)
        self.graph.replay()
        return {name: term.clone() for name, term in self.terms.items()}

    def _run(self, index: Tensor, key: Tensor) -> dict[str, Tensor]:
        batch = self.train.batch(index, keep=self.protocol.keep(self.train.layout, key), key=key)
        if self.settings.augment:
            batch = augment(batch, self.settings.augment)
        with torch.autocast(index.device.type, dtype=torch.bfloat16, enabled=self.half):
            terms: dict[str, Tensor] = self.method.loss(batch)
        self.optimizer.zero_grad(set_to_none=True)
        torch.stack([term.float() for term in terms.values()]).sum().backward()
        join()
        self.optimizer.step()
        return {name: term.detach().float() for name, term in terms.items()}

    def _run_aside(self, index: Tensor, key: Tensor) -> dict[str, Tensor]:
        """Off the default stream, as a step has to run before it can be recorded; convolutions find their fastest form."""
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside), self._fastest():
            terms = self._run(index, key)
        torch.cuda.current_stream().wait_stream(aside)
        return terms

    def _fastest(self) -> Any:
        fixed = self.settings.deterministic
        return torch.backends.cudnn.flags(enabled=True, benchmark=not fixed, deterministic=fixed)

    def _recorded(self, index: Tensor, key: Tensor) -> bool:
        self.index, self.key = index.clone(), key.clone()
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        try:
            with self._fastest(), torch.cuda.graph(graph):
                self.terms = self._run(self.index, self.key)
        except RuntimeError as error:
            logger.warning(
                "this step cannot be recorded as a CUDA graph and runs eagerly: %s", str(error).split("\n")[0]
            )
            self.record = False
            return False
        finally:
            forget()
        self.graph = graph
        return True


def training_step(method: Any, train: Dataset, settings: TrainSettings, *, record: bool = True) -> _Step:
    """The step that `fit` repeats, with an optimizer of its own: (index, key, learning rate) -> loss terms."""
    method.to(train.device).train()
    return _Step(method, _adam(method, settings, train.device), train, settings, record=record)


def seconds_per_step(method: Any, train: Dataset, settings: TrainSettings, *, steps: int = 2) -> float:
    """How long a training step takes, after one to warm up; the module is changed by it."""
    step = training_step(method, train, settings, record=False)
    index = torch.arange(min(settings.batch_size, len(train)), device=train.device)
    key = sample_keys(index, settings.seed)
    for number in range(steps + 1):
        if number == 1:
            started = time.perf_counter()
        float(next(iter(step(index, key, settings.learning_rate).values())))  # waits for the device
    return (time.perf_counter() - started) / steps


def seconds_per_validation(method: Any, val: Dataset, settings: TrainSettings, *, samples: int = 64) -> float:
    """How long it takes to validate, from the answers for a few samples."""
    if not settings.selection:
        return 0.0
    few = torch.arange(min(samples, len(val)), device=val.device)
    (batch,) = masked_batches(val, parse_protocol(settings.selection[-1]), len(few), few)
    method.to(val.device).eval()
    started = time.perf_counter()
    float(method.predict(batch).logits.sum())  # waits for the device
    return (time.perf_counter() - started) * len(settings.selection) * len(val) / len(few)


def _train_epoch(step: _Step, epoch: int) -> dict[str, float]:
    method, settings, train = step.method, step.settings, step.train
    method.train()
    order = permutation(len(train), settings.seed, "order", epoch, device=train.device)
    keys = sample_keys(order, settings.seed, "train", epoch)
    steps = order.split(settings.batch_size)
    totals: list[dict[str, Tensor]] = []
    for number, (index, key) in enumerate(zip(steps, keys.split(settings.batch_size), strict=True)):
        totals.append(step(index, key, _learning_rate(settings, epoch + number / len(steps))))
    if hasattr(method, "end_epoch"):
        method.end_epoch()
    # looked at once an epoch: a look at every step would make the device wait
    losses = {name: torch.stack([terms[name] for terms in totals]) for name in totals[0]}
    for name, values in losses.items():
        wrong = (~torch.isfinite(values)).nonzero()
        if len(wrong):
            place = int(wrong[0])
            raise FloatingPointError(
                f"loss {name!r} is {float(values[place])} in epoch {epoch + 1}, batch {place + 1} of {len(steps)} (samples "
                f"{steps[place][:5].tolist()} ...); lower the learning rate ({settings.learning_rate:g}) or look at them"
            )
    if not bool(torch.stack([torch.isfinite(parameter).all() for parameter in method.parameters()]).all()):
        raise FloatingPointError(f"weights are no longer finite after epoch {epoch + 1}; lower the learning rate")
    return {name: float(values.mean()) for name, values in losses.items()}


def _learning_rate(settings: TrainSettings, epoch: float) -> float:
    if settings.schedule == "constant":
        return settings.learning_rate
    return settings.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / settings.epochs))


def _validate(method: Any, val: Dataset, settings: TrainSettings) -> float:
    """NOTE[PAPER] selection: the paper selects by "the best validation accuracy" and not under which missingness; here
    the mean over the listed protocols decides, the same for every method."""
    scores = [predict_split(method, val, protocol).score(settings.metric) for protocol in settings.selection]
    return sum(scores) / len(scores)


def _improved(progress: Progress, score: float | None) -> bool:
    """Take note of a validation score; True when it is the best so far."""
    if score is None:
        return False
    if progress.patience_score is None or score >= progress.patience_score + MIN_GAIN:
        progress.patience_score, progress.waited = score, 0
    else:
        progress.waited += 1
    if progress.best_score is not None and score <= progress.best_score:
        return False
    progress.best_score, progress.best_epoch = score, progress.epoch
    return True


def _patience_is_over(progress: Progress, settings: TrainSettings) -> bool:
    return settings.patience is not None and progress.waited >= settings.patience


def _state(method: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in method.state_dict().items()}


class _Keeper:
    """Leaves what training can be continued from in a folder, in one file that is replaced as a whole."""

    def __init__(
        self, folder: Path | None, method: nn.Module, optimizer: torch.optim.Optimizer, run: dict[str, Any]
    ) -> None:
        self.folder, self.method, self.optimizer, self.run = folder, method, optimizer, run
        self.saved_epoch, self.saved_at = 0, time.monotonic()
        self.large = sum(tensor.nbytes for tensor in method.state_dict().values()) > LARGE

    def save(self, progress: Progress, best: dict[str, Tensor] | None, *, now: bool = False) -> None:
        """After every epoch, a large state only now and then; `now` at any rate."""
        waits = self.large and not now and time.monotonic() < self.saved_at + SAVE_SECONDS
        if self.folder is None or progress.epoch == self.saved_epoch or waits:
            return
        tensors = {f"model.{name}": tensor for name, tensor in self.method.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in (best or {}).items()}
        for number, slots in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{slot}": value for slot, value in slots.items()}
        checkpoint.save(self.folder / LAST, tensors, {"progress": asdict(progress), "run": self.run})
        history = "".join(json.dumps(epoch) + "\n" for epoch in progress.history)
        checkpoint.write_text(self.folder / "metrics.jsonl", history)
        self.saved_epoch, self.saved_at = progress.epoch, time.monotonic()


def _resume(
    method: nn.Module,
    optimizer: torch.optim.Optimizer,
    folder: Path | None,
    device: torch.device,
    run: dict[str, Any],
) -> tuple[Progress, dict[str, Tensor] | None]:
    """Put module and optimizer where an earlier call left them; a fresh start when there was none."""
    if folder is None or not (folder / LAST).exists():
        return Progress(), None
    path = folder / LAST
    tensors, about = checkpoint.load(path, device)
    model, best, slots = (_under(prefix, tensors) for prefix in ("model.", "best.", "optimizer."))
    checkpoint.load_into(method, model, path)
    if about["run"] != run:
        changed = [name for name, value in run["settings"].items() if about["run"]["settings"].get(name) != value]
        raise ValueError(
            f"{path} belongs to a run with other {', '.join(changed) or 'data'}; "
            "use another folder, or delete it to start anew"
        )
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in slots.items():
        number, slot = name.split(".")
        state.setdefault(int(number), {})[slot] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return Progress(**about["progress"]), best or None


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


@contextmanager
def _arithmetic(settings: TrainSettings, device: torch.device) -> Iterator[None]:
    """Matrix products as precise, and algorithms as repeatable, as the settings ask."""
    if settings.deterministic and device.type == "cuda" and "CUBLAS_WORKSPACE_CONFIG" not in os.environ:
        raise ValueError("deterministic=True on a GPU needs the environment variable CUBLAS_WORKSPACE_CONFIG=:4096:8")
    repeatable, precision = torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision()
    torch.use_deterministic_algorithms(settings.deterministic or repeatable)
    if settings.precision == "tf32" and device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(repeatable)
        torch.set_float32_matmul_precision(precision)
