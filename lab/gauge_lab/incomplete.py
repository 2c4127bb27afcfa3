"""Incomplete training data: a split that has lost a share of its values once and for all.

P(value j of a sample is missing) = σ(b + a_cj + d_j · tanh z), with c the class, z the standardised level of one value of
the sample that always stays, and b such that the share is right. Where values are missing at random, a and d are zero.
"""

from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gauge.data.dataset import Dataset, as_values
from gauge.randomness import derive, sample_keys, uniform

Pattern = Literal["random", "informative"]


def incomplete(data: Dataset, rate: float, pattern: Pattern, *, seed: int) -> Dataset:
    """The split without `rate` of its observed modalities or, where a modality is a table, without that share of its cells
    and with all else. One random value of each sample, modality or cell, stays. What is missing is a function of the seed
    and the split alone; hidden values remain in `inputs`, where nothing may read them."""
    tables = [name for name, features in data.feature_counts.items() if features is not None]
    names = tables or list(data.inputs)
    flags = torch.cat([data.observed[name].reshape(len(data), -1) for name in names], 1)
    key = sample_keys(torch.arange(len(data), device=flags.device), seed, "incomplete", data.split)
    stays = uniform(derive(key, "stays"), flags.shape[1]).masked_fill(~flags, -1).argmax(1)
    candidates = flags & (torch.arange(flags.shape[1], device=flags.device) != stays[:, None])
    if candidates.sum() < rate * flags.sum():
        most = float(candidates.sum() / flags.sum())
        raise ValueError(
            f"{rate:.0%} of the values cannot be missing if every sample keeps one of its {flags.shape[1]}; "
            f"choose a rate up to {most:.2f}"
        )
    odds = torch.zeros(flags.shape, device=flags.device)
    if pattern == "informative":
        level = torch.cat([_levels(data, name) for name in names], 1).gather(1, stays[:, None])
        by_class = _signs(data.labels.to(flags.device), flags.shape[1], seed, "class")
        odds = by_class + _signs(stays.new_zeros(1), flags.shape[1], seed, "level") * level.tanh()
    chance = _chance(odds, candidates, rate * float(flags.sum()))
    kept = flags & ~(candidates & (uniform(derive(key, "missing"), flags.shape[1]) < chance))
    parts = kept.split([data.observed[name].reshape(len(data), -1).shape[1] for name in names], 1)
    changed = {name: part.reshape(data.observed[name].shape) for name, part in zip(names, parts, strict=True)}
    return replace(data, observed={**data.observed, **changed})


def _levels(data: Dataset, name: str) -> Float[Tensor, "rows f"]:
    """Each cell of a table, or the mean of all values of another modality, in deviations over the observed ones."""
    flags = data.observed[name].reshape(len(data), -1)
    parts = data.inputs[name].split(4096)  # bytes become numbers a part at a time
    means = [as_values(part).float().reshape(len(part), flags.shape[1], -1).mean(-1) for part in parts]
    values = torch.where(flags, torch.cat(means), 0.0)
    count = flags.sum(0).clamp_min(1)
    centred = torch.where(flags, values - values.sum(0) / count, 0.0)
    deviation = (centred.square().sum(0) / count).sqrt()
    return torch.where(deviation > 1e-6, centred / deviation.clamp_min(1e-6), 0.0)


def _signs(index: Int[Tensor, "n"], count: int, seed: int, what: str) -> Float[Tensor, "n {count}"]:
    """A sign for each value, equal for equal numbers."""
    draws = uniform(sample_keys(index, seed, "incomplete", what), count)
    strength = 1.5  # |a| and |d|: odds differ by a factor of up to e^6 between classes and levels
    return torch.where(draws < 0.5, -strength, strength)


def _chance(
    odds: Float[Tensor, "rows f"], candidates: Bool[Tensor, "rows f"], missing: float
) -> Float[Tensor, "rows f"]:
    """The probability of each candidate to be missing, such that `missing` values are missing in expectation."""
    widest = 50.0  # of the interval that b is searched in
    low, high = -widest, widest
    # 60 halvings of the interval that b is searched in
    for _ in range(60):
        middle = (low + high) / 2
        expected = float(((odds + middle).sigmoid().double() * candidates).sum())
        low, high = (middle, high) if expected < missing else (low, middle)
    return (odds + (low + high) / 2).sigmoid()
