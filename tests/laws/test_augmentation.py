"""Augmentation: a sample's key decides how it is changed, what is missing stays missing, and only training sees it."""

import colorsys
from dataclasses import replace
from typing import get_args

import helpers
import pytest
import torch
from helpers import SETTINGS, Wobbly, assert_equal, dataset, interrupt_after, noise, rows_of, with_hidden
from scipy.ndimage import gaussian_filter

from gauge import Batch, TrainSettings, fit
from gauge.data.augmentation import AUGMENTATIONS, Augmentation, _blur, _turn_hue, augment
from gauge.masks import Complete
from gauge.randomness import derive
from gauge.training.settings import Augment

ALWAYS = Augmentation(applied=1.0, corrupt=0.0)


@pytest.fixture
def samples() -> Batch:
    """Forty images, eight of them missing, and tables in which one cell in six is."""
    keys = derive(torch.arange(40), "samples")
    inputs = {"photo": noise(40, 3, 16, 16).sigmoid(), "data": noise(40, 10, seed=1), "signal": noise(40, 7, seed=2)}
    observed = {"photo": torch.arange(40) % 5 != 3, "data": noise(40, 10, seed=3) > -1, "signal": torch.ones(40).bool()}
    return Batch(inputs, observed, key=keys)


@pytest.fixture
def only(monkeypatch):
    """Augment a batch by the given changes alone."""

    def changed(batch: Batch, **changes: object) -> Batch:
        monkeypatch.setitem(AUGMENTATIONS, "only", replace(ALWAYS, **changes))
        return augment(batch, "only")

    return changed


def seen(batch: Batch) -> torch.Tensor:
    return batch.inputs["photo"][batch.observed["photo"]]


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_a_key_gives_the_same_image_whatever_else_is_in_the_batch(samples, name):
    together = augment(samples, name).inputs["photo"]
    rows = torch.tensor([31, 7, 2, 18])
    found = augment(rows_of(samples, rows), name).inputs["photo"]
    torch.testing.assert_close(found, together[rows], rtol=0, atol=1e-6)
    other = augment(replace(samples, key=samples.key + 1), name)
    assert (other.inputs["photo"] != together).flatten(1).any(1)[samples.observed["photo"]].all()


@pytest.mark.parametrize(("change", "axis"), [("flip", -1), ("upend", -2)])
def test_a_flip_alone_mirrors_exactly(samples, only, change, axis):
    assert torch.equal(seen(only(samples, **{change: 1.0})), seen(samples).flip(axis))


def test_a_crop_keeps_the_share_of_the_area_that_it_may(only):
    """The slopes of an image that rises evenly say how much of it is left."""
    slope = torch.linspace(0, 1, 32)
    ramp = torch.stack([slope.expand(32, 32), slope[:, None].expand(32, 32), torch.zeros(32, 32)])
    batch = Batch({"photo": ramp.expand(500, 3, 32, 32)}, {"photo": torch.ones(500).bool()})
    found = only(batch, crop=(0.5, 1.0)).inputs["photo"]
    wide, high = (
        (found[:, 0, 16, 20] - found[:, 0, 16, 12]) * 31 / 8,
        (found[:, 1, 20, 16] - found[:, 1, 12, 16]) * 31 / 8,
    )
    area = wide * high
    assert 0.49 < area.min() < 0.53
    assert 0.95 < area.max() < 1.01
    assert 0.72 < area.mean() < 0.78
    assert (wide / high).max() < 1.34
    assert (high / wide).max() < 1.34


