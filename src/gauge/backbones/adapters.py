"""Adapters: Transformers of other libraries as backbones, with the attention bias passed on correctly."""

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.backbones.blocks import advice_for, embeds_its_input, find_blocks, needs_positions
from gauge.nn.interception import AttentionBias
from gauge.types import Backbone


class FromFunction(Backbone):
    """Any function of (sequence, attn_bias)."""

    def __init__(self, function: Callable[[Tensor, Tensor | None], Tensor]) -> None:
        super().__init__()
        if isinstance(function, nn.TransformerEncoder):
            raise ValueError("nn.TransformerEncoder does not take an attention bias as it is; use FromTorch(encoder)")
        self.function = function

    def forward(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b s c"]:
        return self.function(sequence, attn_bias)


class FromTorch(Backbone):
    """A stock `nn.TransformerEncoder` as a backbone. Its fused inference path, which would treat every non-zero float of a
    mask as "masked" and so silently hide all keys but CLS, is switched off during the call.

    Parameters
    ----------
    encoder
        Made of layers with `batch_first=True`.

    Examples
    --------
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


class _Blocks(Backbone):
    """Blocks that take no bias themselves: `AttentionBias` adds it to their attention."""

    @abstractmethod
    def run(self, sequence: Tensor) -> Tensor:
        """The sequence after all blocks."""

    def forward(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b s c"]:
        if attn_bias is None:
            return self.run(sequence)
        with AttentionBias(attn_bias.expand(sequence.shape[0], -1, -1, -1)) as attention:
            output = self.run(sequence)
        if not attention.calls:
            raise ValueError(
                f"gates reach no attention in {type(self).__name__}: its blocks call neither "
                "scaled_dot_product_attention nor a softmax over [b, h, s, s]; load a Hugging Face model with "
                "attn_implementation='sdpa', or pass a function with FromFunction"
            )
        return output

    def attention(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b h s s"]:
        samples, length, _ = sequence.shape
        bias = sequence.new_zeros(samples, 1, 1, length) if attn_bias is None else attn_bias.expand(samples, -1, -1, -1)
        with AttentionBias(bias, keep=True) as attention:
            self.run(sequence)
        assert attention.weights is not None
        return attention.weights


class FromHuggingFace(_Blocks):
    """The encoder of a Hugging Face model, such as `BertModel(...).encoder`, or the list of its layers, such as
    `ViTModel(...).layers`, where the model has no encoder. A whole model is gated by `gauge.wrap`."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        if isinstance(encoder, nn.TransformerEncoder):
            raise ValueError("nn.TransformerEncoder is torch's own; use FromTorch(encoder)")
        self.is_list = isinstance(encoder, nn.ModuleList)
        if self.is_list and needs_positions(encoder):
            raise ValueError(
                "these layers need positions from their model; gate the whole model with gauge.wrap(model)"
            )
        if not self.is_list and embeds_its_input(encoder):
            name = type(encoder).__name__
            raise ValueError(f"{name} is a whole model that embeds its own input; {advice_for(encoder)}")
        if not self.is_list and find_blocks(encoder)[1] is encoder:
            raise ValueError(
                f"{type(encoder).__name__} holds no Transformer blocks; pass model.encoder or model.layers"
            )
        self.encoder = encoder
        mask = inspect.signature(encoder.forward).parameters.get("attention_mask")
        self.needs_mask = mask is not None and mask.default is mask.empty

    def run(self, sequence: Tensor) -> Tensor:
        if self.is_list:
            return _in_order(self.encoder.children(), sequence)
        if not self.needs_mask:
            return _first(self.encoder(sequence))
        every = torch.ones(sequence.shape[:2], dtype=torch.long, device=sequence.device)
        return _first(self.encoder(sequence, attention_mask=every))


class FromTimm(_Blocks):
    """The blocks of a timm Vision Transformer (`vit.blocks`, and `vit.norm` if wanted). A whole model is gated by
    `gauge.wrap`."""

    def __init__(self, blocks: Iterable[nn.Module], norm: nn.Module | None = None) -> None:
        super().__init__()
        if isinstance(blocks, nn.Module) and not isinstance(blocks, nn.ModuleList | nn.Sequential):
            name = type(blocks).__name__
            raise ValueError(f"FromTimm takes the blocks of a Vision Transformer, not {name}; {advice_for(blocks)}")
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm or nn.Identity()

    def run(self, sequence: Tensor) -> Tensor:
        return self.norm(_in_order(self.blocks, sequence))


def _in_order(blocks: Iterable[nn.Module], sequence: Tensor) -> Tensor:
    for block in blocks:
        sequence = _first(block(sequence))
    return sequence


def _first(output: Any) -> Tensor:
    return output if isinstance(output, Tensor) else output[0]


@contextmanager
def _without_fast_path() -> Iterator[None]:
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
