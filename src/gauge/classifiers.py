"""What GAUGE needs from a classifier, and the options of the scorers of its units."""

from collections.abc import Callable
from typing import Literal, Protocol, TypedDict, runtime_checkable

from jaxtyping import Float
from torch import Tensor

Objective = Literal["logit", "nll"]
Tokens = Float[Tensor, "b n c"]
Classifier = Callable[..., Tensor]
"""(tokens [b, n, c], attn_bias broadcastable to [b, h, s, s] or None) -> logits [b, k]: what GAUGE needs of a model."""


@runtime_checkable
class SupportsAttention(Protocol):
    """A classifier that also returns the attention of its last block."""

    def __call__(self, tokens: Tensor, attn_bias: Tensor | None = None) -> Tensor: ...

    def attention(self, tokens: Tensor, attn_bias: Tensor | None = None) -> Tensor:
        """[b, h, s, s], after the softmax."""


@runtime_checkable
class SupportsEntry(SupportsAttention, Protocol):
    """A classifier whose passes over the same tokens share what does not depend on the bias."""

    def entry(self, tokens: Tensor) -> tuple[Tensor, ...]: ...

    def logits_from(self, entry: tuple[Tensor, ...], attn_bias: Tensor | None = None) -> Tensor: ...


class ScoreOptions(TypedDict, total=False):
    """The options of scorers; each scorer reads those that it needs. `reference` replaces a unit (zero unless given),
    `objective` is differentiated, `key` holds one integer per sample for random draws."""

    reference: Tensor | None
    objective: Objective
    key: Tensor | None
