"""Prediction sets hold the right class as often as promised, whatever share of the values is missing."""

import numpy as np
import pandas as pd
import pytest
from helpers import invoke, mistake, unchecked, visits
from pydantic import TypeAdapter

from gauge import GaugeClassifier, export
from gauge.tabular.saved.files import validated
from gauge.tabular.saved.prediction_sets import Group, PredictionSets, calibrate
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema

COLUMNS = 6
SHIFT = np.linspace(0.2, 1.4, COLUMNS)  # how much each column says


def draw_rows(rows: int, seed: int) -> tuple[Rows, np.ndarray]:
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 3, rows)
    values = draw.normal(size=(rows, COLUMNS)) + SHIFT * (labels[:, None] - 1)
    frame = pd.DataFrame(values, columns=[f"x{index}" for index in range(COLUMNS)])
    frame = frame.mask(draw.random(frame.shape) < 0.1)
    schema = Schema.from_frame(
        pd.DataFrame(np.random.default_rng(0).normal(size=(500, COLUMNS)), columns=frame.columns)
    )
    return Rows.from_frame(schema, frame, schema.encode(frame)), labels


def answers(rows: Rows) -> np.ndarray:
    """An overconfident classifier: the class means by the columns that a row has, twice as certain as they allow."""
    cells = rows.cells
    squares = (cells[:, None, :] - SHIFT * np.array([-1, 0, 1])[:, None]) ** 2
    logits = -np.nansum(squares, 2)
    return np.exp(logits - np.logaddexp.reduce(logits, 1, keepdims=True))


def hidden(rows: Rows, share: float) -> Rows:
    return rows.keep(np.random.default_rng(5).random((len(rows), COLUMNS)) >= share)


@pytest.fixture(scope="module")
def sets():
    return calibrate(answers, *draw_rows(1500, 1), seed=0)


@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_the_right_class_is_in_the_set_as_often_as_promised(sets, share, coverage):
    rows, labels = draw_rows(8000, 2)
    rows = hidden(rows, share)
    observed = rows.observed()
    held = sets.contains(answers(rows), observed, coverage)[np.arange(len(rows)), labels]
    missing = (~observed).sum(1)
    assert held[missing < COLUMNS].mean() == pytest.approx(coverage, abs=0.02)
    if share == 0.7:
        assert held[missing == COLUMNS].mean() >= coverage  # all have one answer, so that it may be more often
    for count in range(COLUMNS):
        if (missing == count).sum() > 500:  # 3.5 deviations, of the rows held out and of these
            deviation = (coverage * (1 - coverage) * (1 / 1000 + 1 / (missing == count).sum())) ** 0.5
            assert held[missing == count].mean() == pytest.approx(coverage, abs=3.5 * deviation)


def with_rare_class(rows: int, seed: int, share: float) -> tuple[Rows, np.ndarray]:
    """Rows of which about this share, over two, is of the middle class."""
    every, labels = draw_rows(rows, seed)
    kept = np.flatnonzero((labels != 1) | (np.random.default_rng(seed).random(rows) < share))
    return every.take(kept), labels[kept]


def rare_answers(rows: Rows) -> np.ndarray:
    weighted = answers(rows) * [1, 0.2, 1]
    return weighted / weighted.sum(1, keepdims=True)


@pytest.mark.parametrize("share", [0.0, 0.7])
def test_by_class_a_rare_class_is_in_the_sets_of_its_rows_as_often_as_all_others(share):
    rows, labels = with_rare_class(6000, 2, 0.2)
    rows = hidden(rows, share)
    given, some = (rare_answers(rows), rows.observed(), 0.9), rows.observed().any(1)
    covered = {}
    for by_class in (False, True):
        fits = [calibrate(rare_answers, *with_rare_class(1500, seed, 0.2), seed=seed) for seed in range(10, 15)]
        own = [sets.contains(*given, by_class=by_class)[np.arange(len(rows)), labels] for sets in fits]
        covered[by_class] = [np.mean([each[some & (labels == number)] for each in own]) for number in range(3)]
    assert covered[False][1] < 0.75
    assert covered[True] == pytest.approx([0.9] * 3, abs=0.04)


def test_by_class_a_class_with_too_few_rows_held_out_is_in_every_set():
    sets = calibrate(rare_answers, *with_rare_class(400, 1, 0.02), seed=0)
    rows, _ = draw_rows(200, 3)
    given = rare_answers(rows), rows.observed()
    assert 0 < sets.groups[-1].of_class(1).rows < 9  # nine rows are the fewest that can promise 90 %
    assert sets.contains(*given, by_class=True)[:, 1].all()
    assert not sets.contains(*given, 0.5, by_class=True)[:, 1].all()


def test_sets_travel_as_json_and_wrong_ones_are_refused(sets):
    again = validated(PredictionSets, TypeAdapter(PredictionSets).dump_python(sets, mode="json"))
    rows, _ = draw_rows(50, 3)
    given = answers(rows), rows.observed()
    assert np.array_equal(again.contains(*given), sets.contains(*given))
    assert np.array_equal(again.contains(*given, by_class=True), sets.contains(*given, by_class=True))
    with pytest.raises(ValueError, match="more or fewer classes than scores"):
        PredictionSets(1, [Group(2, np.array([0.1, 0.5]), np.array([0]))] * 2)
    with pytest.raises(ValueError, match="2 groups of prediction sets do not belong to 6 columns"):
        PredictionSets(COLUMNS, sets.groups[:2])
    with pytest.raises(ValueError, match="do not rise"):
        PredictionSets(1, [Group(2, np.array([0.5, 0.1]), np.zeros(2, int))] * 2)


