"""M3Care against its formulas, written out for one pair of samples at a time."""

import math
from dataclasses import replace

import helpers
import pytest
import torch
import torch.nn.functional as F
from helpers import DIM, SHAPES, count_calls, double, rows_of

from gauge.encoders.mlp import Mlp
from gauge.masks import draw_subsets
from gauge.randomness import seeded
from gauge_lab.benchmarks.polymnist import BENCHMARK
from gauge_lab.methods.m3care import M3Care
from gauge_lab.plans import last_stage, plan_of
from gauge_lab.vectors import VectorEncoder


def m3care(**options):
    """Random weights, a threshold that some pairs of samples exceed, and a BatchNorm that has seen something."""
    with seeded(0, "m3care"):
        encoder = VectorEncoder({name: Mlp(shape, DIM, hidden=6) for name, shape in SHAPES.items()})
        method = M3Care(encoder, helpers.network(), **options).double()
    with torch.no_grad():
        for place, parameter in enumerate(method.parameters()):
            parameter.add_(0.3 * helpers.noise(parameter.numel(), seed=place).reshape(parameter.shape))
        method.threshold.fill_(-0.8)
        method.batch_norm.running_mean.copy_(helpers.noise(DIM, seed=70))
        method.batch_norm.running_var.copy_(1 + helpers.noise(DIM, seed=71).square())
    return method.eval()


@pytest.fixture
def batch():
    return double(helpers.incomplete_batch())


def complete(batch):
    return replace(batch, observed={name: torch.ones_like(flags) for name, flags in batch.observed.items()})


def kernel_by_hand(rows, pairs):
    distance = {(i, j): float((rows[i] - rows[j]).square().sum()) for i in range(len(rows)) for j in range(len(rows))}
    mean = sum(distance[pair] for pair in pairs) / max(1, len(pairs))
    mean = 1.0 if mean < 1e-3 else mean
    return {pair: sum(math.exp(-d / (factor * mean)) for factor in (0.5, 1, 2)) / 3 for pair, d in distance.items()}


@torch.no_grad()
def by_hand(method, batch):
    """Graph, logits and stability of a batch, from loops over modalities and pairs."""
    vectors, there = method.encoder(batch)
    size, count = there.shape
    norm = method.batch_norm

    def batch_norm(x):
        if method.training:
            mean, var = x.mean(0), x.var(0, unbiased=False)
        else:
            mean, var = norm.running_mean, norm.running_var
        return (x - mean) / (var + 1e-5).sqrt() * norm.weight + norm.bias

    states, similarity, stability = [], [], 0.0
    for m in range(count):
        h = method.norms[m](vectors[:, m]) * there[:, m, None]
        states.append(h)
        projected = method.projections[m](h)
        stability += abs(float(projected.norm()) - float(h.norm()))
        pairs = [(i, j) for i in range(size) for j in range(size) if i != j and there[i, m] and there[j, m]]
        first, second = kernel_by_hand(batch_norm(projected), pairs), kernel_by_hand(batch_norm(h), pairs)
        mix = float(method.mix[m].sigmoid())
        similarity.append({pair: (1 - mix) * first[pair] + mix * second[pair] for pair in first})
    graph = torch.zeros(size, size, dtype=torch.float64)
    threshold = float(method.threshold.sigmoid())
    for i in range(size):
        for j in range(size):
            shared = [similarity[m][i, j] for m in range(count) if there[i, m] and there[j, m]]
            mean = sum(shared) / len(shared) if shared else 0.0
            graph[i, j] = mean if mean > threshold else 0.0
    weights = graph / graph.sum(1, keepdim=True)
    tokens = torch.zeros(size, count, DIM, dtype=torch.float64)
    for m, h in enumerate(states):
        heard = h
        for layer in range(2):
            heard = F.selu(weights @ (heard @ method.weights[layer, m]) + method.biases[layer, m])
        for i in range(size):
            graph_trust = method.trust_graph[m](heard[i]).sigmoid()
            w = graph_trust / (graph_trust + method.trust_own[m](h[i]).sigmoid())
            tokens[i, m] = w * heard[i] + (1 - w) * h[i] if there[i, m] else heard[i]
            tokens[i, m] += method.modality_embedding.weight[m] + method.position_embedding[m]
    return graph, method.classifier(tokens), stability


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_logits_and_loss_are_those_by_hand(batch, mode):
    method = m3care().train(mode == "train")
    graph, logits, stability = by_hand(method, batch)
    edges = int((graph > 0).sum()) - len(batch)
    assert 0 < edges < len(batch) * (len(batch) - 1)
    terms = method.loss(batch)
    torch.testing.assert_close(terms["task"], F.cross_entropy(logits, batch.labels))
    assert float(terms["stability"].detach()) == pytest.approx(1e-8 * stability)
    if mode == "eval":
        torch.testing.assert_close(method.predict(batch).logits, logits)


