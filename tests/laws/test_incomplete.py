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
from gauge_lab.plans import last_stage

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


@pytest.mark.parametrize("pattern", PATTERNS)
def test_cells_are_missing_where_there_is_a_table_and_nothing_else(pattern):
    before = helpers.dataset("train", rows=600)
    data = incomplete(before, 0.5, pattern, seed=0)
    assert all(torch.equal(data.observed[name], before.observed[name]) for name in ("image", "signal"))
    assert not (data.observed["table"] & ~before.observed["table"]).any()
    left = data.observed["table"].sum() / before.observed["table"].sum()
    assert left.item() == pytest.approx(0.5, abs=0.03)


def test_what_is_missing_follows_the_seed():
    first, again, other = (incomplete(views(100), 0.5, "informative", seed=seed) for seed in (1, 1, 2))
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint != other.fingerprint


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


def test_few_labels_and_missing_values_go_together():
    benchmark = BENCHMARKS.get("polymnist5k").with_overrides(Overrides(incomplete={"rate": 0.5}, labels=100))
    few, every = (benchmark.for_seed(3).load(split) for split in ("train", "imputer"))
    assert (len(few), len(every)) == (100, 3500)
    hidden = {flags.tobytes() for flags in _rows(every)}
    assert all(flags.tobytes() in hidden for flags in _rows(few))


def _rows(data):
    """The first view and the flags of each sample."""
    flags = torch.stack(list(data.observed.values()), 1).to(torch.uint8)
    return torch.cat([data.inputs["m0"].flatten(1), flags], 1).numpy()


def test_an_imputer_with_rows_of_its_own_would_show_what_is_missing():
    faces = BENCHMARKS.get("celeba_table")
    with pytest.raises(ValueError, match="learns from rows of its own, .* set imputer_split: train"):
        faces.with_overrides(Overrides(incomplete={"rate": 0.5}))
    assert faces.with_overrides(Overrides(incomplete={"rate": 0.5}, imputer_split="train")).incomplete


def test_width_and_encoder_of_the_backbone_can_be_those_of_gauge_plus():
    benchmark = BENCHMARKS.get("leaf99").with_overrides(Overrides(dim=128, encoders={"image": "deep_grid"}))
    assert benchmark.dim == 128
    for method, variant in (("gauge", "masked"), ("gauge", "v2"), ("gauge", "gauge"), ("mtl", "mtl")):
        stages = last_stage(benchmark, method, variant, 0).all()
        parts = [stage.arguments["parts"] for stage in stages if "parts" in stage.arguments]
        assert {(each.dim, each.units["image"].component.__name__) for each in parts} == {(128, "DeepGrid")}
    with pytest.raises(ValueError, match="no encoder 'deep_gird'; did you mean 'deep_grid'"):
        benchmark.with_overrides(Overrides(encoders={"image": "deep_gird"}))
    with pytest.raises(ValueError, match="there is no modality of leaf99 'photo'"):
        benchmark.with_overrides(Overrides(encoders={"photo": "deep_grid"}))
