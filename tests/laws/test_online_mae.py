"""OnlineMAE against its definition, with tokens really taken out, one sample at a time."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from helpers import DIM, SHAPES, gradients, incomplete_batch, network, noise, untrained, zeros
from torch import nn

from gauge.encoders._vector import Vector
from gauge.randomness import sample_keys, seeded
from gauge_lab.benchmarks.celeba import BENCHMARK as CELEBA
from gauge_lab.benchmarks.mst import BENCHMARK as MST
from gauge_lab.benchmarks.polymnist import BENCHMARK as POLYMNIST
from gauge_lab.methods.online_mae import MaskedAutoEncoder, OnlineMAE, draw_kept
from gauge_lab.plans import last_stage
from gauge_lab.vectors import VectorEncoder

WIDTH, MEMORY = 6, 4


def online_mae():
    with seeded(0, "online_mae"):
        layers = {
            name: nn.Sequential(nn.Flatten(), nn.Linear(int(torch.tensor(shape).prod()), WIDTH))
            for name, shape in SHAPES.items()
        }
        encoder = VectorEncoder({name: Vector(each, WIDTH) for name, each in layers.items()})
        autoencoder = MaskedAutoEncoder(len(SHAPES), DIM, memory=MEMORY, heads=2, depth=2)
        method = OnlineMAE(encoder.requires_grad_(False), autoencoder, network())
        with torch.no_grad():
            for parameter in (autoencoder.memory, autoencoder.mask_token, autoencoder.positions, method.positions):
                parameter.mul_(20)
        return method


def restored(autoencoder, tokens, kept):
    """The auto-encoder for one sample: dropped tokens are not in the sequence at all."""
    places = [place for place in range(len(tokens)) if bool(kept[place])]
    slots = [*range(MEMORY), *(MEMORY + place for place in places)]
    state = torch.cat([autoencoder.memory, tokens[places]]) + autoencoder.positions[slots]
    for block in autoencoder.encoder.blocks:
        state = block(state[None])[0]
    state = autoencoder.encoder_norm(state)
    whole = torch.stack([autoencoder.mask_token] * (MEMORY + len(tokens)))
    for place, slot in enumerate(slots):
        whole = torch.cat([whole[:slot], state[place : place + 1], whole[slot + 1 :]])
    whole = whole + autoencoder.positions
    for block in autoencoder.decoder.blocks:
        whole = block(whole[None])[0]
    return autoencoder.output(autoencoder.decoder_norm(whole))[MEMORY:]


def test_hiding_dropped_tokens_equals_taking_them_out():
    autoencoder, tokens = online_mae().autoencoder, noise(5, 3, DIM)
    kept = torch.tensor([[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 1, 1], [1, 0, 1]]).bool()
    expected = torch.stack([restored(autoencoder, *pair) for pair in zip(tokens, kept, strict=True)])
    torch.testing.assert_close(autoencoder(tokens, kept), expected)


def test_loss_is_cross_entropy_and_the_mean_error_of_what_was_there_and_dropped(batch):
    method = online_mae()
    tokens, there = method.tokens(batch)
    kept = draw_kept(batch.key, there)
    logits, errors = [], []
    for row in range(len(batch)):
        found = restored(method.autoencoder, tokens[row], kept[row])
        logits.append(method.classifier((found + method.positions)[None])[0])
        for place in range(len(SHAPES)):
            if bool(there[row, place]) and not bool(kept[row, place]):
                token = tokens[row, place]
                target = (token - token.mean()) / (token.var(unbiased=False) + 1e-6).sqrt()
                errors.append((found[place] - target).square().mean())
    terms = method.loss(batch)
    assert errors
    torch.testing.assert_close(terms["task"], F.cross_entropy(torch.stack(logits), batch.labels))
    torch.testing.assert_close(terms["reconstruction"], torch.stack(errors).mean())


def test_a_dropped_modality_is_a_target_and_no_evidence(batch):
    method = online_mae()
    there = batch.any_observed()
    dropped = there & ~draw_kept(batch.key, there)
    name = next(name for place, name in enumerate(SHAPES) if bool(dropped[:, place].any()))
    rows = dropped[:, list(SHAPES).index(name)]
    values = batch.inputs[name].clone()
    values[rows] = 3 * noise(*values[rows].shape, seed=5)
    before, after = method.loss(batch), method.loss(replace(batch, inputs={**batch.inputs, name: values}))
    assert torch.equal(before["task"], after["task"])
    assert not torch.equal(before["reconstruction"], after["reconstruction"])


def test_prediction_keeps_all_that_is_observed_and_reads_what_is_restored(batch):
    method = online_mae().eval()
    tokens, there = method.tokens(batch)
    found = torch.stack([restored(method.autoencoder, *pair) for pair in zip(tokens, there, strict=True)])
    torch.testing.assert_close(method.predict(batch).logits, method.classifier(found + method.positions))


def test_a_batch_keeps_one_number_of_modalities_from_one_to_all_but_one():
    there, counts = torch.ones(16, 5, dtype=torch.bool), []
    for step in range(60):
        key = sample_keys(torch.arange(16), step)
        kept = draw_kept(key, there)
        assert len(set(kept.sum(1).tolist())) == 1
        counts.append(int(kept[0].sum()))
    assert set(counts) == {1, 2, 3, 4}
    assert len({tuple(row) for row in kept.tolist()}) > 1


@pytest.mark.parametrize("modalities", [1, 2, 5])
def test_only_what_is_there_is_kept_and_something_always_is(modalities):
    for step in range(20):
        there = noise(32, modalities, seed=step) > 0
        there[:, 0] |= ~there.any(1)
        key = sample_keys(torch.arange(32), step)
        kept = draw_kept(key, there)
        assert not (kept & ~there).any()
        assert kept.any(1).all()


def test_encoders_do_not_learn_to_be_easy_to_restore(monkeypatch):
    """Keep no token: then the restored ones owe nothing to the encoders, and the target is all that can move them."""
    method, batch = online_mae(), incomplete_batch()
    nothing = torch.zeros(len(batch), len(SHAPES), dtype=torch.bool)
    monkeypatch.setattr("gauge_lab.methods.online_mae.draw_kept", lambda key, there: nothing)
    found = gradients(method, method.loss(batch)["reconstruction"])
    assert [name for name, gradient in found.items() if name.startswith("encoder.") and bool(gradient.any())] == []


def test_encoders_start_where_those_of_multiae_ended_and_all_else_small():
    small = replace(MST, modalities={name: MST.modalities[name] for name in ("mnist", "text")})
    data = zeros(small)
    stage = last_stage(small, "online_mae", "online_mae", 0)
    dagger = stage.needs[0]
    start = untrained(dagger, data)
    ended = {name: values.clone() for name, values in start.encoder.state_dict().items()}
    method = stage.build(data, [start])
    assert dagger.name == "multiae-dagger-s0"
    assert all(torch.equal(values, ended[name]) for name, values in method.encoder.state_dict().items())
    assert all(parameter.requires_grad for parameter in method.parameters())
    linear = method.autoencoder.encoder.blocks[0].mlp[0]
    assert linear.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert not linear.bias.any()


def test_the_memory_has_the_published_size():
    stages = [last_stage(each, "online_mae", "online_mae", 0) for each in (POLYMNIST, MST, CELEBA)]
    assert [stage.arguments["memory"] for stage in stages] == [6, 4, 4]
