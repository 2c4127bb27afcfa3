"""Signals: features of arrays and files alike, learned from by every expert, and exported."""

import base64
import io
import json
import logging
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import unchecked, with_experts
from scipy.io import wavfile

from gauge import ExportedClassifier, GaugeClassifier, export
from gauge.deploy.requests import Limits, RefusedError, RequestReader
from gauge.tabular.table.cells import plain_cells
from gauge.tabular.table.columns import ImageFiles, ReadOptions
from gauge.tabular.table.columns.signal import Signal, _intervals
from gauge.tabular.table.columns.vector import Vector
from gauge.tabular.table.inspection import inspect_table

RATE = 125


def beats(rows=90, seed=0):
    """Two channels of about two seconds; those of class 1 tremble for a quarter of a second, half-way."""
    draw = np.random.default_rng(seed)
    labels = np.arange(rows) % 2
    signals = []
    for label in labels:
        time = np.arange(draw.integers(230, 250)) / RATE
        wave = np.sin(2 * np.pi * (1.2 * time + draw.uniform()))
        wave[125:156] += label * np.sin(2 * np.pi * 20 * time[125:156])
        signals.append(np.stack([wave, -0.5 * wave]) + 0.1 * draw.normal(size=(2, len(time))))
    return signals, labels


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signals")
    for row, signal in enumerate(beats()[0]):
        wavfile.write(folder / f"{row}.wav", RATE, (signal.T / 4).astype(np.float32))
    return folder


@pytest.fixture(scope="module")
def table():
    _, labels = beats()
    ecg = pd.Series([f"{row}.wav" for row in range(len(labels))], dtype=object)
    ecg[::9] = None
    return pd.DataFrame(
        {"age": np.random.default_rng(1).normal(size=len(labels)), "ecg": ecg, "ill": np.where(labels, "yes", "no")}
    )


@pytest.fixture(scope="module")
def model(table, files):
    with unchecked():
        return GaugeClassifier(random_state=0, verbose=False, image_folder=files, trust=False).fit(table, "ill")


def test_arrays_and_all_files_are_recognised_and_give_the_same_values(tmp_path):
    signals = [each.astype(np.float32) for each in beats(12)[0]]
    written = {"wav": [], "npy": [], "csv": []}
    for row, signal in enumerate(signals):
        wavfile.write(tmp_path / f"{row}.wav", RATE, signal.T)
        np.save(tmp_path / f"{row}.npy", signal)
        pd.DataFrame(signal.T.astype(float), columns=["I", "II"]).to_csv(tmp_path / f"{row}.csv", index=False)
        for suffix, names in written.items():
            names.append(f"{row}.{suffix}")
    texts = [json.dumps(signal.astype(float).tolist()) for signal in signals]
    contents = [(tmp_path / name).read_bytes() for name in written["wav"]]
    place = ImageFiles(tmp_path, outside=False)
    reference = Signal.from_column(pd.Series(written["wav"], name="ecg"), ReadOptions(files=place))
    assert (reference.channels, reference.rate) == (2, RATE)
    assert reference.note == f"signals with 2 channels at 125 Hz of about {reference.length} samples"
    expected, observed = reference.encode(pd.Series(written["wav"], name="ecg"), place)
    assert observed.all()
    assert np.abs(expected.mean(0)).max() < 1e-4
    transposed = [signal.T for signal in signals]
    tensors = (torch.from_numpy(signal).requires_grad_() for signal in signals)
    given = signals, tensors, transposed, [each.tolist() for each in signals]
    for cells in (*written.values(), texts, contents, *given):
        column = pd.Series(list(cells), dtype=object, name="ecg")
        assert inspect_table(column.to_frame(), files=place).columns["kind"].tolist() == ["signal"]
        values, flags = reference.encode(Signal.clean(column), place)
        assert flags.all()
        assert np.allclose(values, expected, atol=1e-3)


