"""Saved classifiers: a folder with weights (safetensors), everything else (JSON) and a model card. None of it is code."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from gauge import __version__
from gauge.tabular.evidence.cell_trust import Trust
from gauge.tabular.experts.ensemble import Network, ensemble_state, restored, unscored
from gauge.tabular.experts.network import SIZES, build, gating_of, imputer_for
from gauge.tabular.table.schema import Schema
from gauge.training import checkpoint
from gauge.training.device import pick_device

if TYPE_CHECKING:
    from gauge.tabular.estimator import GaugeClassifier

logger = logging.getLogger(__name__)

FORMAT = "gauge-classifier-4"
ALONE = "gauge-classifier-3"  # before 0.2.0: a network without whole units, heads and other experts
UNCHECKED = "gauge-classifier-2"  # of gauge-ml 0.1.0: the same without checksums
ABOUT, WEIGHTS, CARD, TOKENIZERS = "model.json", "model.safetensors", "README.md", "tokenizers"
HISTORY = "metrics.jsonl"
ELSEWHERE = (
    "device",
    "n_jobs",
    "image_folder",
    "outside_images",
    "verbose",
    "encoders",
)  # of a machine, or saved otherwise
FITTED = (
    *("strategy_", "validation_scores_", "epochs_", "n_rows_", "missing_rates_"),
    *("n_features_in_", "target_", "cut_short_", "largest_class_", "experts_", "class_weight_", "donor_rows_"),
)
CARD_TEXT = """\
# A GAUGE classifier

Predicts {target}, one of {count} classes: {classes}.

```python
from gauge import GaugeClassifier

model = GaugeClassifier.load("this folder")
model.predict(table)
```

## Training

{facts}
- Versions: torch {torch}, format {format}
- Training rows in the file: {donors}

{curve}## Columns

| column | kind | missing in training |
|---|---|---|
{columns}
"""


def save(model: "GaugeClassifier", folder: Path) -> None:
    """Write the weights first and `model.json` last: a folder that has it is complete."""
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
    tensors, about["ensemble"] = ensemble_state(model.ensemble_)
    if model.trust_ is not None:
        trust, about["trust"] = model.trust_.save()
        tensors |= {f"trust.{name}": tensor for name, tensor in trust.items()}
    about["leaderboard"] = json.loads(model.leaderboard_.to_json(orient="records", double_precision=15))
    if "network" in model.experts_:
        tensors |= {f"model.{name}": tensor for name, tensor in model.model_.state_dict().items()}
        tensors |= {f"imputer.{name}": tensor for name, tensor in _imputer_state(model).items()}
    checkpoint.save(folder / WEIGHTS, tensors, {"classifier": FORMAT})
    model.schema_.save_files(folder / TOKENIZERS)
    checkpoint.write_text(folder / HISTORY, "".join(f"{json.dumps(epoch)}\n" for epoch in model.history_))
    checkpoint.write_text(folder / CARD, card(model))
    about["files"] = _file_checksums(folder)
    about["sha256"] = _checksum(about)
    checkpoint.write_text(folder / ABOUT, json.dumps(about, indent=1) + "\n")


def load(
    kind: "type[GaugeClassifier]", folder: Path, *, device: str | None, image_folder: str | Path | None
) -> "GaugeClassifier":
    """The classifier of class `kind` that a folder holds."""
    about = _about(folder)
    try:
        model = _without_weights(kind, about, folder)
    except (KeyError, TypeError, AttributeError, IndexError) as error:  # possible without a checksum only
        raise ValueError(
            f"{folder / ABOUT} is damaged ({type(error).__name__}: {error}); save the classifier again"
        ) from error
    model.set_params(device=device, image_folder=image_folder, verbose=False)
    history = folder / HISTORY
    model.history_ = [json.loads(line) for line in history.read_text().splitlines()] if history.is_file() else []
    path = folder / WEIGHTS
    tensors, _ = checkpoint.load(path)
    broken = [name for name, tensor in tensors.items() if not tensor.isfinite().all()]
    if broken:
        raise ValueError(
            f"{path} has values that are NaN or infinite, first in {broken[0]!r}; fit the classifier again"
        )
    network = _network(model, about, tensors, path, device) if "network" in model.experts_ else None
    state = about["ensemble"] if about["format"] == FORMAT else None
    model.ensemble_ = restored(state, _part("experts.", tensors), model.schema_, network, model.class_prior_)
    trust = about.get("trust")
    model.trust_ = None if trust is None else Trust.load(_part("trust.", tensors), trust, model.schema_)
    model.leaderboard_ = unscored(model.ensemble_) if state is None else pd.DataFrame(about["leaderboard"])
    return model


def local_folder(name: str, revision: str | None) -> Path:
    """The folder of that name or, if there is none, the files of the Hub's repository of that name, which are downloaded."""
    if Path(name).is_dir():
        return Path(name)
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise ValueError(
            f"there is no folder {name}, and the Hub needs huggingface_hub; install it with: pip install 'gauge-ml[hub]'"
        ) from error
    patterns = [ABOUT, WEIGHTS, CARD, f"{TOKENIZERS}/*"]
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=patterns))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"there is no folder {name}, and no such repository on the Hub ({reason}); check name and token"
        ) from error


