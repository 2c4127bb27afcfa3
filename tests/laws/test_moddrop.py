"""ModDrop: what it drops in training, and that nothing else differs from the shared network."""

import helpers
import pytest
import torch
import torch.nn.functional as F

from gauge_lab.methods.moddrop import RATE, ModDrop, keep_some

MANY = torch.arange(40_000)


def moddrop(rate=RATE):
    return ModDrop(helpers.unit_encoder(), helpers.network(), rate=rate)


def share(kept, row):
    return float((kept == torch.tensor(row)).all(1).float().mean())


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("rate", [0.0, 0.5, 0.9, 1.0])
def test_a_modality_stays_with_its_probability_and_one_always_does(count, rate):
    kept = keep_some(MANY, torch.ones(len(MANY), count, dtype=torch.bool), rate)
    assert kept.any(1).all()
    for modality in range(count):
        assert kept[:, modality].float().mean() == pytest.approx(1 - rate + rate**count / count, abs=0.01)


def test_two_modalities_at_one_half_are_alone_three_times_out_of_eight_each():
    kept = keep_some(MANY, torch.ones(len(MANY), 2, dtype=torch.bool), 0.5)
    assert share(kept, [True, False]) == pytest.approx(0.375, abs=0.01)
    assert share(kept, [False, True]) == pytest.approx(0.375, abs=0.01)
    assert share(kept, [True, True]) == pytest.approx(0.25, abs=0.01)


def test_the_loss_is_the_cross_entropy_of_samples_without_what_was_dropped(batch):
    method = moddrop()
    kept = keep_some(batch.key, batch.any_observed(), RATE)
    assert not torch.equal(kept, batch.any_observed())
    observed = {
        name: flags & kept[:, place].reshape(-1, *[1] * (flags.ndim - 1))
        for place, (name, flags) in enumerate(batch.observed.items())
    }
    dropped = type(batch)(batch.inputs, observed, batch.labels, batch.index, batch.key)
    by_hand = []
    for row in range(len(batch)):
        units = method.encoder(helpers.rows_of(dropped, torch.tensor([row])))
        tokens = torch.where(units.observed[..., None], units.content, 0) + units.embedding
        by_hand.append(F.cross_entropy(method.classifier(tokens), batch.labels[row : row + 1]))
    torch.testing.assert_close(method.loss(batch)["task"], torch.stack(by_hand).mean())


def test_nothing_is_dropped_at_rate_0_nor_in_predictions(batch):
    method = moddrop()
    expected = method.classifier(method.encoder(batch).tokens)
    torch.testing.assert_close(method.predict(batch).logits, expected)
    torch.testing.assert_close(moddrop(0.0).loss(batch)["task"], F.cross_entropy(expected, batch.labels))
