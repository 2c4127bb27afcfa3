"""MUSE against its formulas, written out edge by edge."""

import math
from dataclasses import replace

import helpers
import pytest
import torch
from helpers import CLASSES, DIM, SHAPES, count_calls, double, rows_of, with_hidden

from gauge import TrainSettings, fit
from gauge.encoders.mlp import Mlp
from gauge.randomness import seeded
from gauge_lab.benchmarks.polymnist import BENCHMARK
from gauge_lab.methods.muse import Muse, fewer
from gauge_lab.plans import last_stage
from gauge_lab.vectors import VectorEncoder


def muse():
    with seeded(0, "muse"):
        encoder = VectorEncoder({name: Mlp(shape, DIM, hidden=6) for name, shape in SHAPES.items()})
        return Muse(encoder, DIM, CLASSES).double().eval()


@pytest.fixture
def batch():
    return double(helpers.incomplete_batch())


def samples_by_hand(method, edges, there):
    """The sample nodes after two layers: nodes and directed edges one by one."""
    size, count = there.shape
    names = [("sample", i) for i in range(size)] + [("modality", m) for m in range(count)]
    state = {node: torch.ones(DIM).double() if node[0] == "sample" else method.nodes[node[1]] for node in names}
    feature = {}
    for i in range(size):
        for m in range(count):
            if there[i, m]:
                feature[("sample", i), ("modality", m)] = edges[i, m]
                feature[("modality", m), ("sample", i)] = edges[i, m]
    for number, layer in enumerate(method.layers):
        if number:
            feature = {
                (u, v): torch.relu(method.edge_updates[0](torch.cat([state[u], state[v], e])))
                for (u, v), e in feature.items()
            }
        after = {}
        for node in names:
            messages = [
                torch.relu(layer.message(torch.cat([state[u], e]))) for (u, v), e in feature.items() if v == node
            ]
            mean = torch.stack(messages).mean(0) if messages else torch.zeros(DIM).double()
            after[node] = torch.relu(layer.update(torch.cat([mean, state[node]])))
        state = after
    return torch.stack([state["sample", i] for i in range(size)])


def edges_by_hand(method, batch):
    vectors, there = method.encoder(batch)
    return torch.stack([method.inputs[m](vectors[:, m]) for m in range(3)], 1), there


def bce(logits, alike):
    p = torch.sigmoid(logits)
    return -(alike * p.log() + (1 - alike) * (1 - p).log()).mean()


def cross_entropy(logits, classes):
    return sum(-math.log(float(row.softmax(0)[c])) for row, c in zip(logits, classes, strict=True)) / len(logits)


@torch.no_grad()
def test_logits_and_loss_are_those_by_hand(batch):
    method = muse()
    edges, there = edges_by_hand(method, batch)
    z, copy = (samples_by_hand(method, edges, flags) for flags in (there, fewer(there, batch.key)))
    torch.testing.assert_close(method.predict(batch).logits, method.classifier(z))

    p, q = (torch.tanh(method.projection(states)) for states in (z, copy))
    p, q = (rows / rows.square().sum(1, keepdim=True).sqrt() for rows in (p, q))
    across, own = p @ q.T / 0.07, range(len(batch))
    alike = torch.tensor([[float(a == b) for a in batch.labels] for b in batch.labels]).double()
    unsupervised = (cross_entropy(across, own) + cross_entropy(across.T, own)) / 2
    supervised = (2 * bce(p @ p.T / 0.07, alike) + bce(across, alike) + bce(across.T, alike)) / 4
    terms = method.loss(batch)
    assert float(terms["unsupervised"]) == pytest.approx(0.5 * unsupervised)
    assert float(terms["supervised"]) == pytest.approx(0.5 * float(supervised))
    assert float(terms["task"]) == pytest.approx(cross_entropy(method.classifier(z), batch.labels))


@torch.no_grad()
def test_dense_graph_equals_the_naive_one_of_four_samples_and_three_modalities():
    method, edges = muse(), helpers.noise(4, 3, DIM).double()
    full = torch.ones(4, 3, dtype=torch.bool)
    some = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 1, 0], [1, 1, 0]]).bool()  # nobody has the last modality
    found = method.samples(edges, torch.stack([full, some]))
    for states, there in zip(found, (full, some), strict=True):
        torch.testing.assert_close(states, samples_by_hand(method, edges, there))
    kept = torch.where(some[..., None], edges, torch.nan_to_num(edges) * 100)
    torch.testing.assert_close(method.samples(kept, some[None])[0], found[1])


