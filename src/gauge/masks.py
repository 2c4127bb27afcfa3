"""Missingness protocols: which values a sample loses, as pure functions of (protocol, seed, split or epoch, index).

The text forms are `complete`, `missing=svhn+text`, `eta=0.6` (each sample misses exactly that share of its modalities),
`every=0.6` (each sample is seen under every such subset), `overall=0.3` (that share of the modalities of all samples is
missing, and each sample keeps one at least), `any-subset` (each sample keeps a random non-empty subset), `gamma=0.9` (that
share of all table cells, drawn over the whole split as published), `gamma-per-sample=0.9` (exactly that share of each row),
`any-gamma` (each row draws its share), `up-to=0.5` (each sample draws a share up to that and loses every cell or modality
with that probability) and `views=2` (each sample keeps exactly two views of each object).

A protocol may be followed by what is wrong with the values that are left: `eta=0.6,swapped=0.2` or `swapped=0.2,noisy=0.1`.
"""

import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from gauge.choices import did_you_mean
from gauge.randomness import Array, Tensor, derive, sample_keys, uniform

if TYPE_CHECKING:
    import torch

FeatureCounts = Mapping[str, int | None]
"""For each modality, in order, the number of feature flags; None for one flag per sample."""


@cache
def subsets(count: int, device: "torch.device | str" = "cpu") -> Bool[Tensor, "subsets {count}"]:
    """All 2^M - 1 non-empty subsets of modalities, by size and then lexicographically; True = observed.

    >>> subsets(2).tolist()
    [[True, False], [False, True], [True, True]]
    """
    import torch

    table = torch.zeros(2**count - 1, count, dtype=torch.bool)
    sets = itertools.chain.from_iterable(itertools.combinations(range(count), size) for size in range(1, count + 1))
    for row, members in enumerate(sets):
        table[row, list(members)] = True
    return table.to(device)


def draw_subsets(key: Int[Tensor, "b"], table: Bool[Tensor, "s m"], count: int | None) -> Bool[Tensor, "r m"]:
    """`count` distinct rows of a table of subsets, drawn once for the batch, by its first key; without a count the last row,
    which is the full set."""
    if not count:
        return table[-1:]
    return table[uniform(derive(key[:1], "subsets"), len(table))[0].argsort()[:count]]


def visible_under(available: Bool[Tensor, "b n"], chosen: Bool[Tensor, "r n"]) -> Bool[Tensor, "r b n"]:
    """What each subset leaves of what is available; everything available where it would leave nothing."""
    visible = chosen[:, None] & available
    return visible | (available & ~visible.any(-1, keepdim=True))


@dataclass(frozen=True)
class Complete:
    """Nothing is missing."""

    def __str__(self) -> str:
        return "complete"

    def keep(self, feature_counts: FeatureCounts, key: Int[Array, "b"]) -> dict[str, Array]:
        return dict.fromkeys(feature_counts, key == key)  # True for every key


@dataclass(frozen=True)
class Missing:
    """The same whole modalities are missing in every sample."""

    modalities: tuple[str, ...]

    def __str__(self) -> str:
        return f"missing={'+'.join(self.modalities)}"

    def keep(self, feature_counts: FeatureCounts, key: Int[Tensor, "b"]) -> dict[str, Tensor]:
        unknown = set(self.modalities) - set(feature_counts)
        if unknown:
            raise ValueError(f"{self} names {sorted(unknown)}, but the modalities are {list(feature_counts)}")
        if set(self.modalities) == set(feature_counts):
            raise ValueError(f"{self} leaves nothing observed; keep at least one of {list(feature_counts)}")
        complete = Complete().keep(feature_counts, key)
        return {name: ~flags if name in self.modalities else flags for name, flags in complete.items()}


@dataclass(frozen=True)
class RandomModalities:
    """Each sample misses exactly `rate` of its modalities, drawn independently for every sample. With `every`, a split is
    evaluated under each such subset in turn (see `passes`)."""

    rate: float
    every: bool = False

    def __str__(self) -> str:
        return f"{'every' if self.every else 'eta'}={self.rate:g}"

    def keep(self, feature_counts: FeatureCounts, key: Int[Tensor, "b"]) -> dict[str, Tensor]:
        ranks = uniform(key, len(feature_counts)).argsort(1).argsort(1)
        missing = _missing_count(str(self), self.rate, feature_counts)
        return dict(zip(feature_counts, (ranks >= missing).unbind(1), strict=True))


def _missing_count(protocol: str, rate: float, feature_counts: FeatureCounts) -> int:
    """How many modalities of each sample are missing; an error if that is no whole number, or all of them."""
    missing = rate * len(feature_counts)
    if abs(missing - round(missing)) > 1e-6:
        raise ValueError(
            f"{protocol} of {len(feature_counts)} modalities is {missing:g}; choose a rate that is a whole number"
        )
    if round(missing) >= len(feature_counts):
        raise ValueError(
            f"{protocol} leaves nothing observed; keep at least one of the {len(feature_counts)} modalities"
        )
    return round(missing)


