"""What the experts learn from: a recipe, from the options of the estimator, and a task, from rows and labels; and what these
options may be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

import numpy as np

from gauge.choices import pick
from gauge.tabular.evidence.drift import Profile
from gauge.tabular.experts import Task
from gauge.tabular.experts._ensemble import AUTO
from gauge.tabular.experts._recipe import SIZES, Recipe
from gauge.tabular.table import inputs
from gauge.tabular.table.columns import ImageFiles
from gauge.tabular.table.inspection import report_leaks
from gauge.tabular.table.labelled import Labelled, rows_to_use, unlabelled_to_use
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Encoded, Schema

PROBABLE = ("auto", "accuracy", "auc", "log_loss")  # metrics for which the most probable class is best


def choose_preset(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[str, ...]:
    """The experts of the preset. An error if it leaves the network out, and an option is given that only a network has."""
    of_network = ("encoders", "size", "epochs", "batch_size", "learning_rate")
    name = options["preset"]
    preset = pick({"fast": ("trees", "linear"), "default": AUTO}, name, "preset")
    if options["experts"] == "auto" and "network" not in preset:
        for each in of_network:
            if options[each] != defaults[each] and options[each] != {}:  # no encoder is as good as none
                raise ValueError(
                    f"preset={name!r} fits no network, so {each}={options[each]!r} has no effect; leave one of them out, or "
                    "name the experts with experts="
                )
    return preset


def check_options(estimator: str, options: Mapping[str, Any]) -> None:
    """Raise an error for the first option that is not what it must be."""
    rules: dict[str, tuple[Any, ...]] = {  # what the value must be, its type, and a further condition unless it is None
        "columns": ("a mapping or None", Mapping | None),
        "encoders": ("a mapping or None", Mapping | None),
        "experts": ("'auto', a name or a list of names", str | Sequence),
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
    for name, (rule, kind, *conditions) in rules.items():
        value = options[name]
        if not isinstance(value, kind) or (value is not None and not all(fits(value) for fits in conditions)):
            raise ValueError(f"The {name!r} parameter of {estimator} must be {rule}, got {value!r}")


def make_recipe(options: Mapping[str, Any], seed: int, classes: int) -> Recipe:
    """How networks are trained, by the options of the estimator; where it says how many epochs, from all rows."""
    copied = ("size", "epochs", "batch_size", "learning_rate")
    pick(SIZES, options["size"], "size")
    from sklearn.metrics import get_scorer_names

    pick(dict.fromkeys((*PROBABLE, *get_scorer_names())), options["metric"], "metric")
    return Recipe(
        **{name: options[name] for name in copied},
        rate=-1.0 if options["missing_rate"] is None else options["missing_rate"],
        seed=seed,
        classes=classes,
        seconds=options["time_limit"],
        max_rows=16_000 if options["epochs"] is None else None,
    )


@dataclass(frozen=True)
class Prepared:
    """What a fit starts from: the labelled table, its rows as arrays, and the task of the experts. `every` are the
    positions of the rows that are learned from, with a label first. `missing_rates` are the shares of the
    values of each column that are missing."""

    data: Labelled
    encoded: Encoded
    task: Task
    every: np.ndarray
    missing_rates: Mapping[str, float]

    @classmethod
    def from_table(
        cls,
        data: Labelled,
        schema: Schema,
        recipe: Recipe,
        *,
        files: ImageFiles,
        device: str | None,
        folder: Path | None,
    ) -> Self:
        """The table with its values read, and the recipe with the rate and the steps that suit them."""
        encoded = schema.encode(data.every_row, files, training=True)
        missing_rates = schema.missing_rates(encoded)
        if recipe.rate < 0:  # it was left to be estimated
            # limits of the share of values that training hides
            rate = min(0.9, max(0.5, 2 * max(missing_rates.values())))
            recipe = replace(recipe, rate=round(rate, 2))
        recipe = replace(recipe, content=len(schema.table) < len(schema.columns))
        used = rows_to_use(encoded, data)
        every = np.concatenate([used, unlabelled_to_use(encoded, data)])
        streamed = None
        if data.stream is not None:
            given = schema, data.every_label, data.frame.index[used], files
            streamed = data.stream.encoded(*given, folder=folder, device=device)
        rows = Rows.from_frame(schema, data.every_row, encoded)
        task = Task(
            rows=rows.take(used),
            labels=data.labels[used],
            weights=inputs.scale_weights(data.weights[used]),
            classes=len(data.classes),
            recipe=recipe,
            device=device,
            folder=folder,
            streamed=streamed,
            splits=data.splits.take(used),
            every=rows.take(every) if len(every) > len(used) else None,
        )
        grouped = task.splits.groups is not None
        report_leaks(data.every_row.iloc[used], schema.table, task.rows.cells, task.labels, grouped=grouped)
        return cls(data, encoded, task, every, missing_rates)

    def described(self) -> dict[str, Any]:
        """What a fitted classifier keeps of the table."""
        shares = self.data.class_shares
        return {
            "classes": self.data.classes,
            "target": self.data.target,
            "missing_rates": self.missing_rates,
            "largest_class": (str(self.data.classes[shares.argmax()]), float(shares.max())),
            "profile": Profile.fit(self.task.rows, self.data.every_row.iloc[self.every[: len(self.task.rows)]]),
        }
