"""Classifiers on the Hub, without a network: what is uploaded loads again, and nothing of it is code."""

import shutil

import numpy as np
import pandas as pd
import pytest
from helpers import unchecked

from gauge import GaugeClassifier, push_to_hub

huggingface_hub = pytest.importorskip("huggingface_hub")
TABLE = pd.DataFrame({"age": [20.0, 70, None, 65] * 20, "ill": ["no", "yes", "no", "yes"] * 20})


@pytest.fixture(scope="module")
def model():
    with unchecked():
        return GaugeClassifier(experts="linear", random_state=0, verbose=False).fit(TABLE, "ill")


@pytest.fixture
def repository(model, monkeypatch, tmp_path):
    """What an upload leaves in the repository, and in the cache of a machine that has downloaded it."""
    cache = tmp_path / "models--me--ill"
    snapshot = cache / "snapshots" / ("0" * 40)

    class Api:
        def __init__(self, token=None):
            pass

        def create_repo(self, name, *, private, exist_ok):
            assert (name, private, exist_ok) == ("me/ill", True, True)

        def upload_folder(self, *, repo_id, folder_path, commit_message):
            shutil.copytree(folder_path, snapshot)
            return f"https://hub/{repo_id}"

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    with unchecked():
        address = push_to_hub(model, "me/ill", evaluation=model.evaluate(TABLE), intended_use="A test.", license="mit")
    assert address == "https://hub/me/ill"
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return snapshot


def test_a_pushed_classifier_is_safetensors_json_and_a_card_and_answers_the_same(model, repository):
    names = ["README.md", "metrics.jsonl", "model.json", "model.safetensors"]
    assert sorted(path.name for path in repository.iterdir()) == names
    for name in ("me/ill", repository):
        loaded = GaugeClassifier.from_pretrained(name, device="cpu")
        assert np.array_equal(loaded.predict_proba(TABLE), model.predict_proba(TABLE))


def test_a_name_that_is_neither_a_folder_nor_a_repository_is_refused(repository):
    for name in ("me/well", "not a name"):
        with pytest.raises(ValueError, match="there is no folder .*, and no such repository on the Hub .* check name"):
            GaugeClassifier.from_pretrained(name)
