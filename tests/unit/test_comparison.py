"""Paired comparisons pair the right predictions."""

import numpy as np
import pytest
from scipy.stats import friedmanchisquare, ttest_1samp
from scipy.stats import t as student

from gauge.reports.figures import draw_lines
from gauge.training.inference import Predictions
from gauge.training.metrics import ACCURACY
from gauge_lab.benchmarks import BENCHMARKS
from gauge_lab.comparison import paired
from gauge_lab.plans.gauge import twin
from gauge_lab.results import Result
from gauge_lab.statistics import Difference, MeanRanks
from gauge_lab.tables import result_table

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
        calibration_error=0.1,
        log_loss=0.5,
        seed=seed,
        config={"epochs": epochs},
        commit=f"commit of {row}",
        trained={},
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
    assert ACCURACY.paired(same, same, LABELS, None)[0] == 1.0


def test_seeds_that_share_a_backbone_count_once(tmp_path):
    """PolyMNIST has three backbones: seeds 0 and 3 start from one, 1 and 4 from another."""
    ours = [result(tmp_path, "gauge", seed, wrong) for seed, wrong in enumerate((4, 6, 8, 2, 5))]
    theirs = [result(tmp_path, "gauge:v2", seed, wrong) for seed, wrong in enumerate((10, 8, 9, 10, 8))]
    renamed = [(each.model_copy(update={"benchmark": "polymnist"}), path) for each, path in (*ours, *theirs)]
    (alone,) = paired([*ours, *theirs], references=("gauge:v2",))
    (shared,) = paired(renamed, references=("gauge:v2",))
    assert (alone.clusters, shared.clusters) == ((0, 1, 2, 3, 4), (0, 1, 2, 0, 1))
    assert shared.differences == alone.differences == pytest.approx((15, 5, 2.5, 20, 7.5))
    means = ((15 + 20) / 2, (5 + 7.5) / 2, 2.5)
    assert shared.mean == pytest.approx(np.mean(means))
    assert shared.p_over_seeds == pytest.approx(ttest_1samp(means, 0).pvalue)
    assert shared.p_over_seeds > 5 * alone.p_over_seeds
    assert shared.interval[0] < 0 < alone.interval[0]


def test_a_row_of_its_own_against_a_shared_backbone_is_clustered_too(tmp_path):
    ours = [result(tmp_path, "late_fusion", seed, seed) for seed in range(5)]
    theirs = [result(tmp_path, "gauge", seed, 9) for seed in range(5)]
    renamed = [(each.model_copy(update={"benchmark": "polymnist"}), path) for each, path in (*ours, *theirs)]
    assert paired(renamed, references=("gauge",))[0].clusters == (0, 1, 2, 0, 1)


@pytest.mark.parametrize(
    ("benchmark", "folds", "rows", "overlap"),
    [
        ("leaf99", None, (198, 594), 1 / 3),
        ("leaf99", "disjoint", (198, 594), 1 / 3),  # each training leaf is in three of five training splits
        ("celeba_table", "disjoint", (2000, 1800), 1 / 3),  # a balanced part of about 7,000 training faces
        ("celeba_table", None, (1000, 1982), 0),  # one division
    ],
)
def test_divisions_of_the_same_rows_are_tested_with_the_corrected_resampled_t_test(
    tmp_path, benchmark, folds, rows, overlap
):
    made = [
        result(tmp_path, row, seed, wrong + seed * (row == "mtl"))
        for row, wrong in (("mtl", 2), ("moddrop", 9))
        for seed in range(5)
    ]
    config = {"epochs": 3, "train_rows": rows[1], "overrides": {"folds": folds} if folds else {}}
    changes = {"benchmark": benchmark, "data": {"samples": rows[0]}, "config": config}
    divided = [(each.model_copy(update=changes), path) for each, path in made]
    (plain,), (pair,) = (paired(each, references=("moddrop",)) for each in (made, divided))
    assert pair.clusters == (0, 1, 2, 3, 4)
    width = (pair.interval[1] - pair.interval[0]) / (plain.interval[1] - plain.interval[0])
    assert width == pytest.approx((1 + 5 * overlap) ** 0.5)  # 1/5 becomes 1/5 + overlap


