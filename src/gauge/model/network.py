"""Network: CLS + backbone + head (Eq. 1), the one classifier that every method shares."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.model.backbones.adapters import FromFunction
from gauge.model.nn.attention import small_parameter
from gauge.types import Backbone


class Network(nn.Module):
    """(tokens, attn_bias) -> logits: prepends CLS, runs the backbone, reads the first position.

    The backbone is a `Backbone` or any function of (sequence, attn_bias); `check_backbone` tests its contract.

    >>> from gauge.model.backbones.transformer import Transformer
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

    def entry(self, tokens: Float[Tensor, "b n c"]) -> tuple[Tensor, ...]:
        """What does not depend on the bias, for `logits_from`."""
        return self.backbone.entry(self.sequence(tokens))

    def logits_from(self, entry: tuple[Tensor, ...], attn_bias: Tensor | None = None) -> Float[Tensor, "b k"]:
        """The logits, from the `entry` of the tokens."""
        return self.head(self.backbone.cls_from(entry, attn_bias))

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
