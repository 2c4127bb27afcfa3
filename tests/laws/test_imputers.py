"""Imputers: observed entries come back bit for bit, what was missing is filled from what was observed."""

import helpers
import pytest
import torch
from helpers import count_calls, noise, rows_of, with_hidden
from torch import nn

from gauge import Batch, Dataset, registry
from gauge.imputers.mean import Mean
from gauge.imputers.mopoe import MoPoE
from gauge.imputers.nearest import Nearest
from gauge.randomness import seeded
from gauge.types import over_values

NAMES = registry.names("imputers")
BLIND = [name for name in NAMES if not getattr(registry.get("imputers", name), "sees_the_truth", False)]


def complete(imputer, batch):
    with torch.no_grad():
        return imputer.complete(batch)


def flags(*rows):
    return torch.tensor(rows, dtype=torch.bool)


def observed_entries(batch):
    return {name: over_values(batch.observed[name], values).expand_as(values) for name, values in batch.inputs.items()}


@pytest.mark.parametrize("name", NAMES)
def test_observed_entries_come_back_bit_for_bit_and_flags_unchanged(train, batch, name):
    completed = complete(helpers.imputer(name, train), batch)
    for modality, observed in observed_entries(batch).items():
        assert torch.equal(completed.inputs[modality][observed], batch.inputs[modality][observed])
        assert torch.equal(completed.observed[modality], batch.observed[modality])
        assert completed.inputs[modality].dtype == batch.inputs[modality].dtype
    for place in ("labels", "index", "key"):
        assert torch.equal(getattr(completed, place), getattr(batch, place))


@pytest.fixture(params=["mixed", "partly", "wholly"])
def gaps(request, batch):
    """Which samples there are decides what is missing: single cells, whole modalities, or both in one batch."""
    return rows_of(
        batch, torch.tensor({"mixed": [0, 1, 2, 3, 4, 5], "partly": [0, 1, 4], "wholly": [3, 5]}[request.param])
    )


@pytest.mark.parametrize("name", BLIND)
def test_no_nan_remains(train, gaps, name):
    completed = complete(helpers.imputer(name, train), with_hidden(gaps, "nan"))
    assert all(values.isfinite().all() for values in completed.inputs.values())


@pytest.mark.parametrize("name", BLIND)
@pytest.mark.parametrize("filling", ["noise", "nan"])
def test_the_result_does_not_depend_on_hidden_values(train, gaps, name, filling):
    imputer = helpers.imputer(name, train)
    first, second = complete(imputer, with_hidden(gaps, 0.0)), complete(imputer, with_hidden(gaps, filling))
    for modality, values in first.inputs.items():
        assert torch.equal(second.inputs[modality], values)


def test_an_imputer_that_sees_the_truth_says_so(train, batch):
    assert [name for name in NAMES if name not in BLIND] == ["oracle"]
    noisy = with_hidden(batch, "noise")
    completed = complete(helpers.imputer("oracle", train), noisy)
    assert all(torch.equal(completed.inputs[name], noisy.inputs[name]) for name in noisy.inputs)


@pytest.mark.parametrize("name", NAMES)
def test_the_result_for_a_sample_does_not_depend_on_its_batch(train, batch, name):
    imputer = helpers.imputer(name, train)
    whole = complete(imputer, batch)
    for rows in (torch.tensor([0]), torch.tensor([1]), torch.tensor([4]), torch.tensor([5, 2])):
        part = complete(imputer, rows_of(batch, rows))
        for modality, values in part.inputs.items():
            torch.testing.assert_close(values, whole.inputs[modality][rows], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in BLIND if hasattr(registry.get("imputers", name), "loss")])
def test_a_loss_does_not_depend_on_hidden_values(train, batch, name):
    imputer = helpers.imputer(name, train)
    first = sum(imputer.loss(with_hidden(batch, 0.0)).values())
    for filling in ("noise", "nan"):
        second = sum(imputer.loss(with_hidden(batch, filling)).values())
        torch.testing.assert_close(second, first)
        found = helpers.gradients(imputer, second)
        assert all(gradient.isfinite().all() for gradient in found.values())


def test_mean_is_the_mean_of_what_was_observed(train, batch):
    completed = complete(Mean.of(train), with_hidden(batch, "nan"))
    for row, column in (~batch.observed["table"]).nonzero().tolist():
        seen = train.inputs["table"][train.observed["table"][:, column], column]
        torch.testing.assert_close(completed.inputs["table"][row, column], seen.mean())
    images = train.inputs["image"][train.observed["image"]]
    torch.testing.assert_close(completed.inputs["image"][2], images.mean(0))


@pytest.mark.parametrize("name", BLIND)
def test_what_no_training_sample_has_is_still_filled(name):
    inputs = {"x": noise(4, 2), "table": torch.cat([noise(4, 2, seed=1), torch.full((4, 1), torch.nan)], 1)}
    observed = {"table": flags([1, 1, 0]).expand(4, 3)}
    data = Dataset("train", inputs, torch.zeros(4).long(), observed)
    completed = complete(helpers.imputer(name, data), data.batch(torch.arange(2)))
    assert completed.inputs["table"].isfinite().all()
    if name == "mean":
        assert (completed.inputs["table"][:, 2] == 0).all()


