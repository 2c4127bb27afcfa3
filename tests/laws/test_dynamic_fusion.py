"""Concat, unimodal, QMF, PDF and DynMM against their definitions, written out for one sample at a time."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from helpers import CLASSES, SHAPES, assert_equal, dataset, double, gradients, linear_mopoe, noise

from gauge import TrainSettings, fit
from gauge.encoders.mlp import Mlp
from gauge.masks import AnyModalities
from gauge.plus.late_fusion import HeadOutputs, LateFusion
from gauge.randomness import sample_keys, seeded
from gauge_lab.methods.concat import Concat
from gauge_lab.methods.dynmm import DynMM
from gauge_lab.methods.pdf import PDF, fusion_weights, reliability
from gauge_lab.methods.qmf import QMF, confidence, fuse, ranking
from gauge_lab.vectors import VectorEncoder

TRAIN = dataset("train", 40)
WIDTH, COUNT = 6, len(SHAPES)
METHODS = ("concat", "unimodal", "qmf", "pdf", "dynmm")


def make(name):
    """One of the methods, on tiny encoders and an untrained imputer."""
    with seeded(1, "fusion"):
        encoders = {key: Mlp(shape, WIDTH, hidden=5) for key, shape in SHAPES.items()}
        imputer = linear_mopoe(TRAIN)
        if name == "concat":
            return Concat(VectorEncoder(encoders), imputer, num_classes=CLASSES)
        if name == "unimodal":
            return LateFusion(encoders, CLASSES, imputer, rectify=False)
        classifiers = LateFusion(encoders, CLASSES, rectify=False)
        if name == "qmf":
            return QMF(classifiers, imputer, rows=len(TRAIN))
        if name == "pdf":
            return PDF(classifiers, imputer)
        return DynMM(classifiers, make("concat"), imputer)


@pytest.fixture(params=METHODS)
def method(request):
    return make(request.param).eval()


@pytest.fixture
def complete():
    """Six samples of the training split, nothing missing."""
    return TRAIN.batch(torch.arange(6)).as_observed()


def outputs_of(seed=0, rows=5, count=COUNT, there=None):
    there = torch.ones(rows, count, dtype=torch.bool) if there is None else there
    logits = 2 * noise(rows, count, CLASSES, seed=seed).double()
    return HeadOutputs((), logits, there)


SOME = torch.tensor([[1, 1, 1], [1, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 1]]).bool()


# what all of them have in common


def test_predictions_are_those_for_the_completed_input(method, batch):
    completed = method.imputer.complete(batch).as_observed()
    torch.testing.assert_close(method.predict(completed).logits, method.predict(batch).logits)


def test_what_is_frozen_is_bit_identical_after_training(method):
    frozen = [method.imputer.imputer] + ([method.unimodal, method.concat] if isinstance(method, DynMM) else [])
    before = [{name: tensor.clone() for name, tensor in module.state_dict().items()} for module in frozen]
    trained = {name: parameter.clone() for name, parameter in method.named_parameters() if parameter.requires_grad}
    fit(method, TRAIN, settings=TrainSettings(epochs=2, batch_size=16))
    for module, state in zip(frozen, before, strict=True):
        assert_equal(dict(module.state_dict()), state)
        assert not module.train(False).training
    assert any(
        not torch.equal(parameter, trained[name]) for name, parameter in method.named_parameters() if name in trained
    )


# unimodal and concat


def test_the_opinions_are_averaged_over_the_samples_that_have_them(batch):
    method = make("unimodal")
    expected = 0.0
    for place, name in enumerate(SHAPES):
        rows = batch.any_observed()[:, place]
        values = batch.filled({name: torch.zeros_like(batch.inputs[name])}).inputs[name][rows]
        logits = method.heads[name](method.encoders[name](values, rows)[:, 0])
        expected = expected + F.cross_entropy(logits, batch.labels[rows])
    torch.testing.assert_close(method.loss(batch)["task"], expected)


def test_concat_is_one_linear_map_of_all_vectors(complete):
    method = make("concat")
    vectors = [method.encoder.encoders[name](complete.inputs[name], complete.observed[name])[:, 0] for name in SHAPES]
    torch.testing.assert_close(method(complete), F.linear(torch.cat(vectors, 1), method.head.weight, method.head.bias))


# QMF


def ranking_by_hand(confidence, difficulty, there):
    total = 0.0
    for m in range(there.shape[1]):
        terms = []
        for i in range(len(there)):
            j = (i + 1) % len(there)
            if not (there[i, m] and there[j, m]):
                continue
            r, s = float(difficulty[i, m]), float(difficulty[j, m])
            t = (r > s) - (r < s)
            terms.append(max(0.0, t * float(confidence[i, m] - confidence[j, m]) - abs(r - s)))
        total += sum(terms) / max(1, len(terms))
    return total


@pytest.mark.parametrize("there", [torch.ones_like(SOME), SOME], ids=["complete", "gaps"])
def test_ranking_follows_its_definition(there):
    sure, hard = 3 * noise(5, 3, seed=1).double(), noise(5, 3, seed=2).double().sigmoid()
    expected = ranking_by_hand(sure, hard, there)
    assert expected > 0
    assert float(ranking(sure, hard, there)) == pytest.approx(expected)


def test_qmf_fuses_by_confidence_and_keeps_its_gradient_out():
    outputs = outputs_of(there=SOME)
    logits = outputs.logits.clone().requires_grad_()
    fused = fuse(replace(outputs, logits=logits))
    for row in range(5):
        parts = [logits[row, m].logsumexp(0) / 10 * logits[row, m] for m in range(3) if SOME[row, m]]
        torch.testing.assert_close(fused[row], torch.stack(parts).sum(0))
    fused.sum().backward()
    weights = torch.where(SOME, confidence(outputs.logits), 0.0)
    torch.testing.assert_close(logits.grad, weights[..., None].expand_as(logits))


def test_history_adds_up_the_losses_of_what_is_there():
    method = make("qmf").train()
    expected = torch.zeros(len(TRAIN), COUNT)
    for rows in (torch.tensor([7, 3, 5]), torch.tensor([5, 30, 2])):
        key = sample_keys(rows, 3)
        batch = TRAIN.batch(rows, keep=AnyModalities().keep(TRAIN.feature_counts, key), key=key)
        outputs = method.classifiers.read(batch)
        for place, row in enumerate(rows.tolist()):
            for m in range(COUNT):
                if outputs.available[place, m]:
                    expected[row, m] += F.cross_entropy(outputs.logits[place, m], batch.labels[place]).detach()
        method.loss(batch)
    torch.testing.assert_close(method.history, expected)
    before = method.history.clone()
    method.eval().loss(batch)
    assert torch.equal(method.history, before)
    assert torch.equal(method.state_dict()["history"], before)


def test_qmf_ranks_by_the_history_of_the_whole_split_this_step_included():
    method = make("qmf").double().train()
    method.history.copy_(noise(len(TRAIN), COUNT, seed=4).double().abs())
    batch = double(TRAIN.batch(torch.tensor([4, 11, 8, 20])).as_observed())
    terms = method.loss(batch)
    history = method.history
    hard = (history[batch.index] - history.min(0).values) / (history.max(0).values - history.min(0).values)
    sure = confidence(method.classifiers.read(batch).logits).detach()
    assert float(terms["ranking"].detach()) == pytest.approx(ranking_by_hand(sure, hard, batch.any_observed()))
    assert set(terms) == {"task", "modalities", "ranking"}


# PDF


def weights_by_hand(confidence, members, reliability=None):
    logs = {m: math.log(float(confidence[m]) + 1e-8) for m in members}
    support = {}
    for m in members:
        holo = sum(logs[j] for j in members if j != m) / (sum(logs.values()) + 1e-8)
        support[m] = (float(confidence[m]) + holo) * (1 if reliability is None else float(reliability[m]))
    total = sum(math.exp(value) for value in support.values())
    return [math.exp(support[m]) / total if m in members else 0.0 for m in range(len(confidence))]


def test_pdf_weights_follow_their_definition():
    outputs, sure = outputs_of(there=SOME), noise(5, 3, seed=2).double().sigmoid()
    sound = noise(5, 3, seed=3).double().sigmoid()
    for row in range(5):
        members = SOME[row].nonzero()[:, 0].tolist()
        plain, corrected = fusion_weights(sure, outputs)[row], fusion_weights(sure, outputs, sound)[row]
        assert plain.tolist() == pytest.approx(weights_by_hand(sure[row], members))
        assert corrected.tolist() == pytest.approx(weights_by_hand(sure[row], members, sound[row]))


def test_reliability_follows_its_definition():
    logits = outputs_of(seed=5).logits
    found = reliability(logits)
    for row in range(5):
        u = [float((logits[row, m].softmax(0) - 1 / CLASSES).abs().mean()) for m in range(3)]
        expected = [min(1.0, u[m] * 2 / (sum(u) - u[m] + 1e-8)) for m in range(3)]
        assert found[row].tolist() == pytest.approx(expected)


def test_pdf_loss_follows_its_definition(batch):
    method = make("pdf").double().train()
    batch = double(batch)
    outputs = method.classifiers.read(batch)
    sure = method.confidence(outputs)
    weights = fusion_weights(sure, outputs)
    fused = torch.stack([sum(weights[i, m] * outputs.logits[i, m] for m in range(3)) for i in range(6)])
    off = 0.0
    for m in range(3):
        rows = outputs.available[:, m]
        right = outputs.logits[rows, m].softmax(-1).gather(1, batch.labels[rows, None])[:, 0]
        off = off + (sure[rows, m] - right).abs().mean()
    terms = method.loss(batch)
    torch.testing.assert_close(terms["task"], F.cross_entropy(fused, batch.labels))
    torch.testing.assert_close(terms["confidence"], off)


def test_confidence_trains_its_own_networks_only_and_the_task_leaves_them_alone(complete):
    method = make("pdf").train()
    found = gradients(method, method.loss(complete)["confidence"])
    assert {name for name, gradient in found.items() if gradient.any()} == {
        name for name, _ in method.named_parameters() if name.startswith("confidences")
    }
    found = gradients(method, method.loss(complete)["task"])
    assert not any(name.startswith("confidences") for name in found)


# DynMM


def test_dynmm_answers_with_exactly_one_branch(batch):
    method = make("dynmm")
    completed = method.imputer.complete(batch).as_observed()
    branches = torch.cat([method.unimodal.head_logits(completed), method.concat(completed)[:, None]], 1)
    vectors = torch.cat(method.unimodal.read(completed).vectors, 1)
    chosen = method.gate(vectors).argmax(1)
    expected = torch.stack([branches[row, branch] for row, branch in enumerate(chosen.tolist())])
    torch.testing.assert_close(method.predict(batch).logits, expected, rtol=0, atol=0)


def test_the_gate_learns_as_if_it_were_soft(complete):
    method = make("dynmm").double().train()
    batch = double(complete)
    terms = method.loss(batch)
    found = gradients(method, terms["task"] + terms["cost"])
    assert set(found) == {name for name, _ in method.named_parameters() if name.startswith("gate")}
    outputs = method.unimodal.read(batch)
    branches = torch.cat([outputs.logits, method.concat(batch)[:, None]], 1).detach()
    soft = method.gate(torch.cat(outputs.vectors, 1)).softmax(1)
    hard = F.one_hot(soft.argmax(1), COUNT + 1).double()
    fused = torch.einsum("bi,bik->bk", hard, branches)
    pull = fused.softmax(-1) - F.one_hot(batch.labels, CLASSES)
    surrogate = (soft * torch.einsum("bik,bk->bi", branches, pull)).sum(1).mean() + 0.1 * soft[:, -1].mean()
    expected = gradients(method, surrogate)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient)
    assert float(terms["cost"].detach()) == pytest.approx(0.1 * float(hard[:, -1].mean()))


def test_the_gate_never_picks_the_branch_of_a_modality_that_is_not_there(batch):
    method = make("dynmm").train()
    with torch.no_grad():
        method.gate[-1].bias.copy_(torch.tensor([9.0, 8.0, 7.0, 0.0]))
    logits, choice = method(batch)
    assert not choice[:, :-1][~batch.any_observed()].any()
    assert torch.isfinite(logits).all()
    assert choice.argmax(1).tolist() == batch.any_observed().float().argmax(1).tolist()
