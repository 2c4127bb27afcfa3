"""Paired comparisons of rows on the same samples and seeds."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from gauge.training.settings import Settings
from gauge_lab.benchmarks import BENCHMARKS
from gauge_lab.experiment import Experiment
from gauge_lab.results import Result, load_predictions
from gauge_lab.statistics import Difference, connected, holm

Seeds = Mapping[int, tuple[Result, Path | None]]


class Paired(Settings):
    """One row minus another under one protocol, in points, seed by seed.

    `clusters` numbers the seeds that share a backbone; `mean` and `deviation` are those of their means, `interval` covers
    the mean, and `p_over_seeds` is a t test over clusters, corrected where seeds divide the same rows (see `Difference`).
    `p_corrected` is corrected by Holm over all rows that are compared with the other one under the protocol. `p_values`
    compare the predictions of each seed sample by sample (McNemar, DeLong), in groups where samples share a photo or a
    lesion; they do not cover the variation between trainings, and there are none without predictions, or if samples repeat
    under several subsets. `commit` lists the commits of all results.
    """

    benchmark: str
    row: str
    other: str
    protocol: str
    seeds: tuple[int, ...]
    clusters: tuple[int, ...]
    differences: tuple[float, ...]
    mean: float
    deviation: float
    interval: tuple[float, float] | None
    p_over_seeds: float | None
    p_corrected: float | None
    detectable: float | None
    p_values: tuple[float, ...]
    commit: str

    @property
    def difference(self) -> Difference:
        return Difference(self.mean, self.deviation, len(set(self.clusters)), self.interval)


def paired(
    results: Sequence[tuple[Result, Path | None]],
    references: Sequence[str] = ("gauge:v2", "dymo", "gauge:masked", "gauge"),
) -> list[Paired]:
    """Every row minus every reference row under each protocol, over the seeds that both have. Without the path of a result
    its predictions are not compared.

    A row without training of its own varies only with its backbone; for other seeds it counts with the backbone that they
    start from.
    """
    cells: dict[tuple[str, str], dict[int, tuple[Result, Path | None]]] = {}
    for result, path in results:
        cells.setdefault((str(result.row), result.protocol), {})[result.seed] = (result, path)
    pairs = [
        pair
        for (row, protocol), seeds in cells.items()
        for other in references
        if other != row and (other, protocol) in cells
        if (pair := pair_of(seeds, cells[other, protocol])) is not None
    ]
    return corrected(pairs)


def corrected(pairs: Sequence[Paired]) -> list[Paired]:
    """The pairs with p values corrected over all that have the same reference and protocol."""
    families: dict[tuple[str, str], list[Paired]] = {}
    for pair in pairs:
        if pair.p_over_seeds is not None:
            families.setdefault((pair.other, pair.protocol), []).append(pair)
    p_values: dict[tuple[str, str, str], float] = {}
    for (other, protocol), family in families.items():
        adjusted = holm([pair.p_over_seeds for pair in family if pair.p_over_seeds is not None])
        p_values |= {(pair.row, other, protocol): p for pair, p in zip(family, adjusted, strict=True)}
    return [
        pair.model_copy(update={"p_corrected": p_values.get((pair.row, pair.other, pair.protocol))}) for pair in pairs
    ]


def pair_of(row: Seeds, other: Seeds) -> Paired | None:
    """One row minus another over the seeds that both have."""
    row, other = _on_backbones(row, other), _on_backbones(other, row)
    seeds = sorted(row.keys() & other.keys())
    if not seeds:
        return None
    both = [(row[seed], other[seed]) for seed in seeds]
    (first, _), (second, _) = both[0]
    differences = [100 * (mine.value - theirs.value) for (mine, _), (theirs, _) in both]
    # the trained stages that seeds may share; one imputer serves all of them, so what is compared holds for that imputer
    clusters = connected([_origin(mine)[0] | _origin(theirs)[0] for (mine, _), (theirs, _) in both])
    difference = Difference.from_values(differences, clusters, overlap=overlap_of(first))
    tested = not first.protocol.startswith("every") and all(path for pair in both for _, path in pair)
    return Paired(
        benchmark=first.benchmark,
        row=str(first.row),
        other=str(second.row),
        protocol=first.protocol,
        seeds=tuple(seeds),
        clusters=clusters,
        differences=tuple(round(value, 4) for value in differences),
        mean=difference.mean,
        deviation=difference.deviation,
        interval=difference.interval,
        p_over_seeds=difference.p_value,
        p_corrected=difference.p_value,
        detectable=difference.detectable,
        p_values=tuple(_sample_test(*pair) for pair in both) if tested else (),
        commit=", ".join(sorted({result.commit for pair in both for result, _ in pair})),
    )


def _on_backbones(row: Seeds, other: Seeds) -> Seeds:
    """The row, with the seeds of the other one as well if nothing is trained in it."""
    if any(result.config.get("epochs") != 0 for result, _ in row.values()):
        return row
    return {seed: row.get(seed) or row[seed % len(row)] for seed in {*row, *other}}


def overlap_of(result: Result) -> float:
    """Test rows / training rows, if the seeds have divisions of the same rows: they share training rows, also where their
    test rows do not overlap. A classifier that reads a part of its training rows, such as a balanced one, does not make k
    divisions more alike: of parts that do not overlap, at least k - 2 are training rows."""
    folds, disjoint = _origin(result)[1:]
    if folds == 1:
        return 0.0
    ratio = float(result.data["samples"] / result.config["train_rows"])
    return min(ratio, 1 / (folds - 2)) if disjoint and folds > 2 else ratio


def experiment_of(result: Result) -> Experiment:
    return Experiment.model_validate_json(_described(result))


def _described(result: Result) -> str:
    content = {name: getattr(result, name) for name in ("benchmark", "method", "variant", "seed")}
    return json.dumps(content | {"overrides": result.config.get("overrides", {})})


def _origin(result: Result) -> tuple[frozenset[str], int, bool]:
    return _stages(_described(result))


@cache
def _stages(text: str) -> tuple[frozenset[str], int, bool]:
    """The stages that an experiment is built on, the number of divisions of its benchmark, and whether their test splits are
    disjoint; benchmarks that are not registered have no such stages and one division."""
    experiment = Experiment.model_validate_json(text)
    if experiment.benchmark not in BENCHMARKS.names():
        return frozenset(), 1, False
    benchmark = experiment.configured()
    needs = [stage for stage in experiment.stage(benchmark).all()[:-1] if stage.split == "train"]
    names = frozenset(f"{stage.name} on {benchmark.division('train')}" for stage in needs)
    return names, benchmark.folds, benchmark.disjoint


def _sample_test(row: tuple[Result, Path | None], other: tuple[Result, Path | None]) -> float:
    assert row[1] is not None
    assert other[1] is not None
    (second, labels, groups), (first, _, _) = load_predictions(row[1]), load_predictions(other[1])
    return row[0].metric.paired(first, second, labels, groups)[0]