def _network(
    model: "GaugeClassifier", about: Mapping[str, Any], tensors: Mapping[str, Tensor], path: Path, device: str | None
) -> Network:
    imputer = None
    if model.strategy_ == "impute":
        assert isinstance(model.imputer, str)
        imputer_kind, options = imputer_for(model.imputer, model.schema_, donors=model.donors, seed=about["seed"])
        imputer = imputer_kind.blank(model.schema_.blank(model.n_rows_["train"]), **options)
        checkpoint.load_into(imputer, _part("imputer.", tensors), path)
    gating, plus = gating_of(model.strategy_, model.gates), about["format"] == FORMAT
    network = build(model.schema_, len(model.classes_), SIZES[model.size], gating=gating, imputer=imputer, plus=plus)
    checkpoint.load_into(network if plus else network.gauge, _part("model.", tensors), path)
    return Network(network.to(pick_device(device)).eval())


def _without_weights(kind: "type[GaugeClassifier]", about: Mapping[str, Any], folder: Path) -> "GaugeClassifier":
    model = kind(**about["options"])
    model.classes_ = np.array(about["classes"])
    model.class_prior_ = np.array(about["class_prior"])
    alone = {"experts_": ["network"], "class_weight_": [1.0] * len(model.classes_)}
    fitted = {"donor_rows_": []} | about["fitted"] | ({} if about["format"] == FORMAT else alone)
    for name in FITTED:
        setattr(model, name, fitted[name])
    if about["feature_names"]:
        model.feature_names_in_ = np.array(about["feature_names"], dtype=object)
    names = about["feature_names"] or [f"x{index}" for index in range(model.n_features_in_)]
    model.schema_ = Schema.from_json({"names": names, **about["schema"]}, folder / TOKENIZERS)
    model.recipe_ = model._recipe(about["seed"])
    return model


def card(model: "GaugeClassifier") -> str:
    """The README of a saved model."""
    rates = model.missing_rates_
    columns = [f"| {each.name} | {each.kind} | {100 * rates[each.name]:.0f} % |" for each in model.schema_.columns]
    columns += [f"| {name} | ignored: {reason} | |" for name, reason in model.schema_.ignored.items()]
    more = " ..." if len(model.classes_) > 20 else ""
    counts = [len(values) for name, values in _imputer_state(model).items() if "observed_" in name]
    donors = f"{counts[0]} (imputer {model.imputer}: values for other rows are taken from them)" if counts else "none"
    return CARD_TEXT.format(
        target=model.target_ or "the label",
        count=len(model.classes_),
        classes=", ".join(map(str, model.classes_[:20])) + more,
        facts="\n".join(f"- {name}: {value}" for name, value in model._facts().items()),
        torch=torch.__version__,
        format=FORMAT,
        donors=donors,
        columns="\n".join(columns),
        curve=_curve(model.history_),
    )


def _curve(history: Sequence[Mapping[str, Any]]) -> str:
    """The mean losses of each stage after its first, middle and last epoch."""
    stages: dict[str, list[Mapping[str, Any]]] = {}
    for epoch in history:
        stages.setdefault(epoch["stage"], []).append(epoch)
    lines = []
    for stage, epochs in stages.items():
        for epoch in {each["epoch"]: each for each in (epochs[0], epochs[len(epochs) // 2], epochs[-1])}.values():
            losses = ", ".join(f"{name} {value:.4g}" for name, value in epoch["losses"].items())
            lines.append(f"| {stage} | {epoch['epoch']} | {losses} |\n")
    head = "## Training curve\n\nAll epochs are in `metrics.jsonl`.\n\n| stage | epoch | losses |\n|---|---|---|\n"
    return head + "".join(lines) + "\n" if lines else ""


def _imputer_state(model: "GaugeClassifier") -> dict[str, Tensor]:
    if "network" not in model.experts_ or model.model_.imputer is None:
        return {}
    imputer = model.model_.imputer.imputer
    return imputer.state_dict() if isinstance(imputer, nn.Module) else {}


def _options(model: "GaugeClassifier") -> dict[str, Any]:
    """All options that JSON can represent; the others are back at their default in a loaded model."""

    def survives(value: Any) -> bool:
        try:
            return bool(json.loads(json.dumps(value)) == value)
        except TypeError:
            return False

    options = model.get_params(deep=False)
    return {name: value for name, value in options.items() if name not in ELSEWHERE and survives(value)}


def _about(folder: Path) -> dict[str, Any]:
    path = folder / ABOUT
    if not path.is_file():
        raise ValueError(
            f"{folder} is not a saved classifier (it has no {ABOUT}); give a folder that `save` or `gauge fit` wrote"
        )
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}); save the classifier again") from error
    form = about.get("format") if isinstance(about, dict) else None
    if form not in (FORMAT, ALONE, UNCHECKED):
        raise ValueError(f"{path} has format {form!r}, this version reads {FORMAT!r}; fit again, or use that version")
    if form == UNCHECKED and "sha256" not in about:
        logger.warning("%s was saved by gauge-ml 0.1.0 and carries no checksum; save it again to add one", folder)
        return about
    if about.pop("sha256", None) != _checksum(about):
        raise ValueError(f"{path} is damaged: its checksum does not match; save the classifier again")
    files = _file_checksums(folder)
    for name in {**about["files"], **files}:
        if about["files"].get(name) != files.get(name):
            raise ValueError(f"{folder / name} is damaged: its checksum does not match; save the classifier again")
    return about


def _file_checksums(folder: Path) -> dict[str, str]:
    """Those of the weights and tokenizers, so that they belong together."""
    paths = [
        folder / WEIGHTS,
        folder / HISTORY,
        *sorted(path for path in (folder / TOKENIZERS).rglob("*") if path.is_file()),
    ]
    checksums = {}
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                checksums[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return checksums


def _checksum(about: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _part(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
