"""Network: CLS + backbone + head (Eq. 1), the one classifier that every method shares, also with some units hidden."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.backbones.adapters import FromFunction
from gauge.nn.initialise import small_parameter
from gauge.types import Backbone, SupportsAttention


class Network(nn.Module):
    """(tokens, attn_bias) -> logits: prepends CLS, runs the backbone, reads the first position (Eq. 1).

    The backbone is a `Backbone` or any function of (sequence, attn_bias); `check_backbone` tests its contract.

    >>> from gauge import Transformer
    >>> network = Network(Transformer(16, heads=2, depth=2), dim=16, num_classes=3)
    >>> network(torch.zeros(5, 4, 16)).shape
    torch.Size([5, 3])
    """

    def __init__(self, backbone: Callable[..., Tensor], dim: int, num_classes: int) -> None:
        super().__init__()
        self.backbone = backbone if isinstance(backbone, Backbone) else FromFunction(backbone)
        self.cls_token = small_parameter(dim)
        self.cls_position = small_parameter(dim)  # the published position table has a row for CLS
        self.head = nn.Linear(dim, num_classes)

    def forward(self, tokens: Float[Tensor, "b n c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b k"]:
        return self.head(self.features(tokens, attn_bias))

    def features(self, tokens: Float[Tensor, "b n c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b c"]:
        """The CLS state that the head reads."""
        return self.backbone.cls(self.sequence(tokens), attn_bias)

    def states(self, tokens: Float[Tensor, "b n c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b s c"]:
        """The states of CLS and of every unit."""
        return self.backbone(self.sequence(tokens), attn_bias)

    @property
    def offers_attention(self) -> bool:
        return self.backbone.offers_attention

    def attention(self, tokens: Float[Tensor, "b n c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b h s s"]:
        """The attention of the last block, if the backbone offers it."""
        return self.backbone.attention(self.sequence(tokens), attn_bias)

    def sequence(self, tokens: Float[Tensor, "b n c"]) -> Float[Tensor, "b s c"]:
        """The tokens after CLS."""
        if tokens.shape[-1] != len(self.cls_token):
            raise ValueError(
                f"the tokens have width {tokens.shape[-1]}, the network dim={len(self.cls_token)}; make them equal"
            )
        cls = (self.cls_token + self.cls_position).to(tokens.dtype).expand(tokens.shape[0], 1, -1)
        return torch.cat([cls, tokens], 1)


def hiding_bias(visible: Bool[Tensor, "b n"]) -> Float[Tensor, "b 1 1 s"]:
    """The bias that hides invisible units from attention; CLS is always visible."""
    with torch.inference_mode(False):  # the scoring pass differentiates through it, also for callers in inference mode
        # finite, unlike -inf: it can be added to another bias, and a row without a visible key is still a number
        return F.pad(torch.where(visible.clone(), 0.0, -1e9), (1, 0))[:, None, None, :]


class Biased:
    """A classifier that adds a fixed bias, such as `hiding_bias`, to the bias it is given."""

    def __init__(self, classifier: SupportsAttention, fixed: Tensor) -> None:
        self.classifier, self.fixed = classifier, fixed

    def __call__(self, tokens: Tensor, attn_bias: Tensor | None = None) -> Tensor:
        return self.classifier(tokens, self._bias(tokens, attn_bias))

    @property
    def offers_attention(self) -> bool:
        return getattr(self.classifier, "offers_attention", True)

    def attention(self, tokens: Tensor, attn_bias: Tensor | None = None) -> Tensor:
        return self.classifier.attention(tokens, self._bias(tokens, attn_bias))

    def _bias(self, tokens: Tensor, attn_bias: Tensor | None) -> Tensor:
        times = tokens.shape[0] // self.fixed.shape[0]  # exact effects stack replacements
        fixed = self.fixed if times == 1 else self.fixed.repeat(times, 1, 1, 1)
        return fixed if attn_bias is None else fixed + attn_bias
