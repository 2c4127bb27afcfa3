"""Tiny data and models for the laws: three modalities, ten units, eight channels."""

import io
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr
from copy import copy
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import jaxtyping
import numpy as np
import pandas as pd
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from typer.testing import CliRunner, Result

from gauge import (
    AnySubset,
    Batch,
    Dataset,
    Gating,
    Gauge,
    GaugeClassifier,
    Network,
    Prediction,
    TrainSettings,
    Transformer,
    UnitEncoder,
    fit,
)
from gauge.cli import main as cli
from gauge.encoders._with_whole import WithWhole
from gauge.encoders.columns import Columns
from gauge.encoders.conv_grid import ConvGrid
from gauge.encoders.deep_grid import DeepGrid
from gauge.encoders.flat_table import FlatTable
from gauge.encoders.mlp import Mlp
from gauge.imputers.mopoe import Coder, MoPoE
from gauge.masks import subsets
from gauge.nn.attention import Attention
from gauge.plus.gauge_plus import GaugePlus
from gauge.randomness import seeded
from gauge.registry import IMPUTERS
from gauge.training import checkpoint
from gauge.training.loop import Epoch
from gauge.training.stages import Stage
from gauge.types import Imputer, Method, Prepared, SupportsComplete, Trainable
from gauge.values import over_values
from gauge_lab.benchmarks import Benchmark

