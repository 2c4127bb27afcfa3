"""fit(): one loop for every method and imputer, with exact resume.

Batch order, masks and noise are pure functions of (seed, epoch, sample), and torch's own draws are seeded for each
epoch, so a run that is killed and started again ends bit for bit where the uninterrupted one does.
"""

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gauge.data import Dataset
from gauge.randomness import permutation, sample_keys, seeded
from gauge.training.checkpoint import load, load_into, save, write_text
from gauge.training.distributed import barrier, broadcast, is_main, join_group, synchronise
from gauge.training.inference import MAX_GPU_BATCH, predict_split
from gauge.training.recorded import Recordable, Recorded
from gauge.training.settings import TrainSettings
from gauge.training.step import Step, arithmetic, make_optimizer, training_step
from gauge.types import Method, Trainable, provisional
from gauge.values import Batch, Prediction

MAX_BYTES_SAVED_EACH_EPOCH = 2**20  # bytes: a smaller state is saved after every epoch
LAST = "last.safetensors"


@dataclass(frozen=True)
class Epoch:
    number: int
    of: int
    losses: dict[str, float]
    score: float | None
    seconds: float


@dataclass
class Progress:
    """The state of training; saved with every checkpoint."""

    epoch: int = 0
    best_score: float | None = None
    best_epoch: int = 0
    patience_score: float | None = None
    waited: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


def fit(
    method: Trainable,
    train: Dataset,
    val: Dataset | None = None,
    *,
    settings: TrainSettings,
    folder: str | Path | None = None,
    on_epoch: Callable[[Epoch], object] = lambda epoch: None,
    code: str = "",
    record: bool = True,
) -> Progress:
    """Train a method or an imputer; it ends with the weights of its best epoch, or of the last one without `selection`.

    A method is then finished by its `prepare(train, val)`; what has no parameters to train is only finished. Under torchrun
    all processes train one model; the first one writes and reports.

    Parameters
    ----------
    method
        A `GaugePlus`, a `Gauge`, or another method, imputer or pre-trainer; it moves to the device of `train`.
    train
        The samples to learn from.
    val
        Samples that select the epoch, stop training early, and decide what `prepare` learns, such as the weights of the
        votes of GAUGE+.
    settings
        How to train.
    folder
        Where the state of training is saved as `last.safetensors`; a second call continues from it if settings, data and
        `code` are the same.
    on_epoch
        Called after each epoch; training stops when it returns True, and no finished epoch is lost if it raises.
    code
        What the state in the folder depends on besides settings and data, such as a version.
    record
        False turns off CUDA graphs.

    Returns
    -------
    Progress
        With the `history` of all epochs, and the `best_epoch` and `best_score` where epochs are selected.

    Examples
    --------
    >>> from gauge import Gauge, Network, Transformer, UnitEncoder
    >>> from gauge.encoders.mlp import Mlp
    >>> encoder = UnitEncoder({"scan": Mlp((3,), 8)}, dim=8)
    >>> model = Gauge(encoder, Network(Transformer(8, heads=2, depth=1), dim=8, num_classes=2))
    >>> train = Dataset("train", {"scan": torch.rand(20, 3)}, torch.arange(20) % 2)
    >>> len(fit(model, train, settings=TrainSettings(epochs=2, batch_size=10)).history)
    2
    """
    method.to(train.device)
    join_group(train.device)
    progress = Progress()
    if method.is_trainable:
        _check(method, train, val, settings)
        with provisional(method):
            progress = _train(method, train, val, settings, folder=folder, on_epoch=on_epoch, code=code, record=record)
    method.eval()
    if isinstance(method, Method):
        method.prepare(train, val)
    synchronise(method)
    return progress


