"""Imputers: observed entries come back bit for bit, what was missing is filled from what was observed."""

from dataclasses import replace

import helpers
import pytest
import torch
import torch.nn.functional as F
from helpers import count_calls, noise, rows_of, with_hidden
from torch._subclasses.fake_tensor import FakeTensorMode

from gauge import Batch, Dataset
from gauge.data.dataset import as_values
from gauge.imputers.mean import Mean
from gauge.imputers.mopoe import Balance, Coder, MoPoE
from gauge.imputers.nearest import Nearest
from gauge.nn import residual
from gauge.nn.likelihoods import Categorical, Laplace
from gauge.paper.units import Frozen
from gauge.randomness import seeded
from gauge.registry import IMPUTERS
from gauge.types import Trainable
from gauge.values import over_values

NAMES = helpers.imputers()
BLIND = [name for name in NAMES if not IMPUTERS.get(name).reads_hidden_values]


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


def test_an_imputer_that_reads_hidden_values_says_so(train, batch):
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


@pytest.mark.parametrize("name", [name for name in BLIND if IMPUTERS.get(name).loss is not Trainable.loss])
def test_a_loss_does_not_depend_on_hidden_values(train, batch, name):
    imputer = helpers.imputer(name, train)
    first = sum(imputer.loss(with_hidden(batch, 0.0)).values())
    for filling in ("noise", "nan"):
        second = sum(imputer.loss(with_hidden(batch, filling)).values())
        torch.testing.assert_close(second, first)
        found = helpers.gradients(imputer, second)
        assert all(gradient.isfinite().all() for gradient in found.values())


@pytest.mark.parametrize("name", BLIND)
def test_an_imputer_never_looks_at_labels(train, batch, name):
    """Hence it may learn from samples without any."""
    other = replace(train, labels=train.labels.roll(1) * 0)
    first, second = (helpers.imputer(name, each) for each in (train, other))
    unlabelled = replace(batch, labels=None)
    for modality, values in complete(first, batch).inputs.items():
        assert torch.equal(complete(second, unlabelled).inputs[modality], values)
    if IMPUTERS.get(name).loss is not Trainable.loss:
        with seeded(0):
            expected = sum(first.loss(batch).values())
        with seeded(0):
            assert torch.equal(sum(second.loss(unlabelled).values()), expected)


def test_mean_is_the_mean_of_what_was_observed(train, batch):
    completed = complete(Mean.from_dataset(train), with_hidden(batch, "nan"))
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
        index=rows + len(train),  # of another split
    )
    assert train.observed["image"][rows].all()
    imputer = Nearest.from_dataset(train)
    assert torch.equal(complete(imputer, hidden).inputs["image"], train.inputs["image"][rows])


def test_nearest_returns_values_of_real_donors(train, batch):
    completed = complete(Nearest.from_dataset(train), with_hidden(batch, "nan"))
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
    whole = complete(Nearest.from_dataset(train), batch)
    monkeypatch.setattr("gauge.imputers.nearest.DISTANCES_AT_ONCE", 1)
    for name, values in complete(Nearest.from_dataset(train), batch).inputs.items():
        torch.testing.assert_close(values, whole.inputs[name])


def test_nearest_gives_byte_images_back_as_numbers_from_zero_to_one():
    photos = torch.tensor([0, 255], dtype=torch.uint8)[:, None, None, None].expand(2, 1, 2, 2)
    data = Dataset("train", {"photo": photos, "x": torch.tensor([[0.0], [1.0]])}, torch.zeros(2).long())
    batch = data.batch(torch.arange(2), keep={"photo": torch.zeros(2).bool(), "x": torch.ones(2).bool()})
    assert complete(Nearest.from_dataset(data), batch).inputs["photo"].flatten(1).tolist() == [[1.0] * 4, [0.0] * 4]


@pytest.mark.parametrize("name", ["nearest", "masked_columns", "iterative"])
def test_no_training_row_is_its_own_donor(train, name):
    rows = torch.arange(len(train))
    batch = train.batch(rows)
    hidden = replace(batch, observed=batch.observed | {"image": torch.zeros(len(train), dtype=torch.bool)})
    imputer = helpers.imputer(name, train)
    imputed, images = complete(imputer, hidden).inputs["image"], as_values(train.inputs["image"])
    copied = (imputed[:, None] == images).flatten(2).all(-1)
    assert copied.any(1).all()
    assert not copied.diagonal().any()


