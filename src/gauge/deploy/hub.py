"""Classifiers on the Hugging Face Hub: safetensors, JSON and a model card. None of it is code."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from gauge.tabular.estimator import GaugeClassifier
from gauge.tabular.evidence.evaluation import Evaluation
from gauge.tabular.fitted import CARD
from gauge.training.checkpoint import write_text

INTENDED = """\
Rows with the columns below, from the same source as those of training; any value may be missing. How good the model is
elsewhere was not measured. People's decisions should not rest on it alone."""


def push_to_hub(
    model: GaugeClassifier,
    repository: str,
    *,
    evaluation: Evaluation | None = None,
    intended_use: str = INTENDED,
    license: str | None = None,
    private: bool = True,
    token: str | None = None,
) -> str:
    """Upload a fitted classifier to OWNER/NAME on the Hugging Face Hub and return its address. The card has the scores of
    validation and of an `evaluation`, which `model.evaluate` returns, and the `intended_use`."""
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise ValueError("the Hub needs huggingface_hub; install it with: pip install 'gauge-ml[hub]'") from error
    api = HfApi(token=token)
    with TemporaryDirectory() as folder:
        model.save(folder)
        text = hub_card(model, repository, evaluation, intended_use=intended_use, license=license)
        write_text(Path(folder) / CARD, text)
        api.create_repo(repository, private=private, exist_ok=True)
        return str(api.upload_folder(repo_id=repository, folder_path=folder, commit_message="A GAUGE classifier"))


def hub_card(
    model: GaugeClassifier,
    repository: str,
    evaluation: Evaluation | None,
    *,
    intended_use: str = INTENDED,
    license: str | None = None,
) -> str:
    """The card of a saved model with the header that the Hub reads, its scores and its intended use."""
    header: dict[str, Any] = {
        "library_name": "gauge-ml",
        "pipeline_tag": "tabular-classification",
        "tags": ["gauge", "missing-values", "multimodal"],
    }
    if license is not None:
        header["license"] = license
    if evaluation is not None:
        metrics = evaluation.scores[evaluation.scores["model"] == "classifier"]
        pairs = zip(metrics["metric"].tolist(), metrics["value"].tolist(), strict=True)
        values = [{"type": name, "value": round(value, 4)} for name, value in pairs]
        data = {"name": "rows given to evaluate", "type": "private"}
        result = {"task": {"type": "tabular-classification"}, "dataset": data, "metrics": values}
        header["model-index"] = [{"name": repository.rpartition("/")[2], "results": [result]}]
    board = model.leaderboard_.to_string(index=False, float_format="%.3f")
    scores = f"Rows held out of training:\n\n```text\n{board}\n```\n"
    if evaluation is not None:
        scores += f"\nThe rows given to `evaluate`:\n\n```text\n{evaluation}\n```\n"
    body = model.fitted_.card().replace(
        'GaugeClassifier.load("this folder")', f'GaugeClassifier.from_pretrained("{repository}")'
    )
    top = yaml.safe_dump(header, sort_keys=False)
    return f"---\n{top}---\n\n{body}\n## Scores\n\n{scores}\n## Intended use\n\n{intended_use.strip()}\n"