def test_few_rows_give_no_sets_and_a_coverage_is_a_share(ward):
    few = visits(40)[["age", "marker", "diagnosis"]]
    with unchecked():
        model = GaugeClassifier(experts="linear", verbose=False).fit(few, "diagnosis")
    with pytest.raises(ValueError, match="this classifier has no prediction sets: fewer than 50 rows"):
        model.predict_set(few)
    for coverage in (0, 1, 90, True, "0.9"):
        with unchecked(), pytest.raises(ValueError, match=f"coverage is {coverage!r}; give a share between 0 and 1"):
            ward.model.predict_set(ward.test, coverage)
    with unchecked():
        assert (ward.model.predict_set(ward.test, np.float32(0.75)) == ward.model.predict_set(ward.test, 0.75)).all()


def test_predict_writes_the_sets_and_says_how_many_rows_it_abstains_from(ward, tmp_path):
    table = ward.test.assign(diagnosis=ward.test["diagnosis"].where(ward.test.index >= 60, "unsure"))
    table.to_csv(tmp_path / "test.csv", index=False)
    model = str(ward.folder / "model")
    result = invoke("predict", model, "test.csv", "--coverage", "0.8", "--out", "answers.csv", cwd=tmp_path)
    written, held = pd.read_csv(tmp_path / "answers.csv"), ward.model.predict_set(ward.test, 0.8)
    assert written["set_size"].tolist() == held.sum(1).tolist()
    one = int((held.sum(1) == 1).sum())
    assert f"coverage 0.8: {one} of 300 rows have one class" in result.stderr
    assert "of 300 labelled rows); 60 of them have a label that training never saw, and count as wrong" in result.stderr
    said = mistake("predict", model, "test.csv", "--coverage", "90", cwd=tmp_path)
    assert "coverage is 90.0; give a share between 0 and 1" in said


def test_the_server_adds_sets_when_a_request_asks_for_them(ward):
    pytest.importorskip("starlette")
    from serving import serving

    rows = [{"age": 75.0, "marker": 1.5}, {"sex": "f"}, {}]
    frame = pd.DataFrame(rows, columns=["age", "marker", "noise", "sex"])
    held = ward.model.predict_set(frame, 0.85)
    with serving(ward.folder / "model") as client:
        status, answer = client("POST", "/predict?coverage=0.85", {"rows": rows})
        assert status == 200
        assert [each["set"] for each in answer["predictions"]] == [ward.model.classes_[row].tolist() for row in held]
        assert "set" not in client.predict(rows[0])[1]["predictions"][0]
        status, answer = client("POST", "/predict?coverage=2", {"rows": rows})
        assert status == 422
        assert answer["detail"] == "coverage is '2'; give a share between 0 and 1, for example 0.9"
        parameters = client("GET", "/openapi.json")[1]["paths"]["/predict"]["post"]["parameters"]
        assert [each["name"] for each in parameters] == ["strict", "coverage", "by_class"]
        for asked, said in (
            ("by_class=true", "by_class is for prediction sets; add a coverage, for example coverage=0.9"),
            ("coverage=0.9&by_class=maybe", "by_class is 'maybe'; use one of true, 1, false, 0"),
        ):
            status, answer = client("POST", f"/predict?{asked}", {"rows": rows})
            assert (status, answer["detail"]) == (422, said)


def test_sets_by_class_are_the_same_in_python_on_the_command_line_exported_and_over_http(ward, tmp_path):
    pytest.importorskip("starlette")
    from serving import serving

    rows = ward.test.drop(columns="diagnosis").head(40)
    held = ward.model.predict_set(rows, 0.85, by_class=True)
    assert (held != ward.model.predict_set(rows, 0.85)).any()
    expected = [ward.model.classes_[row].tolist() for row in held]
    rows.to_csv(tmp_path / "rows.csv", index=False)
    with unchecked():
        export(ward.model, tmp_path / "model.onnx")
    for model in (ward.folder / "model", tmp_path / "model.onnx"):
        asked = ["--coverage", "0.85", "--by-class", "--out", "answers.csv"]
        result = invoke("predict", str(model), "rows.csv", *asked, cwd=tmp_path)
        assert "coverage 0.85 of every class: " in result.stderr
        written = pd.read_csv(tmp_path / "answers.csv")
        assert [each.split(" | ") if each else [] for each in written["set"].fillna("")] == expected
    records = [{name: value for name, value in row.items() if pd.notna(value)} for row in rows.to_dict("records")]
    with serving(tmp_path / "model.onnx") as client:
        _, answer = client("POST", "/predict?coverage=0.85&by_class=true", {"rows": records})
        assert [each["set"] for each in answer["predictions"]] == expected
    said = mistake("predict", str(ward.folder / "model"), "rows.csv", "--by-class", cwd=tmp_path)
    assert "--by-class is for prediction sets; add a coverage, for example --coverage 0.9" in said
