"""The `repr` of values: how many samples they hold, and the range of their numbers."""

from torch import Tensor


def count_in_words(logits: Tensor, over_units: Tensor | None) -> str:
    numbers = {"sample": len(logits), "class": logits.shape[1]}
    if over_units is not None:
        numbers["unit"] = over_units.shape[1]
    plural = {"sample": "samples", "class": "classes", "unit": "units"}
    return ", ".join(f"{count} {noun if count == 1 else plural[noun]}" for noun, count in numbers.items())


def range_in_words(values: Tensor) -> str:
    if not values.numel():
        return "none"
    values = values.detach().float()
    return f"{values.min().item():.3g} to {values.max().item():.3g}, mean {values.mean().item():.3g}"
