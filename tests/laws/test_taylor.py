"""Scores (Eqs. 3-5): the first-order term, its remainder, the bound, and what every scorer promises."""

from contextlib import nullcontext

import pytest
import torch
from captum.attr import FeatureAblation, InputXGradient
from helpers import DIM, network, noise
from torch.nn.attention import SDPBackend, sdpa_kernel

from gauge.paper.gauge import taylor_evidence, ungated_gradient
from gauge.paper.scoring.exact import exact_effects
from gauge.paper.scoring.random import random_score
from gauge.registry import SCORERS

NAMES = SCORERS.names()


def scorer(name):
    return SCORERS.get(name)


def signed_terms(classifier, tokens, reference):
    """a = <gradient, reference - token> (Eq. 3)."""
    _, gradient = ungated_gradient(classifier, tokens, "logit")
    return (gradient * (reference - tokens)).sum(-1)


@pytest.fixture
def smooth():
    """A GELU network in double precision, steep enough to bend within a unit step."""
    classifier = network().double()
    with torch.no_grad():
        classifier.head.weight *= 10
    return classifier


@pytest.fixture
def double_tokens(tokens):
    return tokens.double()


def test_remainder_of_the_first_order_term_falls_with_the_square_of_the_step(smooth, double_tokens):
    direction = noise(*double_tokens.shape, seed=1).double()

    def remainder(step):
        reference = double_tokens + step * direction
        return exact_effects(smooth, double_tokens, reference=reference) - signed_terms(
            smooth, double_tokens, reference
        )

    steps = (0.08, 0.04, 0.02)
    sizes = torch.stack([remainder(step).abs().mean() for step in steps])
    torch.testing.assert_close(sizes[:-1] / sizes[1:], torch.full((2,), 4.0), rtol=0.15, atol=0, check_dtype=False)


def test_signed_term_never_exceeds_the_score(smooth, double_tokens):
    scores = taylor_evidence(smooth, double_tokens).scores
    signed = signed_terms(smooth, double_tokens, torch.zeros_like(double_tokens)).abs()
    assert (signed <= scores + 1e-6).all()
    assert (signed < 0.9 * scores).any()


@pytest.mark.parametrize("step", [1.0, 0.1, 0.02])
def test_exact_effect_stays_below_score_plus_measured_curvature(smooth, double_tokens, step):
    tokens = double_tokens[:1]
    reference = (1 - step) * tokens  # the whole way to zero, or a part of it
    scores = taylor_evidence(smooth, tokens, reference=reference).scores[0]
    exact = exact_effects(smooth, tokens, reference=reference)[0]
    signed = signed_terms(smooth, tokens, reference)[0]
    target = smooth(tokens)[0].argmax()
    for unit in (0, 3, 6):

        def objective(value, unit=unit):
            return -smooth(torch.cat([tokens[:, :unit], value[None, None], tokens[:, unit + 1 :]], 1))[0, target]

        path = torch.lerp(tokens[0, unit], reference[0, unit], torch.linspace(0, 1, 5)[:, None].double())
        with sdpa_kernel(SDPBackend.MATH):  # the fused kernel has no second derivative
            hessians = torch.stack([torch.autograd.functional.hessian(objective, value) for value in path])
        curvature = torch.linalg.matrix_norm(hessians, 2).max()
        remainder = curvature / 2 * (reference - tokens)[0, unit].square().sum()
        assert (exact[unit] - signed[unit]).abs() <= 1.05 * remainder + 1e-6
        assert exact[unit].abs() <= scores[unit] + 1.05 * remainder + 1e-6


def test_scores_equal_captums_input_x_gradient(network, tokens):
    target = network(tokens).argmax(-1)
    attribution = InputXGradient(network).attribute(tokens.clone().requires_grad_(), target=target)
    torch.testing.assert_close(taylor_evidence(network, tokens).scores, attribution.abs().sum(-1).detach())


def test_exact_effects_equal_captums_feature_ablation(network, tokens):
    units = torch.arange(tokens.shape[1])[None, :, None].expand_as(tokens)
    target = network(tokens).argmax(-1)
    ablation = FeatureAblation(network).attribute(tokens, target=target, feature_mask=units)
    torch.testing.assert_close(exact_effects(network, tokens), ablation[..., 0], rtol=1e-4, atol=1e-6)


def test_nll_fades_on_confident_samples_while_the_logit_does_not(network, tokens):
    plain = taylor_evidence(network, tokens).scores
    with torch.no_grad():
        network.head.weight *= 1000
        network.head.bias *= 1000
    assert (network(tokens).softmax(-1).max(-1).values > 0.9999).all()
    torch.testing.assert_close(taylor_evidence(network, tokens).scores, 1000 * plain, rtol=1e-4, atol=1e-4)
    assert (taylor_evidence(network, tokens, objective="nll").scores < 0.01 * plain).all()


