"""The audit says what it was made to find: planted evidence, right and wrong, is reported as such."""

import pytest
import torch
from helpers import CLASSES, dataset, gauge, imputer, unit_encoder
from torch import nn

from gauge.plus.late_fusion import LateFusion
from gauge.training.inference import predict_split
from gauge.training.metrics import ACCURACY
from gauge.values import Evidence
from gauge_lab.audit import audit


def verdict(*wrong):
    """A judge to whom the modalities named show another class, the others the right one."""

    def judge(batch):
        shown = torch.stack([(batch.labels + (name in wrong)) % CLASSES for name in batch.inputs], 1)
        return nn.functional.one_hot(shown, CLASSES).float()

    return judge


def scored_by(values):
    """A GAUGE whose scorer gives every unit the value planted for it."""
    train = dataset("train", 40)

    def score(classifier, tokens, **options):
        logits = classifier(tokens, None)
        return Evidence(torch.tensor(values).expand(len(tokens), -1), logits)

    return gauge(imputer("zero", train), score=score)


HALF = [1.0] * 4 + [0.0] + [-1.0] * 5  # image, signal, table units of the tiny layout


@pytest.fixture(scope="module")
def test_split():
    return dataset("test", 60, seed=9)


def test_gates_that_follow_the_truth_separate_right_from_wrong(test_split):
    found = audit(scored_by(HALF), test_split, "missing=image", judge=verdict("table", "signal"))
    assert found.imputed_right is not None
    assert found.separation["gate"] == 1.0
    assert found.gate_right > found.gate_wrong


def test_units_are_hidden_as_the_judge_says(test_split):
    method, names = scored_by(HALF), ("image", "signal", "table")
    found = {wrong: audit(method, test_split, "missing=image", judge=verdict(*wrong)).accuracy for wrong in ((), names)}
    assert found[()]["wrong ones hidden"] == found[()]["without gates"], "nothing is wrong"
    assert found[names]["wrong ones hidden"] == found[names]["imputed hidden"], "all that is imputed is"
    backbone = gauge(None, granularity="none")
    backbone.load_state_dict(method.state_dict(), strict=False)
    alone = predict_split(backbone, test_split, "missing=image").score(ACCURACY)
    assert found[()]["imputed hidden"] == pytest.approx(alone), "as the network without an imputer answers"


@pytest.mark.parametrize("objective", ["logit", "nll"])
def test_exact_scores_correlate_perfectly_with_exact_effects(test_split, objective):
    method = gauge(imputer("zero", dataset("train", 40)), score="exact", objective=objective)
    findings = audit(method, test_split, "missing=image")
    assert findings.rank_correlation == pytest.approx(1, abs=1e-9)
    assert findings.imputed_right is None, "there was no judge"
    assert findings.samples == 60


def test_a_method_without_scores_cannot_be_audited(test_split):
    with pytest.raises(ValueError, match="granularity 'none' gives no scored gates to audit"):
        audit(gauge(granularity="none"), test_split, "complete")


def test_late_fusion_adds_up_the_observed_opinions_only(batch):
    fused = LateFusion(dict(unit_encoder().encoders), CLASSES).eval()
    logits = fused.head_logits(batch.filled({name: torch.zeros_like(x) for name, x in batch.inputs.items()}))
    expected = torch.stack([logits[row, own].log_softmax(-1).sum(0) for row, own in enumerate(batch.any_observed())])
    torch.testing.assert_close(fused.predict(batch).logits, expected)
