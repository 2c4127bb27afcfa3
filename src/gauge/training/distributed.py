"""Training in several processes, started by torchrun: the rank of this process, and its shard of every batch.

Every process holds the data and computes the same batches and masks, takes its shard of each, and adds its gradients to
those of the others. The same global batch therefore gives the same model, up to rounding, with any number of processes.
"""

import atexit
import os
import sys
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

T = TypeVar("T", bool, float)


def join_group(device: "torch.device") -> None:
    """Joins the processes that torchrun has started, once; does nothing without torchrun."""
    if _several() and _group() is None:
        import torch
        import torch.distributed as dist
        from torch.distributed import PrefixStore, rendezvous  # type: ignore[attr-defined]

        store, rank, size = next(rendezvous("env://"))
        # the store keeps the addresses of processes that were killed, which restarted ones must not read
        store = PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
        if device.type == "cuda" and device.index is not None:
            torch.cuda.set_device(device)  # nccl sends barriers and Python objects from the current device
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", store=store, rank=rank, world_size=size)
        atexit.register(dist.destroy_process_group)


def _group() -> Any:
    """The functions of `torch.distributed`, None unless this process has joined a group, for which torch is imported."""
    torch = sys.modules.get("torch")
    return torch.distributed if torch is not None and torch.distributed.is_initialized() else None


def world_size() -> int:
    """The number of processes that train together."""
    group = _group()
    return 1 if group is None else int(group.get_world_size())


def is_main() -> bool:
    """Whether this process writes files and reports progress."""
    return not _several() or int(os.environ.get("RANK", "0")) == 0


def _several() -> bool:
    """Whether torchrun has started several processes; a rank alone may come from whatever started this one."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def barrier() -> None:
    """Return when all processes have reached this point."""
    if world_size() > 1:
        _group().barrier()


def broadcast(value: T) -> T:
    """The value of the first process, in all processes."""
    if world_size() == 1:
        return value
    decision = [value]
    _group().broadcast_object_list(decision)
    return decision[0]


def synchronise(module: "nn.Module") -> None:
    """Copy the parameters and buffers of the first process to all processes."""
    if world_size() > 1:
        import torch

        for tensor in (*module.parameters(), *module.buffers()):
            values = tensor.detach().view(torch.uint8) if tensor.dtype == torch.bool else tensor.detach()
            _group().broadcast(values, 0)


def shard(batch: "Tensor") -> "Tensor":
    """The shard of a batch's indices or keys that belongs to this process; the whole batch if it has fewer samples than
    there are processes."""
    return batch.tensor_split(world_size())[_group().get_rank()] if 1 < world_size() <= len(batch) else batch


def sum_gradients(module: "nn.Module") -> None:
    """Add up the gradients of all processes, each of which weighs its loss by its share of the batch."""
    gradients = [each.grad for each in module.parameters() if each.grad is not None]
    if world_size() > 1 and gradients:
        from torch.nn.utils import parameters_to_vector, vector_to_parameters

        values = parameters_to_vector(gradients)
        _group().all_reduce(values)
        vector_to_parameters(values, gradients)
