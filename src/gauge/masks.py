"""Missingness protocols: which values a sample loses, as pure functions of (protocol, seed, split or epoch, index).

A protocol is a small value with a short text form: `complete`, `missing=svhn+text`, `eta=0.6` (each sample misses exactly
that share of its modalities), `every=0.6` (each sample is seen under every such subset), `any-subset` (each sample keeps a
uniformly drawn non-empty subset), `gamma=0.9` (that share of all table cells, drawn over the whole split as published),
`gamma-per-sample=0.9` (exactly that share in each row), `any-gamma` (each row draws its own share) and `up-to=0.5` (each
sample draws a share up to that and loses every cell or modality with that chance).
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from gauge.randomness import derive, sample_keys, uniform

Layout = Mapping[str, int | None]
"""For each modality, in order, how many features carry a flag of their own; None for one flag per sample."""

GAMMA_SEEDS = {"train": 2021, "val": 2022, "test": 2023}  # TIP's mask files


@cache
def subsets(count: int, device: torch.device | str = "cpu") -> Bool[Tensor, "subsets {count}"]:
    """All 2^M - 1 non-empty sets of modalities, by size and then in lexicographic order; True = observed.

    >>> subsets(2).tolist()
    [[True, False], [False, True], [True, True]]
    """
    table = torch.zeros(2**count - 1, count, dtype=torch.bool)
    sets = itertools.chain.from_iterable(itertools.combinations(range(count), size) for size in range(1, count + 1))
    for row, members in enumerate(sets):
        table[row, list(members)] = True
    return table.to(device)


def draw_subsets(key: Int[Tensor, "b"], table: Bool[Tensor, "s m"], count: int) -> Bool[Tensor, "r m"]:
    """`count` distinct rows of a table of subsets, one draw that the whole batch shares (decided by its first key)."""
    return table[uniform(derive(key[:1], "subsets"), len(table))[0].argsort()[:count]]


@dataclass(frozen=True)
class Complete:
    """Nothing is missing."""

    def __str__(self) -> str:
        return "complete"

    def keep(self, layout: Layout, key: Int[Tensor, "b"]) -> dict[str, Tensor]:
        return {name: torch.ones(len(key), dtype=torch.bool, device=key.device) for name in layout}


@dataclass(frozen=True)
class Missing:
    """The same whole modalities are missing in every sample."""

    modalities: tuple[str, ...]

    def __str__(self) -> str:
        return f"missing={'+'.join(self.modalities)}"

    def keep(self, layout: Layout, key: Int[Tensor, "b"]) -> dict[str, Tensor]:
        unknown = set(self.modalities) - set(layout)
        if unknown:
            raise ValueError(f"{self} names {sorted(unknown)}, but the modalities are {list(layout)}")
        if set(self.modalities) == set(layout):
            raise ValueError(f"{self} leaves nothing observed; keep at least one of {list(layout)}")
        return {
            name: torch.full((len(key),), name not in self.modalities, dtype=torch.bool, device=key.device)
            for name in layout
        }


@dataclass(frozen=True)
class RandomModalities:
    """Each sample misses exactly `rate` of its modalities, drawn anew for every sample."""

    rate: float

    def __str__(self) -> str:
        return f"eta={self.rate:g}"

    def keep(self, layout: Layout, key: Int[Tensor, "b"]) -> dict[str, Tensor]:
        missing = self.rate * len(layout)
        if abs(missing - round(missing)) > 1e-6:
            raise ValueError(f"{self} of {len(layout)} modalities is {missing:g}; choose a rate that is a whole number")
        if round(missing) >= len(layout):
            raise ValueError(f"{self} leaves nothing observed; keep at least one of the {len(layout)} modalities")
        ranks = uniform(key, len(layout)).argsort(1).argsort(1)
        return dict(zip(layout, (ranks >= round(missing)).unbind(1), strict=True))


@dataclass(frozen=True)
class EverySubset:
    """Each sample is seen once under every subset that misses exactly `rate` of its modalities: no luck of the draw."""

    rate: float

    def __str__(self) -> str:
        return f"every={self.rate:g}"

    def keep(self, layout: Layout, key: Int[Tensor, "b"]) -> dict[str, Tensor]:
        """One of the subsets, where a sample can be seen only once."""
        return RandomModalities(self.rate).keep(layout, key)


@dataclass(frozen=True)
class AnyModalities:
    """Each sample keeps one of the 2^M - 1 non-empty subsets of its modalities, all equally likely.

    NOTE[PAPER] training-masks: the paper draws "a new missingness mask for each minibatch following the protocol" and does
    not say from which settings; here every sample draws its own subset, uniformly.
    """

    def __str__(self) -> str:
        return "any-subset"

    def keep(self, layout: Layout, key: Int[Tensor, "b"]) -> dict[str, Tensor]:
        table = subsets(len(layout), key.device)
        chosen = (uniform(key, 1)[:, 0] * len(table)).long().clamp_max(len(table) - 1)
        return dict(zip(layout, table[chosen].unbind(1), strict=True))


@dataclass(frozen=True)
class RandomCells:
    """Cells of every modality that has feature flags go missing, modalities with one flag stay.

    NOTE[PAPER] gamma-is-global: the paper says "each sample misses γ of its features"; the published masks draw over all
    rows and columns at once, so rows differ. That is the default; `per_sample=True` is the paper's wording.
    """

    rate: float
    per_sample: bool = False

    def __str__(self) -> str:
        return f"gamma{'-per-sample' if self.per_sample else ''}={self.rate:g}"

    def keep(self, layout: Layout, key: Int[Tensor, "b"]) -> dict[str, Tensor]:
        tables = _tables(self, layout)
        kept = Complete().keep(layout, key)
        for name, features in tables.items():
            draws = uniform(derive(key, name), features)
            if self.per_sample:
                kept[name] = draws.argsort(1).argsort(1) >= round(self.rate * features)
            else:
                kept[name] = draws >= self.rate  # a batch has no "whole split" to share the rate over
        return kept


@dataclass(frozen=True)
class AnyCells:
    """Each sample draws its own share of missing cells from the published rates, and loses exactly that share.

    NOTE[PAPER] training-cells: the paper does not say which rates fine-tuning sees; here all published ones, equally often.
    """

    rates: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)

    def __str__(self) -> str:
        return "any-gamma"

    def keep(self, layout: Layout, key: Int[Tensor, "b"]) -> dict[str, Tensor]:
        tables = _tables(self, layout)
        kept = Complete().keep(layout, key)
        chosen = (uniform(derive(key, "rate"), 1)[:, 0] * len(self.rates)).long().clamp_max(len(self.rates) - 1)
        rate = _on(key.device, self.rates)[chosen]
        for name, features in tables.items():
            ranks = uniform(derive(key, name), features).argsort(1).argsort(1)
            kept[name] = ranks >= (rate * features).round()[:, None]
        return kept


@dataclass(frozen=True)
class UpTo:
    """Each sample draws a share of its own, from none to `rate`, and loses every value with that chance: cells where they
    have flags, elsewhere the whole modality. What training on data of one's own meets."""

    rate: float

    def __str__(self) -> str:
        return f"up-to={self.rate:g}"

    def keep(self, layout: Layout, key: Int[Tensor, "b"]) -> dict[str, Tensor]:
        share = self.rate * uniform(derive(key, "share"), 1)
        draws = {name: uniform(derive(key, name), features or 1) for name, features in layout.items()}
        kept = {name: each >= share for name, each in draws.items()}
        return {name: kept[name][:, 0] if features is None else kept[name] for name, features in layout.items()}


