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


class _Gather(torch.autograd.Function):
    """The values of all processes, each of which adds to the loss what it computes from them, so gradients are summed."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, shard: Shard) -> Tensor:
        ctx.shard = shard
        around = (0, 0) * (values.ndim - 1) + (shard.start, shard.size - shard.stop)
        whole = F.pad(values, around)
        dist.all_reduce(whole)
        return whole

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        total = gradients[0].clone()
        dist.all_reduce(total)
        return total[ctx.shard.start : ctx.shard.stop], None


def gather(values: Shaped[Tensor, "b ..."], shard: Shard | None) -> Shaped[Tensor, "all ..."]:
    """The values of all samples of the batch, in its order; gradients reach the process that a value comes from."""
    if shard is None:
        return values
    if not values.is_floating_point():
        return gather(values.double(), shard).to(values.dtype)
    whole: Tensor = _Gather.apply(values, shard)
    return whole


def part(values: Shaped[Tensor, "all ..."], shard: Shard | None) -> Shaped[Tensor, "b ..."]:
    """Of the values of all samples those of this process."""
    return values if shard is None else values[shard.start : shard.stop]


def at_least_one(counts: Num[Tensor, "..."], shard: Shard | None) -> Num[Tensor, "..."]:
    """What a sum over samples of a kind is divided by for their mean: how many of them the whole batch has, one at least,
    times the share of this process in its samples."""
    if shard is None:
        return counts.clamp_min(1)
    total = counts.detach().clone()
    dist.all_reduce(total)
    return total.clamp_min(1) * shard.share
