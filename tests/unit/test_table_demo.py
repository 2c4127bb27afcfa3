"""The demo on real tables."""

import pandas as pd
import pytest

from gauge.tabular import demo


@pytest.mark.parametrize("name", demo.TABLES)
def test_blanks_have_the_rate_and_leave_labels_and_one_value_in_each_row(name):
    table = demo.TABLES[name]()
    blanked = table.with_blanks(table.rows, 0.7, seed=0)
    assert blanked[table.target].equals(table.rows[table.target])
    assert blanked[table.target].notna().all()
    features = blanked.drop(columns=table.target)
    columns = features.shape[1]  # a row in which all would be blank keeps one value
    assert features.isna().to_numpy().mean() == pytest.approx(0.7 - 0.7**columns / columns, abs=0.03)
    assert features.notna().any(axis=1).all()
    assert table.with_blanks(table.rows, 0.0, seed=0).equals(table.rows[blanked.columns])


def test_both_halves_have_all_rows_and_only_training_rows_have_blanks():
    table = demo.TABLES["irises"]()
    train, test = table.divided(0)
    assert sorted([*train.index, *test.index]) == [*table.rows.index]
    assert len(train) == len(test)
    assert train.drop(columns="target").isna().to_numpy().mean() == pytest.approx(demo.BLANK, abs=0.05)
    assert test.notna().all(axis=None)


@pytest.mark.slow
def test_the_demo_writes_tables_a_model_and_a_page(tmp_path):
    section, page = demo.run(tmp_path, epochs=1, verbose=False)
    assert [row.name for row in section.rows] == ["GaugeClassifier", "Boosted trees", "Logistic regression"]
    assert len(section.columns) == len(demo.RATES)
    assert "Japan" in page.read_text(encoding="utf-8")
    assert page.stat().st_size < 300_000
    assert (tmp_path / "model" / "model.json").exists()
    assert len(pd.read_csv(tmp_path / "test-30.csv")) == 196