def _train(
    method: Trainable,
    train: Dataset,
    val: Dataset | None,
    settings: TrainSettings,
    *,
    folder: str | Path | None,
    on_epoch: Callable[[Epoch], object],
    code: str,
    record: bool,
) -> Progress:
    optimizer = make_optimizer(method, settings, train.device)
    # with a constant rate a longer run is the shorter one continued
    ignored = {"epochs"} if settings.schedule == "constant" and not settings.warm_up else None
    identity = settings.model_dump(mode="json", exclude=ignored, exclude_defaults=True)
    data = [] if folder is None else [split.fingerprint for split in (train, val) if split is not None]
    saver = _Saver(folder, method, optimizer, {"settings": identity, "data": data, "code": code})
    barrier()  # the first process may still be saving an earlier call
    progress, best = saver.resume(train.device)
    step = Step(method, optimizer, train, settings, record=record)
    predict = None
    if step.record and val is not None and settings.selection and isinstance(method, Recordable):
        predict = Recorded(method, sizes=(min(len(val), MAX_GPU_BATCH),)).predict
    # no later epoch could be kept once the best one has the highest possible score
    patience = math.inf if settings.patience is None else settings.patience
    while progress.epoch < settings.epochs and progress.waited < patience and progress.best_score != 1.0:
        started = time.perf_counter()
        with seeded(settings.seed, "epoch", progress.epoch), arithmetic(settings, train.device):
            found = method.validate(train, val) if val is not None and isinstance(method, Method) else {}
            losses = _train_epoch(step, progress.epoch) | found
            score = _validate(method, val, settings, predict) if val is not None and settings.selection else None
        progress.epoch += 1
        if _improved(progress, score):
            best = {name: tensor.detach().clone() for name, tensor in method.state_dict().items()}
        epoch = Epoch(progress.epoch, settings.epochs, losses, score, time.perf_counter() - started)
        progress.history.append(asdict(epoch))
        saver.save(progress, best)
        try:
            if broadcast(is_main() and on_epoch(epoch) is True):
                break
        except BaseException:
            saver.save(progress, best, now=True)
            raise
    saver.save(progress, best, now=True)
    if best is not None:
        load_into(method, best, Path("the best epoch"))
    return progress


def _check(method: Trainable, train: Dataset, val: Dataset | None, settings: TrainSettings) -> None:
    name, size, selection = type(method).__name__, settings.batch_size, ", ".join(map(str, settings.selection))
    if selection and val is None:
        raise ValueError(f"settings select by {selection} but no validation split was given")
    if selection and not isinstance(method, Method):
        raise ValueError(f"{name} makes no predictions, so no epoch can be selected; leave selection empty")
    for data, role in ((train, "training"), (val, "validation")):
        if method.needs_labels and data is not None and not bool(data.labelled.all()):
            raise ValueError(
                f"{int((~data.labelled).sum())} of {len(data)} {role} samples have no label, and {name} learns from labels; "
                "take() the others, or pre-train or distil a model with these"
            )
    if method.looks_across_batch and (size == 1 or len(train) % size == 1):
        batches = f"{len(train)} samples in batches of {size}"
        raise ValueError(f"{name} compares samples, but {batches} leave one alone; set another batch_size")


def seconds_per_step(method: Trainable, train: Dataset, settings: TrainSettings, *, steps: int = 2) -> float:
    """The duration of a training step in the first process, after one to warm up; the module is changed by it."""
    join_group(train.device)
    step = training_step(method, train, settings, record=False)
    index = torch.arange(min(settings.batch_size, len(train)), device=train.device)
    key = sample_keys(index, settings.seed)
    for number in range(steps + 1):
        if number == 1:
            started = time.perf_counter()
        float(next(iter(step(index, key, settings.learning_rate).values())))  # waits for the device
    return broadcast((time.perf_counter() - started) / steps)


def _train_epoch(step: Step, epoch: int) -> dict[str, float]:
    method, settings, train = step.method, step.settings, step.train
    method.train()
    order = permutation(len(train), settings.seed, "order", epoch, device=train.device)
    size, steps = settings.batch_size, math.ceil(len(train) / settings.batch_size)
    losses: dict[str, Tensor] = {}
    for number, (index, key, read) in enumerate(step.ahead(_batches(order, settings, epoch))):
        terms = step(index, key, _learning_rate(settings, epoch + number / steps, 1 / steps), read)
        losses = losses or {name: term.new_empty(steps) for name, term in terms.items()}
        for name, values in losses.items():
            values[number].copy_(terms[name])
    method.end_epoch()
    # checked once an epoch: a check at every step would make the device wait
    for name, values in losses.items():
        wrong = (~torch.isfinite(values)).nonzero()
        if len(wrong):
            batch = int(wrong[0])
            raise FloatingPointError(
                f"loss {name!r} is {float(values[batch])} in epoch {epoch + 1}, batch {batch + 1} of {steps} (samples "
                f"{order[batch * size :][: min(size, 5)].tolist()} ...); lower the learning rate "
                f"({settings.learning_rate:g}) or look at them"
            )
    trained = [each.detach() for each in method.parameters() if each.requires_grad and each.numel()]
    largest = [torch.linalg.vector_norm(weights, torch.inf) for weights in trained]
    if not bool(torch.stack(largest).isfinite().all()):
        raise FloatingPointError(f"weights are no longer finite after epoch {epoch + 1}; lower the learning rate")
    return {name: float(values.mean()) for name, values in losses.items()}


