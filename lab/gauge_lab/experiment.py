"""Experiment: one row of a table with one seed, as given on the command line and stored in files."""

from collections.abc import Sequence
from typing import NamedTuple, Self

from gauge.training.settings import Settings
from gauge.training.stages import Stage
from gauge_lab.benchmarks import BENCHMARKS, Benchmark, Overrides
from gauge_lab.plans import last_stage, plan_of


class Row(NamedTuple):
    """A row of a table. Its text form is `gauge:v2`, or the method alone if the variant has the same name."""

    method: str
    variant: str

    def __str__(self) -> str:
        return self.method if self.variant == self.method else f"{self.method}:{self.variant}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The row with this text form.

        >>> Row.parse("gauge:v2"), str(Row.parse("dymo"))
        (Row(method='gauge', variant='v2'), 'dymo')
        """
        method, _, variant = text.partition(":")
        return cls(method, variant or method)


class Experiment(Settings):
    """A method's variant on a benchmark with one seed. `overrides` changes settings of its stages, for example
    {"finetune": {"epochs": 20}}."""

    benchmark: str
    method: str = "gauge"
    variant: str = "gauge"
    seed: int = 0
    data: str | None = None
    overrides: Overrides = Overrides()

    @property
    def row(self) -> Row:
        return Row(self.method, self.variant)

    def configured(self) -> Benchmark:
        """The benchmark with the overrides, and the fold of the seed."""
        return BENCHMARKS.get(self.benchmark).with_overrides(self.overrides).for_seed(self.seed)

    def stage(self, benchmark: Benchmark) -> Stage:
        """The last stage on the configured benchmark."""
        return last_stage(benchmark, self.method, self.variant, self.seed)

    def unsupported(self) -> str | None:
        """The reason why the method does not support the benchmark, or None."""
        return plan_of(self.method).unsupported(self.configured())


def distinct(experiments: Sequence[Experiment]) -> list[Experiment]:
    """The experiments without duplicates: different seeds of a row in which nothing varies."""
    kept: dict[tuple[str, str, str], Experiment] = {}
    for experiment in experiments:
        benchmark = experiment.configured()
        rows = benchmark.division("train")
        kept.setdefault((experiment.stage(benchmark).identity, rows, experiment.method), experiment)
    return list(kept.values())