DIM, CLASSES = 8, 3
SHAPES = {"image": (1, 8, 8), "signal": (7,), "table": (5,)}
T = TypeVar("T", bound=nn.Module)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@contextmanager
def unchecked() -> Iterator[None]:
    """Without shape and type checks, as users run it: errors of the library itself come to light."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def dataset(split: str, rows: int, seed: int = 0) -> Dataset:
    """Learnable data: the label shifts every modality. A few table cells, signals and images are really missing."""
    labels = torch.arange(rows) % CLASSES
    shift = labels.float() - 1
    inputs = {
        name: noise(rows, *shape, seed=seed + place) + shift.reshape(rows, *[1] * len(shape))
        for place, (name, shape) in enumerate(SHAPES.items())
    }
    observed = {
        "image": torch.arange(rows) % 5 != 3,
        "signal": torch.arange(rows) % 4 != 1,
        "table": noise(rows, 5, seed=seed + 7) > -1,
    }
    return Dataset(split, inputs, labels, observed)


def incomplete_batch(samples: int = 6) -> Batch:
    observed = {
        "image": torch.tensor([True, True, False, True, False, True]),
        "signal": torch.tensor([True, False, True, True, False, True]),
        "table": torch.tensor(
            [[1, 1, 1, 1, 1], [1, 0, 1, 0, 1], [0, 0, 0, 1, 0], [0] * 5, [1, 1, 0, 1, 1], [0] * 5]
        ).bool(),
    }
    inputs = {name: noise(6, *shape, seed=3 + place) for place, (name, shape) in enumerate(SHAPES.items())}
    whole = Batch(inputs, observed, torch.arange(6) % CLASSES, torch.arange(6) + 10)
    return rows_of(whole, torch.arange(samples))


def rows_of(batch: Batch, rows: Tensor) -> Batch:
    return Batch(
        {name: values[rows] for name, values in batch.inputs.items()},
        {name: flags[rows] for name, flags in batch.observed.items()},
        None if batch.labels is None else batch.labels[rows],
        batch.index[rows],
        batch.key[rows],
    )


def with_hidden(batch: Batch, filling: float | str) -> Batch:
    """The batch with NaN, noise or a number where nothing was observed."""
    inputs = {}
    for name, values in batch.inputs.items():
        other = 9 * noise(*values.shape, seed=99) if filling == "noise" else torch.full_like(values, float(filling))
        inputs[name] = torch.where(over_values(batch.observed[name], values), values, other.to(values.dtype))
    return replace(batch, inputs=inputs)


def double(batch: Batch) -> Batch:
    return replace(batch, inputs={name: values.double() for name, values in batch.inputs.items()})


def unit_encoder() -> UnitEncoder:
    with seeded(0, "encoder"):
        encoders = {
            "image": ConvGrid(SHAPES["image"], DIM, channels=(4,)),
            "signal": Mlp(SHAPES["signal"], DIM, hidden=6),
            "table": Columns(SHAPES["table"], 6),
        }
        return UnitEncoder(encoders, DIM)


def network(depth: int = 2) -> Network:
    with seeded(0, "network"):
        return Network(Transformer(DIM, heads=2, depth=depth), DIM, CLASSES)


def enlarged(method: Method) -> Method:
    """The method with random weights that are large enough for every token to count."""
    with torch.no_grad():
        for place, parameter in enumerate(method.parameters()):
            parameter.add_(0.3 * noise(*parameter.shape, seed=place))
    return method


def gauge(imputer: SupportsComplete | None = None, **gating: object) -> Gauge:
    return Gauge(unit_encoder(), network(), imputer, gating=Gating(**gating))


def plus(*, whole: bool = True, **options: object) -> GaugePlus:
    """Units: 4 parts and the whole of an image, a signal that is one unit, 5 cells and the whole of a table."""
    with seeded(0, "plus"):
        image, table = DeepGrid(SHAPES["image"], DIM, channels=(4,)), Columns(SHAPES["table"], 6)
        if whole:
            image, table = WithWhole(image), WithWhole(table, FlatTable(SHAPES["table"], DIM, hidden=8))
        encoders = {"image": image, "signal": Mlp(SHAPES["signal"], DIM, hidden=6), "table": table}
        classifier = Network(Transformer(DIM, heads=2, depth=2), DIM, CLASSES)
        return finished(GaugePlus(UnitEncoder(encoders, DIM), classifier, **options)).eval()


def finished(module: T) -> T:
    """The module, whose untrained methods may predict as trained ones."""
    for part in module.modules():
        if isinstance(part, Prepared):
            part.finished = True
    return module


def any_subset(**options: object) -> AnySubset:
    with seeded(0, "projection"):
        return AnySubset(unit_encoder(), network(), subsets_per_step=3, **options)


def imputers() -> list[str]:
    """The registered imputers that fill any modality; TIP, which needs an image, has laws of its own."""
    return [name for name in IMPUTERS.names() if name != "tip"]


def imputer(name: str, train: Dataset) -> Imputer:
    """Any registered imputer for any data; for MoPoE, whose `from_dataset` wants images, one of linear maps."""
    with seeded(0, "imputer"):
        return linear_mopoe(train) if name == "mopoe" else IMPUTERS.get(name).from_dataset(train)


def linear_mopoe(train: Dataset, latent: int = 4, **options: object) -> MoPoE:
    sizes = {name: math.prod(shape) for name, shape in train.shapes.items()}
    encoders = {name: nn.Sequential(nn.Flatten(), nn.Linear(size, 2 * latent)) for name, size in sizes.items()}
    return MoPoE(
        {
            name: Coder(shape, encoders[name], nn.Sequential(nn.Linear(latent, sizes[name]), nn.Unflatten(1, shape)))
            for name, shape in train.shapes.items()
        },
        **options,
    )


def untrained(stage: Stage, train: Dataset) -> Trainable:
    """The module of a stage, standing on the untrained modules of all that it needs."""
    return finished(stage.untrained(train))


def weightless(stage: Stage, train: Dataset) -> Trainable:
    """The same on the meta device, where networks take no memory; the cached table of subsets is a real one."""
    subsets(len(train.shapes))

    def made(stage: Stage) -> Trainable:
        return stage.make(train, *map(made, stage.needs), **stage.arguments)

    with torch.device("meta"):
        return made(stage)


def zeros(benchmark: Benchmark, rows: int = 1) -> Dataset:
    """Data in the shapes of a benchmark."""
    inputs = {name: torch.zeros(rows, *modality.shape) for name, modality in benchmark.modalities.items()}
    return Dataset("train", inputs, torch.zeros(rows, dtype=torch.long))


def gradients(module: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    module.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in module.named_parameters() if parameter.grad is not None}


SUBSETS = ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))


def shown(batch: Batch, row: int, members: Sequence[int]) -> dict[str, Tensor]:
    """What a sample has of these modalities, with zeros in cells that are missing; all that it has where it has none."""
    flags = {name: each[row] for name, each in batch.observed.items() if each[row].any()}
    chosen = [name for place, name in enumerate(SHAPES) if place in members and name in flags] or list(flags)
    values = {name: batch.inputs[name][row] for name in chosen}
    return {name: torch.where(over_values(flags[name], x), x, torch.zeros(())) for name, x in values.items()}


def number_of_subset(modality: Tensor, visible: list[bool]) -> int:
    """That of the modalities that are visible as a whole or, where none is, in part; 0 is the first modality alone."""
    members = [
        [flag for flag, own in zip(visible, modality, strict=True) if own == place] for place in range(len(SHAPES))
    ]
    chosen = [place for place, own in enumerate(members) if all(own)] or [
        p for p, own in enumerate(members) if any(own)
    ]
    return sum(2**place for place in chosen) - 1


def loss_over_subsets(
    method: Method, logits_of: Callable[..., Tensor], batch: Batch, chosen: Iterable[Sequence[bool]]
) -> Tensor:
    """The mean cross-entropy of a definition under each subset; samples that it leaves nothing keep all."""
    units, losses = method.encoder(batch), []
    for subset in chosen:
        for row, label in enumerate(batch.labels):
            observed = units.observed[row].tolist()
            visible = [seen and bool(subset[own]) for seen, own in zip(observed, units.modality, strict=True)]
            losses.append(F.cross_entropy(logits_of(method, units, row, visible if any(visible) else observed), label))
    return torch.stack(losses).mean()


def check_predictions(method: Method, logits_of: Callable[..., Tensor], batch: Batch) -> None:
    """Those of a method are those of a definition for one sample and its observed units."""
    units = method.encoder(batch)
    expected = [logits_of(method, units, row, units.observed[row].tolist()) for row in range(len(batch))]
    torch.testing.assert_close(method.predict(batch).logits, torch.stack(expected), atol=1e-5, rtol=1e-4)


def assert_equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    """Bit for bit, name by name."""
    assert first.keys() == second.keys()
    different = [name for name, values in first.items() if not torch.equal(values, second[name])]
    assert different == []


def count_calls(*modules: nn.Module) -> list[int]:
    """A list that grows by the number of rows at every call of one of the modules."""
    rows: list[int] = []
    for module in modules:
        module.register_forward_hook(lambda module, inputs, output: rows.append(len(inputs[0])))
    return rows


class TimmBlock(nn.Module):
    """A block with timm's signature."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(dim), Attention(dim, heads=2)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        return x + self.attn(self.norm(x), attn_mask)


