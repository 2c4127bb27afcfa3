"""Regret to the best row over benchmarks, and the tests that say where a row is level with it."""

import pytest

from gauge_lab.regret import levels, regrets
from gauge_lab.statistics import Difference


def cell(**rows):
    """Five seeds of each row around a mean."""
    return {row: {seed: mean + 0.1 * (seed - 2) for seed in range(5)} for row, mean in rows.items()}


SCORES = {
    "leaves": {"complete": cell(joint=90.0, votes=96.0, plus=95.8), "image": cell(joint=80.0, votes=86.0, plus=85.6)},
    "sums": {"complete": cell(joint=99.0, votes=30.0, plus=99.2)},
}


def test_regret_is_the_distance_to_the_best_row_over_conditions_then_over_benchmarks():
    found = regrets(SCORES)
    assert found["joint"].benchmarks == pytest.approx({"leaves": 6.0, "sums": 0.2})
    assert found["votes"].worst == pytest.approx(69.2)
    assert found["plus"].mean == pytest.approx((0.3 + 0.0) / 2)
    assert found["votes"].behind(found["plus"]).mean == pytest.approx(((0.0 - 0.3) + 69.2) / 2)


def test_a_row_that_one_condition_lacks_has_no_regret():
    scores = SCORES | {"more": {"complete": cell(joint=1.0, plus=2.0)}}
    assert set(regrets(scores)) == {"joint", "plus"}


def test_level_is_tested_against_the_best_other_row_and_corrected_over_all_conditions():
    scores = {
        name: {
            condition: rows | {"plus": {s: v + 0.05 * s**2 for s, v in rows["plus"].items()}}
            for condition, rows in own.items()
        }
        for name, own in SCORES.items()
    }
    compared = {(level.benchmark, level.condition): level for level in levels(scores, "plus", {})}
    assert compared["leaves", "image"].best == "votes"
    assert compared["sums", "complete"].best == "joint"
    raw = [
        Difference.from_values([scores[b][c]["plus"][s] - scores[b][c][level.best][s] for s in range(5)]).equivalence(
            1.0
        )
        for (b, c), level in compared.items()
    ]
    assert all(level.p_level >= p for level, p in zip(compared.values(), raw, strict=True))
    assert levels(scores, "plus", {"leaves": 0.5})[0].p_level > compared["leaves", "complete"].p_level


def test_few_seeds_test_nothing_and_an_advantage_is_not_behind():
    ahead = Difference.from_values([5.0, 5.1, 4.9])
    assert Difference.from_values([0.0, 0.1]).equivalence(1.0) is None
    assert ahead.not_behind(1.0) < 0.001
    assert ahead.equivalence(1.0) > 0.99
    assert ahead.behind(1.0) > 0.99


def test_a_row_that_is_behind_by_the_margin_is_called_behind():
    scores = {"sums": {"complete": cell(joint=99.0, plus=95.0)}}
    scores["sums"]["complete"]["plus"][0] += 0.1
    (level,) = levels(scores, "plus", {})
    assert level.p_behind < 0.001
    assert level.p_level > 0.99
    assert level.p_not_behind > 0.99
