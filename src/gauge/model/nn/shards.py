"""Shards: a loss of some samples of a batch that equals, averaged over all processes, the loss of the whole batch.

A mean over samples of a kind divides by how many the whole batch has, and a loss that compares samples sees all of them.
Without a shard nothing is communicated.
"""

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from jaxtyping import Num, Shaped
from torch import Tensor

from gauge.types import Shard


class _Sum(torch.autograd.Function):
    """The sum over all processes. Each of them adds to the loss what it computes from the sum, so gradients add up, too."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total


def total(values: Num[Tensor, "*f"], shard: Shard | None) -> Num[Tensor, "*f"]:
    """The sum over all processes of what each has summed over its samples."""
    if shard is None:
        return values
    whole: Tensor = _Sum.apply(values)
    return whole


def gather(values: Shaped[Tensor, "b ..."], shard: Shard | None) -> Shaped[Tensor, "all ..."]:
    """The values of all samples of the batch, in its order; gradients reach the process that a value comes from."""
    if shard is None:
        return values
    if not values.is_floating_point():
        return gather(values.double(), shard).to(values.dtype)
    return total(F.pad(values, (0, 0) * (values.ndim - 1) + (shard.start, shard.size - shard.stop)), shard)


def part(values: Shaped[Tensor, "all ..."], shard: Shard | None) -> Shaped[Tensor, "b ..."]:
    """Of the values of all samples those of this process."""
    return values if shard is None else values[shard.start : shard.stop]


def at_least_one(counts: Num[Tensor, "..."], shard: Shard | None) -> Num[Tensor, "..."]:
    """What a sum over samples of a kind is divided by for their mean: how many of them the whole batch has, one at least,
    times the share of this process in its samples."""
    if shard is None:
        return counts.clamp_min(1)
    return total(counts.detach(), shard).clamp_min(1) * shard.share
