"""Saved classifiers from strangers: refused in one line before they cost memory, or another model that answers."""

import json
import random
import runpy
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import unchecked

from gauge import GaugeClassifier
from gauge.tabular.saved.files import checksum, file_record
from gauge.training import checkpoint

FUZZ = Path(__file__).parents[2] / "studies" / "fuzz.py"
OPTIONS = {"epochs": 1, "random_state": 0, "verbose": False}


@pytest.fixture(scope="module")
def rows():
    draw = np.random.default_rng(0)
    words = np.array(["grew fast last year", "itches a lot here", "bleeds at night now"])
    return pd.DataFrame(
        {
            "age": draw.normal(size=60),
            "dose": np.where(draw.random(60) < 0.2, np.nan, draw.normal(size=60)),
            "site": draw.choice(["arm", "leg", "back"], 60),
            "notes": [f"{draw.choice(words)} {number}" for number in range(60)],
        }
    )


@pytest.fixture(scope="module")
def labels(rows):
    return np.where(rows["age"] > 0, "x", "y")


@pytest.fixture(scope="module")
def saved(rows, labels, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "model"
    with unchecked():
        GaugeClassifier(**OPTIONS).fit(rows, labels).save(folder)
    return folder


@pytest.fixture
def forged(saved, tmp_path):
    """Changes values of `model.json`, or tensors, and renews the checksums."""
    folder = shutil.copytree(saved, tmp_path / "model")

    def change(*path, value=None, tensors=None):
        weights = folder / "model.safetensors"
        if tensors is not None:
            before, about = checkpoint.load(weights)
            checkpoint.save(weights, tensors(before), about)
        metadata = json.loads((folder / "model.json").read_text())
        metadata.pop("sha256")
        if path:
            inner = metadata
            for name in path[:-1]:
                inner = inner[name]
            inner[path[-1]] = value
        metadata["files"] = file_record(folder)
        (folder / "model.json").write_text(json.dumps(metadata | {"sha256": checksum(metadata)}))
        return folder

    return change


@pytest.mark.parametrize("number", range(24))
def test_a_forgery_is_refused_in_one_line_or_answers_with_finite_numbers(number, saved, rows, tmp_path):
    folder = shutil.copytree(saved, tmp_path / "model")
    with unchecked():
        runpy.run_path(str(FUZZ))["forge"](random.Random(number), folder)
        message, answers = _answers(folder, rows)
    assert "\n" not in message
    assert np.isfinite(answers).all()


def _answers(folder, rows):
    """Why a model is refused, or else its answers."""
    try:
        model = GaugeClassifier.load(folder)
    except ValueError as error:
        return str(error), np.zeros(0)
    return "", model.predict_proba(rows)


HUGE = {
    "classes": (("ensemble", "experts", "network", "classes"), 10**9),
    "words": (("schema", "columns", 3, "length"), 10**9),
    "columns of trees": (("ensemble", "experts", "trees", "forest", "features"), 10**12),
    "trees in a round": (("ensemble", "experts", "trees", "forest", "outputs"), 10**12),
}


@pytest.mark.parametrize("name", HUGE)
def test_sizes_are_bounded_before_memory_is_taken(name, forged):
    path, value = HUGE[name]
    folder = forged(*path, value=value)
    with unchecked(), pytest.raises(ValueError, match="cannot be used: .*fit"):
        GaugeClassifier.load(folder)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors", "metrics.jsonl", "tokenizers/3/tokenizer.json"])
def test_a_file_of_terabytes_that_takes_no_place_is_not_read(name, forged):
    folder = forged()
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("ab") as file:
        file.truncate(2**42)
    with pytest.raises(ValueError, match=f"{name} has 4,398,046,511,104 bytes, the limit is .*; fit"):
        GaugeClassifier.load(folder)


def test_a_lengthened_file_is_refused_before_it_is_read(forged):
    folder = forged()
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(2**33)  # sparse
    started = time.process_time()
    with pytest.raises(ValueError, match=f"it has {2**33:,} bytes and had .*; save the classifier again"):
        GaugeClassifier.load(folder)
    assert time.process_time() - started < 1, "the checksum of 8 GB takes longer"


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a file that is there and cannot be read")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("model.json", "cannot be read .*; fit the classifier again"),
        ("model.safetensors", "is damaged: .* it has 0 bytes .*; save the classifier again"),  # its size is asked first
    ],
)
def test_a_link_to_what_cannot_be_read_is_refused(name, reason, forged):
    folder = forged()
    (folder / name).unlink()
    (folder / name).symlink_to("/proc/self/mem")
    with pytest.raises(ValueError, match=f"{name} {reason}"):
        GaugeClassifier.load(folder)


def test_no_more_files_of_tokenizers_are_listed_than_are_allowed(forged, tmp_path, monkeypatch):
    folder, many = forged(), tmp_path / "many"
    many.mkdir()
    for number in range(5):
        (many / f"{number}.txt").write_text("")
    (folder / "tokenizers").symlink_to(many)
    monkeypatch.setattr("gauge.tabular.saved.files.MAX_TOKENIZER_FILES", 3)
    listed = Path.is_file
    asked = []
    monkeypatch.setattr(Path, "is_file", lambda path: asked.append(path) or listed(path))
    with pytest.raises(ValueError, match="tokenizers has more than 3 files; fit the classifier again"):
        GaugeClassifier.load(folder)
    assert sum("many" in str(path) or "tokenizers" in str(path) for path in asked) == 0


def test_a_forged_circle_of_splits_never_reaches_native_code(forged):
    def circle(tensors):
        left = tensors["experts.trees.forest.left"]
        return tensors | {"experts.trees.forest.left": torch.zeros_like(left)}

    with pytest.raises(ValueError, match="the trees are not valid: a child is not a later split"):
        GaugeClassifier.load(forged(tensors=circle))


def test_an_older_folder_is_refused_with_the_cure(saved, tmp_path):
    folder = shutil.copytree(saved, tmp_path / "model")
    path = folder / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": "gauge-classifier-5"}))
    with pytest.raises(ValueError, match="has format 'gauge-classifier-5', this version reads .*; fit again"):
        GaugeClassifier.load(folder)


def test_fits_in_threads_give_the_network_of_a_fit_alone(rows, labels):
    options = OPTIONS | {"experts": "network", "trust": False}
    start, networks = threading.Barrier(4), []

    def fit(wait=True):
        if wait:
            start.wait()
        networks.append(GaugeClassifier(**options).fit(rows, labels).model_.state_dict())

    with unchecked():
        fit(wait=False)
        threads = [threading.Thread(target=fit) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(networks) == 5
    for network in networks[1:]:
        assert all(torch.equal(tensor, networks[0][name]) for name, tensor in network.items())


def test_numbers_of_a_type_that_numpy_lacks_are_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    checkpoint.save(path, {"weight": torch.zeros(2).to(torch.float8_e4m3fn)}, {})
    with pytest.raises(ValueError, match="has tensors of a type that NumPy lacks .*; save the classifier again"):
        checkpoint.load_arrays(path)
