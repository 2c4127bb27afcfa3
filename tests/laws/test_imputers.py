"""Imputers: observed entries come back bit for bit, what was missing is filled from what was observed."""

from dataclasses import replace

import helpers
import pytest
import torch
import torch.nn.functional as F
from helpers import noise, rows_of, with_hidden
from torch._subclasses.fake_tensor import FakeTensorMode

from gauge import Batch, Dataset
from gauge.data.dataset import as_values
from gauge.imputers.mopoe import Balance, Coder, MoPoE
from gauge.imputers.nearest import Nearest
from gauge.nn.likelihoods import Categorical
from gauge.randomness import seeded
from gauge.registry import IMPUTERS
from gauge.types import Trainable
from gauge.values import over_values
from gauge_lab import coders as lab

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
@pytest.mark.parametrize("filling", ["noise", "nan"])
def test_the_result_does_not_depend_on_hidden_values(train, gaps, name, filling):
    imputer = helpers.imputer(name, train)
    first, second = complete(imputer, with_hidden(gaps, 0.0)), complete(imputer, with_hidden(gaps, filling))
    for modality, values in first.inputs.items():
        assert values.isfinite().all()
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


def test_nearest_takes_each_feature_from_the_nearest_donor_that_has_it():
    donors = {"table": torch.tensor([[0.0, 10, 100], [1.0, 20, 200], [5.0, 30, 300]])}
    imputer = Nearest(donors, {"table": flags([1, 0, 1], [1, 1, 0], [1, 1, 1])})
    batch = Batch({"table": torch.tensor([[0.1, -1, -1], [4.9, -1, 200]])}, {"table": flags([1, 0, 0], [1, 0, 1])})
    expected = torch.tensor([[0.1, 20, 100], [4.9, 30, 200]])
    torch.testing.assert_close(complete(imputer, batch).inputs["table"], expected)


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


