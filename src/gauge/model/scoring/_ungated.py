"""The ungated pass that scorers share (Eq. 1) and the objective they differentiate."""

import torch
from jaxtyping import Float
from torch import Tensor

from gauge.types import Classifier, Objective, Tokens


def saliency(logits: Float[Tensor, "b k"], target: Tensor, objective: Objective) -> Float[Tensor, "b"]:
    """-z of the target class, or its negative log-likelihood, which vanishes on confident samples (app. A)."""
    if objective not in ("logit", "nll"):
        raise ValueError(f"objective {objective!r} is unknown; use 'logit' or 'nll'")
    values = logits if objective == "logit" else logits.log_softmax(-1)
    return -values.gather(1, target[:, None])[:, 0]


def ungated_gradient(classifier: Classifier, tokens: Tokens, objective: Objective) -> tuple[Tensor, Tokens]:
    """The logits, and the gradient of the predicted class's saliency in every token: one forward, one backward pass. No
    gradients of parameters are computed, the results are detached, and callers may be in `no_grad` or `inference_mode`."""
    with torch.inference_mode(False), torch.enable_grad():
        leaf = tokens.detach().clone().requires_grad_()
        logits = classifier(leaf, None)
        target = logits.detach().argmax(-1)
        (gradient,) = torch.autograd.grad(saliency(logits, target, objective).sum(), leaf)
    return logits.detach(), gradient


def displacement(tokens: Tokens, reference: Tensor | None) -> Tokens:
    """d = e' - e, from the units to their replacements (zero when None)."""
    tokens = tokens.detach()
    return -tokens if reference is None else reference.detach().to(tokens) - tokens
