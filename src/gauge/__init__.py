"""GAUGE: classification with missing values and modalities, and reasons for every prediction.

The public names stand in `__init__.pyi`. They load when first used, so `import gauge` costs next to nothing.
"""

from typing import Any

import lazy_loader

__version__ = "0.1.0"

_load, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["__version__", *_names]


def __getattr__(name: str) -> Any:
    if name in ("DyMo", "Experiment", "audit", "evaluate"):
        raise AttributeError(
            f"gauge.{name} is gauge_lab.{name}; the laboratory comes with a clone: run `make test` there"
        )
    return _load(name)