def test_nearest_finds_an_identical_donor_and_takes_its_values(train):
    rows = torch.tensor([10, 20, 32])  # whose images and signals are there
    batch = train.batch(rows)
    hidden = Batch(
        {name: torch.where(torch.tensor(name == "image"), torch.nan, values) for name, values in batch.inputs.items()},
        dict(batch.observed, image=torch.zeros(3, dtype=torch.bool)),
        index=rows,
    )
    assert train.observed["image"][rows].all()
    assert torch.equal(complete(Nearest.of(train), hidden).inputs["image"], train.inputs["image"][rows])


def test_nearest_returns_values_of_real_donors(train, batch):
    completed = complete(Nearest.of(train), with_hidden(batch, "nan"))
    donors = train.inputs["image"][train.observed["image"]]
    for row in (~batch.observed["image"]).nonzero()[:, 0]:
        assert (donors == completed.inputs["image"][row]).flatten(1).all(1).any()
    for row, column in (~batch.observed["table"]).nonzero().tolist():
        real = train.inputs["table"][train.observed["table"][:, column], column]
        assert (real == completed.inputs["table"][row, column]).any()


def test_nearest_takes_each_feature_from_the_nearest_donor_that_has_it():
    donors = {"table": torch.tensor([[0.0, 10, 100], [1.0, 20, 200], [5.0, 30, 300]])}
    imputer = Nearest(donors, {"table": flags([1, 0, 1], [1, 1, 0], [1, 1, 1])})
    batch = Batch({"table": torch.tensor([[0.1, -1, -1], [4.9, -1, 200]])}, {"table": flags([1, 0, 0], [1, 0, 1])})
    expected = torch.tensor([[0.1, 20, 100], [4.9, 30, 200]])
    torch.testing.assert_close(complete(imputer, batch).inputs["table"], expected)


def test_nearest_measures_likeness_over_jointly_observed_features_only():
    donors = {"table": torch.tensor([[0.0, 99.0, 1.0], [3.0, 0.0, 2.0]])}
    imputer = Nearest(donors, {"table": flags([1, 0, 1], [1, 1, 1])})
    batch = Batch({"table": torch.tensor([[0.0, 0.0, -1.0]])}, {"table": flags([1, 1, 0])})
    assert complete(imputer, batch).inputs["table"][0, 2] == 1  # the first donor's 99 is not really there


def test_nearest_counts_integers_as_equal_or_different():
    donors = {"tokens": torch.tensor([[1, 2, 3], [1, 2, 900], [7, 8, 9]]), "x": torch.tensor([[1.0], [2.0], [3.0]])}
    imputer = Nearest(donors, {"tokens": flags([1, 1, 1], [1, 1, 1], [1, 1, 1]), "x": flags([1], [1], [1])[:, 0]})
    batch = Batch(
        {"tokens": torch.tensor([[6, 8, 9], [1, 2, 901], [0, 0, 9]]), "x": torch.zeros(3, 1)},
        {"tokens": flags([1, 1, 1], [1, 1, 0], [0, 0, 1]), "x": torch.zeros(3).bool()},
    )
    completed = complete(imputer, batch)
    assert completed.inputs["x"][:, 0].tolist() == [3, 1, 3]
    assert completed.inputs["tokens"].tolist() == [[6, 8, 9], [1, 2, 3], [7, 8, 9]]
    assert completed.inputs["tokens"].dtype == torch.int64


def test_nearest_does_not_change_with_the_number_of_rows_at_once(train, batch, monkeypatch):
    whole = complete(Nearest.of(train), batch)
    monkeypatch.setattr("gauge.imputers.nearest.DISTANCES_AT_ONCE", 1)
    for name, values in complete(Nearest.of(train), batch).inputs.items():
        torch.testing.assert_close(values, whole.inputs[name])


def test_nearest_gives_byte_images_back_as_numbers_from_zero_to_one():
    photos = torch.tensor([0, 255], dtype=torch.uint8)[:, None, None, None].expand(2, 1, 2, 2)
    data = Dataset("train", {"photo": photos, "x": torch.tensor([[0.0], [1.0]])}, torch.zeros(2).long())
    batch = data.batch(torch.arange(2), keep={"photo": torch.zeros(2).bool(), "x": torch.ones(2).bool()})
    assert complete(Nearest.of(data), batch).inputs["photo"].flatten(1).tolist() == [[0.0] * 4, [1.0] * 4]


@pytest.fixture
def mopoe(train):
    with seeded(0, "mopoe"):
        return helpers.linear_mopoe(train)


