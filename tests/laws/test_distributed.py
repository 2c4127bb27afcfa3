"""Training under torchrun: two processes give the model of one, also when one of them is killed on the way."""

import os
import signal
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from helpers import ONE_THREAD, any_subset, dataset, gauge, plus

from gauge import Gating, GaugePlus, SelfSupervised, TrainSettings, fit
from gauge.masks import Corruption
from gauge.randomness import seeded
from gauge.tabular.experts._training import Weighted
from gauge.training import distributed
from gauge.training.checkpoint import load

SETTINGS = TrainSettings(epochs=3, batch_size=13, learning_rate=3e-3, schedule="cosine", masks="up-to=0.5", seed=4)
PRETRAINED = TrainSettings(epochs=2, batch_size=13, learning_rate=3e-3, masks="up-to=0.5", seed=4)
SCRIPT = """
import os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from helpers import dataset, gauge
from test_distributed import SETTINGS, learn_from_every_row
from gauge import fit
from gauge.training.checkpoint import save

folder, model = Path(sys.argv[1]), gauge()
first_try = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
if first_try:
    save(folder / f"every-row{os.environ['RANK']}.safetensors", learn_from_every_row(), {})
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


def learn_from_every_row() -> dict[str, torch.Tensor]:
    """Pre-training, a teacher with trust that starts there, and its student, whose samples have weights: every parameter."""
    train, val = dataset("train", 41), dataset("val", 20, seed=1)
    model = plus(heads="validated")
    with seeded(0, "pretrainer"):
        pretrainer = SelfSupervised(model.encoder, model.gauge.classifier, {"table": (1,) * 5}, projection=4)
    fit(pretrainer, train.without_labels(torch.ones(41, dtype=torch.bool)), settings=PRETRAINED)
    with seeded(0, "teacher"):
        teacher = GaugePlus(*deepcopy(pretrainer).release(), gating=Gating(granularity="trust"))
    fit(teacher, train, val, settings=PRETRAINED.model_copy(update={"corrupt": Corruption(swapped=0.3)}))
    targets = torch.cat([teacher.predict(batch).logits.softmax(1) for batch in train.batches(16)])
    student = Weighted(plus(), torch.linspace(0.1, 2, 41), targets)
    fit(student, train, val, settings=PRETRAINED)
    student.prepare(train, val)
    parts = {"pretrainer": pretrainer, "teacher": teacher, "student": student}
    return {f"{part}.{name}": value for part, each in parts.items() for name, value in each.state_dict().items()}


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """The folder of a training in two processes, the first try of which is killed after all else, and how torchrun ended."""
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


def test_a_method_that_counts_over_an_epoch_is_refused_in_several_processes(monkeypatch):
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    with pytest.raises(
        ValueError, match="AnySubset compares samples of a batch or counts over an epoch, which needs all sam"
    ):
        distributed.parallel_loss(any_subset())


@pytest.mark.slow
def test_two_processes_pretrain_teach_and_distil_as_one_does(two_processes):
    first, second = (load(two_processes[0] / f"every-row{rank}.safetensors")[0] for rank in (0, 1))
    for name, expected in learn_from_every_row().items():
        torch.testing.assert_close(first[name], expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(first[name], second[name], atol=0, rtol=0)
