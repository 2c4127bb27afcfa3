"""The minimum of a smooth function of few parameters, by L-BFGS with a strong-Wolfe line search."""

import inspect
from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class LBFGS(torch.optim.LBFGS):
    """That of torch, without the wrapper that imports torch's compiler (see `gauge.training.step.AdamW`)."""

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)


@torch.enable_grad()
def minimize(objective: Callable[[], Tensor], parameters: Sequence[Tensor], *, max_iter: int) -> None:
    """Change `parameters` in place until `objective()`, which reads them, is minimal.

    >>> x = torch.zeros(1, requires_grad=True)
    >>> minimize(lambda: (x - 3).square().sum(), [x], max_iter=10)
    >>> x.detach()
    tensor([3.])
    """
    optimizer = LBFGS(parameters, max_iter=max_iter, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        for parameter in parameters:
            parameter.grad = None
        cost = objective()
        cost.backward()
        return cost

    optimizer.step(closure)
