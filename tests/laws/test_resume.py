"""Training that is killed and started again ends bit for bit where the uninterrupted run does."""

import os
import signal
import sys

import pytest
import torch
from helpers import SETTINGS, Wobbly, any_subset, assert_equal, dataset, interrupt_after, python

from gauge import TrainSettings, fit
from gauge.training import checkpoint

STEPS = 3  # batches in an epoch


def run(folder=None, model=None, settings=SETTINGS, **options):
    model = model or Wobbly()
    progress = fit(
        model, dataset("train", 40), dataset("val", 30, seed=50), settings=settings, folder=folder, **options
    )
    return model, progress


def history(progress):
    """What the history says, less how long it took."""
    return [{name: value for name, value in epoch.items() if name != "seconds"} for epoch in progress.history]


def assert_same_end(first, second):
    assert_equal(first[0].state_dict(), second[0].state_dict())
    assert history(first[1]) == history(second[1])
    for name in ("epoch", "best_score", "best_epoch", "patience_score", "waited"):
        assert getattr(first[1], name) == getattr(second[1], name)


def within_the_fourth_epoch(batch, step):
    if step == 3 * STEPS + 2:
        raise InterruptedError


def interrupted(folder, **options):
    with pytest.raises(InterruptedError):
        run(folder, **options)


@pytest.fixture(scope="module")
def uninterrupted():
    return run()


def test_the_run_under_test_ends_by_patience_and_after_its_best_epoch(uninterrupted):
    _, progress = uninterrupted
    assert 4 < progress.epoch < SETTINGS.epochs
    assert 1 < progress.best_epoch < progress.epoch
    assert progress.waited == SETTINGS.patience
    assert len({epoch["score"] for epoch in progress.history}) > 2


def test_a_run_interrupted_after_every_epoch_ends_like_the_uninterrupted_one(uninterrupted, tmp_path):
    for epoch in range(1, uninterrupted[1].epoch):
        interrupted(tmp_path, on_epoch=interrupt_after(epoch))
    assert_same_end(run(tmp_path), uninterrupted)


def test_a_run_interrupted_within_an_epoch_ends_like_the_uninterrupted_one(uninterrupted, tmp_path):
    interrupted(tmp_path, model=Wobbly(at_loss=within_the_fourth_epoch))
    assert checkpoint.read_metadata(tmp_path / "last.safetensors")["progress"]["epoch"] == 3
    assert_same_end(run(tmp_path), uninterrupted)


def test_a_process_killed_within_an_epoch_ends_like_the_uninterrupted_one(uninterrupted, tmp_path):
    code = f"import helpers; helpers.train_and_die({str(tmp_path)!r}, {2 * STEPS + 2})"
    paths = os.pathsep.join(path for path in sys.path if path)
    python("-c", code, check=-signal.SIGKILL, env=os.environ | {"PYTHONPATH": paths})
    assert checkpoint.read_metadata(tmp_path / "last.safetensors")["progress"]["epoch"] == 2
    assert_same_end(run(tmp_path), uninterrupted)


def test_a_large_state_is_saved_now_and_then_and_ends_like_the_uninterrupted_one(uninterrupted, tmp_path, monkeypatch):
    """A kill then costs the epochs since the last file, an exception none."""
    monkeypatch.setattr("gauge.training.loop.MAX_BYTES_SAVED_EACH_EPOCH", 0)
    interrupted(tmp_path, model=Wobbly(at_loss=within_the_fourth_epoch))
    assert not (tmp_path / "last.safetensors").exists()
    interrupted(tmp_path, on_epoch=interrupt_after(4))
    assert checkpoint.read_metadata(tmp_path / "last.safetensors")["progress"]["epoch"] == 4
    assert_same_end(run(tmp_path), uninterrupted)


def test_a_run_does_not_depend_on_the_global_generator_and_leaves_it_alone(uninterrupted):
    torch.manual_seed(123)
    before = torch.get_rng_state()
    assert_same_end(run(), uninterrupted)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("size", [0, 5, 200, -1])
def test_a_truncated_checkpoint_is_a_clear_error(tmp_path, size):
    interrupted(tmp_path, on_epoch=interrupt_after(1))
    path = tmp_path / "last.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"last\.safetensors is damaged or not a checkpoint .* delete it to train"):
        run(tmp_path)


def test_a_checkpoint_of_another_shape_names_the_tensor(tmp_path):
    interrupted(tmp_path, on_epoch=interrupt_after(1))
    message = r"fit Wobbly: layers\.0\.weight is float32 \[12, 76\], the model has float32 \[13, 76\]"
    with pytest.raises(ValueError, match=message):
        run(tmp_path, model=Wobbly(hidden=13))


def test_a_nan_loss_names_epoch_batch_and_samples_and_keeps_the_last_good_checkpoint(uninterrupted, tmp_path):
    seen = []

    def spoil(batch, step):
        if step == 2 * STEPS + 2:
            seen.extend(batch.index[:5].tolist())
            return "nan"
        return None

    message = (
        r"loss 'task' is nan in epoch 3, batch 2 of 3 \(samples \[.*\] \.\.\.\); lower the learning rate \(0.003\)"
    )
    with pytest.raises(FloatingPointError, match=message) as error:
        run(tmp_path, model=Wobbly(at_loss=spoil))
    assert str(seen) in str(error.value)
    tensors, about = checkpoint.load(tmp_path / "last.safetensors")
    assert about["progress"]["epoch"] == 2
    assert all(values.isfinite().all() for values in tensors.values())
    assert_same_end(run(tmp_path), uninterrupted)


def test_a_folder_of_another_run_is_not_continued(tmp_path):
    """Silently keeping the old weights would report them under the new settings."""
    settings = TrainSettings(epochs=1, batch_size=16)
    fit(any_subset(), dataset("train", rows=16), settings=settings, folder=tmp_path)
    longer = fit(
        any_subset(), dataset("train", rows=16), settings=settings.model_copy(update={"epochs": 2}), folder=tmp_path
    )
    assert longer.epoch == 2
    other = settings.model_copy(update={"learning_rate": 0.5, "seed": 9})
    with pytest.raises(ValueError, match="belongs to a run with other learning_rate, seed; use another folder"):
        fit(any_subset(), dataset("train", rows=16), settings=other, folder=tmp_path)
    with pytest.raises(ValueError, match="belongs to a run with other data; use another folder"):
        fit(any_subset(), dataset("train", rows=16, seed=1), settings=settings, folder=tmp_path)
    with pytest.raises(ValueError, match="belongs to a run with other data; use another folder"):  # another val
        fit(any_subset(), dataset("train", rows=16), dataset("val", rows=16), settings=settings, folder=tmp_path)
    method = any_subset()
    before = {name: values.clone() for name, values in method.state_dict().items()}
    with pytest.raises(ValueError, match="belongs to a run with other data"):
        fit(method, dataset("train", rows=16, seed=2), settings=settings, folder=str(tmp_path))
    assert_equal(dict(method.state_dict()), before)
    part = dataset("val", rows=16).without_labels(torch.arange(16) < 3)
    with pytest.raises(ValueError, match="3 of 16 validation samples have no label, and AnySubset learns from labels"):
        fit(any_subset(), dataset("train", rows=16), part, settings=settings)
    with pytest.raises(ValueError, match="belongs to a run with other code; use another folder"):
        fit(any_subset(), dataset("train", rows=16), settings=settings, folder=tmp_path, code="changed since")
