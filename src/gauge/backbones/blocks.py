"""find_blocks(): where the Transformer blocks of a model of another library are, and which part of it is an encoder."""

import inspect

from torch import Tensor, nn


def find_blocks(model: nn.Module) -> tuple[str, nn.Module]:
    """The name and the module of the largest list of blocks of one class; the name is empty if there is none.

    >>> layer = nn.TransformerEncoderLayer(8, 2, batch_first=True)
    >>> find_blocks(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))[0]
    'layers'
    """
    lists = [(name, module) for name, module in model.named_modules() if _is_list_of_blocks(module)]
    return max(lists, key=lambda named: sum(map(Tensor.numel, named[1].parameters())), default=("", model))


def _is_list_of_blocks(module: nn.Module) -> bool:
    kinds = {type(child) for child in module.children()}
    deep = all(next(child.children(), None) is not None for child in module.children())
    return isinstance(module, nn.ModuleList | nn.Sequential) and len(kinds) == 1 and deep


def embeds_its_input(module: nn.Module) -> bool:
    """Whether a Hugging Face module takes token numbers or pixels instead of a sequence of vectors."""
    # arguments of models that embed their own input
    return bool({"input_ids", "pixel_values"} & set(inspect.signature(module.forward).parameters))


def advice_for(model: nn.Module) -> str:
    """What to pass as a backbone instead of a whole model."""
    name, blocks = find_blocks(model)
    if blocks is model:
        return "pass its stack of Transformer blocks"
    parent = name.rpartition(".")[0]
    part = parent if parent and not embeds_its_input(model.get_submodule(parent)) else name
    if part == name and needs_positions(blocks):
        return "its blocks need positions from it, so gate the whole model with gauge.wrap(model)"
    return f"pass model.{part}, or gate the whole model with gauge.wrap(model)"


def needs_positions(blocks: nn.Module) -> bool:
    """Whether the blocks take positions (rotary, relative) that the model around them computes."""
    return any(name.startswith("position") for name in inspect.signature(next(blocks.children()).forward).parameters)
