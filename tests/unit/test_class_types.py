"""Classes keep their type in saved and exported models, and labels of another type score the same or are refused."""

import numpy as np
import pandas as pd
import pytest
from helpers import unchecked

from gauge import GaugeClassifier
from gauge.deploy.export import export
from gauge.deploy.exported import ExportedClassifier
from gauge.tabular.table.numbers import bin_labels

ROWS = pd.DataFrame({"a": np.linspace(-1, 1, 60), "b": np.tile([0.0, 1.0, 2.0], 20)})
HIGH = (ROWS["a"] > 0).to_numpy()


def fitted(labels):
    with unchecked():
        return GaugeClassifier(experts="trees", trust=False, random_state=0, verbose=False).fit(ROWS, labels)


@pytest.mark.parametrize(
    "labels",
    [
        HIGH,
        HIGH.astype(object),
        HIGH.astype("int8"),
        HIGH.astype("uint64") + np.uint64(2**63),
        HIGH.astype("float32"),
        HIGH.astype("float16"),
        np.where(HIGH, "yes", "no").astype("<U9"),
        np.where(HIGH, "yes", "no").astype(object),
        pd.Categorical(np.where(HIGH, "yes", "no")),
        pd.Categorical(HIGH.astype(int)),
        pd.array(HIGH, "boolean"),
        pd.array(HIGH.astype(int), "Int16"),
        HIGH.astype(int).tolist(),
    ],
    ids=lambda labels: f"{type(labels).__name__}-{getattr(labels, 'dtype', '')}",
)
def test_classes_have_the_same_type_and_values_after_saving_and_exporting(labels, tmp_path):
    model = fitted(labels)
    model.save(tmp_path / "model")
    with unchecked():
        export(model, tmp_path / "model.onnx")
    for other in (GaugeClassifier.load(tmp_path / "model"), ExportedClassifier(tmp_path / "model.onnx")):
        assert other.classes_.dtype == model.classes_.dtype
        assert other.classes_.tolist() == model.classes_.tolist()
        assert other.predict(ROWS).dtype == model.predict(ROWS).dtype
    assert model.score(ROWS, labels) == 1.0


def test_ordered_labels_keep_their_order_in_classes_matrices_and_saved_models(tmp_path, caplog):
    names = ["low", "high", "critical"]
    labels = pd.cut(ROWS["a"], [-2, -0.3, 0.3, 2], labels=names)
    assert fitted(labels.astype(str)).classes_.tolist() == sorted(names)
    model = fitted(labels)
    assert "the classes keep their order ['low', 'high', 'critical']; scikit-learn's scorers" in caplog.text
    model.save(tmp_path)
    assert model.classes_.tolist() == GaugeClassifier.load(tmp_path).classes_.tolist() == names
    assert (model.predict(ROWS) == labels).mean() > 0.9
    assert list(model.evaluate(ROWS, labels).confusion) == names
    assert fitted(pd.Categorical(names * 20, ordered=False)).classes_.tolist() == sorted(names)
    names = bin_labels(pd.Series([1, 5, 20, None]), 3).cat.categories
    assert names.tolist() == ["up to 3.66667", "up to 10", "above 10"]