def test_a_vector_is_no_signal_and_every_number_of_it_is_read(tmp_path):
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(300, 24)) + draw.normal(size=24)
    labels = np.where(vectors @ draw.normal(size=24) > 0, "yes", "no")
    table = pd.DataFrame({"embedding": list(vectors), "noise": draw.normal(size=300)})
    table.loc[::25, "embedding"] = None
    report = inspect_table(table)
    assert report.columns["kind"].tolist() == ["vector", "number"]
    assert "vectors of 24 numbers; the kind 'signal' is for samples in time" in report.columns["note"][0]
    with unchecked():
        model = GaugeClassifier(random_state=0, verbose=False, epochs=2, trust=False).fit(table[:200], labels[:200])
    rows = table[200:].dropna()
    assert model.score(rows, labels[rows.index]) > 0.85
    assert [unit.name for unit in model.explain(rows[:1]).rows[0].units] == ["embedding", "noise"]
    some = with_experts(model, ["trees", "linear"])
    export(some, tmp_path / "model.onnx")
    exported = ExportedClassifier(tmp_path / "model.onnx")
    assert np.allclose(exported.predict_proba(rows), some.predict_proba(rows), atol=1e-5)
    (column,) = (each for each in model.schema_.columns if each.name == "embedding")
    read = RequestReader([column], Limits()).read
    assert np.allclose(read(json.dumps({"rows": [{"embedding": vectors[0].tolist()}]}).encode())[0][0], vectors[0])
    with pytest.raises(RefusedError, match="a list of 2 numbers, where training had 24"):
        read(b'{"rows": [{"embedding": [1, 2]}]}')
    with pytest.raises(ValueError, match=r"'x': these are not vectors of one length \(.*\); give lists of numbers"):
        Vector.from_column(pd.Series([[1.0] * 9, [1.0] * 8], name="x"))
    smooth = pd.Series(list(np.cumsum(draw.normal(size=(30, 50)), 1)))
    assert inspect_table(smooth.to_frame("walk")).columns["kind"].tolist() == ["signal"]


@pytest.mark.parametrize(
    "form",
    [
        *(list, tuple, np.array, torch.DoubleTensor, json.dumps),
        *(lambda place: str(np.array(place)), lambda place: [*map(np.float64, place)]),
    ],
)
def test_short_lists_of_one_length_are_vectors_and_others_are_words(form):
    """Places on a map were texts, of which nothing was learned, or refused as vectors."""
    places = np.random.default_rng(0).normal(size=(150, 2)).round(3)
    rows = pd.DataFrame({"place": pd.Series([form(each.tolist()) for each in places], dtype=object)})
    model = GaugeClassifier(preset="fast", trust=False, random_state=0, verbose=False)
    model.fit(rows[:100], (places[:100].prod(1) > 0).astype(int))
    assert [column.kind for column in model.schema_.columns] == ["vector"]
    assert model.score(rows[100:], (places[100:].prod(1) > 0).astype(int)) > 0.85
    assert np.array_equal(model.predict_proba(rows), model.predict_proba(pd.DataFrame({"place": places.tolist()})))
    assert model.explain(rows[:1]).rows[0].units[0].value == ", ".join(f"{each:.5g}" for each in places[0])
    several = pd.Series([form(each[: 1 + row % 2].tolist()) for row, each in enumerate(places)], dtype=object)
    assert inspect_table(several.to_frame("several")).columns["kind"].tolist() != ["vector"]


def test_lists_and_sets_of_words_are_categories_that_are_written_alike_in_every_process():
    """A column of lists ended the fit with "unhashable type"; the order of a set of texts differs between processes."""
    tags = pd.Series([["a", "b"] if row % 3 else ["c"] for row in range(60)])
    rows = pd.DataFrame({"tags": tags, "set": tags.map(set)})
    model = GaugeClassifier(preset="fast", trust=False, random_state=0, verbose=False).fit(rows, tags.str.len())
    assert [column.words for column in model.schema_.columns] == [("['a', 'b']", "['c']")] * 2
    assert model.score(rows, tags.str.len()) == 1.0