@pytest.mark.parametrize("name", ["nearest", "iterative"])
def test_no_training_row_is_its_own_donor(train, name):
    rows = torch.arange(len(train))
    batch = train.batch(rows)
    hidden = replace(batch, observed=batch.observed | {"image": torch.zeros(len(train), dtype=torch.bool)})
    imputer = helpers.imputer(name, train)
    imputed, images = complete(imputer, hidden).inputs["image"], as_values(train.inputs["image"])
    copied = (imputed[:, None] == images).flatten(2).all(-1)
    assert copied.any(1).all()
    assert not copied.diagonal().any()


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
def test_posterior_is_the_product_of_the_observed_experts_with_the_prior_in_the_full_set(mopoe, batch, row, members):
    batch = with_hidden(batch, 0.0)
    mean, variance = mopoe._product(*mopoe._experts(batch)[:2], batch.any_observed())
    expected = posterior_by_hand(mopoe, batch, row, members, prior=len(members) == 3)
    torch.testing.assert_close(mean[row], expected[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(variance[row], expected[1], rtol=1e-4, atol=1e-5)


def test_mopoe_decodes_the_posterior_mean_when_it_does_not_sample(train, batch):
    mopoe = helpers.linear_mopoe(train, sample=False)
    completed = complete(mopoe, batch)
    mean, _ = posterior_by_hand(mopoe, with_hidden(batch, 0.0), 4, ["table"], prior=False)
    torch.testing.assert_close(
        completed.inputs["signal"][4], mopoe.decoders["signal"](mean[None])[0].detach(), rtol=1e-4, atol=1e-5
    )


def test_mopoe_sampling_depends_on_the_key_and_only_on_the_key(mopoe, batch):
    def signals(index, key):
        torch.rand(7)  # the global generator has no say
        return complete(mopoe, Batch(batch.inputs, batch.observed, batch.labels, index, key)).inputs["signal"]

    first = signals(batch.index, batch.key)
    assert torch.equal(signals(batch.index + 5, batch.key), first)
    changed = (signals(batch.index, batch.key + 1000) != first).any(1)
    assert changed.tolist() == (~batch.observed["signal"]).tolist()


def test_mixture_takes_contiguous_shares_and_gives_the_rest_to_the_full_set():
    for modalities, shares in ((5, [8] * 30 + [16]), (3, [36] * 6 + [40]), (2, [85, 85, 86])):
        data = Dataset("train", {f"m{m}": torch.zeros(256, 1) for m in range(modalities)}, torch.zeros(256).long())
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
            images = Coder(image, lab.residual_image(image, 10, 4), lab.residual_image_decoder(image, 5, 4))
            networks = lab.residual_text(text, 10, 4), lab.residual_text_decoder(text, 5, 4)
            words = Coder(text, *networks, Categorical())
            return MoPoE({"image": images, "text": words}, style=2, **options).eval()
        style = 2 if kind == "style" else 0
        coders = {"text": lab.CODERS["conv_text"]}
        return MoPoE.from_dataset(data, 3, coders, style=style, channels=(4, 5), hidden=6, **options)


def half_spoken(kind: str) -> Batch:
    """Complete, without image and without text in turn."""
    rows = torch.arange(6)
    return spoken(kind).batch(rows, keep={"image": rows % 3 != 1, "text": rows % 3 != 2}, key=rows + 100)


KINDS = ["plain", "style", "residual"]


@pytest.mark.parametrize("kind", KINDS)
def test_words_and_images_are_imputed_from_each_other_without_a_look_at_the_truth(kind):
    mopoe, batch = speaking(kind), half_spoken(kind)
    hidden, truth = with_hidden(batch, "nan"), complete(mopoe, batch)
    completed, alone = complete(mopoe, hidden), complete(mopoe, rows_of(batch, torch.tensor([1])))
    for name, observed in observed_entries(batch).items():
        assert torch.equal(completed.inputs[name], truth.inputs[name])
        assert torch.equal(completed.inputs[name][observed], batch.inputs[name][observed])
        assert not torch.equal(completed.inputs[name], batch.inputs[name])
        torch.testing.assert_close(alone.inputs[name][0], truth.inputs[name][1], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(completed.inputs["text"].sum(-1), torch.ones(completed.inputs["text"].shape[:2]))
    first, second = (sum(mopoe.loss(each).values()) for each in (batch, hidden))
    torch.testing.assert_close(second, first)
    assert all(gradient.isfinite().all() for gradient in helpers.gradients(mopoe, second).values())


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


def test_style_kl_is_that_of_each_observed_style_to_the_standard_normal():
    mopoe, batch = speaking("style", style_weights={"image": 1.0, "text": 5.0}, beta=1.0), half_spoken("style")
    expected = torch.zeros(6)
    for name, weight in (("image", 1.0), ("text", 5.0)):
        mean, log_variance = mopoe.encoders[name](batch.inputs[name])[:, 6:].chunk(2, 1)
        own = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
        kl = torch.distributions.kl_divergence(own, torch.distributions.Normal(0.0, 1.0)).sum(1)
        expected = expected + weight * kl * batch.observed[name]
    torch.testing.assert_close(mopoe.loss(batch)["style"], expected.mean())


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
        inputs, observed = ({key: fake.from_tensor(x) for key, x in y.items()} for y in (batch.inputs, batch.observed))
        valueless = Batch(inputs, observed, index=fake.from_tensor(batch.index))
        sum(mopoe.loss(valueless).values())
        with pytest.raises(RuntimeError):
            valueless.check()
        on_a_gpu(monkeypatch)
        mopoe.complete(valueless)


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
    with pytest.raises(ValueError, match="there is no coder 'conv_img'; did you mean 'conv_image'?"):
        MoPoE.from_dataset(data, 3, {"text": "conv_img"})
    with pytest.raises(ValueError, match="there is no modality 'txt'; did you mean 'text'?"):
        MoPoE.from_dataset(data, 3, {"txt": "conv_image"})
    with pytest.raises(ValueError, match="of modality 'text' does not fit: a convolution stack reads square images"):
        MoPoE.from_dataset(data, 3)
    with pytest.raises(ValueError, match=r"'image' does not fit: conv_vector reads \[channels, 32, 32\], not \[1, 8"):
        MoPoE.from_dataset(data, 3, {"image": lab.CODERS["conv_vector"], "text": lab.CODERS["conv_text"]})
    with pytest.raises(ValueError, match="there is no modality 'sound'"):
        MoPoE({}, balance=Balance(weights={"sound": 1.0}))