Protocol = Complete | Missing | RandomModalities | EverySubset | AnyModalities | RandomCells | AnyCells | UpTo


def passes(protocol: Protocol, layout: Layout) -> tuple[Protocol, ...]:
    """The protocols that a split is evaluated under, one after the other: itself, or one for each subset of `every`.

    >>> [str(each) for each in passes(EverySubset(0.5), {"image": None, "text": None})]
    ['missing=image', 'missing=text']
    """
    if not isinstance(protocol, EverySubset):
        return (protocol,)
    protocol.keep(layout, torch.zeros(1, dtype=torch.long))  # its rate makes sense here
    missing = round(protocol.rate * len(layout))
    if not missing:
        return (Complete(),)
    return tuple(Missing(names) for names in itertools.combinations(layout, missing))


def parse_protocol(text: str) -> Protocol:
    """The protocol with that text form.

    >>> parse_protocol("eta=0.6"), str(parse_protocol("missing=svhn+text"))
    (RandomModalities(rate=0.6), 'missing=svhn+text')
    """
    name, _, value = text.strip().partition("=")
    whole: dict[str, Protocol] = {"complete": Complete(), "any-subset": AnyModalities(), "any-gamma": AnyCells()}
    if not value and name in whole:
        return whole[name]
    if value and name == "missing":
        return Missing(tuple(value.split("+")))
    try:
        rate = float(value)
    except ValueError:
        rate = -1.0
    if 0 <= rate <= 1 and name in ("eta", "every"):
        return RandomModalities(rate) if name == "eta" else EverySubset(rate)
    if 0 <= rate <= 1 and name in ("gamma", "gamma-per-sample"):
        return RandomCells(rate, per_sample=name != "gamma")
    if 0 <= rate <= 1 and name == "up-to":
        return UpTo(rate)
    raise ValueError(
        f"no missingness protocol {text!r}; write complete, any-subset, any-gamma, missing=NAME+NAME, eta=RATE, "
        "every=RATE, gamma=RATE, gamma-per-sample=RATE or up-to=RATE with a rate from 0 to 1"
    )


