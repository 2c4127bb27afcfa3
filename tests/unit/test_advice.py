"""Advice: a missing value is worth what it takes from the log loss; neither noise nor a rare value is advised."""

import numpy as np
import pandas as pd
import pytest
from helpers import invoke, mistake, unchecked

from gauge import GaugeClassifier


def planted(rows: int = 700, seed: int = 0) -> pd.DataFrame:
    """`strong` and `copy`, which nearly equals it, decide together with `weak`; `zip` and `noise` say nothing. Half of the
    places are written once only. Three cells in ten are missing."""
    draw = np.random.default_rng(seed)
    strong, weak = draw.normal(size=(2, rows))
    frame = pd.DataFrame({"strong": strong, "copy": strong + 0.1 * draw.normal(size=rows), "weak": weak})
    frame["noise"] = draw.normal(size=rows)
    frame["zip"] = draw.integers(10_000, 10_030, rows).astype(str)
    frame["place"] = [f"place {number}" for number in np.where(draw.random(rows) < 0.5, 0, np.arange(rows))]
    score = 2.5 * strong + 1.2 * weak + 0.5 * draw.normal(size=rows)
    return frame.mask(draw.random(frame.shape) < 0.3).assign(ill=np.where(score > 0, "yes", "no"))


@pytest.fixture(scope="module")
def model():
    options = {"columns": {"zip": "category", "place": "category"}, "experts": ["trees", "linear"]}
    with unchecked():
        return GaugeClassifier(**options, random_state=0, verbose=False).fit(planted(), "ill")


@pytest.fixture(scope="module")
def fresh():
    return planted(seed=1)


