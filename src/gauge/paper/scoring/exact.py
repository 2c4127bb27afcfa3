"""Exact counterfactual effects (Eq. 2): each unit is actually replaced, in a forward pass of its own."""

from typing import Unpack

import torch
from jaxtyping import Float
from torch import Tensor

from gauge.paper.gauge import saliency
from gauge.types import Classifier, ScoreOptions, Tokens
from gauge.values import Evidence

__all__ = ["exact_evidence", "exact_effects"]


def exact_evidence(classifier: Classifier, tokens: Tokens, **options: Unpack[ScoreOptions]) -> Evidence:
    """The magnitude of the exact effect of every unit."""
    effects, logits = _effects(classifier, tokens, None, **options)
    return Evidence(effects.abs(), logits)


def exact_effects(
    classifier: Classifier, tokens: Tokens, *, units_at_once: int | None = None, **options: Unpack[ScoreOptions]
) -> Float[Tensor, "b n"]:
    """Return the signed change of the saliency objective when each unit is replaced, the predicted class held fixed.

    Parameters
    ----------
    classifier, tokens, **options
        As for `taylor_evidence`.
    units_at_once
        How many units are replaced in one pass: 1 runs n separate passes, as timed in the paper; None batches as many as
        fit moderate memory.

    Returns
    -------
    Tensor
        [b, n], positive where replacing the unit lowers the logit of the predicted class.

    Examples
    --------
    >>> from gauge import Network, Transformer
    >>> network = Network(Transformer(8, heads=2, depth=1), dim=8, num_classes=3)
    >>> exact_effects(network, torch.randn(5, 4, 8)).shape
    torch.Size([5, 4])
    """
    return _effects(classifier, tokens, units_at_once, **options)[0]


@torch.no_grad()
def _effects(
    classifier: Classifier, tokens: Tensor, units_at_once: int | None, **options: Unpack[ScoreOptions]
) -> tuple[Tensor, Tensor]:
    reference, objective = options.get("reference"), options.get("objective", "logit")
    samples, count, _ = tokens.shape
    units_at_once = units_at_once or max(1, min(count, 4096 // samples))  # rows at once
    logits = classifier(tokens, None)
    target = logits.argmax(-1)
    before = saliency(logits.float(), target, objective)
    substitute = torch.zeros_like(tokens) if reference is None else reference.to(tokens).expand_as(tokens)
    after = []
    for start in range(0, count, units_at_once):
        units = torch.arange(start, min(start + units_at_once, count), device=tokens.device)
        replaced = torch.arange(count, device=tokens.device) == units[:, None]
        intervened = torch.where(replaced[:, None, :, None], substitute, tokens).flatten(0, 1)
        outcome = classifier(intervened, None).float()
        after.append(saliency(outcome, target.repeat(len(units)), objective).unflatten(0, (len(units), samples)))
    return torch.cat(after).T - before[:, None], logits
