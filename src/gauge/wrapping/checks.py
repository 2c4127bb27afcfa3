"""What a batch shows about a model of another library: whether it can be gated, and what passes a closed gate."""

from contextlib import suppress
from functools import partial

import torch
from torch import Tensor

from gauge.paper.gauge import attention_bias
from gauge.wrapping.classifier import TokenClassifier, evaluated, logits_of
from gauge.wrapping.inputs import contents, without

ROUNDING = 1e-6  # absolute difference that it explains


@torch.no_grad()
def check_logits(classifier: TokenClassifier) -> None:
    """Raise an error unless the classifier without gates, and with open ones, has the logits of its model."""
    model, name = classifier.model, type(classifier.model).__name__
    with evaluated(model):
        own = logits_of(model(*classifier.args, **classifier.inputs), model)
        dtypes, device = [classifier.tokens.dtype, own.dtype], own.device.type
        own, logits = own.float(), classifier(classifier.tokens).float()
        open_gates = torch.ones(classifier.visible.shape, device=own.device)
        opened = classifier(classifier.tokens, attention_bias(open_gates)).float()
    if len(own) != len(classifier.tokens):
        raise ValueError(
            f"{name} has logits of {len(own)} samples from {len(classifier.tokens)} sequences; wrap needs one for each "
            "sample, so wrap the part of the model that reads one"
        )
    if (own >= 0).all() and torch.allclose(own.sum(1), own.new_ones(len(own)), atol=1e-2):
        raise ValueError(
            f"{name} returns probabilities, whose softmax would be taken again; wrap needs logits, so leave the softmax out "
            "of the model, or return the logarithms of its probabilities"
        )
    # relative differences of logits that rounding explains
    dtypes += [torch.get_autocast_dtype(device)] * torch.is_autocast_enabled(device)
    relative = max({torch.bfloat16: 0.05, torch.float16: 0.02}.get(dtype, 1e-3) for dtype in dtypes)
    tolerance = relative * float(own.nan_to_num().abs().max()) + ROUNDING
    for way, compared in (("read through its tokens", logits), ("with open gates", opened)):
        difference = float((compared - own).nan_to_num().abs().max())
        if difference > tolerance or not torch.equal(compared.isnan(), own.isnan()):
            if not (filled := classifier.visible.any(1)).all():
                raise ValueError(
                    f"sample {int(filled.int().argmin())} is all padding, for which {name} {way} has other logits; leave it "
                    "out of the first batch"
                )
            raise ValueError(
                f"{name} {way} has other logits than the model itself, by up to {difference:.3g} in a logit; wrap does "
                "not support it, as something beside the tokens enters its blocks"
            )
    if not torch.allclose(classifier.embedded(), classifier.embedded(), rtol=1e-2, atol=ROUNDING, equal_nan=True):
        raise ValueError(
            f"the tokens of {name} differ between two passes over the same inputs in eval mode, so that a gate would not "
            "belong to a word or a patch; use a model without random numbers or a random order of its tokens"
        )
    with evaluated(model):
        if classifier.mask:
            _check_mask(classifier)
        if classifier.visible.any():
            _check_independence(classifier, logits)


def _check_mask(classifier: TokenClassifier) -> None:
    """Raise an error if the attention of tokens reads what their mask seems to hide. One that the model itself gets may be
    for its head alone, so that the attention reads everything."""
    name, readers = classifier.mask, classifier.positions_visible
    weights = classifier.attention(classifier.tokens)[..., classifier.fixed :].float().nan_to_num().amax(1)
    if readers.any() and weights.shape[1] == readers.shape[1]:  # padding may read anything
        weights = weights * readers[..., None]
    hidden, visible = (weights.amax(1)[each].sum() for each in (~classifier.visible, classifier.visible))
    inverted, of_model = visible <= ROUNDING * hidden, name == "attention_mask" and name in classifier.named
    if hidden > ROUNDING * visible and (inverted or not of_model):
        meaning, other = ("hidden", "mask") if "padding" in name else ("visible", "key_padding_mask")
        reads = f"only the others; call it {other}, or invert it" if inverted else "all; give none, or one that hides"
        raise ValueError(
            f"the mask {name!r} of {type(classifier.model).__name__} has to be True or 1 where keys are {meaning}, but the "
            f"attention reads {reads}"
        )


