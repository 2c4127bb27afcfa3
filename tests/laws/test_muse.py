"""MUSE against its formulas, written out edge by edge."""

import math

import helpers
import pytest
import torch
from helpers import CLASSES, DIM, SHAPES, count_calls, double, rows_of

from gauge.encoders.mlp import Mlp
from gauge.randomness import seeded
from gauge_lab.methods.muse import Muse, fewer
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


def test_projections_have_unit_norm_and_modalities_are_encoded_once(batch, monkeypatch):
    method, seen = muse(), []
    normalize = torch.nn.functional.normalize
    monkeypatch.setattr("torch.nn.functional.normalize", lambda *a, **k: seen.append(normalize(*a, **k)) or seen[0])
    encoded = count_calls(*method.encoder.encoders.values())
    method.loss(batch)
    assert encoded == [len(batch)] * 3
    torch.testing.assert_close(seen[0].norm(dim=-1), torch.ones(2, len(batch)).double())
