"""Shards: what one of several processes has to know of the whole batch while its loss sees only some of the samples.

A mean over all samples needs nothing: the training step weighs shards by their size. With one process nothing is
communicated. All processes have to call these functions together, and no gradient passes through them.
"""

import torch
import torch.distributed as dist
from jaxtyping import Int, Num
from torch import Tensor


def total(values: Num[Tensor, "*f"]) -> Num[Tensor, "*f"]:
    """The sum over all processes of what each has summed over its samples."""
    if dist.is_initialized():
        values = values.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(values)
    return values


def at_least_one(counts: Num[Tensor, "*f"], samples: int) -> Num[Tensor, "*f"]:
    """What a sum over samples of a kind is divided by for their mean: how many of them the whole batch has, one at least,
    times the share in all samples of the `samples` that this process has."""
    if not dist.is_initialized():
        return counts.clamp_min(1)
    return total(counts).clamp_min(1) * (samples / total(torch.tensor(samples, device=counts.device)))


def shared_key(key: Int[Tensor, "b"]) -> Int[Tensor, "1"]:
    """The key of the first sample of the whole batch, for draws that all processes share."""
    key = key[:1].clone()
    if dist.is_initialized():
        dist.broadcast(key, 0)
    return key