def test_quantities_in_ranges_are_scored_as_they_are_written_before_they_are_divided():
    """`fit --classes` divided them, `evaluate` called every one of them a class that training never saw."""
    points = (10 + 5 * ROWS["a"] + ROWS["b"] / 100).map("{:.3f}".format)
    for written in (points, points.str.replace(".", ","), points + " kg", points.astype(float)):
        model = fitted(bin_labels(written, 3))
        assert model.classes_.tolist()[2].startswith("above 1")
        assert model.score(ROWS, written) == model.score(ROWS, bin_labels(written, 3)) > 0.9
        assert model.evaluate(ROWS, written)["accuracy"] > 0.9
    german = pd.Series(["1,234", "2,5", "3,75", "0,5", "1,44167", "2,25"] * 10)
    model = fitted(bin_labels(german, 2, commas=True))
    assert model.classes_.tolist() == ["up to 1,84584", "above 1,84584"]
    assert model.score(ROWS.iloc[::6], german.iloc[::6]) == 1, "1,234 alone could be 1234"
    with pytest.raises(ValueError, match="--classes divides numbers, but the label of row 0 is 'ill'"):
        bin_labels(pd.Series(["ill", "well"]), 3)
    with pytest.raises(ValueError, match="no label is a class of training: the first is 'ill'"):
        fitted(bin_labels(points, 3)).score(ROWS, ["ill"] * 60)
    ranges = fitted(pd.Series(pd.qcut(ROWS["a"], 3)))  # as messages propose
    assert ranges.classes_.tolist() == list(map(str, pd.qcut(ROWS["a"], 3).cat.categories))
    assert ranges.score(ROWS, pd.qcut(ROWS["a"], 3)) > 0.9


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros((60, 2)), "there are 2 targets; give one column of labels"),
        ([[1, 2]] * 60, "there are 2 targets; give one column of labels"),
        (
            np.zeros(60, [("event", "?"), ("time", "f8")]),
            "a time and an event; make classes of it",
        ),
        *[
            (
                [form.format(row / 10).replace(".", mark) for row in range(60)],
                "has 60 different numbers in 60 rows, so it is a",
            )
            for form, mark in (("{:.1f}", "."), ("{:.1f}", ","), ("€ {:.2f}", "."), ("{:.1f} kg", ","))
        ],
    ],
)
def test_several_targets_survival_times_and_quantities_are_refused_with_the_cure(labels, message):
    with pytest.raises(ValueError, match=message):
        fitted(labels)


def test_weights_of_classes_are_by_their_names_in_any_writing():
    """0=1 of the command line is a text, and no class of numbers had such a name."""
    draw = np.random.default_rng(0).random(60)
    for labels, weights in (
        (draw.round().astype(int), {"0": 9, "1": 1}),
        (draw > 0.5, {"FALSE": 9}),
        (draw > 0.5, {False: 9}),
    ):
        with unchecked():
            model = GaugeClassifier(experts="trees", trust=False, verbose=False, class_weight=weights).fit(ROWS, labels)
            model.set_params(class_weight={"ill": 5})
            with pytest.raises(ValueError, match="there is no class 'ill'; known: "):
                model.fit(ROWS, labels)
        assert model.class_weight_ == [9, 1]


@pytest.mark.parametrize(
    ("labels", "names"),
    [(HIGH, ["true", True]), (HIGH.astype(float), ["1", 1, 1.0]), (np.where(HIGH, "yes ", "no"), ["yes"])],
)
def test_the_class_of_a_threshold_is_found_in_any_writing(labels, names):
    """`gauge fit --positive` finds it so before training, and would fail after it."""
    model = fitted(labels)
    for name in names:
        assert model.with_threshold(0.0, positive=name).predict(ROWS).tolist() == [max(labels.tolist())] * 60


def test_labels_of_another_type_score_the_same_or_are_refused(caplog):
    truth, number = fitted(HIGH), fitted(HIGH.astype(int))
    texts, half = pd.Series(HIGH.astype(str)), np.where(ROWS.index % 2, HIGH, ~HIGH)
    for labels in (
        HIGH.astype(object),
        texts,
        texts.str.upper().tolist(),
        pd.array(HIGH, "boolean"),
        pd.Series(HIGH, index=ROWS.index + 9),
    ):
        assert truth.score(ROWS, labels) == 1.0
    for labels in (HIGH.astype(float), HIGH.astype(int).astype(str), HIGH.astype(int).astype(object)):
        assert number.score(ROWS.assign(label=labels), "label") == 1.0
        assert number.score(ROWS.assign(**{" label ": labels}), "label") == 1.0
    assert truth.score(ROWS, half) == 0.5
    assert truth.score(ROWS, half, sample_weight=ROWS.index % 2) == 1.0
    assert number.score(ROWS, np.where(ROWS.index < 15, 7, HIGH)) == 0.75  # what training never saw is wrong
    assert number.score(ROWS, pd.Series(HIGH.astype(float)).where(ROWS.index < 50)) == 1.0
    assert "10 rows have no label, first row 50; they are left out" in caplog.text
    with pytest.raises(ValueError, match=r"is a class of training: the first is 'ill', the classes are \[False, "):
        truth.score(ROWS, ["ill"] * 60)
    with pytest.raises(ValueError, match="the table has 60 rows but there are 2 labels"):
        truth.score(ROWS, [True, False])
    with pytest.raises(ValueError, match="all rows with a label have a weight of zero"):
        truth.score(ROWS, HIGH, sample_weight=0)
