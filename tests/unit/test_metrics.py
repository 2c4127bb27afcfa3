"""Metrics, their intervals, and paired comparisons."""

import re
from pathlib import Path

import numpy as np
import pytest
import sklearn.metrics
from sklearn.calibration import calibration_curve
from sklearn.metrics import roc_auc_score

from gauge import TrainSettings
from gauge.training import metrics
from gauge.training.metrics import (
    ACCURACY,
    AUC,
    CALIBRATION_BINS,
    METRICS,
    area_under_curve,
    bootstrap_at_once,
    calibration_error,
    expected_calibration_error,
    log_loss,
    log_losses,
    quantiles,
    reliability,
    resampled_areas,
    scores,
)


def binary(seed: int, samples: int = 400, signal: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, samples)
    score = 1 / (1 + np.exp(-(signal * labels + draw.normal(size=samples))))
    return np.stack([1 - score, score], 1), labels


def test_the_interval_of_an_accuracy_is_wilsons():
    probabilities, labels = np.eye(2)[[0] * 90 + [1] * 10], np.zeros(100, dtype=int)
    low, high = ACCURACY.interval(probabilities, labels)
    assert (low, high) == pytest.approx((0.8256, 0.9448), abs=1e-4)  # Wilson (1927) for 90 of 100


def test_one_sample_of_a_class_decides_nothing():
    labels, chances = np.array([0, 0, 0, 1]), np.array([0.1, 0.4, 0.2, 0.3])
    first, second = (np.column_stack([1 - each, each]) for each in (chances, 1 - chances))
    assert AUC.interval(first, labels) == (0.0, 1.0)
    assert AUC.paired(first, second, labels, None)[0] == 1.0


def test_the_auc_is_that_of_scikit_learn_with_ties_and_a_rare_class():
    for seed, digits in ((0, 8), (1, 1)):
        probabilities, labels = binary(seed)
        labels, rounded = labels * (np.arange(len(labels)) % 9 == 0), probabilities.round(digits)
        assert AUC.score(rounded, labels) == pytest.approx(roc_auc_score(labels, rounded[:, 1]), abs=1e-12)


def test_delong_deviation_agrees_with_resampling():
    probabilities, labels = binary(0)
    draw = np.random.default_rng(1)
    classes = [np.flatnonzero(labels == label) for label in (0, 1)]
    resampled = [
        roc_auc_score(labels[rows], probabilities[rows, 1])
        for rows in (np.concatenate([draw.choice(c, len(c)) for c in classes]) for _ in range(500))
    ]
    low, high = AUC.interval(probabilities, labels)
    assert (high - low) / 2 / 1.96 == pytest.approx(np.std(resampled), rel=0.1)
    assert low < AUC.score(probabilities, labels) < high


def test_a_method_compared_with_itself_is_undecided():
    probabilities, labels = binary(2)
    for metric in METRICS.values():
        comparison = metric.compare(probabilities, probabilities, labels)
        assert comparison.difference == 0
        assert comparison.p_value == 1
        assert comparison.interval == (0, 0)


def test_mcnemar_counts_only_samples_on_which_the_methods_disagree():
    labels = np.zeros(100, dtype=int)
    first, second = np.eye(2)[[1] * 12 + [0] * 88], np.eye(2)[[0] * 10 + [1] * 2 + [0] * 85 + [1] * 3]
    comparison = ACCURACY.compare(first, second, labels)
    assert comparison.difference == pytest.approx(0.07)
    assert comparison.p_value == pytest.approx(2 * sum(np.array([1, 13, 78, 286])) / 2**13)  # 10 against 3, two-sided


def test_p_values_of_equal_methods_are_uniform():
    p_values = []
    for seed in range(60):
        labels = binary(seed)[1]
        draw = np.random.default_rng(1000 + seed)
        scores = [labels + draw.normal(size=len(labels)) for _ in range(2)]
        first, second = (np.stack([-score, score], 1) for score in scores)
        p_values.append(AUC.paired(first, second, labels, None)[0])
    assert 0.25 < np.mean(np.array(p_values) < 0.5) < 0.75
    assert np.mean(np.array(p_values) < 0.05) < 0.15


def test_an_auc_of_one_class_is_an_error():
    with pytest.raises(ValueError, match="at least two classes; this split has one"):
        AUC.score(np.eye(2)[[0, 1]], np.zeros(2, dtype=int))


def test_an_unknown_metric_is_refused_where_it_is_chosen():
    with pytest.raises(ValueError, match="there is no metric 'f1'; known: accuracy, auc"):
        TrainSettings(epochs=1, metric="f1")