@dataclass(frozen=True)
class OverallModalities:
    """`rate` of the modalities of all samples are missing, so that samples differ in how many they miss. One random modality
    of each sample stays, all others are equally likely to be missing: the missing rate of incomplete multi-view
    classification (Zhang et al. 2019, Xie et al. 2023). Over a whole split the share is exact, in a batch it is expected.

    >>> kept = mask_split(OverallModalities(0.5), {"a": None, "b": None, "c": None}, 8, seed=0, split="test")
    >>> int(sum(flags.sum() for flags in kept.values()))
    12
    """

    rate: float

    def __str__(self) -> str:
        return f"overall={self.rate:g}"

    def keep(self, feature_counts: FeatureCounts, key: Int[Tensor, "b"]) -> dict[str, Tensor]:
        order = self._order(feature_counts, key)
        chance = self.rate * len(feature_counts) / max(len(feature_counts) - 1, 1)
        return dict(zip(feature_counts, (order >= chance).unbind(1), strict=True))

    def keep_split(self, feature_counts: FeatureCounts, key: Int[Tensor, "rows"]) -> dict[str, Tensor]:
        """Flags of all samples of a split."""
        order = self._order(feature_counts, key)
        kept = order.flatten() >= 0
        kept[order.flatten().argsort()[: round(self.rate * order.numel())]] = False
        return dict(zip(feature_counts, kept.view_as(order).unbind(1), strict=True))

    def _order(self, feature_counts: FeatureCounts, key: Int[Tensor, "b"]) -> Float[Tensor, "b m"]:
        """A random number from 0 to 1 for each modality, in the order in which they go missing; 2 for those that stay."""
        count = len(feature_counts)
        if self.rate * count > count - 1 + 1e-6:
            raise ValueError(
                f"{self} leaves some samples nothing; choose a rate up to {(count - 1) / count:.2f}, so that each keeps one "
                f"of its {count} modalities"
            )
        stays = uniform(derive(key, "stays"), count).argmax(1, keepdim=True)
        return uniform(key, count).scatter(1, stays, 2.0)


@dataclass(frozen=True)
class RandomViews:
    """Each sample keeps exactly `count` views of each object, drawn independently for every sample. The views of an object
    are the modalities whose names differ in their final number only.

    >>> import torch
    >>> kept = RandomViews(1).keep({"a0": None, "a1": None, "b0": None, "b1": None}, torch.arange(3))
    >>> [bool((kept[f"{name}0"] ^ kept[f"{name}1"]).all()) for name in "ab"]
    [True, True]
    """

    count: int

    def __str__(self) -> str:
        return f"views={self.count}"

    def keep(self, feature_counts: FeatureCounts, key: Int[Tensor, "b"]) -> dict[str, Tensor]:
        import torch

        draws = dict(zip(feature_counts, uniform(key, len(feature_counts)).unbind(1), strict=True))
        kept: dict[str, Tensor] = {}
        for name, views in itertools.groupby(sorted(feature_counts, key=_viewed), _viewed):
            names = list(views)
            if len(names) < self.count:
                raise ValueError(f"{self} keeps more views of {name!r} than {names}; keep at most {len(names)}")
            ranks = torch.stack([draws[view] for view in names], 1).argsort(1).argsort(1)
            kept |= dict(zip(names, (ranks < self.count).unbind(1), strict=True))
        return {name: kept[name] for name in feature_counts}


def _viewed(modality: str) -> str:
    """The object that a modality is a view of."""
    return modality.rstrip("0123456789")


@dataclass(frozen=True)
class AnyModalities:
    """Each sample keeps one of the 2^M - 1 non-empty subsets of its modalities, all equally likely.

    NOTE[PAPER] training-masks: the paper does not say how training masks are drawn; here every sample draws its own.
    """

    def __str__(self) -> str:
        return "any-subset"

    def keep(self, feature_counts: FeatureCounts, key: Int[Tensor, "b"]) -> dict[str, Tensor]:
        table = subsets(len(feature_counts), key.device)
        chosen = (uniform(key, 1)[:, 0] * len(table)).long().clamp_max(len(table) - 1)
        return dict(zip(feature_counts, table[chosen].unbind(1), strict=True))


