"""gauge.attribution: captum's interface, and captum's numbers."""

import captum.attr
import pytest
import torch
from helpers import network, noise

from gauge import attribution


@pytest.fixture
def model():
    return network().eval()


@pytest.fixture
def tokens():
    return noise(3, 4, 8)


@pytest.mark.parametrize("target", [1, torch.tensor([0, 2, 1])], ids=["one class", "one for each sample"])
def test_taylor_evidence_is_captums_input_times_gradient_over_channels(model, tokens, target):
    expected = captum.attr.InputXGradient(model).attribute(tokens.clone().requires_grad_(), target=target)
    ours = attribution.TaylorEvidence(model).attribute(tokens, target=target)
    torch.testing.assert_close(ours, expected.abs().sum(-1).detach())


@pytest.mark.parametrize("at_once", [None, 1])
def test_exact_effects_are_captums_ablation_of_whole_tokens(model, tokens, at_once):
    target, baseline = torch.tensor([0, 2, 1]), torch.full((1, 4, 8), 0.5)
    feature = torch.arange(4)[None, :, None].expand(1, 4, 8)
    expected = captum.attr.FeatureAblation(model).attribute(tokens, baseline, target, feature_mask=feature)
    ours = attribution.ExactEffects(model).attribute(tokens, baseline, target, perturbations_per_eval=at_once)
    torch.testing.assert_close(ours, expected[..., 0].detach())


def test_additional_arguments_follow_their_samples(model, tokens):
    def scaled(tokens, factor, power):
        return model(tokens) * factor[:, None] ** power

    factor = torch.tensor([1.0, 2.0, 3.0])
    plain = attribution.ExactEffects(model).attribute(tokens, target=1)
    ours = attribution.ExactEffects(scaled).attribute(tokens, target=1, additional_forward_args=(factor, 2))
    torch.testing.assert_close(ours, plain * factor[:, None] ** 2)


def test_without_a_target_the_predicted_class_is_explained(model, tokens):
    predicted = model(tokens).argmax(-1)
    explained = attribution.TaylorEvidence(model).attribute(tokens)
    assert torch.equal(explained, attribution.TaylorEvidence(model).attribute(tokens, target=predicted))