def test_calibration_error_is_the_distance_of_accuracy_from_confidence():
    sure = np.tile([0.8, 0.2], (10, 1))
    assert calibration_error(sure, np.array([0] * 8 + [1] * 2)) == pytest.approx(0)
    assert calibration_error(sure, np.array([0] * 5 + [1] * 5)) == pytest.approx(0.3)
    two_bins = np.array([[0.95, 0.05]] * 4 + [[0.55, 0.45]] * 4)
    labels = np.array([0, 0, 1, 1, 0, 0, 0, 0])  # 0.45 too sure in one bin, 0.45 not sure enough in the other
    assert calibration_error(two_bins, labels) == pytest.approx(0.45)


def test_log_loss_of_a_fair_coin_is_log_two_and_impossible_answers_cost_a_finite_amount():
    assert log_loss(np.full((4, 2), 0.5), np.array([0, 1, 0, 1])) == pytest.approx(np.log(2))
    assert log_loss(np.array([[1.0, 0.0]]), np.array([1])) == pytest.approx(-np.log(1e-7))


def test_the_log_loss_is_the_mean_of_that_of_its_rows_which_is_defined_once():
    draw = np.random.default_rng(0)
    probabilities, labels = draw.dirichlet(np.full(4, 0.1), 200), draw.integers(0, 4, 200)
    probabilities[0] = np.eye(4)[(labels[0] + 1) % 4]
    rows = log_losses(probabilities, labels)
    assert log_loss(probabilities, labels) == rows.mean()
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
    found = scores(probabilities, labels)
    assert found["accuracy"] == sklearn.metrics.accuracy_score(labels, probabilities.argmax(1))
    assert found["log_loss"] == pytest.approx(sklearn.metrics.log_loss(labels, probabilities))
    chances = probabilities[:, 1] if classes == 2 else probabilities
    assert found["auc"] == pytest.approx(roc_auc_score(labels, chances, multi_class="ovr"))
    assert found["calibration_error"] == calibration_error(probabilities, labels)


def test_an_area_is_averaged_over_the_classes_that_occur():
    probabilities, labels = several(4)
    labels = np.where(labels == 2, 0, labels)
    areas = [roc_auc_score(labels == label, probabilities[:, label]) for label in (0, 1, 3)]
    assert area_under_curve(probabilities, labels) == pytest.approx(np.mean(areas))
    assert np.isnan(area_under_curve(probabilities, np.zeros(300, int)))


@pytest.mark.parametrize("classes", [2, 4])
def test_the_area_of_a_resample_is_that_of_its_rows(classes):
    probabilities, labels = several(classes)
    areas, draw = resampled_areas(probabilities.round(2), labels), np.random.default_rng(0)  # rounded: with ties
    for rows in (np.arange(len(labels)), draw.integers(len(labels), size=200), np.flatnonzero(labels < 2)):
        expected = area_under_curve(probabilities.round(2)[rows], labels[rows])
        assert areas(np.stack([rows, rows[::-1]])) == pytest.approx(expected, abs=1e-12)
    assert np.isnan(areas(np.flatnonzero(labels == 0)[None])).all()


def test_the_bins_of_a_calibration_error_are_those_of_scikit_learn():
    draw = np.random.default_rng(0)
    confidence = draw.uniform(size=2000).astype(np.float32)
    right = draw.uniform(size=2000) < confidence**2
    shares, means = calibration_curve(right, confidence, n_bins=CALIBRATION_BINS)
    found = reliability(confidence, right)
    assert [row[0] for row in found["bins"]] == pytest.approx(means.tolist(), abs=1e-4)
    assert [row[1] for row in found["bins"]] == pytest.approx(shares.tolist(), abs=1e-4)
    assert sum(row[2] for row in found["bins"]) == 2000
    by_bins = sum(abs(mean - share) * count for mean, share, count in found["bins"]) / 2000
    assert found["ece"] == expected_calibration_error(confidence, right) == pytest.approx(by_bins, abs=1e-4)


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


def test_delong_takes_memory_for_samples_not_for_pairs():
    probabilities, labels = binary(5, samples=200_000)  # 10 billion pairs
    low, high = AUC.interval(probabilities, labels)
    assert 0 < high - low < 0.01


def test_a_bootstrap_draws_as_many_of_each_class_as_there_are():
    labels = np.array([0] * 30 + [1] * 10)
    drawn = bootstrap_at_once(lambda rows: np.stack([np.bincount(each) for each in labels[rows]]), labels)
    assert drawn.shape == (metrics.RESAMPLES, 2)
    assert (drawn == [30, 10]).all()
    low, high = quantiles(bootstrap_at_once(lambda rows: rows.mean(1), labels))
    assert low < np.arange(40).mean() < high


@pytest.mark.parametrize("metric", METRICS.values(), ids=str)
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