def parse_protocols(*texts: str) -> tuple[Protocol, ...]:
    return tuple(map(parse_protocol, texts))


def mask_split(protocol: Protocol, layout: Layout, rows: int, *, seed: int, split: str) -> dict[str, Tensor]:
    """The flags of a whole split: what evaluation uses, the same for every method."""
    if isinstance(protocol, RandomCells) and not protocol.per_sample:
        kept = Complete().keep(layout, torch.arange(rows))
        for place, (name, features) in enumerate(_tables(protocol, layout).items()):
            missing = gamma_mask(rows, features, protocol.rate, seed=GAMMA_SEEDS.get(split, seed) + 100 * place)
            kept[name] = torch.from_numpy(~missing)
        return kept
    return protocol.keep(layout, sample_keys(torch.arange(rows), seed, "masks", split, str(protocol)))


def gamma_mask(rows: int, columns: int, rate: float, *, seed: int) -> np.ndarray:
    """The published draw of missing cells (True = missing): floor(rows·columns·γ) positions of the flattened table."""
    missing = np.zeros(rows * columns, dtype=bool)
    draw = np.random.RandomState(seed)
    missing[draw.choice(rows * columns, int(rows * columns * rate), replace=False)] = True
    return missing.reshape(rows, columns)


def missing_rates(observed: Mapping[str, Tensor]) -> dict[str, float]:
    """The realised share of missing values for each modality."""
    return {name: 1.0 - float(flags.float().mean()) for name, flags in observed.items()}


@cache  # a step that is recorded as a CUDA graph must not copy from the host
def _on(device: torch.device, numbers: tuple[float, ...]) -> Tensor:
    return torch.tensor(numbers, device=device)


def _tables(protocol: RandomCells | AnyCells, layout: Layout) -> dict[str, int]:
    tables = {name: features for name, features in layout.items() if features is not None}
    if not tables:
        raise ValueError(f"{protocol} drops single features, but no modality of {list(layout)} has feature flags")
    return tables