def test_a_signal_of_another_rate_is_resampled_and_a_short_one_has_all_features(tmp_path):
    time = np.arange(24_000) / 8000
    wave = np.sin(2 * np.pi * 3 * time)
    wavfile.write(tmp_path / "fast.wav", 8000, wave.astype(np.float32))
    wavfile.write(tmp_path / "slow.wav", 4000, wave[::2].astype(np.float32))
    wavfile.write(tmp_path / "integers.wav", 8000, (wave * 32767).astype(np.int16))
    place = ImageFiles(tmp_path)
    wavfile.write(tmp_path / "other.wav", 8000, np.sign(wave[:20_000]).astype(np.float32))
    column = Signal.from_column(pd.Series(["fast.wav"] * 30 + ["other.wav"], name="sound"), ReadOptions(files=place))
    assert (column.length, column.rate) == (24_000, 8000)
    values, observed = column.encode(pd.Series(["fast.wav", "slow.wav", "integers.wav", [1.0]]), place)
    assert observed.all()
    features = values[:3] * np.array(column.feature_deviations) + np.array(column.feature_means)
    assert np.allclose(features[:, :16], features[0, :16], atol=0.01)
    assert np.ptp(features[:, 16:].argmax(1)) == 0
    assert np.isfinite(values).all()


@pytest.mark.parametrize("irregular", [0.1, 0.3])
def test_intervals_between_peaks_are_measured(irregular):
    draw = np.random.default_rng(0)
    steps = 40 * (1 + irregular * draw.choice([-1, 1], 20))
    signal = 0.05 * draw.normal(size=1000)
    signal[np.cumsum(steps).astype(int)] += 1
    rate, mean, variation = _intervals(signal)
    assert (rate, mean) == (pytest.approx(0.02, abs=0.001), pytest.approx(0.04, abs=0.005))
    assert variation == pytest.approx(steps[1:].std() / steps[1:].mean(), abs=0.02)


def test_every_expert_learns_from_signals(table, files, model):
    known = table[table["ecg"].notna()]
    for expert in model.experts_:
        probabilities = model.fitted_.ensemble.only([expert]).predict(model.fitted_.read(known)[1])
        assert (model.classes_[probabilities.argmax(1)] == known["ill"]).mean() > 0.9, expert
    fresh = [signal.astype(np.float32) / 4 for signal in beats(40, seed=5)[0]]
    rows = pd.DataFrame({"age": 0.0, "ecg": pd.Series(fresh, dtype=object)})
    assert (model.predict(rows) == np.where(beats(40, seed=5)[1], "yes", "no")).mean() > 0.9


def test_an_explanation_has_a_signal_as_one_value_and_calls_it_no_image(table, model, tmp_path):
    explanation = model.explain(table.iloc[[1, 3, 5]], exact=True)
    (unit,) = (unit for unit in explanation.rows[0].units if unit.column == "ecg")
    assert re.fullmatch(r"2\d\d samples, -0\.\d+ to 0\.\d+", unit.value)
    assert unit.used == explanation.rows[0].effects["ecg"] > 0.05
    explanation.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert unit.value in page
    assert "<img" not in page


@pytest.mark.parametrize("experts", [["trees", "linear"], pytest.param(["network"], marks=pytest.mark.slow)])
def test_an_exported_classifier_reads_signals(table, files, model, tmp_path, experts):
    some = with_experts(model, experts)
    with unchecked():
        export(some, tmp_path / "model.onnx")
    exported = ExportedClassifier(tmp_path / "model.onnx", image_folder=files)
    assert np.allclose(exported.predict_proba(table), some.predict_proba(table), atol=1e-5)


def test_saved_classifiers_and_requests_answer_as_the_fitted_one(table, files, model, tmp_path):
    model.save(tmp_path / "model")
    loaded = GaugeClassifier.load(tmp_path / "model", image_folder=files)
    assert loaded.schema_ == model.schema_
    assert np.array_equal(loaded.predict_proba(table), model.predict_proba(table))
    reader = RequestReader(model.schema_.columns, Limits())
    content = base64.b64encode((files / "1.wav").read_bytes()).decode()
    samples = wavfile.read(files / "1.wav")[1].astype(float).tolist()
    for value in (content, samples, json.dumps(samples)):
        cells = reader.read(json.dumps({"rows": [{"ecg": value, "age": None}]}).encode())
        rows = pd.DataFrame(cells, columns=list(reader.names), dtype=object)
        assert np.allclose(model.predict_proba(rows), model.predict_proba(table.assign(age=None).iloc[[1]]), atol=1e-5)
    for wrong in ("1.wav", "/etc/passwd", [], [["a"]], base64.b64encode(b"RIFF").decode()):
        with pytest.raises(RefusedError) as error:
            reader.read(json.dumps({"rows": [{"ecg": wrong}]}).encode())
        assert error.value.detail[0]["where"].startswith("rows.0.ecg")


