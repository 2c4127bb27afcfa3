"""The ungated pass that scorers share (Eq. 1) and the objective they differentiate."""

import torch
from jaxtyping import Float
from torch import Tensor

from gauge.types import Classifier, Objective


def saliency(logits: Float[Tensor, "b k"], target: Tensor, objective: Objective) -> Float[Tensor, "b"]:
    """-z of the target class, or its negative log-likelihood (app. A: that one fades on confident samples)."""
    if objective not in ("logit", "nll"):
        raise ValueError(f"objective {objective!r} is unknown; use 'logit' or 'nll'")
    values = logits if objective == "logit" else logits.log_softmax(-1)
    return -values.gather(1, target[:, None])[:, 0]


def ungated_gradient(
    classifier: Classifier, tokens: Float[Tensor, "b n c"], objective: Objective
) -> tuple[Float[Tensor, "b k"], Float[Tensor, "b n c"]]:
    """The logits, and how the saliency of the predicted class changes with every token: one forward, one backward.

    Works on a copy of the tokens and asks for their gradient alone: no parameter's `.grad` is touched, no weight
    gradient computed, nothing is left attached. Callers may hold `no_grad` or `inference_mode`.
    """
    with torch.inference_mode(False), torch.enable_grad():
        leaf = tokens.detach().clone().requires_grad_()
        logits = classifier(leaf, None)
        target = logits.detach().argmax(-1)
        (gradient,) = torch.autograd.grad(saliency(logits, target, objective).sum(), leaf)
    return logits.detach(), gradient


def displacement(tokens: Float[Tensor, "b n c"], reference: Tensor | None) -> Float[Tensor, "b n c"]:
    """d = e' - e, from the units to what replaces them (zero when None)."""
    tokens = tokens.detach()
    return -tokens if reference is None else reference.detach().to(tokens) - tokens
