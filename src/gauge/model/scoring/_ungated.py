"""The ungated pass that scorers share (Eq. 1) and the objective they differentiate."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from gauge.types import Classifier, Differentiated, Objective, Tokens


@runtime_checkable
class SupportsUngatedPass(Protocol):
    """What scorers read in place of a classifier, if it knows the gradient of its ungated pass in the tokens; None where
    autograd has to find it."""

    def ungated_pass(self, tokens: Tensor) -> Differentiated | None: ...


def saliency(logits: Float[Tensor, "b k"], target: Tensor, objective: Objective) -> Float[Tensor, "b"]:
    """-z of the target class, or its negative log-likelihood, which vanishes on confident samples (app. A)."""
    values = logits if check_objective(objective) == "logit" else logits.log_softmax(-1)
    return -values.gather(1, target[:, None])[:, 0]


def saliency_gradient(logits: Float[Tensor, "b k"], objective: Objective) -> Float[Tensor, "b k"]:
    """The gradient in the logits of the saliency of the class they predict; written out, as autograd takes more kernels."""
    classes = torch.arange(logits.shape[1], device=logits.device)
    chosen = -(logits.argmax(-1, keepdim=True) == classes).to(logits.dtype)  # torch 2.11 compiles `scatter` to float32
    return chosen if check_objective(objective) == "logit" else chosen + logits.softmax(-1).to(chosen)


def check_objective(objective: Objective) -> Objective:
    if objective not in ("logit", "nll"):
        raise ValueError(f"objective {objective!r} is unknown; use 'logit' or 'nll'")
    return objective


def ungated_gradient(classifier: Classifier, tokens: Tokens, objective: Objective) -> tuple[Tensor, Tokens]:
    """The logits, and the gradient of the predicted class's saliency in every token: one forward, one backward pass. No
    gradients of parameters are computed, the results are detached, and callers may be in `no_grad` or `inference_mode`."""
    with torch.no_grad():
        result = classifier.ungated_pass(tokens) if isinstance(classifier, SupportsUngatedPass) else None
        if result is not None:
            return result.output, result.pull_back(saliency_gradient(result.output, objective))
    with torch.inference_mode(False), torch.enable_grad():
        leaf = as_leaf(tokens)
        logits = classifier(leaf, None)
        weights = saliency_gradient(logits.detach(), objective)
        if logits.is_cuda:
            (gradient,) = torch.autograd.grad(logits, leaf, weights)
        else:  # the same gradient; torch imports sympy to check the shape of weights, which takes a second
            (gradient,) = torch.autograd.grad((logits * weights).sum(), leaf)
    return logits.detach(), gradient


def as_leaf(tokens: Tokens) -> Tokens:
    """The tokens as a leaf of the graph that requires gradients; tokens that already are such a leaf are returned
    unchanged."""
    if tokens.is_leaf and tokens.requires_grad:
        return tokens
    with torch.inference_mode(False):
        return (tokens.clone() if tokens.is_inference() else tokens.detach()).requires_grad_()


def displacement(tokens: Tokens, reference: Tensor | None) -> Tokens:
    """d = e' - e, from the units to their replacements (zero when None)."""
    tokens = tokens.detach()
    return -tokens if reference is None else reference.detach().to(tokens) - tokens
