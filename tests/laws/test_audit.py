"""The audit says what it was made to find: planted evidence, right and wrong, is reported as such."""

from dataclasses import asdict

import pytest
import torch
from helpers import CLASSES, dataset, enlarged, gauge, imputer, unit_encoder
from scipy.stats import spearmanr
from torch import nn

from gauge.plus.late_fusion import LateFusion
from gauge.training.inference import predict_split
from gauge.training.metrics import ACCURACY
from gauge.values import Evidence
from gauge_lab.audit import Audit, _rank_correlation, audit


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
    assert found.separation_within_mixed == 1.0


def test_gates_that_follow_the_opposite_are_reported_as_such(test_split):
    found = audit(scored_by(HALF), test_split, "missing=image", judge=verdict("image"))
    assert found.separation["gate"] == 0.0
    assert any("of the right class" in line for line in found.lines())


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


def test_the_correlation_is_that_of_the_model_scores(test_split):
    planted = [float(unit) for unit in range(10)]
    rising, falling = (
        audit(scored_by(scores), test_split, "missing=image").rank_correlation for scores in (planted, planted[::-1])
    )
    assert rising == pytest.approx(-falling, abs=1e-9)
    assert abs(rising) > 1e-3


def test_changed_predictions_are_better_worse_or_wrong_both_times(test_split):
    method = enlarged(gauge(imputer("zero", dataset("train", 40))))
    findings = audit(method, test_split, "missing=image")
    accuracy = findings.accuracy
    assert findings.changed > 0
    gained = (accuracy["with gates"] - accuracy["without gates"]) * findings.samples
    assert findings.better - findings.worse == pytest.approx(gained, abs=1e-4)


def test_the_rank_correlation_counts_ties_as_spearman_does():
    first, second = torch.tensor([[1.0, 1.0, 2.0, 3.0], [4.0, 3.0, 2.0, 1.0]]), torch.tensor([[0.0, 5.0, 5.0, 9.0]] * 2)
    expected = [spearmanr(*pair).statistic for pair in zip(first, second, strict=True)]
    assert _rank_correlation(first, second) == pytest.approx(sum(expected) / 2)
    constant = torch.cat([first, torch.ones(1, 4)]), torch.cat([second, second[:1]])
    assert _rank_correlation(*constant) == pytest.approx(sum(expected) / 2), "a sample of equal scores has no ranks"


def test_an_audit_of_complete_data_has_no_imputed_units_to_judge():
    data = dataset("test", 20)
    whole = type(data)(data.split, data.inputs, data.labels)
    found = audit(scored_by(HALF), whole, "complete", judge=verdict())
    assert found.gate_imputed is None
    assert found.separation == {}


def test_fewer_samples_are_spread_over_the_split(test_split):
    assert audit(scored_by(HALF), test_split, "missing=image", samples=7).samples == 7


def test_a_method_without_scores_cannot_be_audited(test_split):
    with pytest.raises(ValueError, match="granularity 'none' gives no scored gates to audit"):
        audit(gauge(granularity="none"), test_split, "complete")


def test_late_fusion_adds_up_the_observed_opinions_only(batch):
    fused = LateFusion(dict(unit_encoder().encoders), CLASSES).eval()
    logits = fused.head_logits(batch.filled({name: torch.zeros_like(x) for name, x in batch.inputs.items()}))
    expected = torch.stack(
        [logits[row, there].log_softmax(-1).sum(0) for row, there in enumerate(batch.any_observed())]
    )
    torch.testing.assert_close(fused.predict(batch).logits, expected)


def test_findings_survive_json():
    found = Audit("eta=0.8", 3, 0.0, 0.0, 0.5, 0.6, None, 1, 1, 0)
    assert Audit(**asdict(found)) == found
    assert repr(found).splitlines()[1] == "  3 samples under eta=0.8; τ = 0.000, ρ = 0.000"