class Wobbly(Method):
    """A classifier with everything that makes resuming hard: dropout, BatchNorm statistics, an epoch counter."""

    def __init__(self, hidden: int = 12, at_loss: Callable[[Batch, int], None] = lambda batch, step: None) -> None:
        super().__init__()
        with seeded(0, "wobbly"):
            size = sum(math.prod(shape) for shape in SHAPES.values())
            self.layers = nn.Sequential(
                nn.Linear(size, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.5), nn.Linear(hidden, CLASSES)
            )
        self.at_loss, self.steps = at_loss, 0
        self.register_buffer("epochs_seen", torch.tensor(0))

    def forward(self, batch: Batch) -> Tensor:
        batch = batch.filled({name: torch.zeros_like(values) for name, values in batch.inputs.items()})
        return self.layers(torch.cat([values.flatten(1) for values in batch.inputs.values()], 1))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        self.steps += 1
        found = F.cross_entropy(self(batch), batch.labels)
        return {"task": found if self.at_loss(batch, self.steps) is None else found * torch.nan}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self(batch))

    def end_epoch(self) -> None:
        self.epochs_seen += 1


SETTINGS = TrainSettings(
    epochs=12,
    batch_size=16,
    learning_rate=3e-3,
    schedule="cosine",
    patience=2,
    masks="any-subset",
    selection=("complete", "missing=image"),
    seed=4,
)


def interrupt_after(number: int) -> Callable[[Epoch], None]:
    """An `on_epoch` that stops training after this epoch."""

    def stop(epoch: Epoch) -> None:
        if epoch.number == number:
            raise InterruptedError

    return stop


def train_and_die(folder: str, step: int) -> None:
    """Train until a step in the middle of an epoch, and die there without a word: kill -9."""
    torch.set_num_threads(1)

    def die(batch: Batch, number: int) -> None:
        if number == step:
            os.kill(os.getpid(), signal.SIGKILL)

    fit(Wobbly(at_loss=die), dataset("train", 40), dataset("val", 30, seed=50), settings=SETTINGS, folder=Path(folder))