def test_missing_and_broken_signals_are_reported_and_pickles_are_never_read(tmp_path, caplog):
    for row, signal in enumerate(beats(20)[0]):
        np.save(tmp_path / f"{row}.npy", signal)
    np.save(tmp_path / "pickle.npy", np.array([{"a": 1}] * 10, dtype=object), allow_pickle=True)
    (tmp_path / "damaged.wav").write_bytes(b"RIFF1234WAVEfmt ")
    np.save(tmp_path / "single.npy", np.arange(500.0))
    place = ImageFiles(tmp_path, outside=False)
    names = [f"{row}.npy" for row in range(20)]
    column = Signal.from_column(pd.Series(names, name="ecg"), ReadOptions(files=place))
    wrong = ["pickle.npy", "damaged.wav", "single.npy", "absent.npy", "../0.npy", None, "[1, 2", [np.nan] * 20]
    reasons = ["not numbers", "no .wav file", "1 channels, where training had 2", "do not exist and", "lie outside"]
    for cell, reason in zip(wrong, [*reasons, "", "no list of numbers", "1 channels"], strict=True):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            _, observed = column.encode(pd.Series([names[0], cell], name="ecg", dtype=object), place)
        assert observed.tolist() == [True, False]
        assert reason in caplog.text
    with pytest.raises(ValueError, match="column 'ecg', row 1: .*; fix them, leave unknown cells empty"):
        column.encode(pd.Series([names[0], "damaged.wav"], name="ecg"), place, training=True)
    with pytest.raises(ValueError, match="no signal of column 'ecg' can be read .*; give arrays, or the paths of .wav"):
        Signal.from_column(pd.Series(["absent.npy"], name="ecg"), ReadOptions(files=place))
    inspected = inspect_table(pd.DataFrame({"ecg": [*names, "absent.npy"]}), files=place)
    assert inspected.problems == ["ecg: 1 signal files do not exist, first 'absent.npy'"]


COLUMN = Signal.from_column(pd.Series([np.arange(512.0) % 7], name="s"))


def test_forged_columns_are_refused():
    fine = COLUMN.to_json()
    Signal.from_json(fine, Path())
    for change in (
        {"channels": 10**9},
        {"length": 10**9},
        {"length": 3},
        {"deviations": [0.0]},
        {"feature_means": [0.0]},
    ):
        with pytest.raises(ValueError, match="column 's': its signals have"):
            Signal.from_json({**fine, **change}, Path())


def test_an_npy_file_takes_no_more_memory_than_it_has():
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**40,)})
    assert not COLUMN.encode(pd.Series([header.getvalue()], dtype=object, name="s"))[1].any()


@pytest.mark.parametrize("shape", [b"(-1,)", b"(" * 300, b"[" + b"(" * 9000, b"1e400", b"{}"])
def test_an_npy_file_with_a_forged_header_is_no_signal(shape):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + b", }"
    content = b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header + bytes(80)
    reader = RequestReader([COLUMN], Limits())
    with pytest.raises(RefusedError) as refused:
        reader.read(json.dumps({"rows": [{"s": base64.b64encode(content).decode()}]}).encode())
    assert (refused.value.status, refused.value.detail[0]["where"]) == (422, "rows.0.s")


def test_a_recording_that_claims_to_be_slow_is_not_stretched_beyond_the_limit(caplog):
    file = io.BytesIO()
    wavfile.write(file, 1, np.zeros(100_000, np.int16))  # 35 GB at the rate of training
    column = replace(COLUMN, rate=44100.0)
    assert not column.encode(pd.Series([file.getvalue()], dtype=object, name="s"))[1].any()
    assert "a signal at 1 Hz, too long for the 44100 Hz of training" in caplog.text


def test_tensors_of_any_kind_are_read_or_refused_in_words():
    cells = [torch.arange(40.0) + row for row in range(5)]
    for form in (torch.Tensor.requires_grad_, torch.Tensor.bfloat16):
        assert np.allclose(plain_cells(pd.Series([form(cell.clone()) for cell in cells], dtype=object))[0], cells[0])
    with pytest.raises(ValueError, match="a cell is a Tensor that is no array .*; give arrays of NumPy"):
        plain_cells(pd.Series([cells[0].to_sparse()], dtype=object))
