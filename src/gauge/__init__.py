"""GAUGE: classification from incomplete multimodal data that weighs every piece of evidence.

Names load when first used, so `import gauge` costs next to nothing.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Batch": "types",
    "Evidence": "types",
    "Prediction": "types",
    "Units": "types",
    "Dataset": "data",
    "UnitEncoder": "units",
    "Transformer": "backbones.transformer",
    "FromFunction": "backbones.adapters",
    "FromHuggingFace": "backbones.adapters",
    "FromTimm": "backbones.adapters",
    "FromTorch": "backbones.adapters",
    "check_backbone": "backbones.check",
    "Network": "network",
    "taylor_evidence": "scoring.taylor",
    "exact_effects": "scoring.exact",
    "normalize_scores": "gates",
    "pool_by_modality": "gates",
    "Gate": "gates",
    "attention_bias": "gates",
    "Gauge": "methods.gauge",
    "Gating": "methods.gauge",
    "AnySubset": "methods.any_subset",
    "DyMo": "methods.dymo",
    "MoPoE": "imputers.mopoe",
    "TrainSettings": "config",
    "Experiment": "config",
    "fit": "training",
    "predict_split": "inference",
    "evaluate": "evaluation",
    "audit": "auditing",
    "explain": "explanation",
    "GaugeClassifier": "estimator",
    "Explanation": "evidence",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gauge' has no attribute {name!r}")
    value = getattr(import_module(f"gauge.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
