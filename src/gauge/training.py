"""fit(): one loop for every method and imputer, with exact resume.

Batch order, masks and noise are pure functions of (seed, epoch, sample), and torch's own draws are seeded for each
epoch, so a run that is killed and started again ends bit for bit where the uninterrupted one does.
"""

import json
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
from gauge.inference import predict_split
from gauge.masks import parse_protocol
from gauge.randomness import permutation, sample_keys, seeded
from gauge.types import Batch

MIN_GAIN = 1e-4  # what counts as an improvement for patience


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
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> Progress:
    """Train a module that offers `loss(batch)`; it ends with its best epoch's weights, or the last's without `selection`.

    With a folder, every epoch leaves `last.safetensors` (and `best.safetensors`) there, and a second call continues from
    them. `end_epoch()`, where the module has it, runs after each epoch.
    """
    if settings.selection and val is None:
        raise ValueError(f"settings select by {', '.join(settings.selection)} but no validation split was given")
    method.to(train.device)
    trained = [parameter for parameter in method.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=settings.learning_rate, fused=True)
    # with a constant rate a longer run is the shorter one continued
    identity = settings.model_dump(mode="json", exclude={"epochs"} if settings.schedule == "constant" else None)
    run = {"settings": identity, "data": train.fingerprint}
    progress, best = _resume(method, optimizer, folder, train.device, run)
    while progress.epoch < settings.epochs and not _patience_is_over(progress, settings):
        started = time.perf_counter()
        with seeded(settings.seed, "epoch", progress.epoch), _determinism(settings.deterministic):
            losses = _train_epoch(method, optimizer, train, settings, progress.epoch)
        score = _validate(method, val, settings) if val is not None and settings.selection else None
        progress.epoch += 1
        improved = _improved(progress, score)
        if improved:
            best = _state(method)
        epoch = Epoch(progress.epoch, settings.epochs, losses, score, time.perf_counter() - started)
        progress.history.append(asdict(epoch))
        if folder is not None:
            _save(folder, method, optimizer, {"progress": asdict(progress), "run": run}, best if improved else None)
        on_epoch(epoch)
    if best is not None:
        checkpoint.load_into(method, best, Path("the best epoch"))
    method.eval()
    return progress


def _train_epoch(
    method: Any, optimizer: torch.optim.Adam, train: Dataset, settings: TrainSettings, epoch: int
) -> dict[str, float]:
    method.train()
    protocol, layout = parse_protocol(settings.masks), train.layout
    order = permutation(len(train), settings.seed, "order", epoch, device=train.device)
    steps = order.split(settings.batch_size)
    totals: list[dict[str, Tensor]] = []
    for step, index in enumerate(steps):
        for group in optimizer.param_groups:
            group["lr"] = _learning_rate(settings, epoch + step / len(steps))
        key = sample_keys(index, settings.seed, "train", epoch)
        batch = train.batch(index, keep=protocol.keep(layout, key), key=key)
        totals.append(_step(method, optimizer, batch, settings))
    if hasattr(method, "end_epoch"):
        method.end_epoch()
    # looked at once an epoch: a look at every step would make the device wait
    losses = {name: torch.stack([terms[name] for terms in totals]) for name in totals[0]}
    for name, values in losses.items():
        wrong = (~torch.isfinite(values)).nonzero()
        if len(wrong):
            step = int(wrong[0])
            raise FloatingPointError(
                f"loss {name!r} is {float(values[step])} in epoch {epoch + 1}, batch {step + 1} of {len(steps)} (samples "
                f"{steps[step][:5].tolist()} ...); lower the learning rate ({settings.learning_rate:g}) or look at them"
            )
    if not all(bool(torch.isfinite(parameter).all()) for parameter in method.parameters()):
        raise FloatingPointError(f"weights are no longer finite after epoch {epoch + 1}; lower the learning rate")
    return {name: float(values.mean()) for name, values in losses.items()}


def _step(method: Any, optimizer: torch.optim.Optimizer, batch: Batch, settings: TrainSettings) -> dict[str, Tensor]:
    device = batch.index.device.type
    with torch.autocast(device, dtype=torch.bfloat16, enabled=settings.precision == "bf16"):
        terms: dict[str, Tensor] = method.loss(batch)
    optimizer.zero_grad(set_to_none=True)
    torch.stack([term.float() for term in terms.values()]).sum().backward()
    optimizer.step()
    return {name: term.detach().float() for name, term in terms.items()}


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


def _save(
    folder: Path,
    method: nn.Module,
    optimizer: torch.optim.Optimizer,
    about: dict[str, Any],
    new_best: dict[str, Tensor] | None,
) -> None:
    """`last.safetensors` first: it alone is enough to continue from."""
    tensors = {f"model.{name}": tensor for name, tensor in method.state_dict().items()}
    for number, slots in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{slot}": value for slot, value in slots.items()}
    checkpoint.save(folder / "last.safetensors", tensors, about)
    if new_best is not None:
        checkpoint.save(folder / "best.safetensors", new_best, {"epoch": about["progress"]["best_epoch"]})
    history = about["progress"]["history"]
    checkpoint.write_text(folder / "metrics.jsonl", "".join(json.dumps(epoch) + "\n" for epoch in history))


def _resume(
    method: nn.Module,
    optimizer: torch.optim.Optimizer,
    folder: Path | None,
    device: torch.device,
    run: dict[str, Any],
) -> tuple[Progress, dict[str, Tensor] | None]:
    """Put module and optimizer where an earlier call left them; a fresh start when there was none."""
    if folder is None or not (folder / "last.safetensors").exists():
        return Progress(), None
    path = folder / "last.safetensors"
    tensors, about = checkpoint.load(path, device)
    model = {name.removeprefix("model."): tensor for name, tensor in tensors.items() if name.startswith("model.")}
    checkpoint.load_into(method, model, path)
    if about["run"] != run:
        changed = [name for name, value in run["settings"].items() if about["run"]["settings"].get(name) != value]
        raise ValueError(
            f"{path} belongs to a run with other {', '.join(changed) or 'data'}; "
            "use another folder, or delete it to start anew"
        )
    slots: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, number, slot = name.split(".")
            slots.setdefault(int(number), {})[slot] = tensor.cpu() if slot == "step" else tensor
    optimizer.load_state_dict({"state": slots, "param_groups": optimizer.state_dict()["param_groups"]})
    progress = Progress(**about["progress"])
    if progress.best_score is None:
        return progress, None
    if progress.best_epoch == progress.epoch:  # it may have been killed before its best epoch got a file of its own
        best = _state(method)
        checkpoint.save(folder / "best.safetensors", best, {"epoch": progress.best_epoch})
        return progress, best
    return progress, checkpoint.load(folder / "best.safetensors", device)[0]


@contextmanager
def _determinism(wanted: bool) -> Iterator[None]:
    if wanted and torch.cuda.is_available() and "CUBLAS_WORKSPACE_CONFIG" not in os.environ:
        raise ValueError("deterministic=True on a GPU needs the environment variable CUBLAS_WORKSPACE_CONFIG=:4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(wanted or before)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
