"""Stages: modules to train that depend on each other; each is trained once, stored, and loaded after that.

A stage is stored under the hash of everything it is built from: its arguments, its settings, the data, and the stages it
needs. The code that trained it is recorded with it: if that code has changed, the stage is trained again.
"""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from gauge.data import Dataset
from gauge.randomness import seeded
from gauge.training import checkpoint, source
from gauge.training.distributed import barrier, broadcast, is_main, join_group
from gauge.training.loop import LAST, Epoch, Progress, budget, fit, seconds_per_step
from gauge.training.metrics import NORMAL_QUANTILE
from gauge.training.provenance import commit, hardware
from gauge.training.settings import TrainSettings
from gauge.types import Trainable, provisional

logger = logging.getLogger(__name__)

OnEpoch = Callable[[str, Epoch], object]
"""Called with the name of a stage after each epoch; True ends the stage early."""


def silent(stage: str, epoch: Epoch) -> None:
    """An `OnEpoch` that does nothing."""


@dataclass(frozen=True)
class Stage:
    """One module to train: `make(train, *needs, **arguments)`, with the trained modules of `needs`. `make` is a class or a
    function of a module. `split` names the rows it learns from: those of the classifier, or those of the imputer."""

    name: str
    make: Callable[..., Trainable]
    arguments: Mapping[str, Any]
    settings: TrainSettings
    needs: tuple["Stage", ...] = ()
    split: Literal["train", "imputer"] = "train"

    def all(self) -> list["Stage"]:
        """All stages that this one needs, each once and in order, then the stage itself."""
        stages: dict[str, Stage] = {}
        for need in self.needs:
            stages |= {stage.identity: stage for stage in need.all()}
        return [*stages.values(), self]

    @cached_property
    def identity(self) -> str:
        """The hash of what is built and how it trains, without the data."""
        return self.key("")

    def key(self, data: str | Mapping[str, str]) -> str:
        """The hash that this stage is stored under, for data with that fingerprint, or with these for each split."""
        return source.digest(
            {
                "make": source.plain(self.make),
                "arguments": source.plain(self.arguments),
                "settings": source.plain(self.settings),
                "data": data if isinstance(data, str) else data[self.split],
                "needs": [need.key(data) for need in self.needs],
            }
        )

    @cached_property
    def code(self) -> str:
        """The hash of the code that decides what this stage learns."""
        return source.digest([source.code(self.make, self.arguments, fit), *(need.code for need in self.needs)])

    def build(self, train: Dataset, needs: list[Trainable]) -> Trainable:
        with seeded(self.settings.seed, "build", self.name):
            return self.make(train, *needs, **self.arguments)

    def seconds_per_epoch(self, train: Dataset) -> float:
        """The duration of an epoch without its validation, measured on a few steps with untrained needs."""
        module = self.untrained(train)
        if not module.is_trainable:
            return 0.0
        return math.ceil(len(train) / self.settings.batch_size) * seconds_per_step(module, train, self.settings)

    def untrained(self, train: Dataset) -> Trainable:
        """The module, built on the untrained ones of all stages that it needs."""
        needs = [need.untrained(train) for need in self.needs]
        with provisional(*needs):
            return self.build(train, needs)


@dataclass(frozen=True)
class Trained:
    """The module of a stage and the record of its training. `stale`: the code has changed since."""

    module: Trainable
    metadata: Mapping[str, Any]
    stale: bool = False


