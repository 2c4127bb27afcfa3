"""AttentionBias: adds a bias to the attention logits of any PyTorch model while it runs, with its code unchanged (Eq. 8)."""

import inspect
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

MULTI_HEAD = inspect.signature(F.multi_head_attention_forward)


class AttentionBias(TorchFunctionMode):
    """Within this context, `bias` (broadcastable to [b, h, q, s]) is added before the softmax of every attention over s
    keys: `scaled_dot_product_attention`, `nn.MultiheadAttention`, and any softmax over the last axis of a tensor
    [b, h, q, s], or [b, q, s] for one head. Masks that the model applies itself, for padding or causal order, stay. `calls`
    counts the attentions, `weights` are those of the last one, and `keys` [b, s, ...] what each of them compares with its
    queries (of a softmax its input, but for what a position says of itself), if they are to `keep`.

    >>> query = torch.zeros(1, 1, 3, 2)
    >>> with AttentionBias(torch.tensor([0.0, 0.0, -1e9]).expand(1, 1, 1, 3), keep=True) as attention:
    ...     _ = F.scaled_dot_product_attention(query, query, query)
    >>> attention.weights[0, 0, 0].tolist()
    [0.5, 0.5, 0.0]
    """

    def __init__(self, bias: Tensor, *, keep: bool = False) -> None:
        super().__init__()
        self.bias, self.keep = bias, keep
        self.calls = 0
        self.weights: Tensor | None = None
        self.keys: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        softmax = (F.softmax, torch.softmax, torch.Tensor.softmax)
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            return self._attend(*args, **kwargs)
        if func is F.multi_head_attention_forward:
            return self._attend_multi_head(MULTI_HEAD.bind(*args, **kwargs).arguments)
        if func in softmax:
            return self._softmax(func, *args, **kwargs)
        return func(*args, **kwargs)

    def _reaches(self, samples: int, queries: int, keys: int) -> bool:
        batch, _, rows, length = self.bias.shape
        return samples == batch and keys == length and rows in (1, queries)

    def _like(self, logits: Tensor) -> Tensor:
        return (self.bias if logits.ndim == 4 else self.bias[:, 0]).to(logits.dtype)

    def _count(self, keys: Tensor) -> None:
        self.calls += 1
        self.keys += [keys.detach()] if self.keep else []

    def _softmax(self, func: Any, input: Tensor, dim: int | None = None, *args: Any, **kwargs: Any) -> Tensor:
        over_keys = dim in (-1, input.ndim - 1) and input.ndim in (3, 4)
        if not over_keys or not self._reaches(input.shape[0], *input.shape[-2:]):
            return func(input, dim, *args, **kwargs)
        self._count(_off_diagonal(input).movedim(-1, 1))
        weights: Tensor = func(input + self._like(input), dim, *args, **kwargs)
        self.weights = _by_head(weights.detach()) if self.keep else None
        return weights

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **options: Any,
    ) -> Tensor:
        if query.ndim in (3, 4) and self._reaches(query.shape[0], query.shape[-2], key.shape[-2]):
            self._count(key.movedim(-2, 1))
            attn_mask, is_causal = self._mask(query, key, attn_mask, is_causal), False
            if self.keep:
                mask = _by_head(attn_mask) if query.ndim == 3 else attn_mask
                self.weights = _weights(_by_head(query), _by_head(key), mask, options.get("scale"))
        return F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, **options)

    def _attend_multi_head(self, inputs: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
        """nn.MultiheadAttention, whose queries and keys are [q, b, c]."""
        query, key = inputs["query"], inputs["key"]
        extra_keys = ("bias_k", "add_zero_attn", "static_k")  # of nn.MultiheadAttention: keys that are no tokens
        extended = any(inputs.get(name) is not None and inputs[name] is not False for name in extra_keys)
        if query.ndim != 3 or extended or not self._reaches(query.shape[1], query.shape[0], key.shape[0]):
            return F.multi_head_attention_forward(**inputs)
        self._count(key.transpose(0, 1))
        bias = self.bias.expand(-1, inputs["num_heads"], query.shape[0], -1).flatten(0, 1).to(query.dtype)
        if (mask := inputs.get("attn_mask")) is not None:
            bias = bias + _additive(mask, query.dtype)
        if (padding := inputs.get("key_padding_mask")) is not None:
            inputs["key_padding_mask"] = _additive(padding, query.dtype)
        inputs |= {"attn_mask": bias, "is_causal": False}
        if not self.keep:
            return F.multi_head_attention_forward(**inputs)
        wanted, mean = inputs.get("need_weights", True), inputs.get("average_attn_weights", True)
        output, weights = F.multi_head_attention_forward(
            **inputs | {"need_weights": True, "average_attn_weights": False}
        )
        assert weights is not None
        self.weights = weights.detach()
        return output, (weights.mean(1) if mean else weights) if wanted else None

    def _mask(self, query: Tensor, key: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Tensor:
        """The bias and the model's own mask as one additive mask."""
        bias = self._like(query)
        if is_causal:
            attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        if attn_mask is None:
            return bias
        return (_additive(~attn_mask, query.dtype) if attn_mask.dtype == torch.bool else attn_mask) + bias


def _off_diagonal(logits: Tensor) -> Tensor:
    queries, keys = logits.shape[-2:]
    same = torch.eye(queries, keys, dtype=torch.bool, device=logits.device)
    return logits.masked_fill(same, 0.0) if queries == keys else logits


def _by_head(values: Tensor) -> Tensor:
    """Those of one head with an axis of heads."""
    return values if values.ndim == 4 else values[:, None]


def _additive(hidden: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask that is True where keys are hidden, as one that is added; additive ones stay."""
    if hidden.dtype != torch.bool:
        return hidden
    return torch.zeros_like(hidden, dtype=dtype).masked_fill(hidden, -torch.inf)


@torch.no_grad()
def _weights(query: Tensor, key: Tensor, mask: Tensor, scale: float | None) -> Tensor:
    key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)  # grouped queries share keys
    logits = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    return (logits + mask).softmax(-1)