def _batches(order: Tensor, settings: TrainSettings, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The indices and keys of every batch. Keys are computed for several batches at a time: for all of them they would
    take memory, one by one they would take time."""
    # the keys of 64 batches are computed together
    for part in order.split(64 * settings.batch_size):
        keys = sample_keys(part, settings.seed, "train", epoch)
        yield from zip(part.split(settings.batch_size), keys.split(settings.batch_size), strict=True)


def _learning_rate(settings: TrainSettings, epoch: float, step: float) -> float:
    """That of the step which begins when `epoch` epochs are done; `step` is its share of an epoch."""
    rate = settings.learning_rate
    if settings.warm_up:
        rate *= min(1.0, (epoch + step) / (settings.warm_up * settings.epochs))
    if settings.schedule == "constant":
        return rate
    return rate * 0.5 * (1 + math.cos(math.pi * epoch / settings.epochs))


def budget(settings: TrainSettings, rows: int, epochs: int) -> tuple[int, float]:
    """The number of steps in `epochs` epochs over `rows` rows, and the sum of their learning rates. Adam moves a parameter
    by about its rate in a step, so the sum bounds how far it can go."""
    steps = math.ceil(rows / settings.batch_size)
    starts = (epoch + step / steps for epoch in range(epochs) for step in range(steps))
    rates = (_learning_rate(settings, start, 1 / steps) for start in starts)
    return steps * epochs, math.fsum(rates)


def _validate(
    method: Trainable, val: Dataset, settings: TrainSettings, predict: Callable[[Batch], Prediction] | None
) -> float:
    """NOTE[PAPER] selection: the paper selects by "the best validation accuracy" and not under which missingness; here
    the mean over the listed protocols decides, the same for every method."""
    assert isinstance(method, Method)
    splits = [predict_split(method, val, protocol, predict=predict) for protocol in settings.selection]
    scores = [split.score(settings.metric) for split in splits]
    return broadcast(sum(scores) / len(scores))


def _improved(progress: Progress, score: float | None) -> bool:
    """Update the progress by a validation score; True if it is the best so far."""
    if score is None:
        return False
    # what counts as an improvement for patience
    if progress.patience_score is None or score >= progress.patience_score + 1e-4:
        progress.patience_score, progress.waited = score, 0
    else:
        progress.waited += 1
    if progress.best_score is not None and score <= progress.best_score:
        return False
    progress.best_score, progress.best_epoch = score, progress.epoch
    return True


class _Saver:
    """Saves the state of training to a folder, as one file that is replaced as a whole, and continues from it."""

    def __init__(
        self, folder: str | Path | None, method: Trainable, optimizer: torch.optim.Optimizer, run: dict[str, Any]
    ) -> None:
        self.folder = None if folder is None else Path(folder)
        self.method, self.optimizer, self.run = method, optimizer, run
        self.saved_epoch, self.saved_at = 0, time.monotonic()
        self.large = sum(tensor.nbytes for tensor in method.state_dict().values()) > MAX_BYTES_SAVED_EACH_EPOCH

    def save(self, progress: Progress, best: dict[str, Tensor] | None, *, now: bool = False) -> None:
        """Save after an epoch; a large state only from time to time, unless `now`."""
        # a large checkpoint is saved every ten seconds at most
        waits = self.large and not now and time.monotonic() < self.saved_at + 10
        if self.folder is None or progress.epoch == self.saved_epoch or waits or not is_main():
            return
        tensors = {f"model.{name}": tensor for name, tensor in self.method.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in (best or {}).items()}
        for number, slots in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{slot}": value for slot, value in slots.items()}
        save(self.folder / LAST, tensors, {"progress": asdict(progress), "run": self.run})
        history = "".join(json.dumps(epoch) + "\n" for epoch in progress.history)
        write_text(self.folder / "metrics.jsonl", history)
        self.saved_epoch, self.saved_at = progress.epoch, time.monotonic()

    def resume(self, device: torch.device) -> tuple[Progress, dict[str, Tensor] | None]:
        """Restore module and optimizer; returns the progress and the weights of the best epoch, if there is one."""
        if self.folder is None or not (self.folder / LAST).exists():
            return Progress(), None
        path = self.folder / LAST
        tensors, metadata = load(path, device)
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "optimizer": {}}
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = tensor
        if metadata["run"] != self.run:
            saved, run = metadata["run"], self.run
            before, now = saved["settings"], run["settings"]
            changed = [name for name in {**now, **before} if before.get(name) != now.get(name)]
            changed += [name for name in ("data", "code") if saved.get(name) != run[name]]
            raise ValueError(
                f"{path} belongs to a run with other {', '.join(changed)}; use another folder or delete it"
            )
        load_into(self.method, parts["model"], path)
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in parts["optimizer"].items():
            number, slot = name.split(".")
            state.setdefault(int(number), {})[slot] = tensor
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})
        return Progress(**metadata["progress"]), parts["best"] or None