@dataclass
class StageStore:
    """Trains stages on one pair of splits and stores them, in a folder or, without one, in memory.

    With `reuse`, stages are used although the code that trained them has changed. `imputer` are the rows that an imputer
    learns from, by default those of `train`.
    """

    train: Dataset
    val: Dataset | None
    folder: Path | None
    on_epoch: OnEpoch = silent
    reuse: bool = False
    imputer: Dataset | None = None
    _memory: dict[str, tuple[dict[str, Tensor], dict[str, Any]]] = field(default_factory=dict)

    def path(self, stage: Stage) -> Path | None:
        return None if self.folder is None else self.folder / f"{stage.name}-{self.key(stage)}" / "model.safetensors"

    def key(self, stage: Stage) -> str:
        """What a stage learns from the rows of the imputer depends on labels only through the stages it needs."""
        val = self.val.fingerprint if self.val else ""
        inputs = self._imputer.fingerprint_of_inputs
        return stage.key({"train": f"{self.train.fingerprint} {val}", "imputer": f"{inputs} {val}"})

    def code(self, stage: Stage) -> str:
        """That of the stage; empty in memory, where it cannot change, as reading the code takes a while."""
        return "" if self.folder is None else stage.code

    def rows(self, stage: Stage) -> Dataset:
        return self._imputer if stage.split == "imputer" else self.train

    @property
    def _imputer(self) -> Dataset:
        return self.train if self.imputer is None else self.imputer

    def metadata(self, stage: Stage) -> dict[str, Any] | None:
        """The record of the stage's training; None if it is not trained, or was trained by other code."""
        path = self.path(stage)
        if path is None:
            return self._memory[self.key(stage)][1] if self.key(stage) in self._memory else None
        if not path.exists():
            return None
        metadata = checkpoint.read_metadata(path)
        return metadata if metadata["trained"]["code"] == self.code(stage) or self.reuse else None

    def trained(self, stage: Stage) -> Trained:
        """The stage, trained or loaded; every call returns a new module."""
        needs = [self.trained(need) for need in stage.needs]
        module = stage.build(self.rows(stage), [need.module for need in needs]).to(self.train.device)
        join_group(self.train.device)
        metadata = self.metadata(stage)
        if broadcast(metadata is None):
            metadata = self._train(stage, module)
        else:
            assert metadata is not None
            path = self.path(stage)
            tensors = self._memory[self.key(stage)][0] if path is None else checkpoint.load(path)[0]
            checkpoint.load_into(module, tensors, path or Path(stage.name))
        stale = metadata["trained"]["code"] != self.code(stage) or any(need.stale for need in needs)
        return Trained(module.eval(), metadata, stale)

    def _train(self, stage: Stage, module: Trainable) -> dict[str, Any]:
        path, settings, rows = self.path(stage), stage.settings, self.rows(stage)
        if path is not None and is_main():
            self._discard_stale(stage, path)
        barrier()
        start = _scalars(module)
        folder, on_epoch, code = path and path.parent, partial(self.on_epoch, stage.name), self.code(stage)
        progress = fit(module, rows, self.val, settings=settings, folder=folder, on_epoch=on_epoch, code=code)
        if module.is_trainable:
            _report(stage, progress, self.val)
        steps, sum_of_rates = budget(settings, len(rows), progress.best_epoch or progress.epoch)
        metadata = {
            "stage": stage.name,
            "config": source.plain(stage.arguments),
            "settings": settings.model_dump(mode="json"),
            "epochs": progress.epoch,
            "best": progress.best_epoch,
            "score": progress.best_score,
            "steps": steps,
            "sum_of_rates": sum_of_rates,
            "scalars": {"start": start, "end": _scalars(module)},
            "train_seconds": round(sum(epoch["seconds"] for epoch in progress.history), 1),
            "train_rows": len(rows),
            "history": progress.history,
            "trained": {"commit": commit(), "code": self.code(stage), "hardware": hardware(self.train.device)},
        }
        if path is None:
            state = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
            self._memory[self.key(stage)] = state, metadata
        elif is_main():
            checkpoint.save(path, module.state_dict(), metadata)
            (path.parent / LAST).unlink(missing_ok=True)
        barrier()
        return metadata

    def _discard_stale(self, stage: Stage, path: Path) -> None:
        """Delete what other code has trained, with a warning."""
        last = path.parent / LAST
        interrupted = last.exists() and checkpoint.read_metadata(last)["run"].get("code") != stage.code
        if interrupted:
            last.unlink()
        if interrupted or path.exists():
            logger.warning("the code of %s has changed since it was trained; it is trained again", stage.name)
            path.unlink(missing_ok=True)


def _scalars(module: Trainable) -> dict[str, float]:
    """Single numbers that the module learns, such as threshold and temperature of its gates."""
    return {name: value.item() for name, value in module.named_parameters() if value.requires_grad and not value.ndim}


def _report(stage: Stage, progress: Progress, val: Dataset | None) -> None:
    """Log that training ended before its last epoch, and that it ended at chance level."""
    if progress.epoch < stage.settings.epochs:
        best = f"; epoch {progress.best_epoch} was the best" if progress.best_epoch else ""
        logger.info("%s ended after %d of %d epochs%s", stage.name, progress.epoch, stage.settings.epochs, best)
    if val is None or progress.best_score is None:
        return
    metric, score = stage.settings.metric, progress.best_score
    chance = metric.chance(val.labels.cpu().numpy())
    if score < chance + NORMAL_QUANTILE * (chance * (1 - chance) / len(val)) ** 0.5:
        logger.warning(
            "%s ended at chance level: validation %s %.1f %%, the class frequencies alone give %.1f %%; train for more "
            "epochs, with another learning rate, or check the labels",
            *(stage.name, metric, 100 * score, 100 * chance),
        )
