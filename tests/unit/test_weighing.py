"""Weights and scores come from answers for rows that had no part in them, and an expert that does harm is not asked."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import unchecked

from gauge import GaugeClassifier
from gauge.model.combination import Combination
from gauge.tabular import estimator
from gauge.tabular.weighing import NO_PART, Answers, Unseen, weigh

LINEAR = {"experts": "linear", "trust": False, "random_state": 0, "verbose": False}
ROWS, EXPERTS = 60, 8
OVERRATED = np.array([1.0, 0, 0])  # the first of three classes


def table(rows=150, seed=0):
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(draw.normal(size=(rows, 4)), columns=list("abcd"))
    return frame, np.where(frame["a"] + draw.normal(size=rows) > 0, "up", "down")


def given(logits, labels, part=None):
    """Plain answers of experts that are all present, each counting as much."""
    logits, rows = torch.from_numpy(logits).log_softmax(-1), len(labels)
    return Answers(
        rows=rows,
        logits=logits,
        present=torch.ones(logits.shape[:2], dtype=torch.bool),
        share=torch.ones(rows, 1, dtype=torch.float64),
        labels=torch.from_numpy(labels),
        weights=torch.ones(rows, dtype=torch.float64),
        plain=np.ones(rows, bool),
        part=np.arange(rows) % 5 if part is None else part,
    )


def able(labels, skill, seed, classes=2):
    """Logits of an expert that is right as often as its skill allows: none at zero."""
    draw = np.random.default_rng(seed)
    return skill * np.eye(classes)[labels] + draw.normal(size=(len(labels), classes))


def learned(answers, chosen=slice(None)):
    """The weights of all experts, together one, and the shift of the classes."""
    mask = np.zeros(len(answers.part), bool)
    mask[chosen] = True
    combination = answers.learn(range(answers.logits.shape[1]), mask)
    weights = (combination.offset + combination.slope[:, 0]).exp()
    return (weights / weights.sum()).numpy(), combination.shift.numpy()


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
    other = replace(answers, labels=torch.where(torch.from_numpy(part), 1 - answers.labels, answers.labels))
    every = list(range(EXPERTS))
    before, after = answers.cross_fitted(every), other.cross_fitted(every)
    assert np.array_equal(before[part], after[part])
    assert not np.allclose(before[~part], after[~part])


def test_experts_that_know_nothing_do_not_look_better_than_chance(answers):
    every, labels = list(range(EXPERTS)), answers.labels.numpy()
    weights = answers.learn(every, np.ones(ROWS, bool))
    present = torch.ones(ROWS, EXPERTS, dtype=torch.bool)
    own = weights(answers.logits / EXPERTS, present, answers.share).softmax(1).numpy()
    assert loss(own, labels) < np.log(2) < loss(answers.cross_fitted(every), labels)


def test_weights_are_shares_and_an_expert_that_guesses_has_almost_none():
    labels = np.random.default_rng(1).integers(0, 2, 3000)
    noise = 4 * np.random.default_rng(2).normal(size=(3000, 2))  # sure of what it guesses
    weights, _ = learned(given(np.stack([able(labels, 2, 3), noise, able(labels, 2, 4)], 1), labels))
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1)
    assert weights[1] < 0.03
    assert weights[0] == pytest.approx(weights[2], abs=0.1)


def test_few_rows_leave_equal_weights_and_the_classes_where_they_are():
    labels = np.random.default_rng(1).integers(0, 3, 3000)
    experts = np.stack([able(labels, 2, 3, 3) + OVERRATED, able(labels, 0, 4, 3)], 1)
    answers = given(experts, labels)
    far = []
    for rows in (0, 3, 30, 3000):
        weights, shift = learned(answers, slice(rows))
        far.append((abs(weights[0] - 0.5), abs(shift).max()))
    assert far[0] == (0, 0)
    assert all(np.less(fewer, more).all() for fewer, more in pairwise(far))
    assert far[1][0] < 0.15
    assert far[1][1] < 0.1


def test_a_class_that_all_experts_overrate_is_shifted_back():
    labels = np.random.default_rng(1).integers(0, 3, 2000)
    biased = np.stack([able(labels, 2, seed, 3) + OVERRATED for seed in (3, 4)], 1)
    answers = given(biased, labels)
    probabilities = answers.cross_fitted([0, 1])
    plain = answers.logits.mean(1).softmax(1).numpy()
    shares = np.bincount(labels) / len(labels)
    assert plain.mean(0)[0] > shares[0] + 0.05
    assert probabilities.mean(0) == pytest.approx(shares, abs=0.02)
    assert (probabilities.argmax(1) == labels).mean() > (plain.argmax(1) == labels).mean()


def test_rows_that_count_more_decide_more():
    labels = np.random.default_rng(1).integers(0, 2, 1000)
    half = np.arange(1000) < 500
    first, second = (np.where(own[:, None], able(labels, 3, 3), able(labels, 0, 4)) for own in (half, ~half))
    answers = given(np.stack([first, second], 1), labels)
    weights = torch.from_numpy(np.where(half, 9.0, 1.0))
    assert learned(replace(answers, weights=weights))[0][0] > learned(answers)[0][0] + 0.1


def test_rows_that_a_slow_expert_has_seen_say_how_the_others_compare():
    labels = np.random.default_rng(1).integers(0, 2, 1000)
    experts = np.stack([able(labels, 1, 2), able(labels, 2, 3), able(labels, 1, 4)], 1)
    scored, more = given(experts[:40], labels[:40]), given(experts[40:], labels[40:], np.full(960, NO_PART))
    present = more.present.clone()
    present[:, 0] = False
    unseen_by_some = replace(more, logits=torch.where(present[..., None], more.logits, 0.0), present=present)
    both = scored.and_learn_from(unseen_by_some)
    few, many = (learned(each)[0] for each in (scored, both))
    assert many[1] > 1.5 * many[2]
    assert few[1] < 1.2 * few[2]  # by chance
    assert both.cross_fitted([0, 1, 2]).shape == (40, 2)
    changed = replace(both, logits=both.logits.clone())
    changed.logits[40:, 0] = 7.0  # an answer that is not there
    assert np.array_equal(learned(changed)[0], many)


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
    frame, labels = table(300)
    shuffled = np.random.default_rng(1).permutation(labels)
    with unchecked():
        good, bad = (GaugeClassifier(**LINEAR).fit(frame[:150], each[:150]).fitted_ for each in (labels, shuffled))
    experts = {"good": good.ensemble.experts["linear"], "bad": bad.ensemble.experts["linear"]}
    experts["bad"].coefficients *= 1000  # sure of what it has learned from noise
    rows = good.read(frame[150:])[1]
    rest = rows, (labels[150:] == "up").astype(int), np.ones(150), np.arange(150) % 5
    used = {}
    for slow in experts:
        both = replace(good.ensemble, experts=experts, combination=Combination(2, 1, 2).double())
        board = weigh(Unseen(both, *rest), rate=0.5, slow=[slow]).set_index("expert")
        used[slow] = dict(zip(experts, both.used, strict=True))
        if slow == "bad":
            assert board.loc["bad", "weight"] == 0
            alone = replace(good.ensemble, combination=Combination(1, 1, 2).double())
            weigh(Unseen(alone, *rest), rate=0.5)
            experts["bad"].predict = None  # an answer of it would be an error
            assert np.allclose(both.predict(rows), alone.predict(rows))
    assert used == {"good": {"good": True, "bad": True}, "bad": {"good": True, "bad": False}}
