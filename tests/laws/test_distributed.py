"""Training under torchrun: two processes give the model of one, also when one of them is killed on the way."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from helpers import ONE_THREAD, assert_equal, dataset, gauge, in_two_processes, plus, unchecked
from torch import Tensor, nn

from gauge import Batch, GaugePlus, SelfSupervised, TrainSettings, fit
from gauge.randomness import seeded
from gauge.tabular.experts._training import Weighted
from gauge.training.checkpoint import load
from gauge.training.loop import seconds_per_step
from gauge.types import Method
from gauge_lab.methods._distilled import Distilled
from gauge_lab.methods.ensemble import Ensemble
from gauge_lab.methods.tta import TTA

SETTINGS = TrainSettings(epochs=3, batch_size=13, learning_rate=3e-3, schedule="cosine", masks="up-to=0.5", seed=4)
PRETRAINED = TrainSettings(epochs=2, batch_size=13, learning_rate=3e-3, masks="up-to=0.5", seed=4)
SELECTED = TrainSettings(
    **dict(PRETRAINED) | {"epochs": 3, "selection": ("complete", "missing=image"), "corrupt": "swapped=0.3"}
)
SCRIPT = """
import os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from helpers import dataset, gauge
from test_distributed import SETTINGS
from gauge import fit
from gauge.training.checkpoint import save

folder, model = Path(sys.argv[1]), gauge()
first_try = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
calls = []

def count(batch):
    calls.append(len(batch))
    if os.environ["RANK"] == "1" and first_try and len(calls) == 6:  # in the second epoch
        os.kill(os.getpid(), signal.SIGKILL)
    return loss(batch)

loss, model.loss = model.loss, count
progress = fit(model, dataset("train", 40), settings=SETTINGS, folder=folder)
save(folder / f"rank{os.environ['RANK']}.safetensors", model.state_dict(), {"calls": calls, "epochs": progress.epoch})
"""


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """The folder of a training in two processes, the first try of which is killed, and how torchrun ended."""
    folder = tmp_path_factory.mktemp("two-processes")
    (folder / "train.py").write_text(SCRIPT)
    tests = Path(__file__).parents[1]
    path = os.pathsep.join([str(tests / "laws"), str(tests), os.environ.get("PYTHONPATH", "")])
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1"]
    torchrun += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    command = [*torchrun, str(folder / "train.py"), str(folder)]
    return folder, subprocess.run(command, env=ONE_THREAD | {"PYTHONPATH": path}, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_processes_give_the_model_of_one_although_one_was_killed_and_both_restarted(two_processes):
    folder, result = two_processes
    assert result.returncode == 0, result.stderr
    assert f"exitcode: {-signal.SIGKILL}" in result.stderr
    alone = gauge()
    fit(alone, dataset("train", 40), settings=SETTINGS)
    first, second = (load(folder / f"rank{rank}.safetensors") for rank in (0, 1))
    for name, expected in alone.state_dict().items():
        torch.testing.assert_close(first[0][name], expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(first[0][name], second[0][name], atol=0, rtol=0)
    # batches of 13, 13, 13 and 1 in two parts each, and only the epochs after the last checkpoint
    assert (first[1]["calls"], second[1]["calls"]) == ([7, 7, 7, 1] * 2, [6, 6, 6, 1] * 2)
    assert first[1]["epochs"] == 3
    assert sorted(path.name for path in folder.glob("*.part")) == []


def trained(make: Callable[[], Method], folder: Path | None) -> Method:
    """A method with the weights of its best epoch; with a folder, also after training was interrupted and continued."""
    train, val = dataset("train", 41), dataset("val", 20, seed=1)
    method = make()
    progress = fit(method, train, val, settings=SELECTED)
    if folder is not None:
        first, resumed, loss, steps = make(), make(), type(method).loss, []

        def interrupt(batch: Batch) -> dict[str, Tensor]:
            steps.append(batch)
            if len(steps) == 7:  # in the second epoch of four steps
                raise InterruptedError
            return loss(first, batch)

        first.loss = interrupt
        with pytest.raises(InterruptedError):
            fit(first, train, val, settings=SELECTED, folder=folder)
        assert fit(resumed, train, val, settings=SELECTED, folder=folder).best_epoch == progress.best_epoch
        assert_equal(resumed.state_dict(), method.state_dict())
    method.best_epoch = nn.Buffer(torch.tensor(progress.best_epoch))
    method.prepare(train, val)
    return method


def learn_from_every_row(folder: Path | None) -> dict[str, Tensor]:
    """Pre-training, a teacher with trust that starts there, its student, both of them together, over changed copies:
    every tensor, and what they answer. With a folder, the training of the student is also interrupted and continued."""
    train, model = dataset("train", 41), plus(heads="validated")
    with seeded(0, "pretrainer"):
        pretrainer = SelfSupervised(model.encoder, model.gauge.classifier, {"table": (1,) * 5}, projection=4)
    fit(pretrainer, train.without_labels(torch.ones(41, dtype=torch.bool)), settings=PRETRAINED)

    def make_teacher() -> GaugePlus:
        with seeded(0, "teacher"):
            return GaugePlus(*deepcopy(pretrainer).release(), gating="trust")

    teacher = trained(make_teacher, None)
    targets = torch.cat([teacher.predict(batch).logits.softmax(1) for batch in train.batches(16)])
    student = trained(lambda: Distilled(plus(), targets), folder)
    weighted = Weighted(plus(), torch.linspace(0.1, 2, 41))
    fit(weighted, train, settings=PRETRAINED)
    both = Ensemble([teacher, student])
    answers = TTA(both, "leaves", copies=2).predict(train.batch(torch.arange(20))).logits
    parts = {"pretrainer": pretrainer, "weighted": weighted, "both": both}
    states = {f"{part}.{name}": value for part, each in parts.items() for name, value in each.state_dict().items()}
    return {**states, "answers": answers}


def test_two_processes_pretrain_teach_and_distil_as_one_does_and_resume_exactly(tmp_path):
    def learn() -> dict[str, Tensor]:
        seconds = seconds_per_step(plus(), dataset("train", 41), SETTINGS)  # from which time limits are computed
        return {**learn_from_every_row(tmp_path), "seconds": torch.tensor(seconds)}

    first, second = in_two_processes(learn, tmp_path)
    assert first["seconds"] == second["seconds"] > 0
    with unchecked():
        alone = learn_from_every_row(None)
    assert {int(value) for name, value in alone.items() if name.endswith("best_epoch")} - {3}, "an earlier one is kept"
    for name, expected in alone.items():
        torch.testing.assert_close(first[name], expected, atol=1e-5, rtol=1e-4)
        assert torch.equal(first[name], second[name])
