"""Shards: a loss of some samples of a batch that equals, averaged over all processes, the loss of the whole batch.

A mean over samples of a kind divides by how many the whole batch has, a loss that compares samples sees all of them, and
BatchNorm takes its statistics from all of them. Without a shard nothing is communicated.
"""

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from jaxtyping import Num, Shaped
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gauge.types import Shard


class _Sum(torch.autograd.Function):
    """The sum over all processes. Each of them adds to the loss what it computes from the sum, so gradients add up, too."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone()
        dist.all_reduce(total)
        return total


def gather(values: Shaped[Tensor, "b ..."], shard: Shard | None) -> Shaped[Tensor, "all ..."]:
    """The values of all samples of the batch, in its order; gradients reach the process that a value comes from."""
    if shard is None:
        return values
    if not values.is_floating_point():
        return gather(values.double(), shard).to(values.dtype)
    around = (0, 0) * (values.ndim - 1) + (shard.start, shard.size - shard.stop)
    whole: Tensor = _Sum.apply(F.pad(values, around))
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


class SharedStatistics(TorchFunctionMode):
    """Inside the block `F.batch_norm` in training takes mean and variance over the samples of all processes, on any device
    and in any module."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (_batch_norm if func is F.batch_norm else func)(*args, **kwargs or {})


def _batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if not training:
        return F.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)
    values = x.to(torch.promote_types(x.dtype, torch.float32)).movedim(1, -1)
    axes = list(range(values.ndim - 1))
    count = values.new_tensor(values.numel() / values.shape[-1])
    dist.all_reduce(count)
    mean = _Sum.apply(values.sum(axes)) / count
    centred = values - mean
    variance = _Sum.apply(centred.square().sum(axes)) / count
    if running_mean is not None and running_var is not None:
        running_mean.lerp_(mean.detach().to(running_mean), momentum)
        running_var.lerp_((variance.detach() * count / (count - 1)).to(running_var), momentum)
    normal = centred * (variance + eps).rsqrt()
    if weight is not None and bias is not None:
        normal = normal * weight + bias
    return normal.movedim(-1, 1).to(x.dtype)
