"""Weights and scores come from answers for rows that had no part in them; a slow expert that hardly counts is not asked."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from helpers import unchecked
from scipy.special import log_softmax

from gauge import GaugeClassifier
from gauge.tabular import estimator
from gauge.tabular.experts._ensemble import Weights
from gauge.tabular.experts._weighing import HeldOutLogits, weigh

LINEAR = {"experts": "linear", "trust": False, "random_state": 0, "verbose": False}
ROWS, EXPERTS = 60, 8


def table(rows=150, seed=0):
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(draw.normal(size=(rows, 4)), columns=list("abcd"))
    return frame, np.where(frame["a"] + draw.normal(size=rows) > 0, "up", "down")


def given(logits, labels):
    """The answers of experts for rows that have all values, none of them hidden."""
    rows = len(labels)
    return HeldOutLogits(rows, log_softmax(logits, axis=-1), np.ones(rows), labels, np.arange(rows) % 5)


def able(labels, skill, seed):
    """Logits of an expert that is right as often as its skill allows: by chance at zero."""
    return skill * np.eye(2)[labels] + np.random.default_rng(seed).normal(size=(len(labels), 2))


def learned_weights(answers, rows):
    """Those of all experts, together one, from the first rows."""
    weights = answers.learn(range(answers.logits.shape[1]), np.arange(len(answers.part)) < rows)(np.ones(1))[0]
    return weights / weights.sum()


@pytest.fixture(scope="module")
def answers():
    """Those of experts that know nothing."""
    draw = np.random.default_rng(0)
    return given(draw.normal(size=(ROWS, EXPERTS, 2)), draw.integers(0, 2, ROWS))


@pytest.fixture(scope="module")
def results():
    """What a fit with and one without a network pass on to the estimator, by the number of experts."""
    kept, fit_ensemble = {}, estimator.fit_ensemble

    def watched(task, names, **options):
        kept[len(names)] = task, fit_ensemble(task, names, **options)
        return kept[len(names)][1]

    with pytest.MonkeyPatch.context() as patch, unchecked():
        patch.setattr(estimator, "fit_ensemble", watched)
        quick = GaugeClassifier(**LINEAR | {"experts": ["trees", "linear"]}).fit(*table())
        slow = GaugeClassifier(**LINEAR | {"experts": ["network"], "epochs": 2}).fit(*table())
    return {"quick": (*kept[2], quick), "slow": (*kept[1], slow)}


def loss(probabilities, labels):
    return -np.log(probabilities[np.arange(len(labels)), labels]).mean()


def test_the_answers_for_a_part_do_not_depend_on_its_labels(answers):
    part = answers.part == 2
    other = replace(answers, labels=np.where(part, 1 - answers.labels, answers.labels))
    every = list(range(EXPERTS))
    before, after = answers.cross_fitted(every), other.cross_fitted(every)
    assert np.array_equal(before[part], after[part])
    assert not np.allclose(before[~part], after[~part])


def test_experts_that_know_nothing_do_not_look_better_than_chance(answers):
    every, labels = list(range(EXPERTS)), answers.labels
    own = answers.learn(every, np.ones(ROWS, bool)).combine(answers.logits, answers.share)
    assert loss(own, labels) < np.log(2) < loss(answers.cross_fitted(every), labels)


def test_an_expert_that_guesses_has_almost_no_weight_and_equal_ones_have_equal_weights():
    labels = np.random.default_rng(1).integers(0, 2, 3000)
    guess = 4 * np.random.default_rng(2).normal(size=(3000, 2))  # and is sure of it
    weights = learned_weights(given(np.stack([able(labels, 2, 3), guess, able(labels, 2, 4)], 1), labels), 3000)
    assert weights[1] < 0.03
    assert weights[0] == pytest.approx(weights[2], abs=0.1)


def test_the_fewer_rows_are_held_out_the_nearer_the_weights_are_to_equal_ones():
    labels = np.random.default_rng(1).integers(0, 2, 3000)
    answers = given(np.stack([able(labels, 2, 3), able(labels, 0, 4)], 1), labels)
    better = [learned_weights(answers, rows)[0] for rows in (0, 3, 30, 3000)]
    assert better[0] == 0.5
    assert all(fewer < more for fewer, more in pairwise(better))
    assert better[1] - 0.5 < (better[-1] - 0.5) / 2
    assert better[-1] > 0.9


def test_few_rows_hardly_make_the_answer_of_all_experts_surer_and_many_do():
    labels = np.random.default_rng(1).integers(0, 2, 3000)
    answers = given(np.stack([able(labels, 6, 3), able(labels, 6, 4)], 1) / 2, labels)  # half as sure as they should be
    few, many = (answers.learn(range(2), np.arange(3000) < rows) for rows in (20, 3000))
    assert 1 < few(np.ones(1)).mean() < 1.5
    assert many(np.ones(1)).mean() > 2.5


def test_every_row_is_answered_by_experts_that_have_not_seen_it(results):
    task, result, model = results["quick"]
    ensemble, rows, labels = result.validated
    assert sorted(rows.cells[:, 0]) == sorted(task.rows.cells[:, 0])
    assert model.n_rows_ == {"train": 150, "val": 150, "empty": 0}
    assert len(model.fitted_.held_out.labels) == 150
    for name, expert in ensemble.experts.items():
        answers = expert.predict(rows)
        for number, member in enumerate(expert.members):
            own = np.flatnonzero(rows.fold == number)
            assert np.allclose(answers[own], member.predict(rows.take(own)))
        seen = result.ensemble.experts[name].predict(rows)
        assert loss(np.exp(seen), labels) < loss(np.exp(answers), labels)  # the one that answers has learned from them


def test_a_network_learns_from_the_rows_held_out_in_the_end_and_is_validated_before(results):
    _, result, model = results["slow"]
    ensemble, rows, _ = result.validated
    assert (result.training.rows, len(rows)) == (150, 30)
    assert model.epochs_["refit"] == 1
    assert [each["stage"] for each in model.history_][-1] == "refit"
    before, after = (each.experts["network"].predict(rows) for each in (ensemble, result.ensemble))
    assert not np.allclose(before, after)


def test_a_slow_expert_without_weight_is_not_asked_and_a_useful_one_is():
    frame, labels = table(450)
    shuffled = np.random.default_rng(1).permutation(labels)
    with unchecked():
        good, bad = (GaugeClassifier(**LINEAR).fit(frame[:150], each[:150]).fitted_ for each in (labels, shuffled))
    experts = {"good": good.ensemble.experts["linear"], "bad": bad.ensemble.experts["linear"]}
    experts["bad"].coefficients *= 1000  # sure of what it has learned from noise
    rows = good.read(frame[150:])[1]
    numbers, part = (labels[150:] == "up").astype(int), np.arange(300) % 5
    used = {}
    for slow in experts:
        both = replace(good.ensemble, experts=experts, combination=Weights.equal(2))
        board = weigh(both, rows, numbers, part, rate=0.5, slow=[slow]).set_index("expert")
        used[slow] = dict(zip(experts, both.used, strict=True))
        if slow == "bad":
            assert board.loc["bad", "weight"] == 0
            alone = replace(good.ensemble, combination=Weights.equal(1))
            weigh(alone, rows, numbers, part, rate=0.5)
            experts["bad"].predict = None  # an answer of it would be an error
            assert np.allclose(both.predict(rows), alone.predict(rows))
    assert used == {"good": {"good": True, "bad": True}, "bad": {"good": True, "bad": False}}