def _check_independence(classifier: TokenClassifier, logits: Tensor) -> None:
    """Raise an error if the tokens or gates of one sample change the logits of others, or if an attention that gets gates
    does not compare the tokens that they belong to."""
    tokens, name = classifier.tokens, type(classifier.model).__name__
    moved = torch.cat([tokens[:1].flip(-1), tokens[1:]])
    if not torch.allclose(classifier(moved).float()[1:], logits[1:], rtol=1e-2, atol=ROUNDING, equal_nan=True):
        raise ValueError(
            f"the tokens of one sample change the logits of {name} for others; wrap needs blocks that read [b, s, c], each "
            "sample by itself"
        )
    gates = torch.ones(classifier.visible.shape, device=tokens.device)
    gates[0, ::2] = 0.5
    gated = classifier(tokens, attention_bias(gates)).float()
    if not torch.allclose(gated[1:], logits[1:], rtol=1e-2, atol=ROUNDING, equal_nan=True):
        raise ValueError(
            f"the gates of one sample change the logits of {name} for others; wrap needs attention over [b, h, s, s], "
            "samples first"
        )
    if torch.equal(tokens, tokens.flip(-1)):
        return
    pairs = zip(classifier.attend(tokens).keys, classifier.attend(tokens.flip(-1)).keys, strict=True)
    others = sum(torch.equal(before, after) for before, after in pairs) or _count_others(classifier)
    if others:
        raise ValueError(
            f"{others} attentions of {name} have the size of the blocks that wrap found but read other tokens, experts or "
            "classes, whose gates these are not; wrap the part of the model that reads one sequence, once, or pad it to "
            "another length"
        )


def _count_others(classifier: TokenClassifier) -> int:
    """How many attentions that get gates do not compare the first token at its position. All gates but the last are closed,
    so that tokens do not mix, and the first token is changed: what its gate reaches has to change there."""
    tokens, visible = classifier.tokens, classifier.visible
    order, count = visible.cumsum(1), visible.sum(1, keepdim=True)
    first, last = visible & (order == 1) & (count > 1), visible & (order == count)
    if not first.any():
        return 0
    moved = torch.where(first[..., None], tokens.flip(-1), tokens)
    bias = attention_bias(last.float())
    sequence = torch.nn.functional.pad(first, (classifier.fixed, 0))
    pairs = zip(classifier.attend(tokens, bias).keys, classifier.attend(moved, bias).keys, strict=True)
    changes = [float((after - before).float().nan_to_num()[sequence].abs().max()) for before, after in pairs]
    # change of a key, over the largest one, that passes closed gates
    return sum(change < 1e-5 * max(changes) for change in changes)


@torch.no_grad()
def measured_bypass(classifier: TokenClassifier) -> float | None:
    """How much of the effect of an input that becomes tokens goes around them to the logits, as a share: what is left of it
    if the input has other content but the tokens stay. The largest among the inputs, each the smallest among the samples;
    None if none has an effect."""
    model, tokens, shares = classifier.model, classifier.embedded(), []
    own = classifier(classifier.tokens).float()
    for each in contents(classifier.named):
        other = classifier.altered([each], one_word=True)
        moved = other.embedded()
        if moved.shape != tokens.shape or torch.equal(moved, tokens):
            continue
        with evaluated(model):
            whole = (logits_of(model(*other.args, **other.inputs), model).float() - own).norm(dim=1)
            around = (other(classifier.tokens).float() - own).norm(dim=1)
        known = (whole > ROUNDING + 1e-3 * own.norm(dim=1)) & whole.isfinite()
        shares += [float((around / whole)[known].min())] if known.any() else []
    return min(1.0, max(shares)) if shares else None


def check_gradient(classifier: TokenClassifier) -> None:
    """Raise an error unless autograd finds the gradient of gated logits in the tokens: without it, there are no scores."""
    devices = [classifier.tokens.device] if classifier.tokens.is_cuda else []
    # dropout draws here must not change those of a training that is resumed
    with torch.random.fork_rng(devices), torch.inference_mode(False), torch.enable_grad():
        leaf = classifier.tokens.detach().clone().requires_grad_()
        try:
            bias = attention_bias(torch.full(classifier.visible.shape, 0.5, device=leaf.device))
            torch.autograd.grad(classifier(leaf, bias).float().sum(), leaf)
        except RuntimeError as error:
            reason = " ".join(str(error).split())[:150]
            raise ValueError(
                f"the logits of {type(classifier.model).__name__} have no gradient in its tokens ({reason}); call it "
                "without torch.utils.checkpoint, compilation or detached blocks"
            ) from error


