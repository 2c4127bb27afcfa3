"""Classifiers on the Hub, without a network: a saved folder loads from there, and nothing of it is code."""

import numpy as np
import pandas as pd
import pytest
from helpers import unchecked

from gauge import GaugeClassifier

pytest.importorskip("huggingface_hub")
TABLE = pd.DataFrame({"age": [20.0, 70, None, 65] * 20, "ill": ["no", "yes", "no", "yes"] * 20})


@pytest.fixture(scope="module")
def model():
    with unchecked():
        return GaugeClassifier(experts="linear", random_state=0, verbose=False).fit(TABLE, "ill")


@pytest.fixture
def repository(model, monkeypatch, tmp_path):
    """The cache of a machine that has downloaded a saved model."""
    cache = tmp_path / "models--me--ill"
    snapshot = cache / "snapshots" / ("0" * 40)
    model.save(snapshot)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return snapshot


def test_a_saved_classifier_is_safetensors_json_and_a_card_and_answers_the_same(model, repository):
    names = ["README.md", "metrics.jsonl", "model.json", "model.safetensors"]
    assert sorted(path.name for path in repository.iterdir()) == names
    for name in ("me/ill", repository):
        loaded = GaugeClassifier.from_pretrained(name, device="cpu")
        assert np.array_equal(loaded.predict_proba(TABLE), model.predict_proba(TABLE))


def test_a_name_that_is_neither_a_folder_nor_a_repository_is_refused(repository):
    for name in ("me/well", "not a name"):
        with pytest.raises(ValueError, match="there is no folder .*, and no such repository on the Hub .* check name"):
            GaugeClassifier.from_pretrained(name)
