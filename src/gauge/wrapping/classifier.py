"""TokenClassifier: a model of another library as a classifier of the tokens that enter its first block (Eq. 1)."""

import copy
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.backbones.blocks import find_blocks
from gauge.nn.interception import AttentionBias
from gauge.paper.gauge import GATE_FLOOR, attention_bias
from gauge.wrapping.inputs import altered, contents, differentiable, mapped, named_inputs, repeated, text_of, without

Output = Any  # what the model returns: logits, or a Hugging Face output


class _TokensReadError(Exception):
    """Ends a forward pass at the first block."""


class Average(NamedTuple):
    """What a head averages: the output of a module, over the tokens alone, or over the fixed positions, too."""

    module: str
    over_fixed: bool


class TokenClassifier:
    """(tokens, attn_bias) -> logits for one batch of inputs of `model`: a classifier for every scorer.

    `tokens` [b, n, c] are those of the batch without the first `fixed` ones, which are never gated (None: those that do not
    depend on the input, as CLS and registers, and at least one for a text). `visible` is False where they are padding,
    which is left to the model. With `average` the head reads a mean over the tokens, each weighted by its gate.
    With `reads_last` it reads that of the last visible token, which is therefore never gated: `readers` has it. Gates have
    to reach `attentions` attentions, if their number is known. `mask` is the name of the mask that tells what is
    padding, whose meaning differs between models; empty if there is none. Nothing stays on the model.
    """

    offers_attention = True

    def __init__(
        self,
        model: nn.Module,
        args: tuple[Any, ...],
        inputs: Mapping[str, Any],
        fixed: int | None,
        *,
        average: Average | None = None,
        reads_last: bool = False,
        attentions: int | None = None,
    ) -> None:
        self.model, self.average, self.reads_last, self.attentions = model, average, reads_last, attentions
        self.args = differentiable(args)
        self.inputs = {name: differentiable(value) for name, value in inputs.items() if name != "labels"}
        self.labels = inputs.get("labels")
        self.name, blocks = find_blocks(model)
        self.first_block, *_, self.last_block = [next(blocks.children()), *blocks.children()]
        self.depth = len(list(blocks.children()))
        sequence, others = self._embedded(self.args, self.inputs)
        self.named = named_inputs(model, self.args, self.inputs)
        _check_layout(model, blocks, sequence, self.named)
        self.positions_visible, self.mask = _visible(sequence, self.named, others)
        if fixed is not None and fixed > sequence.shape[1]:
            raise ValueError(
                f"fixed is {fixed}, but the blocks of {type(model).__name__} read {sequence.shape[1]} positions; fix fewer"
            )
        self._split(sequence, self._count_fixed(sequence.shape[1]) if fixed is None else fixed)

    def _split(self, sequence: Float[Tensor, "b s c"], fixed: int) -> None:
        self.fixed = fixed
        self.prefix: Float[Tensor, "b f c"] = sequence[:, :fixed]
        self.tokens: Float[Tensor, "b n c"] = sequence[:, fixed:]
        self.visible: Bool[Tensor, "b n"] = self.positions_visible[:, fixed:]

    def fixing(self, fixed: int) -> "TokenClassifier":
        """The same classifier with another number of positions that are never gated."""
        other = copy.copy(self)
        other._split(torch.cat([self.prefix, self.tokens], 1), fixed)
        return other

    def averaging(self, average: Average) -> "TokenClassifier":
        """The same classifier with a head that reads this average."""
        other = copy.copy(self)
        other.average = average
        return other

    def averages(self) -> list[Average]:
        """What the head may average: outputs of the last block, and of modules after it, with a vector for each position."""
        size, found = self.prefix.shape[1] + self.tokens.shape[1], list[nn.Module]()
        outside = [each for name, each in self.model.named_modules() if not name.startswith(self.name)]

        def note(module: nn.Module, args: Any, output: Any) -> None:
            states = _states(output)
            whole = isinstance(states, Tensor) and states.ndim == 3 and states.shape[1] == size
            if whole and (module is self.last_block or (found and any(module is each for each in outside))):
                found.append(module)

        with torch.nn.modules.module.register_module_forward_hook(note):
            self._run(self.tokens, {})
        names = [name for name, each in self.model.named_modules() if any(each is module for module in found)]
        return [Average(name, over_fixed) for name in names for over_fixed in (False, True)[: 1 + (self.fixed > 0)]]

    def embedded(self) -> Float[Tensor, "b s c"]:
        """The sequence that the first block reads in eval mode."""
        with evaluated(self.model), torch.no_grad():
            return self._embedded(self.args, self.inputs)[0]

    def altered(self, contents: list[Tensor], *, one_word: bool = False) -> "TokenClassifier":
        """The same classifier of the same tokens, in a model that gets inputs of other content."""
        other = copy.copy(self)
        other.args, other.inputs = altered((self.args, self.inputs), contents, one_word=one_word)
        return other

    def _count_fixed(self, length: int) -> int:
        """The number of leading positions that are the same for every input (CLS, registers), and at least 1 for a text."""
        name, text = type(self.model).__name__, text_of(self.named)
        words = [each.shape[1] for each in contents(self.named) if not each.is_floating_point()]
        count = text.shape[1] if text is not None else max([*words, _count_patches(self.model, self.named)])
        if length < count:
            raise ValueError(
                f"the blocks of {name} read {length} positions for {count} tokens or patches, so that a gate would not "
                "belong to one of them; fixed=0 gates these positions all the same"
            )
        inputs = contents(self.named)
        before, after = self.embedded(), self.altered(inputs).embedded()
        if before.shape != after.shape:
            raise ValueError(
                f"the blocks of {name} read {before.shape[1]} or {after.shape[1]} positions, depending on the content of "
                "its inputs, so that a gate would not belong to one of them; give the number of fixed positions as fixed="
            )
        same = (before == after).all(-1).all(0).long().cumprod(0)
        learned = int(same.sum())
        if learned == length > 1 and inputs:
            raise ValueError(
                f"the {length} positions that the blocks of {name} read do not depend on its inputs, so that a gate would "
                "not belong to a word or a patch; use a model whose blocks read its tokens"
            )
        return max(1, learned % length) if text is not None else learned % max(length, 1)

    @property
    def readers(self) -> Bool[Tensor, "b n"]:
        """The last visible token of each sample if the head reads it, otherwise none."""
        last = self.visible & (self.visible.cumsum(1) == self.visible.sum(1, keepdim=True))
        return last if self.reads_last else torch.zeros_like(last)

    @property
    def reading_positions(self) -> Bool[Tensor, "b s"]:
        """Those whose attention tells what the head sees: the last visible one if it reads that, otherwise the fixed ones,
        or all where none is fixed."""
        prefix = self.prefix.new_zeros(self.prefix.shape[:2]).bool()
        if self.reads_last:
            return torch.cat([prefix, self.readers], 1)
        return torch.cat([~prefix, torch.full_like(self.visible, self.fixed == 0)], 1)

    def __call__(self, tokens: Float[Tensor, "r n c"], attn_bias: Tensor | None = None) -> Float[Tensor, "r k"]:
        return logits_of(self.run(tokens, attn_bias), self.model)

    def attention(self, tokens: Float[Tensor, "b n c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b h s s"]:
        """The attention of the last block, where s counts all positions."""
        weights = self.attend(tokens, attn_bias).weights
        assert weights is not None
        heads_last = weights.shape[1] == weights.shape[3] != weights.shape[2]  # [b, s, h, s]
        return weights.transpose(1, 2) if heads_last else weights

    def attend(self, tokens: Float[Tensor, "b n c"], attn_bias: Tensor | None = None) -> AttentionBias:
        if attn_bias is None:
            attn_bias = tokens.new_zeros(tokens.shape[0], 1, 1, tokens.shape[1] + 1)
        with AttentionBias(self._over_sequence(attn_bias), keep=True) as attention:
            self._run(tokens, {})
        return attention

    def run(
        self, tokens: Float[Tensor, "r n c"], attn_bias: Float[Tensor, "r 1 1 m"] | None = None, *, labels: bool = False
    ) -> Output:
        """The model's own output; with `labels`, also its loss if it computes one."""
        extra = {"labels": self.labels} if labels and self.labels is not None else {}
        if attn_bias is None:
            return self._run(tokens, extra)
        gates = attn_bias[:, 0, 0, 1:].exp()
        with (
            AttentionBias(self._over_sequence(attn_bias)) as attention,
            self._averaged(lambda states: self.mixed(states, gates)),
        ):
            output = self._run(tokens, extra)
        if attention.calls < self.depth:
            raise ValueError(
                f"gates reach {attention.calls} attentions in the {self.depth} blocks of {type(self.model).__name__}; they "
                "need full attention over all tokens in every block, by scaled_dot_product_attention, nn.MultiheadAttention "
                "or a softmax over the last axis of [b, h, s, s] or, with one head, [b, s, s] (load a Hugging Face model "
                "with attn_implementation='sdpa' or 'eager')"
            )
        if self.attentions not in (None, attention.calls):
            raise ValueError(
                f"gates reach {attention.calls} attentions of {type(self.model).__name__}, but {self.attentions} in the "
                "batch that was checked; something else (experts, classes) has the size of this one, so pad it to another"
            )
        return output

    def _run(self, tokens: Tensor, labels: dict[str, Tensor]) -> Output:
        samples, rows = self.tokens.shape[0], tokens.shape[0]  # exact effects stack replacements
        sequence = torch.cat([repeated(self.prefix, samples, rows), tokens], 1)
        first_call = iter([True])  # ALBERT runs one block many times, and only its first run reads the tokens

        def replace(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if not next(first_call, False):
                return args, kwargs
            return ((sequence, *args[1:]), kwargs) if args else (args, kwargs | {_sequence_name(kwargs): sequence})

        with self.first_block.register_forward_pre_hook(replace, with_kwargs=True), _eagerly():
            args = [repeated(value, samples, rows) for value in self.args]
            inputs = {name: repeated(value, samples, rows) for name, value in self.inputs.items()}
            return self.model(*args, **inputs, **labels)

    def _embedded(self, args: tuple[Any, ...], inputs: Mapping[str, Any]) -> tuple[Tensor, Mapping[str, Any]]:
        """The sequence that the first block reads, and the block's inputs by name."""
        reads: list[tuple[Any, Mapping[str, Any]]] = []

        def stop(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            others = inspect.signature(block.forward).bind_partial(*args, **kwargs).arguments
            reads.append((args[0] if args else kwargs.get(_sequence_name(kwargs)), others))
            raise _TokensReadError

        hook = self.first_block.register_forward_pre_hook(stop, with_kwargs=True)
        with hook, _eagerly(), suppress(_TokensReadError):
            self.model(*args, **inputs)
        model = type(self.model).__name__
        if not reads:
            raise ValueError(
                f"{model} does not run the blocks in {self.name}; wrap needs a model whose largest list of "
                "blocks reads its input"
            )
        sequence, others = reads[0]
        if not isinstance(sequence, Tensor) or sequence.is_nested or sequence.ndim != 3:
            plain = isinstance(sequence, Tensor) and not sequence.is_nested
            got = f"tensors of shape {list(sequence.shape)}" if plain else f"a {type(sequence).__name__}"
            raise ValueError(f"{self.name} of {model} reads {got}; wrap needs blocks over sequences [b, s, c]")
        if not sequence.numel():
            raise ValueError(
                f"the blocks of {model} read a sequence of shape {list(sequence.shape)}; give at least one sample with one "
                "token"
            )
        return sequence, others

    def shortened(self, position: int) -> "TokenClassifier":
        """The same classifier of samples without a position, also in inputs that have an entry for each."""
        sequence, tokens = torch.cat([self.prefix, self.tokens], 1), self.tokens.shape[1]
        size = sequence.shape[1]

        def shorten(tensor: Tensor) -> Tensor:
            sized = tensor.ndim in (2, 3) and tensor.shape[1] in (size, tokens)
            return without(tensor, position - size + tensor.shape[1]) if sized else tensor

        other = copy.copy(self)
        other.args, other.inputs = mapped((self.args, self.inputs), shorten)
        other.positions_visible = without(self.positions_visible, position)
        other._split(without(sequence, position), self.fixed)
        return other

    def reread(self, attn_bias: Tensor | None, change: Callable[[Tensor], Tensor]) -> Float[Tensor, "b k"]:
        """The logits if the head reads other states than those that it averages."""
        gated = nullcontext() if attn_bias is None else AttentionBias(self._over_sequence(attn_bias))
        with gated, self._averaged(change):
            return logits_of(self._run(self.tokens, {}), self.model)

    def _averaged(self, change: Callable[[Tensor], Tensor]) -> AbstractContextManager[Any]:
        """With `average`, its module returns other states."""
        if self.average is None:
            return nullcontext()

        def replace(module: nn.Module, args: Any, output: Any) -> Any:
            changed = change(_states(output))
            return changed if isinstance(output, Tensor) else (changed, *output[1:])

        return self.model.get_submodule(self.average.module).register_forward_hook(replace)

    def mixed(self, states: Float[Tensor, "r s d"], gates: Float[Tensor, "r n"]) -> Float[Tensor, "r s d"]:
        """For a token g · its state + (1 - g) · the mean of all states, each weighted by its gate g: the mean of these is
        that weighted mean, and open gates change nothing. The states of padding stay as they are."""
        assert self.average is not None
        first = 0 if self.average.over_fixed else self.fixed
        visible = repeated(self.positions_visible[:, first:], self.visible.shape[0], states.shape[0])
        gates = F.pad(gates, (self.fixed - first, 0), value=1.0)
        weights = torch.where(visible, gates, 0.0)[..., None].to(states.dtype)
        tokens = states[:, first:]
        mean = (weights * tokens).sum(1, keepdim=True) / weights.sum(1, keepdim=True).clamp_min(GATE_FLOOR)
        weights = torch.where(visible[..., None], weights, 1.0)
        return torch.cat([states[:, :first], weights * tokens + (1 - weights) * mean], 1)

    def _over_sequence(self, attn_bias: Tensor) -> Tensor:
        """The bias of CLS and tokens, over all positions: 0 for the fixed ones, and for padding, which the model hides."""
        visible = repeated(self.visible, self.visible.shape[0], attn_bias.shape[0])
        return F.pad(attn_bias[..., 1:].masked_fill(~visible[:, None, None], 0.0), (self.fixed, 0))


def _states(output: Any) -> Any:
    """The first tensor of what a module returns."""
    return output[0] if isinstance(output, tuple) and output else output


@torch.no_grad()
def effects_of_closing(classifier: TokenClassifier, gates: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    """How far the probability of the predicted class falls when the gate of each token is closed: positive for a token that
    supports the prediction, 0 for padding and for the token that the head reads, whose gate stays open."""
    tokens, readers = classifier.tokens, classifier.readers
    samples, count, _ = tokens.shape
    if not count:  # of a text of one word, which stands where CLS does
        return gates
    before, target = classifier(tokens, attention_bias(gates)).float().softmax(1).max(1)
    after = []
    # a mask [s, s] for as many samples must not be stacked as theirs; otherwise, some 256 sequences a pass
    at_once = 1 if samples in (count, count + classifier.fixed) else max(1, 256 // samples)
    for closed in torch.arange(count, device=gates.device).split(at_once):
        keep = (torch.arange(count, device=gates.device) != closed[:, None])[:, None] | readers
        left = (keep * gates).flatten(0, 1)
        logits = classifier(tokens.repeat(len(closed), 1, 1), attention_bias(left))
        probabilities = logits.float().softmax(1).unflatten(0, (len(closed), samples))
        after.append(probabilities.gather(2, target.expand(len(closed), -1)[..., None])[..., 0])
    return before[:, None] - torch.cat(after).T


def logits_of(output: Output, model: nn.Module) -> Float[Tensor, "b k"]:
    logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", output)
    if isinstance(logits, tuple | list):  # as (logits, attention), or behind a loss
        widths = [each.shape[1] for each in logits if isinstance(each, Tensor) and each.ndim == 2]
        if len({*widths}) > 1:
            raise ValueError(
                f"{type(model).__name__} returns tensors of {widths} columns, and wrap cannot know which are the logits; "
                "return those alone, or as .logits"
            )
        logits = next((each for each in logits if isinstance(each, Tensor) and each.ndim), None)
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        got = f"a tensor of shape {list(logits.shape)}" if isinstance(logits, Tensor) else type(output).__name__
        raise ValueError(
            f"wrap needs a classifier that returns logits [b, k], but {type(model).__name__} returns {got}; use a model "
            "with a classification head, or a module that adds one"
        )
    if logits.shape[1] < 2:
        raise ValueError(
            f"wrap needs two logits or more, but {type(model).__name__} returns {list(logits.shape)}, whose probabilities "
            "are all 1; train it with num_labels=2, or add a zero logit"
        )
    return logits


def _count_patches(model: nn.Module, inputs: Mapping[str, Any]) -> int:
    """The number of patches of an image, 0 if the configuration of the model does not have their size."""
    images = [value for value in inputs.values() if isinstance(value, Tensor) and value.ndim == 4]
    configs = (getattr(module, "config", None) for module in model.modules())
    sizes = [size for config in configs if (size := getattr(config, "patch_size", None))]
    if not images or not sizes:
        return 0
    height, width = (sizes[0], sizes[0]) if isinstance(sizes[0], int) else sizes[0]
    return int(images[0].shape[-2] // height) * int(images[0].shape[-1] // width)


def _check_layout(model: nn.Module, blocks: nn.Module, sequence: Tensor, inputs: Mapping[str, Any]) -> None:
    # len() would be a constant in an exported graph
    sizes = [value.shape[0] for value in inputs.values() if isinstance(value, Tensor) and value.ndim > 1]
    transposed = any(isinstance(each, nn.MultiheadAttention) and not each.batch_first for each in blocks.modules())
    if transposed or (sizes and sequence.shape[0] not in sizes and sequence.shape[1] in sizes):
        raise ValueError(
            f"the blocks of {type(model).__name__} read [s, b, c]; wrap needs [b, s, c] (in torch, batch_first=True)"
        )


def _visible(
    sequence: Tensor, inputs: Mapping[str, Any], of_block: Mapping[str, Any]
) -> tuple[Bool[Tensor, "b s"], str]:
    """Where the sequence is no padding: by the mask among the inputs of the model or, if that has another shape (as that of
    a waveform), by the one that the first block gets; and the name of that mask."""
    size = sequence.shape[:2]
    own = inputs.get("attention_mask")
    if isinstance(own, Tensor) and own.shape == size:
        of_block = {"attention_mask": own}
    hidden = -1e4  # what is added to an attention logit from here on hides the key; relative positions add less
    padding = ("src_key_padding_mask", "key_padding_mask")  # True or -inf where they are not
    # arguments of blocks: True, 1 or 0.0 where keys are visible
    others = tuple(name for name, value in of_block.items() if isinstance(value, Tensor) and value.dtype == torch.bool)
    for names, visible in ((("attention_mask", "attn_mask", "mask"), True), (padding, False), (others, True)):
        for name, mask in ((name, of_block[name]) for name in names if isinstance(of_block.get(name), Tensor)):
            if mask.ndim == 4 and mask.shape[-1] == size[1] and mask.shape[0] in (1, size[0]):
                shown = mask if mask.dtype == torch.bool else mask > hidden
                return shown.flatten(1, 2).any(1).expand(size), name
            if mask.shape == size:
                # stays a tensor, as an export cannot branch on it
                additive = (mask <= 0).all() & mask.is_floating_point()
                # onnxruntime has no Where of truth values
                return (additive & (mask > hidden)) | (~additive & (mask.bool() == visible)), name
    return torch.ones(size, dtype=torch.bool, device=sequence.device), ""


def _sequence_name(inputs: Mapping[str, Any]) -> str:
    """The name of the sequence among the named inputs of a block, empty if there is none."""
    names = (name for name, value in inputs.items() if isinstance(value, Tensor) and value.is_floating_point())
    return next(names, "")


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


@contextmanager
def _eagerly() -> Iterator[None]:
    """Every call runs as written: torch's nn.TransformerEncoder without its fast path, compiled modules uncompiled."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    compiled = "torch._dynamo" in sys.modules and not torch.compiler.is_compiling()
    try:
        with torch.compiler.set_stance("force_eager") if compiled else nullcontext():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)
