"""Saved classifiers: a folder with weights (safetensors), everything else (JSON) and a model card. Nothing in it runs."""

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from gauge import __version__
from gauge.tabular.fitting import SIZES, build, gating_of, imputer_for
from gauge.tabular.schema import Schema
from gauge.training import checkpoint
from gauge.training.device import pick_device
from gauge.types import Imputer

if TYPE_CHECKING:
    from gauge.tabular.estimator import GaugeClassifier

logger = logging.getLogger(__name__)

FORMAT = "gauge-classifier-3"
UNCHECKED = "gauge-classifier-2"  # of gauge-ml 0.1.0: the same without checksums
ABOUT, WEIGHTS, CARD, TOKENIZERS = "model.json", "model.safetensors", "README.md", "tokenizers"
ELSEWHERE = ("device", "image_folder", "verbose", "encoders")  # options that belong to a machine, or are kept otherwise
FITTED = (
    "strategy_",
    "validation_scores_",
    "epochs_",
    "n_rows_",
    "missing_rates_",
    "n_features_in_",
    "target_",
    "cut_short_",
    "largest_class_",
)


def save(model: "GaugeClassifier", folder: Path) -> None:
    """The weights first and `model.json` last: a folder with it is whole."""
    if not isinstance(model.imputer, str):
        raise ValueError(
            f"an imputer of your own ({type(model.imputer).__name__}) cannot be saved; register it, and fit with its name"
        )
    values = model.classes_.tolist()
    if not all(isinstance(value, str | int | float) for value in values):
        raise ValueError(f"labels of type {type(values[0]).__name__} cannot be saved; use texts or numbers")
    about: dict[str, Any] = {
        "format": FORMAT,
        "version": __version__,
        "classes": values,
        "class_prior": model.class_prior_.tolist(),
        "schema": model.schema_.to_json(),
        "feature_names": getattr(model, "feature_names_in_", np.array([])).tolist(),
        "seed": model.recipe_.seed,
        "options": _options(model) | {"encoders": model.schema_.encoders or None},
        "fitted": {name: getattr(model, name) for name in FITTED},
    }
    tensors = _prefixed("model.", model.model_)
    if model.model_.imputer is not None:
        tensors |= _prefixed("imputer.", model.model_.imputer.imputer)
    checkpoint.save(folder / WEIGHTS, tensors, {"classifier": FORMAT})
    model.schema_.save_tokenizers(folder / TOKENIZERS)
    checkpoint.write_text(folder / CARD, card(model))
    about["sha256"] = _checksum(about)
    checkpoint.write_text(folder / ABOUT, json.dumps(about, indent=1) + "\n")


def load(
    kind: "type[GaugeClassifier]", folder: Path, *, device: str | None, image_folder: str | Path | None
) -> "GaugeClassifier":
    """The classifier of class `kind` that a folder holds."""
    about = _about(folder)
    model = kind(**about["options"], device=device, image_folder=image_folder, verbose=False)
    model.classes_ = np.array(about["classes"])
    model.class_prior_ = np.array(about["class_prior"])
    model.schema_ = Schema.from_json(about["schema"], folder / TOKENIZERS)
    if about["feature_names"]:
        model.feature_names_in_ = np.array(about["feature_names"], dtype=object)
    for name in FITTED:
        setattr(model, name, about["fitted"][name])
    model.recipe_ = model._recipe(about["seed"])
    path = folder / WEIGHTS
    tensors, _ = checkpoint.load(path)
    imputer = None
    if model.strategy_ == "impute":
        imputer = _imputer(model)
        checkpoint.load_into(imputer, _part("imputer.", tensors), path)
    gating = gating_of(model.strategy_, model.gates)
    model.model_ = build(model.schema_, len(model.classes_), SIZES[model.size], gating=gating, imputer=imputer)
    checkpoint.load_into(model.model_, _part("model.", tensors), path)
    model.model_.to(pick_device(device)).eval()
    return model


def card(model: "GaugeClassifier") -> str:
    """What somebody who finds the folder has to know."""
    columns = [
        f"| {column.name} | {column.kind} | {100 * model.missing_rates_[column.name]:.0f} % |"
        for column in model.schema_.columns
    ]
    ignored = [f"| {name} | ignored: {reason} | |" for name, reason in model.schema_.ignored.items()]
    facts = [f"- {name}: {value}" for name, value in model._facts().items()]
    donors = _donors(model)
    return "\n".join(
        [
            "# A GAUGE classifier",
            "",
            f"Predicts {model.target_ or 'the label'}, one of {len(model.classes_)} classes: "
            f"{', '.join(map(str, model.classes_[:20]))}{' ...' if len(model.classes_) > 20 else ''}.",
            "",
            "```python",
            "from gauge import GaugeClassifier",
            "",
            'model = GaugeClassifier.load("this folder")',
            "model.predict(table)",
            "```",
            "",
            "## How it came about",
            "",
            *facts,
            f"- Versions: torch {torch.__version__}, format {FORMAT}",
            f"- Training rows in the file: {donors or 'none'}",
            "",
            "## Columns",
            "",
            "| column | kind | missing in training |",
            "|---|---|---|",
            *columns,
            *ignored,
            "",
        ]
    )


def _donors(model: "GaugeClassifier") -> str:
    """Whose values the hot deck would hand on."""
    state = {} if model.model_.imputer is None else _prefixed("", model.model_.imputer.imputer)
    counts = [len(values) for name, values in state.items() if "observed_" in name]
    return f"{counts[0]} (imputer {model.imputer}: their values fill what other rows miss)" if counts else ""


def _options(model: "GaugeClassifier") -> dict[str, Any]:
    """All options that JSON can hold; the others are at their default again when it is loaded."""

    def survives(value: Any) -> bool:
        try:
            return bool(json.loads(json.dumps(value)) == value)
        except TypeError:
            return False

    found = {name: value for name, value in model.get_params(deep=False).items() if name not in ELSEWHERE}
    return {name: value for name, value in found.items() if survives(value)}


def _about(folder: Path) -> dict[str, Any]:
    path = folder / ABOUT
    if not path.is_file():
        raise ValueError(
            f"{folder} is not a saved classifier (it has no {ABOUT}); give a folder that `save` or `gauge fit` wrote"
        )
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); save the classifier again") from error
    if not isinstance(about, dict) or about.get("format") not in (FORMAT, UNCHECKED):
        other = about.get("format") if isinstance(about, dict) else None
        raise ValueError(
            f"{path} has format {other!r}, this version reads {FORMAT!r}; fit it again, or use the other version"
        )
    if about["format"] == UNCHECKED:
        logger.warning("%s was saved by gauge-ml 0.1.0 and carries no checksum; save it again to add one", folder)
    elif about.pop("sha256", None) != _checksum(about):
        raise ValueError(f"{path} is damaged: its checksum does not match; save the classifier again")
    return about


def _checksum(about: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _imputer(model: "GaugeClassifier") -> Imputer:
    """The imputer that the classifier was fitted with, its tensors still to be loaded."""
    assert isinstance(model.imputer, str)
    kind, options = imputer_for(model.imputer, model.schema_, donors=model.donors, seed=model.recipe_.seed)
    return kind.blank(model.schema_.blank(model.n_rows_["train"]), **options)


def _prefixed(prefix: str, part: object) -> dict[str, Tensor]:
    """Its state under a prefix; what is no module has none."""
    state = part.state_dict() if isinstance(part, nn.Module) else {}
    return {f"{prefix}{name}": tensor for name, tensor in state.items()}


def _part(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