@pytest.mark.parametrize("name", NAMES)
def test_scoring_leaves_no_gradient_on_any_parameter(network, tokens, name):
    scorer(name)(network, tokens)
    assert all(parameter.grad is None for parameter in network.parameters())
    before = {}
    for name_, parameter in network.named_parameters():
        parameter.grad = torch.full_like(parameter, 0.1)
        before[name_] = parameter.grad.clone()
    leaf = tokens.clone().requires_grad_()
    scorer(name)(network, leaf)
    assert leaf.grad is None
    assert all(torch.equal(parameter.grad, before[name_]) for name_, parameter in network.named_parameters())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", [nullcontext, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("training", [True, False])
def test_scores_are_the_same_in_every_mode_of_the_caller(network, tokens, name, mode, training):
    expected = scorer(name)(network, tokens)
    network.train(training)
    with mode():
        evidence = scorer(name)(network, tokens * 1)  # made in that mode
    torch.testing.assert_close(evidence.scores, expected.scores, rtol=0, atol=0)
    torch.testing.assert_close(evidence.logits, expected.logits, rtol=0, atol=0)
    assert network.training == training


@pytest.mark.parametrize("name", NAMES)
def test_scores_survive_bf16_autocast(network, tokens, name):
    expected = scorer(name)(network, tokens).scores
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = scorer(name)(network, tokens).scores
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, expected, rtol=0.1, atol=0.03 * float(expected.abs().max()))


@pytest.mark.parametrize("name", NAMES)
def test_scores_of_a_sample_do_not_depend_on_its_batch(network, tokens, name):
    key = torch.arange(4) + 20
    whole = scorer(name)(network, tokens, key=key)
    for row in range(4):
        alone = scorer(name)(network, tokens[row : row + 1], key=key[row : row + 1])
        torch.testing.assert_close(alone.scores[0], whole.scores[row], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["taylor", "exact", "feature_norm"])
def test_a_unit_that_equals_its_reference_scores_zero(network, tokens, name):
    assert (scorer(name)(network, tokens, reference=tokens).scores < 1e-6).all()
    shared = tokens[0, 0]
    scores = scorer(name)(network, tokens, reference=shared).scores
    assert scores[0, 0] < 1e-6
    assert (scores.flatten()[1:] > 1e-6).all()
    torch.testing.assert_close(scorer(name)(network, tokens, reference=shared.expand(7, DIM)).scores, scores)


def test_signed_term_nearly_vanishes_behind_a_pre_norm_block_while_the_score_survives(tokens):
    one_block = network(depth=1)
    tokens = 3 * tokens
    signed = signed_terms(one_block, tokens, torch.zeros_like(tokens)).abs().mean()
    scores = taylor_evidence(one_block, tokens).scores.mean()
    exact = exact_effects(one_block, tokens).abs().mean()
    assert signed < 1e-3 * exact
    assert scores > 0.1 * exact


@pytest.mark.parametrize("units_at_once", [1, 3, 7, 100])
def test_exact_effects_do_not_depend_on_how_many_units_go_at_once(network, tokens, units_at_once):
    expected = exact_effects(network, tokens)
    effects = exact_effects(network, tokens, units_at_once=units_at_once)
    torch.testing.assert_close(effects, expected, rtol=1e-4, atol=1e-6)


def test_gradient_and_feature_norms_are_the_two_factors_of_the_score(network, tokens):
    _, gradient = ungated_gradient(network, tokens, "logit")
    torch.testing.assert_close(scorer("gradient_norm")(network, tokens).scores, gradient.abs().sum(-1))
    torch.testing.assert_close(scorer("feature_norm")(network, tokens).scores, tokens.norm(dim=-1))


def test_attention_score_is_what_cls_pays_to_each_unit_on_average_over_heads(network, tokens):
    attention = network.attention(tokens)
    scores = scorer("attention")(network, tokens).scores
    torch.testing.assert_close(scores, attention[:, :, 0, 1:].mean(1).detach())
    assert (scores.sum(-1) < 1).all()
    torch.testing.assert_close(scores.sum(-1) + attention[:, :, 0, 0].mean(1).detach(), torch.ones(4))


def test_random_score_changes_with_the_key_and_only_with_the_key(network, tokens):
    key = torch.arange(4)
    first = random_score(network, tokens, key=key).scores
    assert torch.equal(random_score(network, 2 * tokens + 1, key=key).scores, first)
    assert torch.equal(random_score(network, tokens, key=key.flip(0)).scores, first.flip(0))
    assert (random_score(network, tokens, key=key + 4).scores != first).all()


def test_predicted_class_stays_fixed_when_a_replacement_changes_it(network, tokens):
    flips = 40 * noise(*tokens.shape, seed=2)
    before = network(tokens)
    target = before.argmax(-1)
    after = torch.stack([network(torch.where(torch.arange(7)[:, None] == unit, flips, tokens)) for unit in range(7)], 1)
    assert (after.argmax(-1) != target[:, None]).any()
    rows = torch.arange(len(tokens))
    expected = before[rows, target][:, None] - after[rows, :, target]
    torch.testing.assert_close(exact_effects(network, tokens, reference=flips), expected, rtol=1e-4, atol=1e-6)
