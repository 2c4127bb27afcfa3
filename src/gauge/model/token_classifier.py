"""TokenClassifier: a model of another library as a classifier of the tokens that enter its first block (Eq. 1)."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.model.backbones.blocks import find_blocks
from gauge.model.nn.interception import AttentionBias

Output = Any  # what the model returns: logits, or a Hugging Face output


class _TokensReadError(Exception):
    """Ends a forward pass at the first block."""


class TokenClassifier:
    """(tokens, attn_bias) -> logits for one batch of inputs of `model`: a classifier for every scorer.

    `tokens` [b, n, c] are those of the batch without the first `fixed` ones, which are never gated (None: those before the
    patches of an image, and one for a text). `visible` is False where they are padding. Nothing stays on the model.
    """

    offers_attention = True

    def __init__(self, model: nn.Module, args: tuple[Any, ...], inputs: Mapping[str, Any], fixed: int | None) -> None:
        self.model, self.args = model, args
        self.inputs = {name: value for name, value in inputs.items() if name != "labels"}
        self.labels = inputs.get("labels")
        name, blocks = find_blocks(model)
        self.first_block, self.depth = next(blocks.children()), len(list(blocks.children()))
        sequence = self._embedded()
        if sequence.ndim != 3:
            raise ValueError(
                f"{name} of {type(model).__name__} reads tensors of shape {list(sequence.shape)}; wrap needs Transformer "
                "blocks over sequences [b, s, c]"
            )
        named = inspect.signature(model.forward).bind_partial(*args).arguments | self.inputs
        self.fixed = _count_fixed(model, sequence.shape[1], named) if fixed is None else fixed
        self.prefix: Float[Tensor, "b f c"] = sequence[:, : self.fixed]
        self.tokens: Float[Tensor, "b n c"] = sequence[:, self.fixed :]
        mask = named.get("attention_mask")
        if mask is None or mask.shape != sequence.shape[:2]:
            mask = sequence.new_ones(sequence.shape[:2])
        self.visible: Bool[Tensor, "b n"] = mask[:, self.fixed :].bool()

    def __call__(self, tokens: Float[Tensor, "r n c"], attn_bias: Tensor | None = None) -> Float[Tensor, "r k"]:
        return logits_of(self.run(tokens, attn_bias), self.model)

    def attention(self, tokens: Float[Tensor, "b n c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b h s s"]:
        """The attention of the last block, where s counts all positions."""
        bias = self._over_sequence(
            tokens.new_zeros(len(tokens), 1, 1, tokens.shape[1] + 1) if attn_bias is None else attn_bias
        )
        with AttentionBias(bias, keep=True) as attention:
            self._run(tokens, {})
        assert attention.weights is not None
        return attention.weights

    def run(
        self, tokens: Float[Tensor, "r n c"], attn_bias: Float[Tensor, "r 1 1 m"] | None = None, *, labels: bool = False
    ) -> Output:
        """The model's own output; with `labels`, also its loss if it computes one."""
        given = {"labels": self.labels} if labels and self.labels is not None else {}
        if attn_bias is None:
            return self._run(tokens, given)
        with AttentionBias(self._over_sequence(attn_bias)) as attention:
            output = self._run(tokens, given)
        if attention.calls < self.depth:
            raise ValueError(
                f"gates reach {attention.calls} attentions in the {self.depth} blocks of {type(self.model).__name__}; they "
                "need full attention over all tokens in every block, by scaled_dot_product_attention or a softmax (load a "
                "Hugging Face model with attn_implementation='sdpa' or 'eager')"
            )
        return output

    def _run(self, tokens: Tensor, labels: dict[str, Tensor]) -> Output:
        times = len(tokens) // len(self.tokens)  # exact effects stack replacements
        sequence = torch.cat([_repeated(self.prefix, times), tokens], 1)

        def replace(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return ((sequence, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": sequence})

        with _hooked(self.first_block, replace):
            args = [_repeated(value, times) for value in self.args]
            return self.model(*args, **{name: _repeated(value, times) for name, value in self.inputs.items()}, **labels)

    def _embedded(self) -> Tensor:
        seen: list[Tensor] = []

        def stop(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            seen.append(args[0] if args else kwargs["hidden_states"])
            raise _TokensReadError

        with _hooked(self.first_block, stop), suppress(_TokensReadError):
            self.model(*self.args, **self.inputs)
        return seen[0]

    def _over_sequence(self, attn_bias: Tensor) -> Tensor:
        """The bias of CLS and tokens, over all positions: 0 for the fixed ones."""
        return F.pad(attn_bias[..., 1:], (self.fixed, 0))


def logits_of(output: Output, model: nn.Module) -> Float[Tensor, "b k"]:
    """The logits in the output of a classifier."""
    logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", output)
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        got = f"a tensor of shape {list(logits.shape)}" if isinstance(logits, Tensor) else type(output).__name__
        raise ValueError(
            f"wrap needs a classifier that returns logits [b, k], but {type(model).__name__} returns {got}; use a model "
            "with a classification head, or a module that adds one"
        )
    return logits


def _count_fixed(model: nn.Module, length: int, inputs: Mapping[str, Any]) -> int:
    """The number of positions before the patches of an image, 1 for a text."""
    if isinstance(count := getattr(model, "num_prefix_tokens", None), int):
        return count
    images = [value for value in inputs.values() if isinstance(value, Tensor) and value.ndim == 4]
    sizes = [
        size for module in model.modules() if (size := getattr(getattr(module, "config", None), "patch_size", None))
    ]
    if not images or not sizes:
        return 1
    height, width = (sizes[0], sizes[0]) if isinstance(sizes[0], int) else sizes[0]
    return length - (images[0].shape[-2] // height) * (images[0].shape[-1] // width)


def _repeated(value: Any, times: int) -> Any:
    return value.repeat(times, *[1] * (value.ndim - 1)) if isinstance(value, Tensor) and times > 1 else value


@contextmanager
def _hooked(module: nn.Module, hook: Any) -> Iterator[None]:
    handle = module.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()
