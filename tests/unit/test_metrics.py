"""Metrics, their intervals, and paired comparisons."""

import re
from pathlib import Path

import numpy as np
import pytest
import sklearn.metrics
from sklearn.calibration import calibration_curve
from sklearn.metrics import roc_auc_score

from gauge.training import metrics


def binary(seed: int, samples: int = 400, signal: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, samples)
    score = 1 / (1 + np.exp(-(signal * labels + draw.normal(size=samples))))
    return np.stack([1 - score, score], 1), labels


def test_mcnemar_counts_only_samples_on_which_the_methods_disagree():
    labels = np.zeros(100, dtype=int)
    first, second = np.eye(2)[[1] * 12 + [0] * 88], np.eye(2)[[0] * 10 + [1] * 2 + [0] * 85 + [1] * 3]
    comparison = metrics.ACCURACY.compare(first, second, labels)
    assert comparison.difference == pytest.approx(0.07)
    assert comparison.p_value == pytest.approx(2 * sum(np.array([1, 13, 78, 286])) / 2**13)  # 10 against 3, two-sided


def test_areas_that_do_not_vary_are_no_more_certain_than_their_few_samples():
    labels = np.array([0, 0, 1, 1])
    constant, perfect = (np.stack([1 - p, p], 1) for p in (np.full(4, 0.5), np.array([0.1, 0.2, 0.8, 0.9])))
    assert metrics.AUC.compare(constant, perfect, labels).p_value == 0.5
    assert metrics.AUC.compare(constant, perfect, labels, np.zeros(4, int)).p_value == 1
    assert metrics.AUC.compare(perfect, perfect, labels).p_value == 1


def test_log_loss_of_a_fair_coin_is_log_two_and_impossible_answers_cost_a_finite_amount():
    assert metrics.log_loss(np.full((4, 2), 0.5), np.array([0, 1, 0, 1])) == pytest.approx(np.log(2))
    assert metrics.log_loss(np.array([[1.0, 0.0]]), np.array([1])) == pytest.approx(-np.log(1e-7))


def test_the_log_loss_is_the_mean_of_that_of_its_rows_which_is_defined_once():
    draw = np.random.default_rng(0)
    probabilities, labels = draw.dirichlet(np.full(4, 0.1), 200), draw.integers(0, 4, 200)
    probabilities[0] = np.eye(4)[(labels[0] + 1) % 4]
    rows = metrics.log_losses(probabilities, labels)
    assert metrics.log_loss(probabilities, labels) == rows.mean()
    assert rows == pytest.approx(-np.log(np.maximum(probabilities[np.arange(200), labels], 1e-7)), abs=1e-12)
    source = Path(metrics.__file__).parents[1]
    for pattern in (r"\blog\([^\n]*\blabels\][^\n]*(?:clip|max)", r"\b1\.96|1\.9599", r"def \w*wilson"):
        places = [path for path in source.rglob("*.py") for _ in re.finditer(pattern, path.read_text("utf-8"))]
        assert places == [Path(metrics.__file__)]


def several(classes: int, samples: int = 300) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(classes)
    return draw.dirichlet(np.ones(classes), samples), draw.integers(0, classes, samples)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_scores_are_those_of_scikit_learn(classes):
    probabilities, labels = several(classes)
    found = metrics.scores(probabilities, labels)
    assert found["accuracy"] == sklearn.metrics.accuracy_score(labels, probabilities.argmax(1))
    assert found["log_loss"] == pytest.approx(sklearn.metrics.log_loss(labels, probabilities))
    chances = probabilities[:, 1] if classes == 2 else probabilities
    assert found["auc"] == pytest.approx(roc_auc_score(labels, chances, multi_class="ovr"))
    assert found["calibration_error"] == metrics.calibration_error(probabilities, labels)


