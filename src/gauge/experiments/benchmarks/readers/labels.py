"""Which training samples keep their labels."""

import numpy as np
import torch
from jaxtyping import Int
from sklearn.model_selection import train_test_split
from torch import Tensor


def labelled_rows(labels: Int[Tensor, "rows"], count: int, *, seed: int) -> Int[Tensor, "count"]:
    """The rows of `count` samples, in order, with classes in the proportions of the whole; a pure function of the seed."""
    classes = labels.cpu().numpy()
    try:
        rows, _ = train_test_split(np.arange(len(classes)), train_size=count, stratify=classes, random_state=seed)
    except ValueError as error:
        rule = f"labels={count} of {len(classes)} training samples cannot be drawn"
        raise ValueError(f"{rule} ({error}); ask for at least one of each class and fewer than all") from error
    return torch.from_numpy(np.sort(rows))