def test_a_turned_hue_is_the_one_of_hsv():
    pixels = torch.rand(50, 3, generator=torch.Generator().manual_seed(0))
    found = _turn_hue(pixels[..., None, None], torch.tensor(0.15))[..., 0, 0]
    for pixel, turned in zip(pixels.tolist(), found, strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
        torch.testing.assert_close(turned, torch.tensor(colorsys.hsv_to_rgb((hue + 0.15) % 1, saturation, value)))


@pytest.mark.parametrize(("side", "reach"), [(32, 14), (8, 7)])
def test_each_image_is_blurred_by_a_gaussian_of_its_own(side, reach):
    images, sigma = noise(3, 3, side, side), torch.tensor([0.1, 0.9, 2.0])
    found = _blur(images, sigma[:, None, None, None])
    for image, width, blurred in zip(images, sigma.tolist(), found, strict=True):
        expected = gaussian_filter(image.numpy(), width, axes=(1, 2), mode="mirror", radius=reach)
        torch.testing.assert_close(blurred, torch.from_numpy(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_what_is_missing_is_neither_read_nor_changed(samples, name):
    first, second = (augment(with_hidden(samples, filling), name) for filling in ("nan", "noise"))
    for modality in samples.inputs:
        there = samples.observed[modality]
        assert first.inputs[modality][there].isfinite().all()
        assert torch.equal(first.inputs[modality][there], second.inputs[modality][there])
        assert first.inputs[modality][~there].isnan().all()
        untouched = with_hidden(samples, "noise").inputs[modality]
        assert torch.equal(second.inputs[modality][~there], untouched[~there])


def test_corrupted_cells_hold_values_of_their_column_and_are_three_in_ten(samples):
    found = augment(samples, "cars").inputs["data"]
    table, there = samples.inputs["data"], samples.observed["data"]
    changed = found != table
    assert not changed[~there].any()
    for column in range(10):
        others = set(table[there[:, column], column].tolist())
        assert set(found[changed[:, column], column].tolist()) <= others
    assert (changed.sum(1) <= (0.3 * there.sum(1)).floor()).all()
    assert 0.2 < changed.float().sum() / there.sum() < 0.3
    assert torch.equal(augment(samples, "cars-tip").inputs["data"], table)  # TIP corrupts it itself


@pytest.fixture
def colourful(monkeypatch):
    monkeypatch.setitem(helpers.SHAPES, "image", (3, 8, 8))
    return SETTINGS.model_copy(update={"augment": "cars", "epochs": 4, "patience": None})


def test_training_on_changed_samples_resumes_bit_for_bit(colourful, tmp_path):
    def run(settings=colourful, **options):
        model = Wobbly()
        fit(model, dataset("train", 40), dataset("val", 30, seed=50), settings=settings, **options)
        return model.state_dict()

    with pytest.raises(InterruptedError):
        run(folder=tmp_path, on_epoch=interrupt_after(2))
    whole = run()
    assert_equal(run(folder=tmp_path), whole)
    plain = run(colourful.model_copy(update={"augment": ""}))
    assert not torch.equal(plain["layers.0.weight"], whole["layers.0.weight"])


def test_an_unknown_name_is_an_error_that_lists_the_known_ones_before_anything_trains():
    assert set(get_args(Augment)) == {"", *AUGMENTATIONS}
    with pytest.raises(ValueError, match="'finetune': augment: Input should be '', 'cars', 'hearts', .*'leaves-tip'"):
        TrainSettings.parse({"epochs": 1, "augment": "planes"}, "stage 'finetune'")


def test_validation_sees_samples_as_they_are(colourful):
    trained, validated = [], []

    class Watching(Wobbly):
        def predict(self, batch):
            validated.append(batch)
            return super().predict(batch)

    val = dataset("val", 30, seed=50)
    model = Watching(at_loss=lambda batch, step: trained.append(batch))
    train = dataset("train", 40)
    fit(model, train, val, settings=colourful.model_copy(update={"epochs": 1, "masks": Complete()}))
    assert all(torch.equal(batch.inputs["table"], val.inputs["table"][batch.index]) for batch in validated)
    assert all(torch.equal(batch.inputs["image"], val.inputs["image"][batch.index]) for batch in validated)
    assert not any(torch.equal(batch.inputs["image"], train.inputs["image"][batch.index]) for batch in trained)
