"""Adapters: Transformers of other libraries as backbones, with the attention bias passed on correctly."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.types import Backbone


class FromFunction(Backbone):
    """Any function of (sequence, attn_bias)."""

    def __init__(self, function: Callable[[Tensor, Tensor | None], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b s c"]:
        return self.function(sequence, attn_bias)


class FromTorch(Backbone):
    """A stock `nn.TransformerEncoder` (batch_first=True). Its fused inference path, which would treat every non-zero float
    of a mask as "masked" and so silently hide all keys but CLS, is switched off during the call.

    >>> layer = nn.TransformerEncoderLayer(16, 2, batch_first=True, norm_first=True)
    >>> FromTorch(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))(torch.zeros(3, 5, 16)).shape
    torch.Size([3, 5, 16])
    """

    def __init__(self, encoder: nn.TransformerEncoder) -> None:
        super().__init__()
        if not isinstance(encoder, nn.TransformerEncoder):
            raise ValueError(f"FromTorch takes nn.TransformerEncoder, not {type(encoder).__name__}; see FromFunction")
        if not all(layer.self_attn.batch_first for layer in encoder.layers):
            raise ValueError("the encoder's layers expect [s, b, c]; make them with batch_first=True")
        self.encoder = encoder

    def forward(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b s c"]:
        with _without_fast_path():
            return self.encoder(sequence, mask=self._mask(sequence, attn_bias))

    def attention(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b h s s"]:
        mask = self._mask(sequence, attn_bias)
        with _without_fast_path():
            for layer in self.encoder.layers[:-1]:
                sequence = layer(sequence, src_mask=mask)
            last: Any = self.encoder.layers[-1]
            read = last.norm1(sequence) if last.norm_first else sequence
            return last.self_attn(read, read, read, attn_mask=mask, average_attn_weights=False)[1]

    def _mask(self, sequence: Tensor, attn_bias: Tensor | None) -> Tensor | None:
        """The bias in torch's shape: [b · heads, s, s]."""
        if attn_bias is None:
            return None
        layer: Any = self.encoder.layers[0]
        samples, length, _ = sequence.shape
        return attn_bias.to(sequence.dtype).expand(samples, layer.self_attn.num_heads, length, length).flatten(0, 1)


class FromHuggingFace(Backbone):
    """The encoder stack of a Hugging Face model (such as `BertModel(...).encoder`), called with a 4-D float mask: a 2-D one
    would be read as 0/1 and drop CLS, whose bias is 0."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        if {"input_ids", "pixel_values"} & set(inspect.signature(encoder.forward).parameters):
            raise ValueError(f"{type(encoder).__name__} is a whole model that embeds its own input; pass model.encoder")
        _require_argument(encoder, "attention_mask", "pass model.encoder")
        self.encoder = encoder

    def forward(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b s c"]:
        samples, length, _ = sequence.shape
        if attn_bias is not None:
            attn_bias = attn_bias.to(sequence.dtype).expand(samples, -1, length, length)
        return self.encoder(sequence, attention_mask=attn_bias)[0]


class FromTimm(Backbone):
    """The blocks of a timm Vision Transformer (`vit.blocks`, and `vit.norm` if wanted), timm 1.0.16 or newer."""

    def __init__(self, blocks: Iterable[nn.Module], norm: nn.Module | None = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        for block in self.blocks:
            _require_argument(block, "attn_mask", "use timm 1.0.16 or newer and a plain ViT")
        self.norm = norm or nn.Identity()

    def forward(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b s c"]:
        mask = None if attn_bias is None else attn_bias.to(sequence.dtype)
        for block in self.blocks:
            sequence = block(sequence, attn_mask=mask)
        return self.norm(sequence)


def _require_argument(module: nn.Module, argument: str, cure: str) -> None:
    if argument not in inspect.signature(module.forward).parameters:
        name = f"{type(module).__name__}.forward"
        raise ValueError(f"{name} takes no {argument!r}, so gates cannot reach its attention; {cure}")


@contextmanager
def _without_fast_path() -> Iterator[None]:
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
