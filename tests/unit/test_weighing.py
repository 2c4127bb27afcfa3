"""Weights and scores come from answers for rows that had no part in them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from helpers import unchecked
from scipy.special import log_softmax
from sklearn.metrics import roc_auc_score

from gauge import GaugeClassifier
from gauge.tabular import estimator
from gauge.tabular.experts import Task
from gauge.tabular.experts._scores import CrossFit, every_source
from gauge.tabular.experts._weighing import HeldOutLogits
from gauge.tabular.preparation import make_recipe
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema
from gauge.tabular.table.splits import Splits

LINEAR = {"experts": "linear", "trust": False, "random_state": 0, "verbose": False}
ROWS, EXPERTS = 60, 8


def table(rows=150, seed=0):
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(draw.normal(size=(rows, 4)), columns=list("abcd"))
    return frame, np.where(frame["a"] + draw.normal(size=rows) > 0, "up", "down")


def given(logits, labels):
    """The answers of experts for rows that have all values, none of them hidden."""
    rows = len(labels)
    return HeldOutLogits(rows, log_softmax(logits, axis=-1), np.ones(rows), labels, np.arange(rows) % 5, np.ones(rows))


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
    """What a fit passes on to the estimator, and the fitted model."""
    kept, fit_ensemble = {}, estimator.fit_ensemble

    def watched(task, names, **options):
        kept[len(names)] = task, fit_ensemble(task, names, **options)
        return kept[len(names)][1]

    with pytest.MonkeyPatch.context() as patch, unchecked():
        patch.setattr(estimator, "fit_ensemble", watched)
        model = GaugeClassifier(**LINEAR | {"experts": ["trees", "linear"]}).fit(*table())
    return *kept[2], model


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


def test_every_row_is_answered_by_experts_that_have_not_seen_it(results):
    task, result, model = results
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


QUICK = {"experts": "trees", "trust": False, "random_state": 0, "n_jobs": 1, "verbose": False}
WORDS = np.array([f"word{number}" for number in range(60)])


def task_of(frame, labels, splits=Splits(), **kinds):  # noqa: B008
    schema = Schema.from_frame(frame, kinds)
    rows = Rows.from_frame(schema, frame, schema.encode(frame))
    recipe = make_recipe(GaugeClassifier().get_params(deep=False), 0, 2)
    return Task(rows, labels, np.ones(len(labels)), 2, recipe, splits=splits)


def cross_fit(task):
    return CrossFit(task, every_source(task.rows.schema, task.terms, task.pixels))


def noise(rows=240):
    """Texts and categories that a model can memorise, and labels that have nothing to do with them."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"place": [f"place {number // 2}" for number in draw.permutation(rows)]})
    frame["note"] = [" ".join(draw.choice(WORDS, 12)) + f" only{number // 2}" for number in range(rows)]
    return frame, draw.integers(0, 2, rows)


def test_scores_of_training_rows_are_not_memorised():
    frame, labels = noise()
    task = task_of(frame, labels)
    scores, columns = cross_fit(task)(np.arange(len(labels)))
    assert list(scores.sources) == ["place", "note"]
    memorised = scores.columns(task.rows)
    for column in range(scores.count):
        assert roc_auc_score(labels, memorised[:, column]) > 0.9
        assert abs(roc_auc_score(labels, columns[:, column]) - 0.5) < 0.1


def test_scores_of_a_fold_do_not_know_the_labels_held_out():
    frame, labels = noise()
    train, held_out = np.arange(180), np.arange(180, 240)
    other = labels.copy()
    other[held_out] = 1 - other[held_out]
    (first, columns), (second, changed) = (cross_fit(task_of(frame, each))(train) for each in (labels, other))
    assert np.array_equal(columns, changed)
    for name in first.learned:
        assert np.array_equal(first.learned[name].coefficients, second.learned[name].coefficients)


def test_rows_of_a_group_do_not_tell_the_scores_of_each_other():
    people = np.repeat(np.arange(30), 4)
    labels = people % 2
    frame = pd.DataFrame({"name": [f"person {person}" for person in people], "x": np.arange(120.0)})
    apart = cross_fit(task_of(frame, labels, name="category"))(np.arange(120))[1]
    together = cross_fit(task_of(frame, labels, Splits(people), name="category"))(np.arange(120))[1]
    assert roc_auc_score(labels, apart[:, 0]) > 0.9
    assert np.allclose(together, 0.0, atol=1e-6)


def places(rows, seed):
    """Each of 120 places has a tendency; most of them are rare."""
    draw, tendency = np.random.default_rng(seed), np.random.default_rng(9).random(120) < 0.5
    place = np.minimum(draw.geometric(0.02, rows) - 1, 119)
    labels = np.where(draw.random(rows) < 0.85, tendency[place], ~tendency[place])
    frame = pd.DataFrame({"place": [f"place {each}" for each in place], "x": draw.normal(size=rows)})
    return frame.mask(draw.random(frame.shape) < 0.1), labels.astype(int)


def test_a_category_that_training_has_not_seen_is_rare_where_others_are_and_the_page_says_so(caplog):
    frame, labels = places(200, seed=0)
    with unchecked():
        model = GaugeClassifier(**QUICK, max_categories=10).fit(frame, labels)
        caplog.clear()
        kept = model.schema_.table[0].words[0]
        new = pd.DataFrame({"place": ["the moon", kept, None], "x": [0.0, 0.0, 0.0]})
        fitted = model.fitted_
        assert fitted.read(new)[1].observed()[:, 0].tolist() == [True, True, False]
        assert "was not seen" not in caplog.text
        shown = [[unit.value for unit in row.units if unit.column == "place"] for row in fitted.evidence(new)]
        assert shown == [["the moon (rare)"], [kept], [""]]
        assert "place" not in model.advise(new[:1]).to_string()
        moved = model.drift(pd.DataFrame({"place": ["the moon"] * 100, "x": np.arange(100.0)}))
    assert "'a rare value' in 100 % of the values instead of 6" in str(moved)
    assert "never saw" not in str(moved)


def test_weights_of_experts_are_drawn_to_equal_ones_as_by_as_many_rows_as_the_uneven_ones_are_worth():
    """With three heavy rows of 300 the weights of experts followed these three."""
    draw, rows = np.random.default_rng(0), 300
    labels, part = draw.integers(0, 2, rows), np.arange(rows) % 5
    logits = log_softmax(draw.normal(size=(rows, 2, 2)) + np.eye(2)[labels][:, None], axis=2)
    far = []
    for heavy in (1.0, 1e6):
        counts = np.where(np.arange(rows) < 3, heavy, 1.0)
        held_out = HeldOutLogits(rows, logits, np.ones(rows), labels, part, counts / counts.mean())
        far.append(np.abs(np.log(held_out.learn([0, 1], np.ones(rows, bool))(np.ones(1)))).max())
    few = HeldOutLogits(3, logits[:3], np.ones(3), labels[:3], part[:3], np.ones(3))
    alone = np.abs(np.log(few.learn([0, 1], np.ones(3, bool))(np.ones(1)))).max()
    assert far[1] == pytest.approx(alone, rel=1e-3)
