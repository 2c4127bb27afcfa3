"""Wrong evidence is drawn for each sample alone, is known exactly, and never reaches a prediction as knowledge."""

from dataclasses import replace

import pytest
import torch

from gauge.data import Dataset
from gauge.masks import Corruption, parse_protocol
from gauge.training.inference import masked_batches

HALF = Corruption(swapped=0.5)


@pytest.fixture(scope="module")
def split():
    """An image and a signal for each sample, which are its row, and a table with flags for its cells."""
    rows = torch.arange(300.0)
    inputs = {
        "image": rows[:, None, None, None] + 0.5 * torch.ones(1, 2, 2),
        "table": rows[:, None] + torch.rand(300, 4),
    }
    return Dataset("test", inputs, torch.arange(300) % 3, {"table": torch.rand(300, 4) > 0.1})


def batch_of(split, how, rows=None):
    return split.batch(torch.arange(len(split)) if rows is None else rows, corrupt=how)


def test_swapped_values_are_another_samples_and_all_others_stay(split):
    batch = batch_of(split, HALF)
    image, swapped = batch.inputs["image"], batch.truth.corrupted["image"]
    assert 0.4 < swapped.float().mean() < 0.6
    donors = image[:, 0, 0, 0].long()
    assert torch.equal(donors != torch.arange(300), swapped)
    assert torch.equal(image, split.inputs["image"][donors])
    cells, swapped = batch.inputs["table"].long(), batch.truth.corrupted["table"]
    assert torch.equal((cells != torch.arange(300)[:, None]) & batch.observed["table"], swapped)


def test_a_swapped_modality_is_wrong_if_the_donor_is_of_another_class_and_a_cell_if_it_differs(split):
    batch = batch_of(split, HALF)
    donors = batch.inputs["image"][:, 0, 0, 0].long()
    assert torch.equal(batch.truth.wrong["image"], split.labels[donors] != split.labels)
    assert torch.equal(batch.truth.wrong["table"], batch.truth.corrupted["table"])
    same = replace(split, inputs=split.inputs | {"table": torch.ones(300, 4)})
    assert not batch_of(same, HALF).truth.wrong["table"].any()


def test_what_is_missing_is_neither_corrupted_nor_a_donor(split):
    batch = batch_of(split, Corruption(swapped=1.0, noisy=1.0))
    assert not (batch.truth.corrupted["table"] & ~batch.observed["table"]).any()
    marked = replace(
        split, inputs=split.inputs | {"table": split.inputs["table"].where(split.observed["table"], torch.nan)}
    )
    assert batch_of(marked, Corruption(swapped=1.0)).inputs["table"][split.observed["table"]].isfinite().all()


def test_noise_is_as_large_as_the_values_differ_and_spares_whole_numbers(split):
    table = split.inputs["table"].clone()
    table[:, 0] = table[:, 0].floor()
    batch = batch_of(replace(split, inputs=split.inputs | {"table": table}), Corruption(noisy=0.5))
    noisy = batch.truth.corrupted["table"]
    assert not noisy[:, 0].any()
    assert torch.equal(batch.inputs["table"] != table, noisy)
    change = (batch.inputs["table"] - table)[:, 1][noisy[:, 1]]
    assert change.std() == pytest.approx(2 * float(table[:, 1].std()), rel=0.2)


def test_corruption_of_a_sample_does_not_depend_on_its_batch(split):
    together, rows = batch_of(split, Corruption(0.5, 0.5)), torch.tensor([17, 4, 250])
    alone = batch_of(split, Corruption(0.5, 0.5), rows)
    for name in split.inputs:
        assert torch.equal(alone.inputs[name], together.inputs[name][rows])
        assert torch.equal(alone.truth.wrong[name], together.truth.wrong[name][rows])
    other = split.batch(rows, key=rows + 1, corrupt=Corruption(0.5, 0.5))
    assert not torch.equal(other.inputs["table"], alone.inputs["table"])


def test_corruption_leaves_the_masks_as_they_are_and_predictions_without_the_truth(split):
    alone, both = (next(masked_batches(split, parse_protocol(p), 300)) for p in ("eta=0.5", "eta=0.5,swapped=0.5"))
    assert all(torch.equal(alone.observed[name], both.observed[name]) for name in split.inputs)
    assert any((alone.inputs[name] != both.inputs[name]).any() for name in split.inputs)
    assert alone.truth is both.truth is None
    audited = next(masked_batches(split, parse_protocol("eta=0.5,swapped=0.5"), 300, truth=True))
    assert audited.truth.wrong["image"].any()
    assert audited.check().truth is None
