"""Wrong evidence on purpose: observed values swapped with another sample's, or noised; pure functions of a sample's key."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gauge.masks import Corruption
from gauge.randomness import derive, normal, uniform
from gauge.values import Batch, Truth, over_values


def corrupted(batch: Batch, known: Mapping[str, Tensor], how: Corruption, split: Any) -> Batch:
    """The batch with some observed values corrupted, and the truth about it. Donors come from the `split` (a
    `Dataset`); a value whose donor lacks it stays."""
    inputs = dict(batch.inputs)
    changed = {name: torch.zeros_like(flags) for name, flags in batch.observed.items()}
    wrong = dict(changed)
    for name in inputs:
        if how.swapped:
            inputs[name], changed[name], wrong[name] = _swapped(batch, name, how.swapped, split)
        if how.noisy:
            inputs[name], noisy = _noised(batch, name, inputs[name], how.noisy, split.spreads[name])
            changed[name], wrong[name] = changed[name] | noisy, wrong[name] | noisy
    return replace(batch, inputs=inputs, truth=Truth(known, changed, wrong))


def _swapped(batch: Batch, name: str, rate: float, split: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The values with some of them swapped for another sample's, which ones were swapped, and which ones are wrong as a
    result."""
    values, observed = batch.inputs[name], batch.observed[name]
    draws = _uniform(derive(batch.key, "swapped", name), observed)
    others = max(1, len(split.labels) - 1)
    steps = 1 + (_uniform(derive(batch.key, "donor", name), observed) * others).long().clamp_max(others - 1)
    donors = (over_values(batch.index, steps) + steps) % len(split.labels)
    theirs, available = split.entries(name, donors)
    changed = (draws < rate) & observed & available
    if observed.ndim == 1:
        wrong = changed & (split.labels[donors] != split.labels[batch.index])
    else:
        wrong = changed & (theirs != values).reshape(*observed.shape, -1).any(-1)
    return torch.where(over_values(changed, values), theirs, values), changed, wrong


def _noised(
    batch: Batch, name: str, values: Tensor, rate: float, spread: Float[Tensor, "*f"]
) -> tuple[Tensor, Bool[Tensor, "b *f"]]:
    """The values with noise added to some of them, and which ones have it. Whole numbers, which have no spread, are
    unchanged."""
    observed = batch.observed[name]
    changed = (_uniform(derive(batch.key, "noisy", name), observed) < rate) & observed & (spread > 0)
    if not values.is_floating_point():
        return values, changed
    noise = normal(derive(batch.key, "noise", name), values[0].numel()).reshape(values.shape)
    # deviation of the noise, in spreads of the values
    noise = 2.0 * over_values(spread.expand(observed.shape), values) * noise
    return torch.where(over_values(changed, values), values + noise.to(values.dtype), values), changed


def _uniform(key: Int[Tensor, "b"], like: Bool[Tensor, "b *f"]) -> Float[Tensor, "b *f"]:
    return uniform(key, like[0].numel()).reshape(like.shape)