def test_a_difference_is_tested_against_a_published_one_with_its_own_error():
    ours = Difference.from_values([0.1, -0.3, -0.2])
    exact, uncertain = ours.minus_estimate(0.3, 0.0), ours.minus_estimate(0.3, 0.27)
    assert exact.mean == uncertain.mean == pytest.approx(ours.mean - 0.3)
    assert exact.p_value == pytest.approx(ttest_1samp([0.1, -0.3, -0.2], 0.3).pvalue)
    assert exact.p_value < uncertain.p_value
    few = Difference.from_values([1.0, 2.0, 3.0])
    p_values = [few.minus_estimate(4.0, error).p_value for error in (0.0, 0.3, 0.5, 1.0, 2.0)]
    assert p_values == sorted(p_values), "an error never makes a gap more certain"
    large = Difference.from_values(np.random.default_rng(0).normal(0, 1e-4, 50).tolist())
    assert large.minus_estimate(0.54, 0.27).p_value == pytest.approx(0.0455, abs=2e-3)  # two standard errors


@pytest.mark.parametrize(("shift", "level"), [(0.0, True), (0.9, False), (-0.9, False), (3.0, False)])
def test_rows_are_level_where_both_one_sided_tests_say_so(shift, level):
    values = shift + np.array([-0.3, 0.1, 0.2, -0.1, 0.1])
    p_value = Difference.from_values(values.tolist()).equivalence(1.0)
    sides = [ttest_1samp(values, -1.0, alternative="greater"), ttest_1samp(values, 1.0, alternative="less")]
    assert p_value == pytest.approx(max(side.pvalue for side in sides))
    assert (p_value < 0.05) == level


def test_a_level_row_lies_with_its_90_percent_interval_within_the_margin():
    ours = Difference.from_values([0.4, 0.1, -0.2, 0.3], overlap=0.25)
    error = ours.deviation * (1 / 4 + 0.25) ** 0.5
    edge = abs(ours.mean) + student.ppf(0.95, 3) * error
    assert ours.equivalence(edge) == pytest.approx(0.05)


def test_equal_values_are_level_few_are_not_tested_and_a_margin_is_above_zero():
    assert [Difference.from_values([0.5] * 3).equivalence(margin) for margin in (0.4, 0.6)] == [1.0, 0.0]
    assert Difference.from_values([0.1, 0.2]).equivalence(1.0) is None
    with pytest.raises(ValueError, match="the margin is 0.0; give the difference that would matter, above 0"):
        Difference.from_values([0.1, 0.2, 0.4]).equivalence(0.0)


def test_p_values_are_corrected_over_the_rows_of_a_condition(tmp_path):
    rows = [result(tmp_path, "gauge", seed, 4) for seed in range(3)]
    for name, wrong in {"dymo": (14, 15, 17), "gauge:v2": (4, 6, 5), "mtl": (9, 9, 11)}.items():
        rows += [result(tmp_path, name, seed, each) for seed, each in enumerate(wrong)]
    found = {pair.row: pair for pair in paired(rows, references=("gauge",))}
    ordered = sorted(found.values(), key=lambda pair: pair.p_over_seeds)
    factors = [pair.p_corrected / pair.p_over_seeds for pair in ordered]
    assert [pair.row for pair in ordered] == ["dymo", "mtl", "gauge:v2"]
    assert factors == pytest.approx([3, 2, 1])


def test_a_difference_of_the_detectable_size_is_found_in_four_of_five_repetitions():
    draw = np.random.default_rng(0)
    expected = np.mean([Difference.from_values(draw.normal(0, 1, 8).tolist()).detectable for _ in range(300)])
    found = [Difference.from_values(draw.normal(expected, 1, 8).tolist()).p_value < 0.05 for _ in range(600)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.06)


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


def test_a_table_says_what_training_did_to_the_gates(tmp_path):
    record = {"epochs": 3, "best": 2, "steps": 40, "sum_of_rates": 0.04, "settings": {"gate_rate": 50}}
    ends = ({"gate.threshold": 0.4, "gate.log_temperature": -0.2}, {"gate.threshold": 0.2, "gate.log_temperature": 0.0})
    start = {"gate.threshold": 0.5, "gate.log_temperature": 0.0}
    gated = [
        result(tmp_path, "gauge", seed, 4)[0].model_copy(
            update={"config": record | {"scalars": {"start": start, "end": end}}}
        )
        for seed, end in enumerate(ends)
    ]
    plain = result(tmp_path, "gauge:v2", 0, 4)[0]
    other = {
        "scalars": {"start": {"threshold": 0.0}, "end": {"threshold": 0.1}}
    }  # of a method with a number of its own
    plain = plain.model_copy(update={"config": record | other})
    note = "τ 0.500 to 0.300, ρ 0.000 to -0.100; 40 steps, sum of the gates' rates 2, kept epoch 2."
    assert result_table([*gated, plain]).notes == (f"gauge, gates at 50x rate: {note}",)
    assert note in result_table([*gated, plain]).markdown()
    assert result_table([plain]).notes == ()