def test_a_sample_alone_with_one_modality_is_answered_and_can_be_learned_from(batch):
    method = muse()
    one = rows_of(batch, torch.tensor([4]))
    assert int(one.any_observed().sum()) == 1
    assert torch.isfinite(method.predict(one).logits).all()
    assert all(torch.isfinite(term) for term in method.loss(one).values())


def test_samples_meet_in_the_modality_nodes(batch):
    method = muse()
    alone = torch.cat([method.predict(rows_of(batch, torch.tensor([row]))).logits for row in range(len(batch))])
    assert not torch.allclose(alone, method.predict(batch).logits)
    assert torch.equal(method.predict(batch).logits, method.predict(batch).logits)


def test_the_copy_keeps_all_edges_of_half_the_samples_and_any_smaller_number_of_the_rest():
    rows = 40_000
    there = torch.ones(rows, 4, dtype=torch.bool)
    there[: rows // 2, 1] = False
    kept = fewer(there, torch.arange(rows))
    assert not (kept & ~there).any()
    for part, n in ((slice(0, rows // 2), 3), (slice(rows // 2, rows), 4)):
        counts = torch.bincount(kept[part].sum(1), minlength=n + 1).double() / (rows // 2)
        expected = torch.tensor([0.0] + [0.5 / (n - 1)] * (n - 1) + [0.5]).double()
        torch.testing.assert_close(counts, expected, atol=0.015, rtol=0)
        some = kept[part][kept[part].sum(1) == 1].double().mean(0)
        torch.testing.assert_close(some, there[part][0].double() / n, atol=0.03, rtol=0)


def test_a_single_edge_stays_and_a_draw_does_not_depend_on_the_batch():
    there = helpers.noise(300, 4) > 0
    key = torch.arange(300)
    kept = fewer(there, key)
    single = there.sum(1) == 1
    assert torch.equal(kept[single], there[single])
    assert (kept.sum(1) >= there.any(1).long()).all()
    assert torch.equal(fewer(there[7:9], key[7:9]), kept[7:9])


def test_projections_have_unit_norm_and_modalities_are_encoded_once(batch, monkeypatch):
    method, seen = muse(), []
    normalize = torch.nn.functional.normalize
    monkeypatch.setattr("torch.nn.functional.normalize", lambda *a, **k: seen.append(normalize(*a, **k)) or seen[0])
    encoded = count_calls(*method.encoder.encoders.values())
    method.loss(batch)
    assert encoded == [len(batch)] * 3
    torch.testing.assert_close(seen[0].norm(dim=-1), torch.ones(2, len(batch)).double())


@pytest.mark.parametrize("filling", ["nan", "noise"])
def test_unobserved_values_reach_no_gradient(batch, filling):
    method = muse()
    expected = helpers.gradients(method, sum(method.loss(batch).values()))
    found = helpers.gradients(method, sum(method.loss(with_hidden(batch, filling)).values()))
    helpers.assert_equal(found, expected)
    assert all(bool(torch.isfinite(gradient).all()) for gradient in found.values())
    assert expected.keys() == dict(method.named_parameters()).keys()


def test_a_missing_modality_is_an_edge_that_is_not_there(batch):
    """Encoding it or not, the answers are those of a graph without the edge."""
    method = muse()
    without = {**batch.observed, "signal": torch.zeros(6, dtype=torch.bool), "image": torch.ones(6, dtype=torch.bool)}
    hidden = replace(batch, observed=without)
    edges, there = edges_by_hand(method, hidden)
    torch.testing.assert_close(
        method.predict(hidden).logits, method.classifier(samples_by_hand(method, edges, there)).detach()
    )


def test_it_learns():
    train, val = helpers.dataset("train", 60), helpers.dataset("val", 60, seed=50)
    with seeded(1):
        method = Muse(VectorEncoder({name: Mlp(shape, DIM) for name, shape in SHAPES.items()}), DIM, CLASSES)
        progress = fit(
            method,
            train,
            val,
            settings=TrainSettings(epochs=20, batch_size=20, learning_rate=5e-3, selection=("complete",)),
        )
    assert progress.best_score > 0.8


def test_the_plan_has_the_sizes_of_the_published_network():
    stage = last_stage(BENCHMARK, "muse", "muse", 2)
    assert stage.name == "muse-s2"
    count = sum(parameter.numel() for parameter in stage.build(helpers.dataset("train", 6), []).parameters())
    encoders, inputs, nodes, layers = 5 * 355_520, 5 * 128 * 129, 5 * 128, 2 * 2 * 128 * 257
    heads = 128 * 385 + 2 * 128 * 129 + 1290  # edge update, projection and classifier
    assert count == encoders + inputs + nodes + layers + heads == 2_075_978