@torch.no_grad()
def measured_average(classifier: TokenClassifier) -> float:
    """How far closing a gate of the average is from removing the token, as a share of its effect: from the head's answer
    without that state or, where no input can be shortened to fit that, from its answer to their mean in place of each."""
    assert classifier.average is not None
    tokens, visible = classifier.tokens, classifier.visible
    first = 0 if classifier.average.over_fixed else classifier.fixed
    gates = torch.where(visible, 1.0, 0.0)

    def levelled(states: Tensor) -> Tensor:
        shown, read = classifier.positions_visible[:, first:, None], states[:, first:]
        mean = (shown * read).sum(1, keepdim=True) / shown.sum(1, keepdim=True).clamp_min(1)
        return torch.cat([states[:, :first], torch.where(shown, mean, read)], 1)

    shares, count = [], visible.shape[1]
    with evaluated(classifier.model):
        own = classifier(tokens).float()
        for position in range(0, count, 1 + (count - 1) // 4):
            closed = gates * (torch.arange(count, device=gates.device) != position)
            bias, column = attention_bias(closed), classifier.fixed + position
            averaged, removed = classifier(tokens, bias).float(), _answer_without(classifier, bias, column)
            if removed is None:
                apart = own - classifier.reread(attention_bias(gates), levelled).float()
            else:
                apart = averaged - removed.float()
            chosen = visible[:, position]
            # rounding is no effect
            effect = (own - averaged)[chosen].norm() + 1e-3 * own[chosen].norm() + ROUNDING
            shares.append(float(apart[chosen].norm() / effect))
    return min(1.0, max(shares))


def _answer_without(classifier: TokenClassifier, bias: Tensor, position: int) -> Tensor | None:
    """The head's answer without the state at a position, and without what the inputs have there if the head needs as much
    of both, as of a mask; None if it needs as many states as there are."""
    others: list[Tensor] = []

    def remove(states: Tensor) -> Tensor:
        others.append(without(states, position))
        return others[0]

    shorter = classifier.shortened(position)
    for attempt in (partial(classifier.reread, bias, remove), partial(shorter.reread, None, lambda _: others[0])):
        with suppress(RuntimeError, ValueError, LookupError):
            return attempt()
    return None


@torch.no_grad()
def measured_leak(classifier: TokenClassifier, *, last: bool = False) -> float | None:
    """How much of a token's effect on the logits is left when its gate is closed, as a share: 0 where gates reach all that
    the token reaches; None if no token has an effect. The largest of several tokens of each sample, without the last
    visible one, or of that one alone. Measured by reversing the channels of the token."""
    tokens, visible = classifier.tokens, classifier.visible
    order, count = visible.cumsum(1), visible.sum(1, keepdim=True)
    gates = torch.where(visible, 1.0, 0.0)

    def logits(moved: Tensor, gates: Tensor) -> Tensor:
        return classifier(moved, attention_bias(gates)).float().nan_to_num()  # a class may be ruled out by -inf

    effects, left = [], []
    probes = 1 if last else 4  # for each sample, spread over the tokens of all
    row = torch.arange(len(tokens), device=tokens.device)[:, None]
    with evaluated(classifier.model):
        own = logits(tokens, gates)
        for part in range(probes):
            spread = 1 + (row * probes + part) * (count - 1).clamp_min(0) // (probes * len(tokens))
            chosen = visible & (order == (count if last else spread)) & (last | (count > 1))
            moved = torch.where(chosen[..., None], tokens.flip(-1), tokens)
            closed = torch.where(chosen, 0.0, gates)
            effects.append((own - logits(moved, gates)).norm(dim=1))
            left.append((logits(tokens, closed) - logits(moved, closed)).norm(dim=1))
    whole, passing = torch.stack(effects), torch.stack(left)
    largest = whole.max()
    if not 0 < largest < torch.inf:
        return None
    # below this share of the largest effect of a probed token, a ratio would be noise
    return min(1.0, float((passing / whole)[whole > 0.1 * largest].max()))
