"""Shapes are checked at run time in every test; the small values that many laws share are fixtures here."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

os.environ["OMP_NUM_THREADS"] = "1"  # sums are ordered by threads, and each worker has one core
sys.path.insert(0, str(Path(__file__).parent))  # for helpers.py
import checks

checks.install()
collect_ignore = ["digits.py"]  # a plugin: importing it registers a benchmark


@pytest.fixture(scope="session")
def helpers():
    """Imports the package: not here, as the process that starts the workers tests nothing itself."""
    import helpers

    return helpers


@pytest.fixture
def batch(helpers):
    """Six incomplete samples of three modalities; the table's flags are per feature."""
    return helpers.incomplete_batch()


@pytest.fixture(scope="session")
def train(helpers):
    """Forty samples to learn from, with gaps of their own."""
    return helpers.dataset("train", rows=40)


@pytest.fixture
def network(helpers):
    return helpers.network()


@pytest.fixture
def tokens(helpers):
    """Four samples of seven units."""
    return helpers.noise(4, 7, helpers.DIM)


@pytest.fixture(scope="session")
def ward(helpers, tmp_path_factory):
    """A folder with visits to learn from (train.csv) and others (test.csv), and a model without a network."""
    from gauge import GaugeClassifier

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