def test_a_row_whose_gates_have_a_rate_of_their_own_says_so_wherever_it_is_shown(tmp_path):
    def trained(row, gate_rate, scalars):
        made = result(tmp_path, row, 0, 4)[0]
        spent = dict.fromkeys(("sum_of_rates", "steps", "best"), 1)
        config = {"settings": {"gate_rate": gate_rate}, "scalars": scalars, **spent}
        return made.model_copy(update={"config": config})

    gates, nothing = {"start": {"gate.threshold": 0.5}, "end": {"gate.threshold": 0.4}}, {"start": {}, "end": {}}
    assert trained("gauge", 1, gates).label == "gauge"
    assert trained("gauge:v2", 50, nothing).label == "gauge:v2", "it has no gates"
    rows = [trained("gauge", 50, gates), trained("gauge:gauge-random", 50, gates), trained("gauge:v2", 50, nothing)]
    table = result_table(rows)
    assert list(table.rates()) == ["gauge, gates at 50x rate", "gauge:gauge-random, gates at 50x rate", "gauge:v2"]
    for text in (table.markdown(), table.latex(), table.html(), table.csv()):
        assert text.count("gates at 50x rate") >= 2
    assert table.rows.keys() == {"gauge", "gauge:gauge-random", "gauge:v2"}, (
        "the key of a row is its name on the command line"
    )


def test_the_same_model_under_two_names_is_known():
    leaves, digits = BENCHMARKS.get("leaf99"), BENCHMARKS.get("mst")
    assert [twin(leaves, name) for name in ("gauge-zscore", "gauge-raw", "v2")] == ["gauge", "gauge-raw", "v2"]
    assert [twin(digits, name) for name in ("gauge-zscore", "gauge-raw", "v3")] == ["gauge-zscore", "gauge", "v3"]


def test_differences_that_are_equal_but_for_rounding_are_not_tested():
    values = [0.1, 0.3 - 0.2, 0.8 - 0.7]
    assert len(set(values)) > 1
    assert Difference.from_values(values).p_value is None


def scores_of(*benchmarks):
    """The scores of the rows a, b, c, ... under one condition of each benchmark."""
    return {str(index): [dict(zip("abcdef", values, strict=False))] for index, values in enumerate(benchmarks)}


def test_ranks_are_averaged_within_benchmarks_before_they_are_averaged_over_them():
    """Nine conditions of one benchmark weigh as much as one condition of another."""
    many = [{"a": 0.9, "b": 0.8, "c": 0.7}] * 9
    found = MeanRanks.from_scores({"many": many, "one": [{"a": 0.1, "b": 0.5, "c": 0.5}]})
    assert found.benchmarks == ("many", "one")
    assert found.ranks == {"a": 2, "b": 1.75, "c": 2.25}
    assert found.conditions == found.ranks
    mixed = MeanRanks.from_scores({"mixed": [*many[:2], {"a": 0.1, "b": 0.5, "c": 0.6}]})
    assert mixed.conditions == pytest.approx({"a": 5 / 3, "b": 2, "c": 7 / 3})
    assert mixed.ranks == {"a": 1, "b": 2, "c": 3}


def test_the_critical_difference_is_nemenyis():
    draw = np.random.default_rng(0)
    for rows, count, published in ((3, 10, 2.343), (4, 14, 2.569), (6, 30, 2.850)):  # q at 0.05 of Demsar 2006, table 5
        found = MeanRanks.from_scores(scores_of(*draw.random((count, rows))))
        assert found.critical == pytest.approx(published * (rows * (rows + 1) / (6 * count)) ** 0.5, rel=1e-3)


def test_few_benchmarks_are_tested_exactly_and_many_as_by_friedmans_chi_squared():
    same = scores_of(*[(0.9, 0.8, 0.7)] * 4)
    assert MeanRanks.from_scores(same).p_value == pytest.approx(6 / 6**4)  # 6 of 1,296 orders are as clear
    values = np.random.default_rng(1).normal((0.0, 0.2, 0.4, 0.6), 1, (40, 4))
    assert MeanRanks.from_scores(scores_of(*values)).p_value == pytest.approx(
        friedmanchisquare(*values.T).pvalue, abs=0.01
    )
    assert MeanRanks.from_scores(scores_of(*[(0.5, 0.5, 0.5)] * 4)).p_value is None


def test_rows_differ_if_their_ranks_differ_by_more_than_the_critical_difference():
    clear = MeanRanks.from_scores(scores_of(*[(0.9, 0.8, 0.7)] * 4))
    assert clear.critical == pytest.approx(1.657, abs=1e-3)
    assert clear.decided == [("a", "c")], "neighbours differ by one rank only"
    assert MeanRanks.from_scores(scores_of(*[(0.9, 0.8, 0.7)] * 2)).decided == [], "two benchmarks decide nothing"