def posterior_by_hand(mopoe, batch, row, members, prior):
    """The product of Gaussian densities, expert by expert."""
    precision = torch.full((4,), float(prior))
    weighted = torch.zeros(4)
    for name in members:
        mean, log_variance = mopoe.encoders[name](batch.inputs[name][row : row + 1])[0].chunk(2)
        precision = precision + torch.exp(-log_variance)
        weighted = weighted + mean * torch.exp(-log_variance)
    return weighted / precision, 1 / precision


@pytest.mark.parametrize(
    ("row", "members"),
    [(0, ["image", "signal", "table"]), (1, ["image", "table"]), (2, ["signal", "table"]), (4, ["table"])],
)
def test_posterior_is_the_product_of_the_observed_experts_with_the_prior_in_the_full_set_only(
    mopoe, batch, row, members
):
    batch = with_hidden(batch, 0.0)
    mean, variance = mopoe._product(*mopoe._experts(batch), batch.any_observed())
    expected = posterior_by_hand(mopoe, batch, row, members, prior=len(members) == 3)
    torch.testing.assert_close(mean[row], expected[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(variance[row], expected[1], rtol=1e-4, atol=1e-5)


def test_posterior_of_nothing_is_the_prior(mopoe, batch):
    mean, variance = mopoe._product(*mopoe._experts(batch), torch.zeros(6, 3, dtype=torch.bool))
    torch.testing.assert_close(mean, torch.zeros(6, 4))
    torch.testing.assert_close(variance, torch.ones(6, 4))


def test_mopoe_decodes_the_posterior_mean_when_it_does_not_sample(train, batch):
    mopoe = helpers.linear_mopoe(train, sample=False)
    completed = complete(mopoe, batch)
    mean, _ = posterior_by_hand(mopoe, with_hidden(batch, 0.0), 4, ["table"], prior=False)
    torch.testing.assert_close(
        completed.inputs["signal"][4], mopoe.decoders["signal"](mean[None])[0].detach(), rtol=1e-4, atol=1e-5
    )


def test_mopoe_decodes_only_what_is_missing(mopoe, batch):
    rows = {name: count_calls(mopoe.decoders[name]) for name in ("image", "signal")}
    complete(mopoe, batch)
    assert rows == {"image": [2], "signal": [2]}
    complete(mopoe, rows_of(batch, torch.tensor([0])))
    assert rows == {"image": [2], "signal": [2]}


def test_mopoe_without_sampling_ignores_the_key(train, batch):
    mopoe = helpers.linear_mopoe(train, sample=False)
    other = Batch(batch.inputs, batch.observed, batch.labels, batch.index, batch.key + 1000)
    first, again, rekeyed = complete(mopoe, batch), complete(mopoe, batch), complete(mopoe, other)
    for name, values in first.inputs.items():
        assert torch.equal(again.inputs[name], values)
        assert torch.equal(rekeyed.inputs[name], values)


def test_mopoe_sampling_depends_on_the_key_and_only_on_the_key(mopoe, batch):
    def signals(index, key):
        torch.rand(7)  # the global generator has no say
        return complete(mopoe, Batch(batch.inputs, batch.observed, batch.labels, index, key)).inputs["signal"]

    first = signals(batch.index, batch.key)
    assert torch.equal(signals(batch.index + 5, batch.key), first)
    changed = (signals(batch.index, batch.key + 1000) != first).any(1)
    assert changed.tolist() == (~batch.observed["signal"]).tolist()


def test_mopoe_draws_follow_the_posterior(mopoe, batch):
    many = rows_of(batch, torch.full((4000,), 4))
    many = Batch(many.inputs, many.observed, key=torch.arange(4000))
    mean, precision = mopoe._experts(many)
    mu, variance = mopoe._product(mean, precision, many.any_observed())
    draws = mopoe._draw(many, mu, variance)
    torch.testing.assert_close(draws.mean(0), mu[0], rtol=0, atol=0.1)
    torch.testing.assert_close(draws.var(0), variance[0], rtol=0.1, atol=0)


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_mopoe_has_the_published_sizes():
    data = Dataset("train", {"m0": torch.zeros(1, 3, 28, 28, dtype=torch.uint8)}, torch.zeros(1).long())
    mopoe = MoPoE.of(data)
    assert parameters(mopoe.encoders["m0"]) == 1_667_648
    assert parameters(mopoe.decoders["m0"]) == 1_143_747


def test_mopoe_made_for_images_gives_images_back():
    data = Dataset("train", {f"m{view}": noise(6, 3, 12, 12, seed=view) for view in range(2)}, torch.zeros(6).long())
    mopoe = MoPoE.of(data, latent=3, channels=(4, 5), hidden=6)
    batch = data.batch(torch.arange(6), keep={"m0": torch.arange(6) < 3, "m1": torch.arange(6) > 1})
    completed = complete(mopoe, with_hidden(batch, "nan"))
    assert completed.inputs["m0"].shape == (6, 3, 12, 12)
    assert completed.inputs["m0"].isfinite().all()
