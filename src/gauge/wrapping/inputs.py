"""The inputs of a model of another library: by name, repeated, and with other content."""

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn


def named_inputs(model: nn.Module, args: tuple[Any, ...], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """All inputs by the names that the model gives them, those in a mapping by its keys. A module that passes on all it gets
    (`nn.DataParallel`) has the names of the one inside."""
    parameters = inspect.signature(model.forward).parameters
    children = list(model.children())
    variable = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    if args and {each.kind for each in parameters.values()} <= variable and len(children) == 1:
        return named_inputs(children[0], args, inputs)
    named: dict[str, Any] = {}
    for name, value in (inspect.signature(model.forward).bind_partial(*args).arguments | dict(inputs)).items():
        several = value if isinstance(value, tuple | list) else ()
        named |= value if isinstance(value, Mapping) else {name: value}
        named |= {f"{name}.{index}": each for index, each in enumerate(several)}
    return named


def mapped(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """The value with the function applied to every tensor in it."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(mapped(each, function) for each in value)
    if isinstance(value, Mapping):
        result: Any = copy.copy(value)
        for name, each in value.items():
            result[name] = mapped(each, function)
        return result
    return value


def repeated(value: Any, samples: int, rows: int) -> Any:
    """The value of so many samples stacked to so many rows; tensors without an axis of samples (a causal mask) stay."""
    times = rows // samples

    def stacked(tensor: Tensor) -> Tensor:
        size = tensor.shape[0] if tensor.ndim else 0
        heads = tensor.ndim > 2 and size % samples == 0  # nn.MultiheadAttention takes masks [b * h, s, s]
        return tensor.repeat(times, *[1] * (tensor.ndim - 1)) if size == samples or heads else tensor

    if times == 1:
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(each, str) for each in value):
        return value * times
    return mapped(value, stacked)


def without(value: Tensor, position: int) -> Tensor:
    """The tensor without a position of its second axis."""
    return torch.cat([value[:, :position], value[:, position + 1 :]], 1)


def differentiable(value: Any) -> Any:
    """Tensors that were made in inference mode as such that the scoring pass can use."""
    with torch.inference_mode(False):
        return mapped(value, lambda tensor: tensor.clone() if tensor.is_inference() else tensor)


def text_of(named: Mapping[str, Any]) -> Tensor | None:
    """The text among the inputs, as numbers of words or as vectors."""
    return next((named[name] for name in ("input_ids", "inputs_embeds") if isinstance(named.get(name), Tensor)), None)


def contents(named: Mapping[str, Any]) -> list[Tensor]:
    """The inputs that are words or real numbers."""
    about = ("mask", "type", "position")  # parts of the names of inputs that tell about others
    own = [each for name, each in named.items() if isinstance(each, Tensor) and not any(part in name for part in about)]
    reals = [each for each in own if each.is_floating_point() and each.ndim > 1]
    words = [each for each in own if each.dtype in (torch.int32, torch.int64) and each.ndim == 2]
    return [*reals, *words]


def altered(value: Any, contents: list[Tensor], *, one_word: bool = False) -> Any:
    """The inputs in `value` with other content: other real numbers, or the words of a text in another order. With `one_word`
    one word of each text is replaced, by the next one, and all others stay, so that its padding and its end do."""
    others = {id(each): _replaced(each) if one_word else _shuffled(each) for each in contents}
    return mapped(value, lambda tensor: others.get(id(tensor), tensor))


def _shuffled(value: Tensor) -> Tensor:
    if not value.is_floating_point():
        rolled = value.flatten().roll(1).view_as(value)
        return (value - 1).abs() if torch.equal(rolled, value) else rolled  # one word alone
    noise = torch.randn(value.shape, generator=torch.Generator().manual_seed(0)).to(value)
    spread = value.float().std(correction=0).nan_to_num()  # blank images have none
    return noise * torch.where(spread > 0, spread, 1.0).to(value)


def _replaced(value: Tensor) -> Tensor:
    if value.is_floating_point():
        return _shuffled(value)
    return torch.cat([value[:, :1], value[:, 2:3], value[:, 2:]], 1) if value.shape[1] > 2 else value
