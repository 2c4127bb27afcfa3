"""Paired comparisons pair the right predictions."""

import numpy as np
import pytest

from gauge.experiments.comparison import paired
from gauge.experiments.results import Result
from gauge.experiments.tables import result_table
from gauge.reports.figures import draw_lines
from gauge.training.inference import Predictions
from gauge.training.metrics import ACCURACY

LABELS = np.arange(40) % 2


def result(tmp_path, row, seed, wrong, epochs=3, protocol="eta=0.5"):
    """A row's result in which the first `wrong` samples are classified wrongly."""
    method, _, variant = row.partition(":")
    predicted = np.where(np.arange(40) < wrong, 1 - LABELS, LABELS)
    made = Result(
        benchmark="made",
        method=method,
        variant=variant or method,
        protocol=protocol,
        metric="accuracy",
        value=1 - wrong / 40,
        interval=(0, 1),
        seed=seed,
        config={"epochs": epochs},
        commit=f"commit of {row}",
        hardware={},
        data={},
        seconds=0,
    )
    return made, made.save(tmp_path, Predictions(np.eye(2)[predicted], LABELS, {}))


def test_differences_are_paired_by_seed_and_by_backbone_where_nothing_is_trained(tmp_path):
    ours = [result(tmp_path, "gauge", seed, wrong) for seed, wrong in enumerate((4, 6, 8, 2))]
    theirs = [result(tmp_path, "dymo", seed, wrong, epochs=0) for seed, wrong in enumerate((10, 8, 8))]
    (pair,) = paired(ours + theirs, references=("dymo",))
    assert (pair.row, pair.other, pair.seeds) == ("gauge", "dymo", (0, 1, 2, 3))
    assert pair.differences == pytest.approx((15, 5, 0, 20))  # seed 3 starts from backbone 0
    assert pair.mean == pytest.approx(10)
    assert pair.p_values[2] == 1.0
    assert pair.p_values[0] == pytest.approx(2 * 0.5**6)  # six samples better, none worse
    assert 0 < pair.p_over_seeds < 1
    assert pair.commit == "commit of dymo, commit of gauge"


def test_a_trained_row_is_compared_over_the_seeds_that_it_has(tmp_path):
    ours = [result(tmp_path, "gauge", seed, 4) for seed in range(4)]
    theirs = [result(tmp_path, "gauge:v2", seed, wrong) for seed, wrong in ((1, 8), (3, 6))]
    pairs = {pair.row: pair for pair in paired(ours + theirs, references=("gauge:v2", "gauge"))}
    assert pairs["gauge"].seeds == (1, 3)
    assert pairs["gauge"].differences == pytest.approx((10, 5))
    assert pairs["gauge:v2"].differences == pytest.approx((-10, -5))


def test_a_row_is_not_compared_with_itself_nor_across_protocols(tmp_path):
    gauge = result(tmp_path, "gauge", 0, 4)
    elsewhere = result(tmp_path, "gauge:v2", 0, 8, protocol="complete")
    assert paired([gauge]) == []
    assert paired([gauge, elsewhere]) == []
    beside = result(tmp_path, "gauge:v2", 0, 6)
    pairs = {(pair.row, pair.other): pair for pair in paired([gauge, elsewhere, beside])}
    assert pairs.keys() == {("gauge", "gauge:v2"), ("gauge:v2", "gauge")}
    assert {pair.protocol for pair in pairs.values()} == {"eta=0.5"}
    assert pairs["gauge", "gauge:v2"].differences == pytest.approx((5,))


def test_samples_that_repeat_under_several_subsets_are_not_tested_one_by_one(tmp_path):
    rows = [
        result(tmp_path, row, seed, wrong + seed, protocol=protocol)
        for protocol in ("every=0.5", "eta=0.5")
        for row, wrong in (("gauge", 2), ("gauge:v2", 12))
        for seed in range(3)
    ]
    p_values = {pair.protocol: pair.p_values for pair in paired(rows, references=("gauge:v2",))}
    assert p_values["every=0.5"] == ()
    assert p_values["eta=0.5"] == pytest.approx((2 * 0.5**10,) * 3)


def test_equal_differences_have_no_test_over_seeds(tmp_path):
    rows = [result(tmp_path, row, seed, wrong) for row, wrong in (("gauge", 4), ("gauge:v2", 5)) for seed in range(3)]
    (pair, _) = paired(rows)
    assert pair.p_over_seeds is None
    assert pair.deviation == 0


def test_repeated_samples_do_not_narrow_the_interval():
    """The same samples seen ten times are no more evidence than seen once."""
    draw = np.random.default_rng(0)
    predicted = np.where(draw.random(400) < 0.3, 1, 0)
    once = np.eye(2)[predicted], np.zeros(400, dtype=int)
    low, high = ACCURACY.interval(*once)
    wide = ACCURACY.interval(np.tile(once[0], (10, 1)), np.tile(once[1], 10), repeats=10)
    assert wide[1] - wide[0] == pytest.approx(high - low, rel=0.15)


def test_mcnemar_of_equal_predictions_is_one():
    same = np.eye(2)[LABELS]
    assert ACCURACY.paired(same, same, LABELS)[0] == 1.0


def test_a_table_marks_what_differs_from_gauge_beyond_chance(tmp_path):
    ours = [result(tmp_path, "gauge", seed, wrong) for seed, wrong in enumerate((4, 5, 6))]
    worse = [result(tmp_path, "dymo", seed, wrong) for seed, wrong in enumerate((14, 15, 17))]
    alike = [result(tmp_path, "gauge:v2", seed, wrong) for seed, wrong in enumerate((4, 6, 5))]
    results = ours + worse + alike
    table = result_table([each for each, _ in results], pairs=paired(results))
    assert table.signs == {("dymo", "eta=0.5"): "↓"}
    lines = table.markdown().splitlines()
    assert [line.endswith("↓ |") for line in lines[2:5]] == [False, True, False]
    assert lines[-1].startswith("↑ ↓: above or below gauge, p < 0.05")
    assert r"$\downarrow$" in table.latex()


def test_rows_against_the_missing_rate_are_drawn_where_there_are_rates(tmp_path):
    made = [result(tmp_path, "gauge", seed, 4)[0] for seed in range(2)]
    whole = [each.model_copy(update={"protocol": "complete", "value": 1.0}) for each in made]
    rates = result_table([*whole, *made]).rates()
    assert rates == {"gauge": {0.0: (100.0, 100.0), 0.5: (90.0, 90.0)}}
    draw_lines(rates, "accuracy", tmp_path / "rates.svg")
    assert "missing rate" in (tmp_path / "rates.svg").read_text()
    assert result_table(whole).rates() == {}


def test_the_size_of_units_is_drawn_where_rows_differ_in_it(tmp_path):
    rows = [result(tmp_path, f"gauge:gauge-grid{side}", seed, side)[0] for side in (3, 8) for seed in range(2)]
    other = result(tmp_path, "gauge", 0, 1)[0]
    grids = result_table([*rows, other]).grids()
    assert grids == {"eta=0.5": {3.0: (92.5, 92.5), 8.0: (80.0, 80.0)}}
    draw_lines(grids, "accuracy", tmp_path / "grids.svg", across="units")
    assert "units" in (tmp_path / "grids.svg").read_text()
    assert result_table([rows[0], other]).grids() == {}
