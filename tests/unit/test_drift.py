"""New rows are compared with those of training: what moved is named in plain words, what did not is not."""

import numpy as np
import pandas as pd
import pytest
from helpers import invoke, mistake, unchecked, visits

from gauge import GaugeClassifier


def test_rows_like_those_of_training_have_not_moved(ward):
    for seed in range(5):
        drift = ward.model.drift(visits(600, seed=10 + seed)[::2])  # one visit of each patient
        assert drift.moved == []
        assert len(drift.unlike) < 15  # 1 % of 300 would be 3
    assert "no column moved" in str(drift)


def test_many_rare_categories_do_not_move_by_themselves_and_a_frequent_one_does():
    """Of categories with a long tail training has seen some by chance; every second table of more rows was called moved."""
    draw, moved = np.random.default_rng(0), []

    def table(rows):
        words = pd.Series("v" + draw.zipf(2.0, rows).astype(str).astype(object))
        return pd.DataFrame({"c": words, "x": draw.normal(size=rows), "y": draw.integers(0, 2, rows)})

    for _ in range(6):
        model = GaugeClassifier(preset="fast", experts="linear", random_state=0, verbose=False, trust=False)
        with unchecked():
            model.fit(table(200), "y")
            more = table(1000)
            moved.append(("c" in model.drift(more).moved, "c" in model.drift(more.assign(c="v2")).moved))
    assert sum(alarm for alarm, _ in moved) == 0
    assert all(found for _, found in moved)


def test_values_that_are_all_new_are_named_and_shares_of_others_are_not():
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"c": draw.choice(["a", "b"], 200), "x": draw.normal(size=200), "y": draw.integers(0, 2, 200)})
    model = GaugeClassifier(preset="fast", experts="linear", random_state=0, verbose=False, trust=False)
    with unchecked():
        model.fit(table, "y")
        for share in (1.0, 0.3):
            new = table.assign(c=table["c"].mask(np.arange(200) < 200 * share, "zzz"))
            words = model.drift(new).columns.set_index("column").loc["c", "words"]
            assert words == f"{100 * share:.0f} % of the rows have values that training never saw, or cannot be read"


def test_values_and_missing_rates_that_moved_are_named_in_words(ward):
    draw = np.random.default_rng(0)
    new = visits(300, seed=7)
    new["age"] += 15
    new["noise"] = new["noise"].mask(draw.random(300) < 0.6)
    new["sex"] = np.where(draw.random(300) < 0.2, "x", np.where(draw.random(300) < 0.9, "f", "m"))
    drift = ward.model.drift(new)
    assert set(drift.moved) == {"age", "noise", "sex"}
    words = drift.columns.set_index("column")["words"]
    before, after = (float(each) for each in words["age"].split("median ")[1].split(",")[0].split(" instead of "))
    assert (before, after) == (pytest.approx(75, abs=3), pytest.approx(60, abs=3))
    assert words["noise"].startswith("missing in 6")
    assert "instead of 1" in words["noise"] or "instead of 2" in words["noise"]
    assert "% of the rows have values that training never saw" in words["sex"]
    assert "'f' in" in words["sex"] or "'m' in" in words["sex"]
    assert "as in training: marker" in str(drift)


def test_values_that_training_could_not_read_either_and_categories_as_new_as_chance_allows_have_not_moved():
    draw = np.random.default_rng(0)
    number = draw.normal(size=1000)
    table = pd.DataFrame(
        {
            "number": np.where(draw.random(1000) < 0.08, "~5", number.round(2).astype(str)),
            "town": [f"town {min(rank, 3000)}" for rank in draw.zipf(1.5, 1000)],
        }
    )
    options = {"experts": "linear", "trust": False, "verbose": False, "columns": {"town": "category"}}
    with unchecked():
        model = GaugeClassifier(**options).fit(table[:600], number[:600] > 0)
        assert (~table["town"][600:].isin(table["town"][:600])).mean() > 0.06
        assert model.drift(table[600:]).moved == model.drift(table[:600]).moved == []
        assert model.drift(table[600:603]).moved == []
        new = table[600:].assign(number=lambda rows: np.where(draw.random(len(rows)) < 0.3, "?!", rows["number"]))
        new.loc[::3, "town"] = "elsewhere"
        words = model.drift(new).columns.set_index("column")["words"]
    assert words["number"].endswith("% of the rows have values that training never saw, or cannot be read")
    assert words["town"].split("; ")[0].endswith("% of the rows have values that training never saw, or cannot be read")


def test_a_row_with_an_unlikely_combination_is_unlike_training():
    draw = np.random.default_rng(0)
    weight = draw.normal(70, 10, 500)
    table = pd.DataFrame({"kilos": weight, "pounds": 2.2 * weight + draw.normal(size=500)})
    options = {"experts": "linear", "trust": False, "verbose": False}
    with unchecked():
        model = GaugeClassifier(**options).fit(table, np.where(weight > 70, "heavy", "light"))
    new = table.sample(100, random_state=0).reset_index(drop=True)
    new.loc[17, ["kilos", "pounds"]] = [62.0, 176.0]  # each in its range, but not together
    new.loc[40, "pounds"] = np.nan
    drift = model.drift(new)
    assert drift.unlike[0] == 17
    assert 40 not in drift.unlike
    assert "the most unlike: rows 17" in str(drift)


def test_the_command_compares_a_table_with_a_saved_model(ward, tmp_path):
    ward.test.assign(age=lambda table: table["age"] - 20).to_csv(tmp_path / "new.csv", index=False)
    printed = invoke("inspect", "new.csv", "--against", str(ward.folder / "model"), cwd=tmp_path).stdout
    assert "300 rows beside the rows of training" in printed
    assert "moved: age  median 4" in printed
    assert "there is no folder nothing" in mistake("inspect", "new.csv", "--against", "nothing", cwd=tmp_path)
    few = visits(40)[["age", "diagnosis"]]
    with unchecked():
        model = GaugeClassifier(experts="linear", verbose=False).fit(few, "diagnosis")
    with pytest.raises(ValueError, match="fewer than 50 training rows say too little to compare others with"):
        model.drift(few)
