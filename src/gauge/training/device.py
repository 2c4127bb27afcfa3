"""The device that work runs on."""

import os

import torch

LOCAL = f":{os.environ['LOCAL_RANK']}" if "LOCAL_RANK" in os.environ else ""  # this process on its machine


def pick_device(name: torch.device | str | None, gpus: int | None = None) -> torch.device:
    """The device of that name; without a name, a GPU if there is one, under torchrun one for each process. `gpus` is their
    number, if not that of torch.

    >>> pick_device(None, gpus=0), pick_device(None, gpus=2), pick_device("cuda:1", gpus=2)
    (device(type='cpu'), device(type='cuda'), device(type='cuda', index=1))
    """
    gpus = torch.cuda.device_count() if gpus is None else gpus
    try:
        device = torch.device(name or (f"cuda{LOCAL}" if gpus else "cpu"))
    except RuntimeError as error:
        raise ValueError(f"there is no device {name!r}; use cpu, cuda or cuda:NUMBER") from error
    if device.type == "cuda" and (device.index or 0) >= gpus:
        raise ValueError(f"{device} was asked for, but torch sees {gpus} GPUs; use cpu")
    return device