@dataclass(frozen=True)
class RandomCells:
    """Cells of every modality with feature flags are missing; the other modalities are complete.

    NOTE[PAPER] gamma-is-global: the paper says "each sample misses γ of its features"; the published masks draw over all
    rows and columns at once, so rows differ. That is the default; `per_sample=True` is the paper's wording.
    """

    rate: float
    per_sample: bool = False

    def __str__(self) -> str:
        return f"gamma{'-per-sample' if self.per_sample else ''}={self.rate:g}"

    def keep(self, feature_counts: FeatureCounts, key: Int[Array, "b"]) -> dict[str, Array]:
        kept = Complete().keep(feature_counts, key)
        for name, features in _tables(self, feature_counts).items():
            draws = uniform(derive(key, name), features)
            if self.per_sample:
                kept[name] = draws.argsort(1).argsort(1) >= round(self.rate * features)
            else:
                kept[name] = draws >= self.rate  # a batch cannot share the rate over the whole split
        return kept


@dataclass(frozen=True)
class AnyCells:
    """Each sample draws its share of missing cells from the published rates, and loses exactly that share.

    NOTE[PAPER] training-cells: the paper does not say which rates fine-tuning sees; here all published ones, equally often.
    """

    rates: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)

    def __str__(self) -> str:
        return "any-gamma"

    def keep(self, feature_counts: FeatureCounts, key: Int[Tensor, "b"]) -> dict[str, Tensor]:
        kept = Complete().keep(feature_counts, key)
        chosen = (uniform(derive(key, "rate"), 1)[:, 0] * len(self.rates)).long().clamp_max(len(self.rates) - 1)
        rate = _on(key.device, self.rates)[chosen]
        for name, features in _tables(self, feature_counts).items():
            ranks = uniform(derive(key, name), features).argsort(1).argsort(1)
            kept[name] = ranks >= (rate * features).round()[:, None]
        return kept


@dataclass(frozen=True)
class UpTo:
    """Each sample draws a share from 0 to `rate` and loses every value with that probability: cells where they have flags,
    elsewhere the whole modality. Used to train on a user's own data."""

    rate: float

    def __str__(self) -> str:
        return f"up-to={self.rate:g}"

    def keep(self, feature_counts: FeatureCounts, key: Int[Array, "b"]) -> dict[str, Array]:
        share = self.rate * uniform(derive(key, "share"), 1)
        draws = {name: uniform(derive(key, name), features or 1) for name, features in feature_counts.items()}
        kept = {name: draw >= share for name, draw in draws.items()}
        return {name: kept[name][:, 0] if features is None else kept[name] for name, features in feature_counts.items()}


@dataclass(frozen=True)
class Corruption:
    """Wrong evidence: every observed modality, or cell where cells have flags, is replaced by another sample's with
    probability `swapped`, and has noise added with probability `noisy`.

    >>> str(parse_corruption("swapped=0.2")), bool(Corruption())
    ('swapped=0.2', False)
    """

    swapped: float = 0.0
    noisy: float = 0.0

    def __str__(self) -> str:
        return ",".join(f"{name}={rate:g}" for name, rate in vars(self).items() if rate)

    def __bool__(self) -> bool:
        return bool(self.swapped or self.noisy)

    @property
    def sound(self) -> float:
        """The share of the observed values that stays as it is."""
        return (1 - self.swapped) * (1 - self.noisy)


@dataclass(frozen=True)
class Corrupted:
    """What `protocol` leaves of a sample, with some of it corrupted."""

    protocol: "Protocol"
    corruption: Corruption

    def __str__(self) -> str:
        missing = str(self.protocol)
        return str(self.corruption) if missing == "complete" else f"{missing},{self.corruption}"

    def keep(self, feature_counts: FeatureCounts, key: Int[Tensor, "b"]) -> dict[str, Tensor]:
        return self.protocol.keep(feature_counts, key)


Protocol = (
    Complete
    | Missing
    | RandomModalities
    | OverallModalities
    | RandomViews
    | AnyModalities
    | RandomCells
    | AnyCells
    | UpTo
    | Corrupted
)

CORRUPTIONS = tuple(vars(Corruption()))


def passes(protocol: Protocol, feature_counts: FeatureCounts) -> tuple[Protocol, ...]:
    """The protocols to evaluate a split under: the protocol itself, or one for each subset of `every`.

    >>> [str(each) for each in passes(RandomModalities(0.5, every=True), {"image": None, "text": None})]
    ['missing=image', 'missing=text']
    """
    if isinstance(protocol, Corrupted):
        return tuple(Corrupted(single, protocol.corruption) for single in passes(protocol.protocol, feature_counts))
    if not isinstance(protocol, RandomModalities) or not protocol.every:
        return (protocol,)
    missing = _missing_count(str(protocol), protocol.rate, feature_counts)
    if not missing:
        return (Complete(),)
    return tuple(Missing(names) for names in itertools.combinations(feature_counts, missing))


