"""Evidence scores in captum's interface: `TaylorEvidence(model).attribute(inputs, target=...)` (Eqs. 2 and 4)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from gauge.paper.gauge import taylor_evidence
from gauge.paper.scoring.exact import exact_effects
from gauge.types import Classifier


class _Attribution(ABC):
    """`forward_func` maps tokens [b, n, c] to logits [b, k], such as the part of a model that follows its embeddings."""

    def __init__(self, forward_func: Callable[..., Tensor]) -> None:
        self.forward_func = forward_func

    def _classifier(self, inputs: Tensor, target: int | Tensor | None, additional: Any) -> Classifier:
        """A classifier whose only class is the target, so that scorers, which read the predicted class, score it."""
        extra = () if additional is None else additional if isinstance(additional, tuple) else (additional,)
        if target is None:
            with torch.no_grad():
                target = self.forward_func(inputs, *extra).argmax(-1)
        columns = torch.as_tensor(target, device=inputs.device).expand(len(inputs))

        def classify(tokens: Tensor, attn_bias: Tensor | None = None) -> Tensor:
            times = len(tokens) // len(columns)  # exact effects stack replacements
            repeated = [x.repeat(times, *[1] * (x.ndim - 1)) if isinstance(x, Tensor) else x for x in extra]
            return self.forward_func(tokens, *repeated).gather(1, columns.repeat(times)[:, None])

        return classify

    def attribute(
        self,
        inputs: Float[Tensor, "b n c"],
        baselines: Tensor | None = None,
        target: int | Tensor | None = None,
        additional_forward_args: Any = None,
        **options: Any,
    ) -> Float[Tensor, "b n"]:
        """The score of every token for `target` (the predicted class by default). `baselines` replace tokens, zero by
        default; tensors in `additional_forward_args` have one row for each sample."""
        return self._scores(self._classifier(inputs, target, additional_forward_args), inputs, baselines, **options)

    @abstractmethod
    def _scores(self, classifier: Classifier, tokens: Tensor, reference: Tensor | None) -> Tensor: ...


class TaylorEvidence(_Attribution):
    """The first-order effect of replacing each token, without cancellation: the absolute values of captum's
    `InputXGradient`, summed over the channels of a token.

    >>> weight = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> TaylorEvidence(lambda tokens: tokens.sum(1) @ weight).attribute(torch.tensor([[[3.0, 1.0], [5.0, 2.0]]]), target=1)
    tensor([[1., 2.]])
    """

    def _scores(self, classifier: Classifier, tokens: Tensor, reference: Tensor | None) -> Tensor:
        return taylor_evidence(classifier, tokens, reference=reference).scores


class ExactEffects(_Attribution):
    """The signed effect of replacing each token, one forward pass for each: captum's `FeatureAblation` of whole tokens.
    The score is the logit of the target minus that without the token. `attribute` also takes `perturbations_per_eval`, the
    number of tokens that one forward pass replaces."""

    def _scores(
        self,
        classifier: Classifier,
        tokens: Tensor,
        reference: Tensor | None,
        perturbations_per_eval: int | None = None,
    ) -> Tensor:
        return exact_effects(classifier, tokens, reference=reference, units_at_once=perturbations_per_eval)
