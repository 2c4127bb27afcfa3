"""The demo on a real table."""

import pandas as pd
import pytest

from gauge.tabular import demo


def test_blanks_have_the_rate_and_leave_labels_and_one_value_in_each_row():
    rows = demo.cars()
    blanked = demo.with_blanks(rows, 0.7, seed=0).drop(columns=demo.TARGET)
    assert blanked.isna().to_numpy().mean() == pytest.approx(0.7, abs=0.02)
    assert blanked.notna().any(axis=1).all()
    assert demo.with_blanks(rows, 0.7, seed=0)[demo.TARGET].notna().all()
    assert demo.with_blanks(rows, 0.0, seed=0).drop(columns=demo.TARGET).equals(rows.drop(columns=demo.TARGET))


@pytest.mark.slow
def test_the_demo_writes_tables_a_model_and_a_page(tmp_path):
    section, page = demo.run(tmp_path, epochs=1, verbose=False)
    assert [row.name for row in section.rows] == list(demo.NOTES)
    assert len(section.columns) == len(demo.RATES)
    assert "Japan" in page.read_text(encoding="utf-8")
    assert page.stat().st_size < 300_000
    assert (tmp_path / "model" / "model.json").exists()
    assert len(pd.read_csv(tmp_path / "test-30.csv")) == 118
