"""Which training samples keep their labels."""

import numpy as np
import torch
from jaxtyping import Bool, Int
from sklearn.model_selection import train_test_split
from torch import Tensor


def labelled_rows(
    labels: Int[Tensor, "rows"], count: int, groups: Int[Tensor, "rows"] | None = None, *, seed: int
) -> Bool[Tensor, "rows"]:
    """The rows of `count` samples or, with `groups`, of all samples of `count` groups, with classes in the proportions of
    the whole; a pure function of the seed."""
    numbers = np.arange(len(labels)) if groups is None else groups.cpu().numpy()
    names, first = np.unique(numbers, return_index=True)
    classes, what = labels.cpu().numpy()[first], "training samples" if groups is None else "groups of training samples"
    try:
        chosen, _ = train_test_split(np.arange(len(names)), train_size=count, stratify=classes, random_state=seed)
    except ValueError as error:
        rule = f"labels={count} of {len(names)} {what} cannot be drawn"
        raise ValueError(f"{rule} ({error}); ask for at least one of each class and fewer than all") from error
    return torch.from_numpy(np.isin(numbers, names[chosen])).to(labels.device)
