"""A column that is the label in other words is named, by `inspect_table` and by `fit`; a good column is not."""

import logging

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from gauge import GaugeClassifier
from gauge.tabular.table.inspection import inspect_table, leak_problems

SOUND = ("age", "ward", "notes")


@pytest.fixture(scope="module")
def table():
    """Four columns tell the label: in other words, as a code, by a threshold with missing cells, and by what is missing."""
    draw = np.random.default_rng(0)
    ill = draw.random(200) < 0.4
    frame = pd.DataFrame({"age": draw.normal(50 + 10 * ill, 10), "ward": draw.choice(["a", "b"], 200)})
    frame["notes"] = [f"seen on day {day} and again later" for day in range(200)]
    frame["status"] = np.where(ill, draw.choice(["died", "ill"], 200), "well")
    frame["code"] = 3 + ill
    frame["titre"] = np.where(draw.random(200) < 0.3, np.nan, np.where(ill, 8, 2) + draw.normal(size=200))
    frame["discharged"] = pd.Series(draw.normal(size=200)).where(ill)
    return frame.assign(label=np.where(ill, "yes", "no"))


def test_inspect_names_every_column_that_tells_the_label_alone_and_no_other(table):
    problems = [problem for problem in inspect_table(table, target="label").problems if "tells the label" in problem]
    assert {problem.partition(":")[0] for problem in problems} == set(table) - {*SOUND, "label"}
    assert "status: tells the label alone: 100.0 % of 200 rows, where the largest class has" in problems[0]
    assert problems[0].endswith("if it follows from the label, ignore it (columns=, --column NAME=ignore)")
    assert not any("tells the label" in problem for problem in inspect_table(table).problems)


def test_fit_warns_of_the_same_columns(table, caplog):
    with caplog.at_level(logging.WARNING):
        GaugeClassifier(experts="linear", trust=False, verbose=False, random_state=0).fit(table, "label")
    named = {message.split("'")[1] for message in caplog.messages if "tells the label alone" in message}
    assert named == set(table) - {*SOUND, "label"}


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_good_columns_are_not_called_leaks(load):
    data = load()
    assert [list(leak_problems(cells, data.target)) for cells in data.data.T] == [[]] * data.data.shape[1]


def test_a_rare_class_needs_more_than_a_guess_of_the_largest_one():
    draw = np.random.default_rng(0)
    rare = np.arange(1000) % 50 == 0
    assert not list(leak_problems(draw.normal(size=1000), rare))
    assert not list(leak_problems(np.where(draw.random(1000) < 0.005, ~rare, rare), rare))
    assert list(leak_problems(rare * 2.0, rare))


def test_few_rows_are_not_judged():
    labels = np.arange(29) % 2
    assert not list(leak_problems(labels.astype(float), labels))
    labels = np.arange(30) % 2
    assert list(leak_problems(labels.astype(float), labels))