def parse_protocol(text: str) -> Protocol:
    """The protocol with that text form.

    >>> parse_protocol("eta=0.6"), str(parse_protocol("missing=svhn+text"))
    (RandomModalities(rate=0.6, every=False), 'missing=svhn+text')
    """
    rated: dict[str, Callable[[float], Protocol]] = {
        "eta": RandomModalities,
        "every": partial(RandomModalities, every=True),
        "gamma": RandomCells,
        "overall": OverallModalities,
        "gamma-per-sample": partial(RandomCells, per_sample=True),
        "up-to": UpTo,
    }
    plain: dict[str, Protocol] = {str(protocol): protocol for protocol in (Complete(), AnyModalities(), AnyCells())}
    missing, comma, wrong = text.strip().partition(",")
    if missing.partition("=")[0] in CORRUPTIONS:
        missing, comma, wrong = "complete", ",", text.strip()
    if comma:
        return Corrupted(parse_protocol(missing), parse_corruption(wrong))
    name, _, value = missing.partition("=")
    if not value and name in plain:
        return plain[name]
    if value and name == "missing":
        return Missing(tuple(value.split("+")))
    if name == "views" and value.isdecimal() and int(value):
        return RandomViews(int(value))
    with suppress(ValueError):  # of a rate that is not a number
        if name in rated and 0 <= float(value) <= 1:
            return rated[name](float(value))
    hint = did_you_mean(name, ["missing", "views", *plain, *rated])
    raise ValueError(
        f"no missingness protocol {text!r}; {hint}{' ' if hint else ''}write complete, any-subset, any-gamma, "
        "missing=NAME+NAME, views=COUNT, eta=RATE, every=RATE, overall=RATE, gamma=RATE, gamma-per-sample=RATE or "
        "up-to=RATE with a rate from 0 to 1, alone or before swapped=RATE or noisy=RATE, as in eta=0.6,swapped=0.2"
    )


def parse_corruption(text: str) -> Corruption:
    """The corruption with that text form; nothing is corrupted if it is empty."""
    rates = {}
    for part in filter(None, text.strip().split(",")):
        name, _, value = part.partition("=")
        with suppress(ValueError):  # of a rate that is not a number
            if name in CORRUPTIONS and name not in rates and 0 <= float(value) <= 1:
                rates[name] = float(value)
                continue
        raise ValueError(
            f"no corruption {part!r}; write swapped=RATE, noisy=RATE or both, each with a rate from 0 to 1"
        )
    return Corruption(**rates)


def parse_protocols(*texts: str) -> tuple[Protocol, ...]:
    return tuple(map(parse_protocol, texts))


def mask_split(
    protocol: Protocol, feature_counts: FeatureCounts, rows: int, *, seed: int, split: str
) -> dict[str, Tensor]:
    """The flags of a whole split for evaluation, the same for every method, whether values are corrupted or not."""
    import torch

    if isinstance(protocol, Corrupted):
        return mask_split(protocol.protocol, feature_counts, rows, seed=seed, split=split)
    gamma_seeds = {"train": 2021, "val": 2022, "test": 2023}  # TIP's mask files
    if isinstance(protocol, RandomCells) and not protocol.per_sample:
        kept = Complete().keep(feature_counts, torch.arange(rows))
        for index, (name, features) in enumerate(_tables(protocol, feature_counts).items()):
            missing = gamma_mask(rows, features, protocol.rate, seed=gamma_seeds.get(split, seed) + 100 * index)
            kept[name] = torch.from_numpy(~missing)
        return kept
    key = sample_keys(torch.arange(rows), seed, "masks", split, str(protocol))
    return (protocol.keep_split if isinstance(protocol, OverallModalities) else protocol.keep)(feature_counts, key)


def gamma_mask(rows: int, columns: int, rate: float, *, seed: int) -> np.ndarray:
    """The published draw of missing cells (True = missing): floor(rows·columns·rate) positions of the flattened table."""
    missing = np.zeros(rows * columns, dtype=bool)
    draw = np.random.RandomState(seed)
    missing[draw.choice(rows * columns, int(rows * columns * rate), replace=False)] = True
    return missing.reshape(rows, columns)


def missing_rates(observed: Mapping[str, Tensor]) -> dict[str, float]:
    return {name: 1.0 - float(flags.float().mean()) for name, flags in observed.items()}


@cache  # recording a CUDA graph forbids copies from the host
def _on(device: "torch.device", numbers: tuple[float, ...]) -> Tensor:
    import torch

    return torch.tensor(numbers, device=device)


def _tables(protocol: RandomCells | AnyCells, feature_counts: FeatureCounts) -> dict[str, int]:
    tables = {name: features for name, features in feature_counts.items() if features is not None}
    if not tables:
        raise ValueError(
            f"{protocol} drops single features, but no modality of {list(feature_counts)} has feature flags"
        )
    return tables