def hidden(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    return frame.drop(columns="ill").assign(**dict.fromkeys(names, None))


def log_loss(model: GaugeClassifier, rows: pd.DataFrame, labels: pd.Series) -> float:
    return -float(model.predict_log_proba(rows)[np.arange(len(rows)), (labels == "yes").astype(int)].mean())


def test_noise_is_never_advised_and_what_decides_is(model, fresh):
    advice = model.advise(hidden(fresh[:100], "strong", "copy", "weak", "noise", "zip"))
    first = advice.groupby("row", sort=False).first()
    assert set(first["column"]) <= {"strong", "copy"}
    assert first["advised"].mean() > 0.9
    assert not advice.loc[advice["column"].isin(["noise", "zip"]), "advised"].any()
    assert advice.groupby("column").size()[["noise", "zip"]].tolist() == [100, 100]
    assert (advice["low"] <= advice["gain"]).all()
    assert (advice["gain"] <= advice["high"]).all()


def test_the_expected_gain_is_about_the_fall_of_the_log_loss_on_new_rows(model, fresh):
    fresh = fresh[fresh["strong"].notna()]
    before, after = hidden(fresh, "strong", "copy"), hidden(fresh, "copy")
    advice = model.advise(before)
    expected = advice.loc[advice["column"] == "strong", "gain"].mean()
    fall = log_loss(model, before, fresh["ill"]) - log_loss(model, after, fresh["ill"])
    assert fall > 0.2
    assert expected == pytest.approx(fall, rel=0.5)


def test_a_value_is_worth_less_once_the_row_has_its_copy(model, fresh):
    fresh = fresh[fresh["copy"].notna()]
    without, given = (
        model.advise(rows).query("column == 'strong'")["gain"].mean()
        for rows in (hidden(fresh[:100], "strong", "copy"), hidden(fresh[:100], "strong"))
    )
    assert given < 0.3 * without


def test_costs_change_the_order_and_end_the_advice(model, fresh):
    rows = hidden(fresh.dropna()[:40], "strong", "copy", "weak")
    free = model.advise(rows)
    dear = model.advise(rows, costs={"strong": np.int64(1000)})
    assert set(free.groupby("row").first()["column"]) <= {"strong", "copy"}
    assert set(dear[dear["advised"]].groupby("row").first()["column"]) == {"copy"}
    assert np.allclose(dear["gain_per_cost"], dear["gain"] / dear["cost"])
    never = model.advise(rows, costs={"strong": None})
    assert not never.loc[never["column"] == "strong", "advised"].any()
    priced = model.advise(rows, worth=10)
    assert priced["advised"].tolist() == (free["advised"] & (10 * priced["gain"] > 1)).tolist()
    assert not model.advise(rows, worth=0.1)["advised"].any()


def test_an_explanation_names_only_what_is_advised(model, fresh):
    rows = hidden(fresh[:10], "strong", "copy", "noise")
    advice = model.advise(rows)
    for row, (_, own) in zip(model.explain(rows).rows, advice.groupby("row", sort=False), strict=True):
        assert list(row.helpful) == own.loc[own["advised"], "column"].tolist()


def test_an_explanation_has_what_columns_were_worth_on_rows_held_out(model, fresh, tmp_path):
    explanation = model.explain(fresh[:2])
    gains = explanation.gains
    assert gains["strong"].low > 0
    assert all(gains[name].low <= 0 for name in ("noise", "zip"))
    assert explanation[0].gains == gains
    model.save(tmp_path)
    assert GaugeClassifier.load(tmp_path).fitted_.advice == model.fitted_.advice


def test_wrong_costs_are_refused_with_the_cure(model, fresh):
    with pytest.raises(ValueError, match="there is no column with a cost 'mri'"):
        model.advise(fresh[:1], costs={"mri": 300})
    with pytest.raises(ValueError, match="the cost of 'weak' is -1; give a number above zero, or None"):
        model.advise(fresh[:1], costs={"weak": -1})
    with pytest.raises(ValueError, match="worth is 0; give what a fall of the log loss by 1 is worth"):
        model.advise(fresh[:1], worth=0)
    with unchecked():
        few = GaugeClassifier(experts=["linear"], random_state=0, verbose=False).fit(fresh[:30], "ill")
    with pytest.raises(ValueError, match="has no advice, which takes rows held out; fit it on at least 50 rows"):
        few.advise(fresh[:1])


def test_the_promised_share_of_right_predictions_comes_true_on_new_rows(model, fresh):
    whole = fresh[fresh["strong"].notna() & fresh["copy"].isna()]
    before = whole.drop(columns="ill").assign(strong=None)
    advice = model.advise(before).query("column == 'strong'")
    now, then = (float((model.predict(rows) == whole["ill"]).mean()) for rows in (before, whole.drop(columns="ill")))
    assert then - now > 0.1
    assert (advice["right_then"] - advice["right_now"]).mean() == pytest.approx(then - now, abs=0.15)


def test_feature_importances_are_gains_on_rows_held_out_and_agree_with_permutation(model, fresh):
    own = pd.Series(model.feature_importances_, model.feature_names_in_)
    permuted = model.importance(fresh, "ill").set_index("column")["importance"]
    assert own.idxmax() in ("strong", "copy")
    assert own.corr(permuted, "spearman") > 0.7
    assert own[["noise", "zip", "place"]].abs().max() < 0.1 * own.max()


def test_the_command_says_in_words_what_helps_and_writes_a_table(model, fresh, tmp_path):
    model.save(tmp_path / "model")
    rows = hidden(fresh[:5], "strong", "noise")
    rows.to_csv(tmp_path / "new.csv", index=False)
    command = ["advise", "model", "new.csv"]
    result = invoke(*command, "--cost", "strong=20", "--out", "a.csv", cwd=tmp_path)
    written = pd.read_csv(tmp_path / "a.csv")
    expected = model.advise(rows, costs={"strong": 20})
    assert written["column"].tolist() == expected["column"].tolist()
    assert np.allclose(written["gain"], expected["gain"], rtol=1e-4)
    first = expected[expected["advised"]].drop_duplicates("row")
    assert len(result.stdout.splitlines()) == len(first) > 0
    now, then = (100 * first.iloc[0][["right_now", "right_then"]].astype(float)).round().astype(int)
    assert f"row {first.iloc[0]['row']}: {first.iloc[0]['column']} may turn {now} right predictions" in result.stdout
    assert then >= now
    said = mistake(*command, "--cost", "strong=much", cwd=tmp_path)
    assert "--cost strong=much is no number; write for example mri=300 or mri=never" in said
