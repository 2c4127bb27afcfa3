"""Adam and L-BFGS of torch, step for step, that do not load torch's compiler.

torch wraps some methods of its optimizers so that `torch.compile` can tell them apart from a model; the first call of each
then imports the compiler, for longer than most tables take to learn. Here the functions below the wrappers are called.
"""

import inspect
from typing import Any

import torch

__all__ = ["LBFGS", "Adam"]


class _Plain(torch.optim.Optimizer):
    """An optimizer whose methods are those of torch without wrappers."""

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)


class Adam(_Plain, torch.optim.Adam):
    """`torch.optim.Adam`, except for steps that are differentiated themselves."""

    def __init__(self, params: Any, **options: Any) -> None:
        if options.get("differentiable"):
            raise ValueError("differentiable=True is not supported here; use torch.optim.Adam")
        super().__init__(params, **options)

    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))


class LBFGS(_Plain, torch.optim.LBFGS):
    """`torch.optim.LBFGS`, whose step has no such wrapper."""