def test_the_bins_of_a_calibration_error_are_those_of_scikit_learn():
    draw = np.random.default_rng(0)
    confidence = draw.uniform(size=2000).astype(np.float32)
    right = draw.uniform(size=2000) < confidence**2
    shares, means = calibration_curve(right, confidence, n_bins=metrics.CALIBRATION_BINS)
    found = metrics.reliability(confidence, right)
    assert [row[0] for row in found["bins"]] == pytest.approx(means.tolist(), abs=1e-4)
    assert [row[1] for row in found["bins"]] == pytest.approx(shares.tolist(), abs=1e-4)
    assert sum(row[2] for row in found["bins"]) == 2000
    by_bins = sum(abs(mean - share) * count for mean, share, count in found["bins"]) / 2000
    assert found["ece"] == metrics.expected_calibration_error(confidence, right) == pytest.approx(by_bins, abs=1e-4)


def pairwise(rows: list[np.ndarray], labels: np.ndarray) -> np.ndarray:
    """The covariance of AUCs by its definition, over all pairs of a positive and a negative sample (DeLong et al. 1988)."""
    positive, negative = labels == 1, labels != 1
    wins = [(s[positive][:, None] > s[negative]) + 0.5 * (s[positive][:, None] == s[negative]) for s in rows]
    first, second = (np.atleast_2d(np.cov([each.mean(axis) for each in wins])) for axis in (1, 0))
    return first / positive.sum() + second / negative.sum()


@pytest.mark.parametrize("digits", [8, 1])
def test_delong_by_ranks_is_delong_by_pairs_with_and_without_ties(digits):
    (first, labels), (second, _) = binary(3), binary(4)
    rows = [each[:, 1].round(digits) for each in (first, second)]
    np.testing.assert_allclose(metrics._delong(rows, labels), pairwise(rows, labels), rtol=1e-10)
    np.testing.assert_allclose(metrics._delong(rows[:1], labels), pairwise(rows[:1], labels), rtol=1e-10)


@pytest.mark.parametrize("metric", metrics.METRICS.values(), ids=str)
def test_copies_of_a_sample_are_no_more_evidence_than_the_sample_if_they_are_grouped(metric):
    """Ten copies narrow the interval and the p value unless they are known to be copies."""
    (first, labels), (second, _) = binary(0, samples=150), binary(0, samples=150, signal=1.4)
    second = second[np.random.default_rng(2).permutation(150)] * 0.5 + second * 0.5
    copies, groups = np.repeat(np.arange(150), 10), np.repeat(np.arange(150), 10)
    low, high = metric.interval(first, labels)
    grouped = metric.interval(first[copies], labels[copies], groups=groups)
    naive = metric.interval(first[copies], labels[copies])
    assert grouped[1] - grouped[0] == pytest.approx(high - low, rel=0.15)
    assert naive[1] - naive[0] < 0.5 * (high - low)
    p_value = metric.paired(first, second, labels, np.arange(150))[0]
    assert p_value == pytest.approx(metric.paired(first, second, labels, None)[0], abs=0.15)
    assert metric.paired(first[copies], second[copies], labels[copies], groups)[0] == pytest.approx(p_value)
    assert metric.paired(first[copies], second[copies], labels[copies], None)[0] < 0.6 * p_value


def test_intervals_of_groups_of_mixed_classes_are_as_wide_as_their_scores_vary():
    """They were drawn within the class of their first sample, and ten groups of ten classes had no width at all."""
    draw, covered = np.random.default_rng(0), []
    for _ in range(60):
        easy = np.repeat(draw.random(12), 6)  # a group is easy or hard as a whole
        labels = np.tile(np.arange(6), 12)
        right = draw.random(72) < easy
        probabilities = np.eye(6)[np.where(right, labels, (labels + 1) % 6)]
        low, high = metrics.ACCURACY.interval(probabilities, labels, groups=np.arange(72) // 6)
        covered.append(low <= 0.5 <= high)
        assert high - low > 0.05
    assert np.mean(covered) > 0.8
    single = metrics.ACCURACY.interval(probabilities, np.arange(72) // 6 % 6, groups=np.arange(72) // 6)
    assert single[0] < single[1], "groups of one class each, two of each class"
