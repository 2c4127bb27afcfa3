"""Tables and datasets larger than memory: the same answers as in memory."""

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import assert_equal, dataset, gauge, unchecked

from gauge import GaugeClassifier, TrainSettings, fit
from gauge.data.mapped import read_dataset, write_dataset
from gauge.tabular.table.files import read_table_file
from gauge.tabular.table.inputs import class_numbers, known_labels
from gauge.tabular.table.stream import Stream

OPTIONS = {"epochs": 1, "random_state": 0, "verbose": False}


@pytest.fixture(scope="module")
def frame():
    draw = np.random.default_rng(0)
    age, ward = draw.normal(50, 9, 120).round(1), draw.choice(["north", "south"], 120)
    ill = np.where(age + 9 * (ward == "north") > 54, "yes", "no")
    table = pd.DataFrame({"age": age, "ward": ward, "ill": ill})
    return table.assign(age=table["age"].mask(draw.random(120) < 0.2))


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for number in range(3):
        frame[40 * number : 40 * (number + 1)].to_parquet(folder / f"part-{number}.parquet", index=False)
    frame.to_csv(folder / "table.csv", index=False)
    return folder


def test_a_mapped_dataset_trains_the_model_that_memory_trains(tmp_path):
    train = dataset("train", 40)
    write_dataset(tmp_path, (train.take(rows) for rows in torch.arange(40).split(7)))
    mapped = read_dataset(tmp_path)
    assert mapped.fingerprint == train.fingerprint
    settings = TrainSettings(epochs=2, batch_size=16, masks="up-to=0.5", corrupt="swapped=0.2")
    models = [gauge(), gauge()]
    for model, split in zip(models, (train, mapped), strict=True):
        fit(model, split, settings=settings)
    assert_equal(models[0].state_dict(), models[1].state_dict())


@pytest.mark.parametrize("pattern", ["part-*.parquet", "table.csv"])
def test_a_table_in_files_fits_the_classifier_that_memory_fits(frame, files, pattern):
    with unchecked():
        expected = GaugeClassifier(**OPTIONS).fit(frame, "ill")
        streamed = GaugeClassifier(**OPTIONS).fit(files / pattern, "ill")
    assert np.array_equal(streamed.predict_proba(frame), expected.predict_proba(frame))
    assert streamed.n_rows_ == expected.n_rows_


def test_the_network_learns_from_all_rows_and_everything_else_from_a_sample(frame, files, monkeypatch):
    monkeypatch.setattr("gauge.tabular.table.stream._Sample.max_rows", 60)
    monkeypatch.setattr("gauge.tabular.table.stream.ROWS_AT_ONCE", 11)
    stream = Stream.from_files(files / "part-*.parquet", "ill", None, 3)
    assert stream.sample.equals(frame.loc[stream.sample.index])
    assert len(stream.sample) == 60
    assert stream.labels.iloc[stream.codes].tolist() == frame["ill"].tolist()
    with unchecked():
        model = GaugeClassifier(**OPTIONS).fit(str(files / "part-*.parquet"), "ill", folder=files / "training")
    assert model.n_rows_ == {"train": 120, "val": 12, "empty": 0}
    assert model.class_prior_.tolist() == (frame["ill"].value_counts(normalize=True).sort_index()).tolist()
    assert len(read_dataset(files / "training" / "rows")) == 108


@pytest.mark.parametrize("experts", ["network", "trees"])
def test_rows_without_a_label_are_used_as_in_memory(frame, files, caplog, experts):
    some = frame.assign(ill=frame["ill"].where(frame.index % 2 == 0))
    some.to_csv(files / "some.csv", index=False)
    options = OPTIONS | {"experts": experts}
    with unchecked():
        expected = GaugeClassifier(**options).fit(read_table_file(files / "some.csv"), "ill")
        streamed = GaugeClassifier(**options).fit(files / "some.csv", "ill")
    assert np.array_equal(streamed.predict_proba(frame), expected.predict_proba(frame))
    message = "60 rows have no label, first row 1; columns and trust are learned from them, too"
    assert caplog.text.count(message) == 2


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
@pytest.mark.parametrize(
    "values",
    [
        [[3, 1], [2, None, 3]],
        [["b", None], ["a", " ", "b"]],
        [[True, False], [False, None, True]],
        [["10", "9"], ["9", "10", "10"]],
        [[None, None], ["x", "y", "x"]],
        [pd.array([3, None], "Int64"), pd.array([7, 3, 7], "Int64")],
        [pd.array([True, None], "boolean"), pd.array([False, True, True], "boolean")],
    ],
)
def test_labels_that_arrive_in_parts_are_the_classes_of_labels_in_memory(values, suffix, tmp_path):
    for number, part in enumerate(values):
        write_labels(pd.DataFrame({"age": range(len(part)), "y": part}), tmp_path / f"part-{number}{suffix}")
    table = read_table_file(tmp_path)
    _, labels = known_labels(table["y"], table.index)
    expected = class_numbers(labels)
    classes, numbers = Stream.from_files(tmp_path, "y", None, 0).class_numbers()
    assert classes.dtype == expected[0].dtype
    assert (
        set(classes.tolist()) <= {value for part in values for value in part if value is not pd.NA} or suffix == ".csv"
    )
    assert classes.tolist() == expected[0].tolist()
    assert numbers.tolist() == expected[1].tolist()
    assert numbers.dtype == np.uint8


def write_labels(frame, path):
    if path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        (frame.to_csv if path.suffix == ".csv" else frame.to_parquet)(path, index=False)
