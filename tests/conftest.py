"""Shapes are checked at run time in every test; the small values that many laws share are fixtures here."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # for helpers.py
import checks  # noqa: E402

checks.install()
torch.set_num_threads(1)
collect_ignore = ["digits.py"]  # a plugin: importing it registers a benchmark

import helpers  # noqa: E402 - it imports gauge, which the hook has to precede

from gauge import GaugeClassifier  # noqa: E402


@pytest.fixture
def batch():
    """Six incomplete samples of three modalities; the table's flags are per feature."""
    return helpers.incomplete_batch()


@pytest.fixture(scope="session")
def train():
    """Forty samples to learn from, with gaps of their own."""
    return helpers.dataset("train", rows=40)


@pytest.fixture
def network():
    return helpers.network()


@pytest.fixture
def tokens():
    """Four samples of seven units."""
    return helpers.noise(4, 7, helpers.DIM)


@pytest.fixture(scope="session")
def ward(tmp_path_factory):
    """A folder with visits to learn from (train.csv) and others (test.csv), and a model without a network."""
    folder = tmp_path_factory.mktemp("ward")
    train, test = helpers.visits(), helpers.visits(300, seed=1)
    train.to_csv(folder / "train.csv", index=False)
    test.to_csv(folder / "test.csv", index=False)
    kinds = {"patient": "ignore", "date": "ignore"}
    options = {"columns": kinds, "experts": ["trees", "linear"], "trust": False, "random_state": 0, "verbose": False}
    with helpers.unchecked():
        model = GaugeClassifier(**options).fit(train, "diagnosis")
    model.save(folder / "model")
    return SimpleNamespace(folder=folder, train=train, test=test, model=model)
