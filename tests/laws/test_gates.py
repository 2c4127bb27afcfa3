"""Normalisation, gate and bias (Eqs. 6, 7, 9)."""

import math

import pytest
import torch
import torch.nn.functional as F
from helpers import noise

from gauge.paper.gauge import GATE_FLOOR, Gate, attention_bias, normalize_scores, pool_by_modality
from gauge.paper.network import hiding_bias

FLOOR = math.log(1e-9)


def scores_of(units, samples=5):
    return noise(samples, units).abs() + 0.1


@pytest.mark.parametrize("units", [4, 5, 20])
def test_standardised_scores_ignore_shift_and_positive_scale(units):
    scores = scores_of(units)
    scale, shift = torch.tensor([0.5, 1, 3, 10, 100])[:, None], torch.tensor([0, 1, -2, 5, 3])[:, None]
    torch.testing.assert_close(normalize_scores(scale * scores + shift), normalize_scores(scores), rtol=1e-3, atol=1e-4)


def test_up_to_three_units_keep_their_raw_scores_and_from_four_on_none_does():
    for units in (1, 2, 3):
        assert torch.equal(normalize_scores(scores_of(units)), scores_of(units))
    assert not torch.allclose(normalize_scores(scores_of(4)), scores_of(4))
    assert torch.equal(normalize_scores(scores_of(4), "raw"), scores_of(4))
    assert not torch.allclose(normalize_scores(scores_of(3), "zscore"), scores_of(3))


def test_sigma_is_the_unbiased_estimate():
    scores = scores_of(6)
    expected = (scores - scores.mean(1, keepdim=True)) / torch.std(scores, 1, keepdim=True)
    torch.testing.assert_close(normalize_scores(scores), expected)
    torch.testing.assert_close(normalize_scores(scores).std(1), torch.ones(5))


@pytest.mark.parametrize("value", [0.0, 0.7, 1e8])
def test_equal_scores_give_zero(value):
    assert torch.equal(normalize_scores(torch.full((2, 5), value)), torch.zeros(2, 5))


def test_hidden_units_are_left_out_of_the_statistics():
    scores, visible = scores_of(8), (torch.arange(8) + torch.arange(5)[:, None]) % 4 != 1
    normalized = normalize_scores(scores, visible=visible)
    for row in range(5):
        seen = scores[row, visible[row]]
        torch.testing.assert_close(normalized[row, visible[row]], (seen - seen.mean()) / seen.std())
    louder = torch.where(visible, scores, 1e3)
    torch.testing.assert_close(normalize_scores(louder, visible=visible)[visible], normalized[visible])


@pytest.mark.parametrize("seen", [0, 1])
def test_a_sample_with_at_most_one_visible_unit_stays_finite(seen):
    visible = torch.arange(5)[None] < seen
    assert normalize_scores(scores_of(5, samples=1), visible=visible).isfinite().all()


@pytest.mark.parametrize("threshold", [0.0, 0.5, -2.0])
def test_gate_rises_with_the_score_and_is_a_half_at_the_threshold(threshold):
    gate = Gate(threshold)
    gates = gate(torch.linspace(-4, 4, 50)[None] + threshold)
    assert (gates.diff() > 0).all()
    assert ((gates > 0) & (gates < 1)).all()
    assert gate(torch.tensor([[threshold]])).item() == 0.5


def test_gate_is_the_sigmoid_of_the_papers_equation():
    gate = Gate(0.3)
    with torch.no_grad():
        gate.log_temperature.fill_(-0.7)
    scores = noise(3, 5)
    torch.testing.assert_close(gate(scores), 1 / (1 + torch.exp(-(scores - 0.3) / math.exp(-0.7))))


def test_gate_adds_exactly_two_parameters():
    gate = Gate()
    assert {name: value.numel() for name, value in gate.named_parameters()} == {"threshold": 1, "log_temperature": 1}
    assert gate.log_temperature.item() == 0


def test_bias_is_never_positive_is_zero_for_cls_and_respects_the_floor():
    gates = torch.cat([torch.rand(3, 4), torch.tensor([[0.0, 1e-12, 1e-9, 1.0]])])
    bias = attention_bias(gates)
    assert bias.shape == (4, 1, 1, 5)
    assert (bias <= 0).all()
    assert (bias[..., 0] == 0).all()
    torch.testing.assert_close(bias[3, 0, 0], torch.tensor([0, FLOOR, FLOOR, FLOOR, 0]))
    torch.testing.assert_close(bias[:3, 0, 0, 1:], gates[:3].log())


def test_bias_of_a_sigmoid_has_value_and_gradient_of_the_clamped_logsigmoid():
    x = torch.cat([torch.tensor([-200.0, -100, -21, -20.5, 20, 50]), torch.linspace(-20, 20, 81)])
    ours, reference = x.clone().requires_grad_(), x.clone().requires_grad_()
    bias = attention_bias(torch.sigmoid(ours)[None])[0, 0, 0, 1:]
    expected = F.logsigmoid(reference).clamp_min(FLOOR)
    torch.testing.assert_close(bias, expected, rtol=1e-5, atol=1e-6)
    (gradient,) = torch.autograd.grad(bias.sum(), ours)
    (expected_gradient,) = torch.autograd.grad(expected.sum(), reference)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_bias_is_float32_whatever_the_gates_are(dtype):
    bias = attention_bias(torch.tensor([[0.0, 0.5, 1.0]], dtype=dtype))
    assert bias.dtype == torch.float32
    torch.testing.assert_close(bias[0, 0, 0], torch.tensor([0.0, math.log(GATE_FLOOR), math.log(0.5), 0.0]))


def test_hiding_bias_closes_invisible_units_and_never_cls():
    bias = hiding_bias(torch.tensor([[True, False], [False, False]]))
    assert bias[:, 0, 0].tolist() == [[0, 0, -1e9], [0, -1e9, -1e9]]


def test_pooling_gives_every_modality_the_mean_of_its_units():
    scores, modality = scores_of(6), torch.tensor([0, 0, 0, 1, 2, 2])
    pooled = pool_by_modality(scores, modality)
    for number in range(3):
        mean = scores[:, modality == number].mean(1, keepdim=True)
        torch.testing.assert_close(pooled[:, modality == number], mean.expand(-1, int((modality == number).sum())))