@pytest.mark.parametrize("threshold", [-3.0, 0.0, 3.0])
def test_the_graph_is_symmetric_with_ones_on_its_diagonal(batch, threshold):
    method = m3care()
    vectors, there = method.encoder(batch)
    states = vectors * there[..., None]
    with torch.no_grad():
        method.threshold.fill_(threshold)
        graph = method.graph(method.similarities(states, states.square(), there), there[None])[0]
    torch.testing.assert_close(graph, graph.T)
    torch.testing.assert_close(graph.diagonal(), torch.ones(len(batch)).double())
    assert ((graph == 0) | (graph > method.threshold.sigmoid())).all()


def test_without_neighbours_nothing_depends_on_the_batch(batch):
    """A threshold that only a sample itself exceeds leaves the identity as graph."""
    method, batch = m3care(), complete(batch)
    assert not torch.allclose(alone(method, batch), method.predict(batch).logits)
    with torch.no_grad():
        method.threshold.fill_(6.0)
    torch.testing.assert_close(alone(method, batch), method.predict(batch).logits)


def alone(method, batch):
    return torch.cat([method.predict(rows_of(batch, torch.tensor([row]))).logits for row in range(len(batch))])


def test_a_step_over_subsets_is_the_mean_over_batches_that_show_these_modalities_alone(batch):
    method, batch = m3care(subsets_per_step=4), complete(batch)
    encoded = count_calls(*method.encoder.encoders.values())
    task = method.loss(batch)["task"]
    assert encoded == [len(batch)] * 3
    chosen = draw_subsets(batch.key, method.subsets, 4)
    losses = []
    for subset in chosen:
        shown = {name: flags & kept for (name, flags), kept in zip(batch.observed.items(), subset, strict=True)}
        losses.append(F.cross_entropy(method.predict(replace(batch, observed=shown)).logits, batch.labels))
    torch.testing.assert_close(task, torch.stack(losses).mean())


def test_gradients_are_finite_when_a_modality_is_missing_for_all(batch):
    method = m3care().train()
    none = {**batch.observed, "image": torch.zeros(6, dtype=torch.bool), "signal": torch.ones(6, dtype=torch.bool)}
    found = helpers.gradients(method, sum(method.loss(replace(batch, observed=none)).values()))
    assert all(bool(torch.isfinite(gradient).all()) for gradient in found.values())


def test_one_sample_is_answered_but_nothing_is_learned_from_it(batch):
    method, one = m3care(), rows_of(batch, torch.tensor([2]))
    assert torch.isfinite(method.predict(one).logits).all()
    torch.testing.assert_close(method.predict(one).logits, by_hand(method, one)[1])
    with pytest.raises(ValueError, match="a batch holds 1; train with batches of at least 2"):
        method.loss(one)


def test_the_plan_has_the_start_of_the_published_network_and_a_key_for_each_variant():
    variants = plan_of("m3care").variants
    stages = {variant: last_stage(BENCHMARK, "m3care", variant, 2) for variant in variants}
    assert len({stage.key("data") for stage in stages.values()}) == len(variants) == 2
    assert [stage.name for stage in stages.values()] == ["m3care-s2", "m3care-dagger-s2"]
    methods = {variant: stage.build(helpers.dataset("train", 6), []) for variant, stage in stages.items()}
    for variant, method in methods.items():
        assert method.subsets_per_step == (5 if variants[variant].dagger else None)
    assert 0.015 < float(methods["m3care"].classifier.head.weight.detach().std()) < 0.025
    assert float(methods["m3care"].weights.detach().abs().max()) == pytest.approx(128**-0.5, rel=1e-3)