PANDAS_3 = pytest.mark.skipif(
    pd.__version__ < "3", reason="pandas 2 has no dates beyond 2262 and no number of any size"
)
BLOCK_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "safetensors", "transformers"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, NoTorch())
"""
"""The beginning of a script in which importing torch is an error."""

# sums are ordered by threads; tests beside this one take the other core
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


def in_two_processes(learn: Callable[[], dict[str, Tensor]], folder: Path) -> list[dict[str, Tensor]]:
    """What a function returns in each of two processes that train together: forks of this one, which import nothing."""
    import torch._dynamo  # noqa: F401 - takes 2 s; DistributedDataParallel would import it in each of them

    processes = [
        multiprocessing.get_context("fork").Process(target=_join, args=(rank, learn, folder)) for rank in (0, 1)
    ]
    with unchecked(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, which these do not use
        for process in processes:
            process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    return [checkpoint.load(folder / f"{rank}.safetensors")[0] for rank in (0, 1)]


def _join(rank: int, learn: Callable[[], dict[str, Tensor]], folder: Path) -> None:
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2"}
    store, limit = dist.FileStore(str(folder / "store"), 2), timedelta(seconds=60)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=limit)
    checkpoint.save(folder / f"{rank}.safetensors", learn(), {})
    dist.destroy_process_group()


def python(*arguments: str, check: int = 0, **options: object) -> subprocess.CompletedProcess[str]:
    """Another Python with these arguments, ending with the exit code that was expected; it has one thread."""
    options = {"env": ONE_THREAD, "capture_output": True, "text": True} | options
    done = subprocess.run([sys.executable, *arguments], check=False, **options)
    assert done.returncode == check, (done.stdout, done.stderr)
    return done


def command(*arguments: str, cwd: Path, check: int = 0) -> subprocess.CompletedProcess[str]:
    """`gauge` with these arguments, in a process of its own, ending with the exit code that was expected."""
    return python("-m", "gauge.cli", *arguments, cwd=cwd, check=check)


def invoke(*arguments: str, cwd: Path, check: int = 0) -> Result:
    """The same in this process, which has imported everything already."""
    with chdir(cwd), unchecked():
        done = CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
    assert done.exit_code == check, done.output
    return done


def mistake(*arguments: str, cwd: Path) -> str:
    """What the `gauge` command says, run in this process, of a mistake that a user can mend."""
    said, given, handler = io.StringIO(), sys.argv, signal.getsignal(signal.SIGINT)
    sys.argv = ["gauge", *arguments]
    try:
        with pytest.raises(SystemExit) as ended, unchecked(), chdir(cwd), redirect_stderr(said):
            cli.main()
    finally:
        sys.argv = given
        signal.signal(signal.SIGINT, handler)
    assert ended.value.code == 2, said.getvalue()
    assert "Traceback" not in said.getvalue()
    return said.getvalue()


def with_experts(model: GaugeClassifier, names: list[str]) -> GaugeClassifier:
    """The classifier as if it had been fitted with some of its experts."""
    some = copy(model)
    some.fitted_ = replace(model.fitted_, ensemble=model.ensemble_.only(names))
    return some


def clinic(folder: Path, rows: int = 160, missing: float = 0.3, seed: int = 0) -> pd.DataFrame:
    """Three diagnoses; each column knows something of them. A row keeps its sex."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 3, rows)
    folder.mkdir(exist_ok=True)
    for row, label in enumerate(labels):
        pixels = draw.integers(0, 90, (20, 24, 3)).astype(np.uint8)
        pixels[4:12, 4:12, label] += 150
        Image.fromarray(pixels).save(folder / f"{row}.png")
    said = [("itches a lot", "grew fast", "bleeds at night")[label] for label in labels]
    table = pd.DataFrame(
        {
            "age": 40 + 12 * labels + draw.normal(0, 4, rows),
            "site": np.array(["arm", "leg", "back"])[(labels + (draw.random(rows) < 0.2)) % 3],
            "photo": [f"{row}.png" for row in range(rows)],
            "notes": [f"{words}, seen on day {row}" for row, words in enumerate(said)],
        }
    )
    table = table.mask(draw.random(table.shape) < missing)
    return table.assign(
        sex=draw.choice(["f", "m"], rows), diagnosis=np.array(["naevus", "wart", "<b>melanoma</b>"])[labels]
    )


def visits(rows: int = 400, seed: int = 0, missing: float = 0.2) -> pd.DataFrame:
    """Visits of patients, two each, over a year: whether they are ill depends on age and marker, and on the patient."""
    draw = np.random.default_rng(seed)
    patient = np.repeat(np.arange(rows // 2), 2)
    age, marker = draw.normal(60, 12, rows // 2)[patient], draw.normal(0, 1, rows)
    own = draw.normal(0, 1, rows // 2)[patient]
    ill = (age - 60) / 8 + 2 * marker + own + draw.normal(0, 1, rows) > 1
    cells = pd.DataFrame({"age": age.round(1), "marker": marker.round(3), "noise": draw.normal(size=rows).round(3)})
    cells = cells.mask(draw.random(cells.shape) < missing)
    return cells.assign(
        sex=draw.choice(["f", "m"], rows),
        patient=[f"p{number}" for number in patient],
        date=pd.date_range("2024-01-01", periods=rows, freq="D").strftime("%Y-%m-%d"),
        diagnosis=np.where(ill, "ill", "well"),
    )
