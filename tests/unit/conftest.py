"""Fixtures of several files of unit tests; they import the package, as the process that starts the workers should not."""

import pytest


@pytest.fixture
def warnings_anew():
    """Warnings about files that are given once in a process are given again."""
    from gauge_lab.benchmarks.readers import notes

    notes._warn_once.cache_clear()


@pytest.fixture(scope="module")
def offline():
    """Hugging Face's libraries read files alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        yield


@pytest.fixture(scope="module")
def models(tmp_path_factory, offline):
    """Small models of Hugging Face for texts and images, by the columns that they read."""
    from small_transformers import save_bert, save_vit

    from gauge.randomness import seeded

    folder = tmp_path_factory.mktemp("models")
    with seeded(0, "models"):
        return {"notes": str(save_bert(folder / "bert")), "photo": str(save_vit(folder / "vit"))}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder for images."""
    return tmp_path_factory.mktemp("images")
