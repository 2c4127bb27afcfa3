"""Training in several processes, started by torchrun: the rank of this process, and its shard of every batch.

Every process holds the data and computes the same batches and masks, takes its shard of each, and averages gradients with
the others. The same global batch therefore gives the same model, up to rounding, with any number of processes.
"""

import atexit
import inspect
import os
from contextlib import nullcontext
from typing import Any, TypeVar

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed import PrefixStore, rendezvous  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode

from gauge.model.nn.shards import total
from gauge.types import Batch, Shard, Trainable

T = TypeVar("T", bool, float)

# Buffers may hold the targets of all samples; those that change are computed alike, so they are not sent at every step.
NEWER = "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters  # torch 2.13
KEEP_BUFFERS: dict[str, Any] = {"forward_sync_buffers" if NEWER else "broadcast_buffers": False}
DROPOUTS = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d)  # all of which multiply by noise


def join_group(device: torch.device) -> None:
    """Joins the processes that torchrun has started, once; does nothing without torchrun."""
    if _several() and not dist.is_initialized():
        store, rank, size = next(rendezvous("env://"))
        # the store keeps the addresses of processes that were killed, which restarted ones must not read
        store = PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
        if device.type == "cuda" and device.index is not None:
            torch.cuda.set_device(device)  # nccl sends barriers and Python objects from the current device
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", store=store, rank=rank, world_size=size)
        atexit.register(dist.destroy_process_group)


def world_size() -> int:
    """The number of processes that train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_main() -> bool:
    """Whether this process writes files and reports progress."""
    return not _several() or int(os.environ.get("RANK", "0")) == 0


def _several() -> bool:
    """Whether torchrun has started several processes; a rank alone may come from whatever started this one."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def barrier() -> None:
    """Return when all processes have reached this point."""
    if world_size() > 1:
        dist.barrier()


def broadcast(value: T) -> T:
    """The value of the first process, in all processes."""
    if world_size() == 1:
        return value
    decision = [value]
    dist.broadcast_object_list(decision)
    return decision[0]


def synchronise(module: nn.Module) -> None:
    """Copy the parameters and buffers of the first process to all processes."""
    if world_size() > 1:
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.detach().view(torch.uint8) if tensor.dtype == torch.bool else tensor.detach(), 0)


def shard(batch: Tensor) -> Tensor:
    """The shard of a batch's indices or keys that belongs to this process; the whole batch if it has fewer samples than
    there are processes."""
    return batch.tensor_split(world_size())[dist.get_rank()] if 1 < world_size() <= len(batch) else batch


def own_shard(key: Tensor) -> Shard | None:
    """Which samples of the batch with these keys belong to this process; None if all do."""
    if len(own := shard(torch.arange(len(key)))) == len(key):
        return None
    return Shard(int(own[0]), int(own[-1]) + 1, len(key), key[:1])


def all_reduce_mean(value: Tensor, share: float) -> Tensor:
    """The mean over all processes, weighted by their shares of the batch."""
    if world_size() == 1:
        return value
    weighted = value * (share / world_size())
    dist.all_reduce(weighted)
    return weighted


class WholeBatch(TorchFunctionMode):
    """Inside the block BatchNorm and dropout act on the samples of a shard as they act on the whole batch, on any device and
    in any module: mean and variance are those of all processes, and masks are drawn for all samples.

    Dropout is recognised where the first axis holds the samples, once or several times in a row. Draws inside attention are
    those of torch.
    """

    def __init__(self, shard: Shard) -> None:
        super().__init__()
        self.shard = shard

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.batch_norm:
            return self._batch_norm(*args, **kwargs)
        return self._dropout(func, *args, **kwargs) if func in DROPOUTS else func(*args, **kwargs)

    def _dropout(
        self, func: Any, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        own = self.shard.stop - self.shard.start
        if not training or input.shape[0] % own:
            return func(input, p, training, inplace)
        times = input.shape[0] // own
        noise = func(input.new_ones(times * self.shard.size, *input.shape[1:]), p)
        noise = noise.unflatten(0, (times, -1))[:, self.shard.start : self.shard.stop].flatten(0, 1)
        return input.mul_(noise) if inplace else input * noise

    def _batch_norm(
        self,
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
        own = values.new_full((1,), values.numel() / values.shape[-1])
        sums = total(torch.cat([values.sum(axes), own]), self.shard)
        mean, count = sums[:-1] / sums[-1], sums[-1].detach()
        centred = values - mean
        variance = total(centred.square().sum(axes), self.shard) / count
        if running_mean is not None and running_var is not None:
            running_mean.lerp_(mean.detach().to(running_mean), momentum)
            running_var.lerp_((variance.detach() * count / (count - 1)).to(running_var), momentum)
        normal = centred * (variance + eps).rsqrt()
        if weight is not None and bias is not None:
            normal = normal * weight + bias
        return normal.movedim(-1, 1).to(x.dtype)


class Loss(nn.Module):
    """`method.loss` as the forward pass of a module, which is what DistributedDataParallel wraps."""

    def __init__(self, method: Trainable) -> None:
        super().__init__()
        self.method = method

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        with nullcontext() if batch.shard is None else WholeBatch(batch.shard):
            return self.method.loss(batch)


def parallel_loss(method: Trainable) -> nn.Module:
    """The loss of a method; with several processes its backward pass averages gradients over them."""
    if world_size() == 1:
        return Loss(method)
    name = type(method).__name__
    compares = method.looks_across_batch or type(method).end_epoch is not Trainable.end_epoch
    if compares and not method.gathers_shards:
        raise ValueError(
            f"{name} compares samples of a batch or counts over an epoch, which needs all samples in one process; "
            "train it without torchrun, or gather them in its loss (gauge.model.nn.shards) and set gathers_shards"
        )
    return DistributedDataParallel(Loss(method), find_unused_parameters=True, **KEEP_BUFFERS)
