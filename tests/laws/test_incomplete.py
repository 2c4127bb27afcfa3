"""Training data that is incomplete itself: what is missing, and that nothing learns from it."""

from dataclasses import replace

import helpers
import pytest
import torch
from helpers import any_subset, assert_equal, plus

from gauge import Dataset, TrainSettings, fit
from gauge.plus.late_fusion import WeightedVote
from gauge.values import over_values
from gauge_lab.benchmarks import BENCHMARKS, Overrides
from gauge_lab.incomplete import incomplete

PATTERNS = ("random", "informative")
VIEWS = ("a", "b", "c", "d")


def views(rows=3000):
    """Four vectors with the same shift for each of two classes."""
    labels = torch.arange(rows) % 2
    inputs = {name: helpers.noise(rows, 3, seed=index) + labels[:, None] for index, name in enumerate(VIEWS)}
    return Dataset("train", inputs, labels)


def missing_share(data, rows=slice(None)):
    return torch.stack([1 - data.observed[name][rows].float().mean() for name in VIEWS])


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("rate", [0.3, 0.5, 0.7])
def test_the_share_is_missing_and_every_sample_keeps_a_modality(rate, pattern):
    data = incomplete(views(), rate, pattern, seed=0)
    assert missing_share(data).mean().item() == pytest.approx(rate, abs=0.02)
    assert torch.stack(list(data.observed.values()), 1).any(1).all()


def test_only_an_informative_pattern_tells_classes_and_levels_apart():
    differences, levels = {}, {}
    for pattern in PATTERNS:
        data = incomplete(views(), 0.5, pattern, seed=0)
        classes = [missing_share(data, data.labels == label) for label in (0, 1)]
        differences[pattern] = (classes[0] - classes[1]).abs().max().item()
        # where the first view is one of at most two that are left, it is often the one that had to stay
        level = data.inputs["a"].mean(1) - data.labels
        alone = data.observed["a"] & (torch.stack([data.observed[name] for name in VIEWS[1:]], 1).sum(1) <= 1)
        shares = [missing_share(data, alone & side)[1:] for side in (level < -0.3, level > 0.3)]
        levels[pattern] = (shares[0] - shares[1]).abs().max().item()
    assert differences["random"] < 0.08
    assert differences["informative"] > 0.3
    assert levels["informative"] > 2 * levels["random"]


def test_a_rate_that_would_leave_nothing_is_refused():
    with pytest.raises(ValueError, match=r"80% of the values cannot be missing .* choose a rate up to 0.75"):
        incomplete(views(100), 0.8, "random", seed=0)


METHODS = {
    "gauge_plus": plus,
    "late_fusion": lambda: WeightedVote(plus().encoder, plus().heads),
    "any_subset": any_subset,
}


@pytest.mark.parametrize("make", METHODS.values(), ids=METHODS)
def test_hidden_values_never_change_training(make):
    def trained(filling):
        splits = [incomplete(helpers.dataset(split, rows=40), 0.5, "informative", seed=0) for split in ("train", "val")]
        train, val = (_filled(data, filling) for data in splits)
        method = make()
        fit(method, train, settings=TrainSettings(epochs=2, batch_size=20, masks="up-to=0.5"))
        method.eval().prepare(train, val)
        return dict(method.state_dict())

    assert_equal(trained(0.0), trained(50.0))


@pytest.mark.parametrize("name", [name for name in helpers.imputers() if name != "oracle"])
def test_hidden_values_never_change_what_an_imputer_learns(name):
    data = incomplete(helpers.dataset("train", rows=40), 0.5, "random", seed=0)

    def learned(filling):
        train = _filled(data, filling)
        imputer = helpers.imputer(name, train)
        if imputer.is_trainable:
            fit(imputer, train, settings=TrainSettings(epochs=1, batch_size=20))
        return dict(imputer.eval().state_dict())

    assert_equal(learned(0.0), learned(50.0))


def _filled(data, filling):
    """The split with a number where nothing is observed."""
    inputs = {
        name: torch.where(over_values(data.observed[name], values), values, torch.full_like(values, filling))
        for name, values in data.inputs.items()
    }
    return replace(data, inputs=inputs)


def test_an_override_hides_values_of_training_and_validation_samples_anew_for_each_seed():
    whole = BENCHMARKS.get("polymnist5k")
    benchmark = whole.with_overrides(Overrides(incomplete={"rate": 0.5}))
    first, other = (benchmark.for_seed(seed) for seed in (0, 1))
    assert first.division("train") != other.division("train")
    assert first.division("val") == "fold 0, 0.5 missing (random) of draw 0"
    assert first.division("test") == whole.division("test")
    shares = {split: first.load(split).observed["m0"].float().mean().item() for split in ("train", "val", "test")}
    assert shares == {"train": pytest.approx(0.5, abs=0.05), "val": pytest.approx(0.5, abs=0.08), "test": 1.0}
    assert first.load("imputer").fingerprint == first.load("train").fingerprint
