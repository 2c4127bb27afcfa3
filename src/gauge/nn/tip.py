"""TIP's published checkpoints: the weights of its encoders under the names that they have here."""

import pickle
from pathlib import Path

import torch
from torch import Tensor, nn

IMAGE = "encoder_imaging."  # what the names of its encoders start with
NAMES = {  # in TIP's table encoder -> here
    "cat_embedding.": "categories.",
    "con_proj.": "scale.",
    "cls_token": "cls",
    "mask_special_token": "missing",
    "column_embedding.": "positions.",
    "transformer_blocks.": "blocks.",
    ".norm1.": ".attention_norm.",
    ".norm2.": ".mlp_norm.",
    ".attn.proj.": ".attention.project.",
    ".attn.": ".attention.",
    ".mlp.fc1.": ".mlp.0.",
    ".mlp.fc2.": ".mlp.2.",
}


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors in a state file or in the `state_dict` of a checkpoint; nothing in the file is executed."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, pickle.UnpicklingError) as error:
        raise ValueError(
            f"{path} cannot be read, or holds more than tensors; give a plain state file: "
            "torch.save(checkpoint['state_dict'], ...)"
        ) from error
    if not isinstance(state, dict):
        raise ValueError(f"{path} holds a {type(state).__name__}, not a state; save model.state_dict()")
    inner = state.get("state_dict", state)
    return {name: values for name, values in inner.items() if isinstance(values, Tensor)}


def encoder_state(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The part of a state whose names start with the prefix, without it; the whole state if none does."""
    return {name.removeprefix(prefix): values for name, values in state.items() if name.startswith(prefix)} or state


def load_tip_table(network: nn.Module, path: Path) -> None:
    """Load the weights of TIP's table encoder into a `TabularTransformer` of its sizes.

    NOTE[PAPER] tip-encoders: DyMo's code can start the encoders of its backbone from TIP's checkpoint, and whether the
    published model of CAD did is not known. Here they start from random weights unless `weights` names the file.
    """
    own, loaded = network.state_dict(), {}
    # what the names of its encoder start with
    for name, values in encoder_state(read_state(path), "encoder_tabular.").items():
        for theirs, ours in NAMES.items():
            name = name.replace(theirs, ours)
        loaded[name] = values.flatten() if name in ("cls", "missing") else values
    wrong = sorted({*own} ^ {*loaded}) or [name for name in own if own[name].shape != loaded[name].shape]
    if wrong:
        raise ValueError(
            f"{path} does not fit the table encoder: {wrong[0]!r} ({len(wrong)} such) is missing, unknown or has another "
            "shape; give TIP's checkpoint for this table, and its width, depth and heads"
        )
    network.load_state_dict(loaded)
