"""What the options of GaugeClassifier may be, and what its presets stand for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from gauge.choices import pick


@dataclass(frozen=True)
class Preset:
    """The experts that "auto" stands for, with how many seeds each is fitted where seeds matter, in how many folds the
    network learns and, on a CPU, from at most how many rows; up to `max_rows`, times the classes if there are more than
    two, the others learn in all folds."""

    experts: tuple[str, ...] = ("network", "trees", "linear")
    seeds: int = 1
    network_folds: int = 1
    network_rows: int = 16_000
    max_rows: int = 5000


PRESETS = {
    "fast": Preset(experts=("trees", "linear")),
    "default": Preset(),
    "best": Preset(seeds=2, network_folds=5, network_rows=100_000, max_rows=20_000),
}
OF_NETWORK = ("encoders", "tune", "gates", "size", "epochs", "batch_size", "learning_rate")

OPTIONS: dict[str, tuple[Any, ...]] = {  # what the value must be, its type, and a further condition unless it is None
    "columns": ("a mapping or None", Mapping | None),
    "encoders": ("a mapping or None", Mapping | None),
    "tune": ("'head', 'lora', 'all' or a mapping of columns to one of them", str | Mapping),
    "experts": ("'auto', a name or a list of names", str | Sequence),
    "gates": (
        "'auto', True or False",
        str | bool | np.bool_,
        lambda gates: not isinstance(gates, str) or gates == "auto",
    ),
    "missing_rate": ("a number from 0 to 1 or None", Real | None, lambda rate: 0 <= rate <= 1),
    "class_weight": ("'balanced', a mapping or None", object, lambda w: w == "balanced" or isinstance(w, Mapping)),
    "validation": ("a number between 0 and 1", Real, lambda share: 0 < share < 1),
    "epochs": ("a positive integer or None", Integral | None, lambda count: count >= 1),
    "batch_size": ("a positive integer or None", Integral | None, lambda count: count >= 1),
    "learning_rate": ("a positive number", Real, lambda rate: rate > 0),
    "image_size": ("an integer of at least 16", Integral, lambda side: side >= 16),
    "max_categories": ("an integer from 2 to 4096", Integral, lambda count: 2 <= count <= 4096),
    "outside_images": ("True or False", bool | np.bool_),
    "time_limit": ("a positive number or None", Real | None, lambda seconds: seconds > 0),
    "n_jobs": ("a positive integer, -1 or None", Integral | None, lambda count: count >= 1 or count == -1),
    "verbose": ("True or False", bool | np.bool_),
}


def choose_preset(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> Preset:
    """The preset of that name. An error if it leaves the network out, and an option is given that only a network has."""
    name = options["preset"]
    preset = pick(PRESETS, name, "preset")
    if options["experts"] == "auto" and "network" not in preset.experts:
        for each in OF_NETWORK:
            if options[each] != defaults[each] and options[each] != {}:  # no encoder is as good as none
                raise ValueError(
                    f"preset={name!r} fits no network, so {each}={options[each]!r} has no effect; leave one of them out, or "
                    "name the experts with experts="
                )
    return preset


def check_options(estimator: str, options: Mapping[str, Any]) -> None:
    """Raise an error for the first option that is not what it must be."""
    for name, (rule, kind, *conditions) in OPTIONS.items():
        value = options[name]
        if not isinstance(value, kind) or (value is not None and not all(fits(value) for fits in conditions)):
            raise ValueError(f"The {name!r} parameter of {estimator} must be {rule}, got {value!r}")
