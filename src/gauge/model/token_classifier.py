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
from gauge.model.gates import GATE_FLOOR, attention_bias
from gauge.model.nn.interception import AttentionBias

Output = Any  # what the model returns: logits, or a Hugging Face output
LEARNED_TOKENS = ("cls_token", "distillation_token", "register_tokens")  # parameters of models in Hugging Face and timm
SEQUENCES_AT_ONCE = 256  # in a pass that closes gates one by one
TOLERANCE = {torch.bfloat16: 0.05, torch.float16: 0.02}  # relative difference of logits that rounding explains


class _TokensReadError(Exception):
    """Ends a forward pass at the first block."""


class TokenClassifier:
    """(tokens, attn_bias) -> logits for one batch of inputs of `model`: a classifier for every scorer.

    `tokens` [b, n, c] are those of the batch without the first `fixed` ones, which are never gated (None: those before the
    patches of an image, and one for a text). `visible` is False where they are padding. With `pools` the head reads what
    the last block returns for each token weighted by its gate. Nothing stays on the model.
    """

    offers_attention = True

    def __init__(
        self,
        model: nn.Module,
        args: tuple[Any, ...],
        inputs: Mapping[str, Any],
        fixed: int | None,
        *,
        pools: bool = False,
    ) -> None:
        self.model, self.args, self.pools = model, args, pools
        self.inputs = {name: value for name, value in inputs.items() if name != "labels"}
        self.labels = inputs.get("labels")
        name, blocks = find_blocks(model)
        self.first_block, *_, self.last_block = [next(blocks.children()), *blocks.children()]
        self.depth = len(list(blocks.children()))
        sequence = self._embedded(name)
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
        extra = {"labels": self.labels} if labels and self.labels is not None else {}
        if attn_bias is None:
            return self._run(tokens, extra)
        gates = attn_bias[:, 0, 0, 1:].exp()
        with AttentionBias(self._over_sequence(attn_bias)) as attention, self._pooled(gates):
            output = self._run(tokens, extra)
        if attention.calls < self.depth:
            raise ValueError(
                f"gates reach {attention.calls} attentions in the {self.depth} blocks of {type(self.model).__name__}; they "
                "need full attention over all tokens in every block, by scaled_dot_product_attention or a softmax (load a "
                "Hugging Face model with attn_implementation='sdpa' or 'eager')"
            )
        return output

    def _run(self, tokens: Tensor, labels: dict[str, Tensor]) -> Output:
        times = tokens.shape[0] // self.tokens.shape[0]  # exact effects stack replacements
        sequence = torch.cat([_repeated(self.prefix, times), tokens], 1)
        first_call = iter([True])  # ALBERT runs one block many times, and only its first run reads the tokens

        def replace(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if not next(first_call, False):
                return args, kwargs
            return ((sequence, *args[1:]), kwargs) if args else (args, kwargs | {_sequence_name(kwargs): sequence})

        with _hooked(self.first_block, replace):
            args = [_repeated(value, times) for value in self.args]
            return self.model(*args, **{name: _repeated(value, times) for name, value in self.inputs.items()}, **labels)

    def _embedded(self, name: str) -> Tensor:
        seen: list[Tensor] = []

        def stop(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            seen.append(args[0] if args else kwargs[_sequence_name(kwargs)])
            raise _TokensReadError

        with _hooked(self.first_block, stop), suppress(_TokensReadError):
            self.model(*self.args, **self.inputs)
        if not seen:
            raise ValueError(
                f"{type(self.model).__name__} does not run the blocks in {name}; wrap needs a model whose largest list of "
                "blocks reads its input"
            )
        return seen[0]

    @contextmanager
    def _pooled(self, gates: Float[Tensor, "r n"]) -> Iterator[None]:
        """With `pools`, the last block returns for a token g · its state + (1 - g) · the mean of all states, each weighted
        by its gate g: the mean over tokens is then that weighted mean, and open gates change nothing."""
        if not self.pools:
            yield
            return

        def mix(block: nn.Module, args: Any, output: Any) -> Any:
            states = output if isinstance(output, Tensor) else output[0]
            weights = gates[..., None].to(states.dtype)
            tokens = states[:, self.fixed :]
            mean = (weights * tokens).sum(1, keepdim=True) / weights.sum(1, keepdim=True).clamp_min(GATE_FLOOR)
            mixed = torch.cat([states[:, : self.fixed], weights * tokens + (1 - weights) * mean], 1)
            return mixed if isinstance(output, Tensor) else (mixed, *output[1:])

        handle = self.last_block.register_forward_hook(mix)
        try:
            yield
        finally:
            handle.remove()

    def _over_sequence(self, attn_bias: Tensor) -> Tensor:
        """The bias of CLS and tokens, over all positions: 0 for the fixed ones."""
        return F.pad(attn_bias[..., 1:], (self.fixed, 0))


@torch.no_grad()
def check_logits(classifier: TokenClassifier) -> None:
    """Raise an error unless the classifier without gates answers as its model does."""
    model = classifier.model
    with evaluated(model):
        own = logits_of(model(*classifier.args, **classifier.inputs), model).float()
        difference = float((classifier(classifier.tokens).float() - own).abs().max())
    if difference > TOLERANCE.get(classifier.tokens.dtype, 1e-3) * (1 + float(own.abs().max())):
        raise ValueError(
            f"{type(model).__name__} read through its tokens answers differently from the model itself, by up to "
            f"{difference:.3g} in a logit; wrap does not support it, as something beside the tokens enters its blocks"
        )


@torch.no_grad()
def measured_leak(classifier: TokenClassifier) -> float:
    """How much of a token's effect on the logits is left when its gate is closed, as a share: 0 where gates reach all that
    the token reaches. Measured by changing the content of the middle token of each sample."""
    tokens, visible = classifier.tokens, classifier.visible
    samples, middle = torch.arange(len(tokens), device=tokens.device), visible.sum(1) // 2
    moved, gates = tokens.clone(), torch.where(visible, 1.0, 0.0)
    moved[samples, middle] = moved[samples, middle].flip(-1)
    closed = gates.clone()
    closed[samples, middle] = 0.0

    def effect(gates: Tensor) -> float:
        bias = attention_bias(gates).to(tokens.dtype)
        return float((classifier(tokens, bias) - classifier(moved, bias)).float().norm())

    with evaluated(classifier.model):
        opened = effect(gates)
        return effect(closed) / opened if opened > 0 else 0.0


@torch.no_grad()
def effects_of_closing(classifier: TokenClassifier, gates: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    """How far the probability of the predicted class falls when the gate of each token is closed: positive for a token that
    supports the prediction, 0 for padding."""
    tokens = classifier.tokens
    samples, count, _ = tokens.shape
    before, target = classifier(tokens, attention_bias(gates)).float().softmax(1).max(1)
    after = []
    for closed in torch.arange(count, device=gates.device).split(max(1, SEQUENCES_AT_ONCE // samples)):
        keep = torch.arange(count, device=gates.device) != closed[:, None]
        left = (keep[:, None] * gates).flatten(0, 1)
        logits = classifier(tokens.repeat(len(closed), 1, 1), attention_bias(left))
        probabilities = logits.float().softmax(1).unflatten(0, (len(closed), samples))
        after.append(probabilities.gather(2, target.expand(len(closed), -1)[..., None])[..., 0])
    return before[:, None] - torch.cat(after).T


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
    """The number of positions before the patches of an image, 1 for a text, and otherwise that of the learned tokens (CLS,
    distillation, registers) that the model puts before its input."""
    if isinstance(count := getattr(model, "num_prefix_tokens", None), int):
        return count
    if "input_ids" in inputs:
        return 1
    images = [value for value in inputs.values() if isinstance(value, Tensor) and value.ndim == 4]
    sizes = [
        size for module in model.modules() if (size := getattr(getattr(module, "config", None), "patch_size", None))
    ]
    if images and sizes:
        height, width = (sizes[0], sizes[0]) if isinstance(sizes[0], int) else sizes[0]
        return length - (images[0].shape[-2] // height) * (images[0].shape[-1] // width)
    return sum(
        parameter.shape[-2]
        for name, parameter in model.named_parameters()
        if name.rpartition(".")[2] in LEARNED_TOKENS and parameter.ndim > 1
    )


def _sequence_name(inputs: Mapping[str, Any]) -> str:
    """The name of the sequence among the named inputs of a block."""
    return next(name for name, value in inputs.items() if isinstance(value, Tensor) and value.is_floating_point())


@contextmanager
def evaluated(model: nn.Module) -> Iterator[None]:
    """The model in eval mode, every module of it as before afterwards."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _repeated(value: Any, times: int) -> Any:
    return value.repeat(times, *[1] * (value.ndim - 1)) if isinstance(value, Tensor) and times > 1 else value


@contextmanager
def _hooked(module: nn.Module, hook: Any) -> Iterator[None]:
    handle = module.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()