def test_the_place_of_a_sample_to_predict_does_not_matter():
    data = Dataset("train", {"photo": noise(2, 1, 2, 2), "x": torch.zeros(2, 1)}, torch.zeros(2).long())
    seen = {"photo": torch.zeros(2).bool(), "x": torch.ones(2).bool()}
    alike = Batch({"photo": torch.zeros(2, 1, 2, 2), "x": torch.zeros(2, 1)}, seen)  # equal to both donors
    first, second = complete(Nearest.from_dataset(data), alike).inputs["photo"]
    assert torch.equal(first, second)


def test_the_only_donor_gives_to_itself():
    data = Dataset("train", {"photo": torch.ones(1, 1, 2, 2), "x": torch.zeros(1, 1)}, torch.zeros(1).long())
    batch = data.batch(torch.arange(1), keep={"photo": torch.zeros(1).bool(), "x": torch.ones(1).bool()})
    assert (complete(Nearest.from_dataset(data), batch).inputs["photo"] == 1).all()


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
    mean, variance = mopoe._product(*mopoe._experts(batch)[:2], batch.any_observed())
    expected = posterior_by_hand(mopoe, batch, row, members, prior=len(members) == 3)
    torch.testing.assert_close(mean[row], expected[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(variance[row], expected[1], rtol=1e-4, atol=1e-5)


def test_posterior_of_nothing_is_the_prior(mopoe, batch):
    mean, variance = mopoe._product(*mopoe._experts(batch)[:2], torch.zeros(6, 3, dtype=torch.bool))
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
    mean, precision, _ = mopoe._experts(many)
    mu, variance = mopoe._product(mean, precision, many.any_observed())
    draws = mopoe._draw(many.key, mu, variance)
    torch.testing.assert_close(draws.mean(0), mu[0], rtol=0, atol=0.1)
    torch.testing.assert_close(draws.var(0), variance[0], rtol=0.1, atol=0)


def test_mopoe_made_for_images_gives_images_back():
    data = Dataset("train", {f"m{view}": noise(6, 3, 12, 12, seed=view) for view in range(2)}, torch.zeros(6).long())
    mopoe = MoPoE.from_dataset(data, latent=3, channels=(4, 5), hidden=6)
    batch = data.batch(torch.arange(6), keep={"m0": torch.arange(6) < 3, "m1": torch.arange(6) > 1})
    completed = complete(mopoe, with_hidden(batch, "nan"))
    assert completed.inputs["m0"].shape == (6, 3, 12, 12)
    assert completed.inputs["m0"].isfinite().all()


def test_mixture_takes_contiguous_shares_and_gives_the_rest_to_the_full_set():
    for modalities, shares in ((5, [8] * 30 + [16]), (3, [36] * 6 + [40]), (2, [85, 85, 86])):
        data = Dataset(
            "train", {f"m{place}": torch.zeros(256, 1) for place in range(modalities)}, torch.zeros(256).long()
        )
        mopoe = helpers.linear_mopoe(data)
        valid = torch.ones(len(mopoe.subsets), 256, dtype=torch.bool)
        assert mopoe._strata(data.batch(torch.arange(256)), valid).bincount().tolist() == shares


SYMBOLS, SIDE, LENGTH = 5, {"residual": 64}, {"residual": 256}


def spoken(kind: str, rows: int = 12) -> Dataset:
    """Images and words that share a class, at the sizes the kind of model reads."""
    labels = torch.arange(rows) % 3
    images = 0.1 * noise(rows, 1, SIDE.get(kind, 8), SIDE.get(kind, 8)) + labels[:, None, None, None] / 3
    places = torch.arange(LENGTH.get(kind, 8)) + labels[:, None]
    return Dataset("train", {"image": images, "text": F.one_hot(places % SYMBOLS, SYMBOLS).float()}, labels)


def speaking(kind: str, **options) -> MoPoE:
    """A model of images and words: without style, with it, or with residual networks, BatchNorm and dropout besides."""
    data = spoken(kind)
    with seeded(0, kind):
        if kind == "residual":
            image, text = data.shapes.values()
            coders = {
                "image": Coder(
                    image, residual.residual_image(image, 10, 4), residual.residual_image_decoder(image, 5, 4)
                ),
                "text": Coder(
                    text, residual.residual_text(text, 10, 4), residual.residual_text_decoder(text, 5, 4), Categorical()
                ),
            }
            return MoPoE(coders, style=2, **options).eval()
        style = 2 if kind == "style" else 0
        return MoPoE.from_dataset(data, 3, {"text": "conv_text"}, style=style, channels=(4, 5), hidden=6, **options)


def half_spoken(kind: str) -> Batch:
    """Complete, without image and without text in turn."""
    rows = torch.arange(6)
    return spoken(kind).batch(rows, keep={"image": rows % 3 != 1, "text": rows % 3 != 2}, key=rows + 100)


KINDS = ["plain", "style", "residual"]


@pytest.mark.parametrize("kind", KINDS)
def test_words_and_images_are_imputed_from_each_other_without_a_look_at_the_truth(kind):
    mopoe, batch = speaking(kind), half_spoken(kind)
    completed = complete(mopoe, with_hidden(batch, "nan"))
    truth = complete(mopoe, batch)
    for name, observed in observed_entries(batch).items():
        assert completed.inputs[name].isfinite().all()
        assert torch.equal(completed.inputs[name], truth.inputs[name])
        assert torch.equal(completed.inputs[name][observed], batch.inputs[name][observed])
        assert not torch.equal(completed.inputs[name], batch.inputs[name])


@pytest.mark.parametrize("kind", KINDS)
def test_any_mixture_of_masks_in_one_batch_equals_one_by_one(kind):
    mopoe, batch = speaking(kind), half_spoken(kind)
    whole = complete(mopoe, batch)
    for row in range(6):
        alone = complete(mopoe, rows_of(batch, torch.tensor([row])))
        for name, values in alone.inputs.items():
            torch.testing.assert_close(values[0], whole.inputs[name][row], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_imputed_words_are_probabilities(kind):
    words = complete(speaking(kind), half_spoken(kind)).inputs["text"]
    assert (words >= 0).all()
    torch.testing.assert_close(words.sum(-1), torch.ones(words.shape[:2]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_of_words_and_images_does_not_depend_on_hidden_values(kind):
    mopoe, batch = speaking(kind), half_spoken(kind)
    first = sum(mopoe.loss(batch).values())
    second = sum(mopoe.loss(with_hidden(batch, "nan")).values())
    torch.testing.assert_close(second, first)
    assert all(gradient.isfinite().all() for gradient in helpers.gradients(mopoe, second).values())


def test_training_lowers_the_loss():
    mopoe = speaking("style", weights={"text": 3.0}, beta=0.5)
    batch = spoken("style").batch(torch.arange(12))
    optimizer = torch.optim.Adam(mopoe.parameters(), lr=3e-3)
    losses = []
    for _ in range(30):
        loss = sum(mopoe.loss(batch).values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]


def test_an_imputer_trained_on_words_and_images_says_the_right_word():
    mopoe, data = speaking("plain", weights={"text": 3.0}, beta=0.1), spoken("plain")
    optimizer = torch.optim.Adam(mopoe.parameters(), lr=5e-3)
    for step in range(80):
        optimizer.zero_grad()
        sum(mopoe.loss(data.batch(torch.arange(12), key=torch.arange(12) + 100 * step)).values()).backward()
        optimizer.step()
    silent = data.batch(torch.arange(12), keep={"image": torch.ones(12) > 0, "text": torch.zeros(12) > 0})
    said = complete(mopoe, silent).inputs["text"].argmax(-1)
    assert (said == data.inputs["text"].argmax(-1)).float().mean() > 0.9


def test_residual_coders_train_and_stay_as_they_are_once_frozen():
    mopoe, batch = speaking("residual").train(), half_spoken("residual")
    calls = count_calls(*mopoe.encoders.values())
    before = {name: values.clone() for name, values in mopoe.state_dict().items()}
    sum(mopoe.loss(batch).values()).backward()
    assert calls == [6, 6]
    assert any(not torch.equal(values, before[name]) for name, values in mopoe.state_dict().items())
    frozen = Frozen(mopoe).train()
    before = {name: values.clone() for name, values in mopoe.state_dict().items()}
    first, second = complete(frozen, batch), complete(frozen, batch)
    helpers.assert_equal(mopoe.state_dict(), before)
    helpers.assert_equal(first.inputs, second.inputs)


def test_sure_and_right_logits_cost_nothing_and_a_row_of_zeros_never_costs():
    words = F.one_hot(torch.tensor([[1, 3], [0, 2]]), SYMBOLS).float()
    observed = torch.ones(2, 1, 1, dtype=torch.bool)
    torch.testing.assert_close(Categorical().cost(50 * words, words, observed), torch.zeros(2))
    words[1] = 0
    assert Categorical().cost(noise(2, 2, SYMBOLS), words, observed)[1] == 0
    assert Categorical(reversed=True).cost(noise(2, 2, SYMBOLS), words, observed)[1] == 0
    torch.testing.assert_close(
        Categorical().cost(noise(2, 2, SYMBOLS), words, observed)[0],
        F.cross_entropy(noise(2, 2, SYMBOLS)[0], torch.tensor([1, 3]), reduction="sum"),
    )


def test_reversed_text_turns_the_most_likely_symbol_into_the_least():
    logits = noise(4, 8, SYMBOLS)
    right, reverse = Categorical().mean(logits), Categorical(reversed=True).mean(logits)
    assert torch.equal(reverse.argmax(-1), right.argmin(-1))
    torch.testing.assert_close(reverse.sum(-1), torch.ones(4, 8))
    words = F.one_hot(right.argmin(-1), SYMBOLS).float()
    cost = Categorical(reversed=True).cost(logits, words, torch.ones(4, 1, 1, dtype=torch.bool))
    torch.testing.assert_close(cost, -reverse.amax(-1).log().sum(1))
    sure = Categorical(reversed=True).cost(200 * words, words, torch.ones(4, 1, 1, dtype=torch.bool))
    assert sure.isfinite().all()
    assert speaking("plain", reversed_text=True).likelihoods["text"] == Categorical(reversed=True)


def test_laplace_sums_over_what_was_observed():
    decoded, x = torch.zeros(2, 3), torch.tensor([[1.0, -2.0, 4.0], [1.0, 1.0, 1.0]])
    cost = Laplace().cost(decoded, x, flags([1, 1, 0], [0, 0, 0]))
    torch.testing.assert_close(cost, torch.tensor([3 / 0.75, 0.0]))


def test_weights_multiply_their_terms():
    batch = half_spoken("style")
    once, heavier = (
        speaking("style", weights={"image": weight, "text": 0.0}, style_weights={"image": weight, "text": 0.0}).loss(
            batch
        )
        for weight in (1.0, 3.0)
    )
    torch.testing.assert_close(heavier["reconstruction"], 3 * once["reconstruction"])
    torch.testing.assert_close(heavier["style"], 3 * once["style"])
    torch.testing.assert_close(heavier["kl"], once["kl"])
    doubled = speaking("style", beta=5.0, beta_style=2.0).loss(batch)
    single = speaking("style").loss(batch)
    torch.testing.assert_close(doubled["kl"], 2 * single["kl"])
    torch.testing.assert_close(doubled["style"], 4 * single["style"])


def test_style_kl_is_that_of_each_observed_style_to_the_standard_normal():
    mopoe, batch = speaking("style", style_weights={"image": 1.0, "text": 5.0}, beta=1.0), half_spoken("style")
    expected = torch.zeros(6)
    for name, weight in (("image", 1.0), ("text", 5.0)):
        mean, log_variance = mopoe.encoders[name](batch.inputs[name])[:, 6:].chunk(2, 1)
        own = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
        kl = torch.distributions.kl_divergence(own, torch.distributions.Normal(0.0, 1.0)).sum(1)
        expected = expected + weight * kl * batch.observed[name]
    torch.testing.assert_close(mopoe.loss(batch)["style"], expected.mean())


def test_style_follows_the_key_and_changes_what_is_imputed():
    mopoe, batch = speaking("style"), half_spoken("style")
    z, key = torch.zeros(6, 3), batch.key
    with torch.no_grad():
        first, again, other = (mopoe._decoded("image", z, keys) for keys in (key, key, key + 1000))
        still = speaking("style", sample=False)._decoded("image", z, key)
    assert torch.equal(first, again)
    assert (first != other).flatten(1).any(1).all()
    assert (first[0] != first[1]).any()
    torch.testing.assert_close(still[0], still[1])


def test_the_order_of_the_modalities_does_not_matter():
    mopoe, batch = speaking("style"), half_spoken("style")
    turned = replace(
        batch,
        inputs={name: batch.inputs[name] for name in ("text", "image")},
        observed={name: batch.observed[name] for name in ("text", "image")},
    )
    helpers.assert_equal(dict(complete(mopoe, turned).inputs), dict(complete(mopoe, batch).inputs))
    helpers.assert_equal(mopoe.loss(turned), mopoe.loss(batch))


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_dict_brings_the_imputer_back(kind):
    mopoe, other, batch = speaking(kind), speaking(kind), half_spoken(kind)
    for parameter in other.parameters():
        parameter.data.zero_()
    other.load_state_dict(mopoe.state_dict())
    helpers.assert_equal(complete(other, batch).inputs, complete(mopoe, batch).inputs)


def on_a_gpu(monkeypatch):
    """Takes the way of a GPU on the CPU."""
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_that_decodes_every_row_imputes_the_same(kind, monkeypatch):
    mopoe, batch = speaking(kind), half_spoken(kind)
    expected = complete(mopoe, batch)
    on_a_gpu(monkeypatch)
    for name, values in complete(mopoe, batch).inputs.items():
        torch.testing.assert_close(values, expected.inputs[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [2, 6])
def test_neither_training_nor_a_gpu_imputing_ever_waits_for_a_value(rows, monkeypatch):
    """On tensors without values, whatever needs one raises."""
    mopoe, batch = speaking("style"), rows_of(half_spoken("style"), torch.arange(rows))
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        inputs, observed = (
            {name: fake.from_tensor(x) for name, x in y.items()} for y in (batch.inputs, batch.observed)
        )
        valueless = Batch(inputs, observed, index=fake.from_tensor(batch.index))
        sum(mopoe.loss(valueless).values())
        with pytest.raises(RuntimeError):
            valueless.check()
        on_a_gpu(monkeypatch)
        mopoe.complete(valueless)


def test_posterior_is_what_imputation_draws_from():
    mopoe, batch = speaking("style", sample=False), half_spoken("style")
    mean, variance = mopoe.posterior(with_hidden(batch, "nan"))
    assert mean.shape == variance.shape == (6, 3)
    with torch.no_grad():
        image = mopoe._decoded("image", mean, batch.key)
    torch.testing.assert_close(complete(mopoe, batch).inputs["image"][1], image[1])


def test_a_sample_without_any_evidence_is_an_error():
    batch = half_spoken("plain")
    nothing = torch.arange(6) != 4
    batch = replace(batch, observed={name: values & nothing for name, values in batch.observed.items()})
    with pytest.raises(ValueError, match="nothing is observed in sample 4"):
        speaking("plain").complete(batch)


def test_a_batch_of_another_layout_is_an_error_that_says_what_differs():
    mopoe, batch = speaking("plain"), half_spoken("plain")
    larger = Batch(dict(batch.inputs, image=torch.zeros(6, 1, 9, 9)), batch.observed)
    right = r"this imputer was made for {'image': \(1, 8, 8\), 'text': \(8, 5\)}; make one for this data"
    with pytest.raises(ValueError, match=r"the batch has {'image': \(1, 9, 9\), 'text': \(8, 5\)}, " + right):
        mopoe.complete(larger)
    fewer = Batch({"image": batch.inputs["image"]}, {"image": torch.ones(6) > 0})
    with pytest.raises(ValueError, match=r"the batch has {'image': \(1, 8, 8\)}, " + right):
        mopoe.loss(fewer)


def test_a_coder_that_does_not_exist_or_does_not_fit_is_refused_before_training():
    data = spoken("plain")
    with pytest.raises(ValueError, match="there is no coder 'conv_txt'; did you mean 'conv_text'?"):
        MoPoE.from_dataset(data, 3, {"text": "conv_txt"})
    with pytest.raises(ValueError, match="there is no modality 'txt'; did you mean 'text'?"):
        MoPoE.from_dataset(data, 3, {"txt": "conv_text"})
    with pytest.raises(
        ValueError, match="coder of modality 'text' does not fit: a convolution stack reads square images"
    ):
        MoPoE.from_dataset(data, 3)
    with pytest.raises(
        ValueError, match=r"'image' does not fit: conv_vector reads \[channels, 32, 32\], not \[1, 8, 8\]"
    ):
        MoPoE.from_dataset(data, 3, {"image": "conv_vector", "text": "conv_text"})
    with pytest.raises(ValueError, match="there is no modality 'sound'"):
        MoPoE({}, balance=Balance(weights={"sound": 1.0}))
