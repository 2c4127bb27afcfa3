"""check_backbone(): tests whether a backbone uses the attention bias as gates need it, like `check_estimator`."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gauge.types import Backbone

SAMPLES, LENGTH = 3, 6
TOLERANCE = 1e-4


def check_backbone(backbone: Callable[..., Tensor], dim: int) -> None:
    """Raises a ValueError that says what is wrong and how to fix it, unless the backbone keeps the whole contract.

    Runs the backbone on a few random sequences in eval mode; its mode and its gradients are unchanged afterwards.

    >>> from gauge.model.backbones.transformer import Transformer
    >>> check_backbone(Transformer(16, heads=2, depth=2), dim=16)
    """
    sequence = torch.randn(SAMPLES, LENGTH, dim, generator=torch.Generator().manual_seed(0))
    modes = {}
    if isinstance(backbone, nn.Module):
        sequence = sequence.to(next(backbone.parameters(), sequence))
        modes = {module: module.training for module in backbone.modules()}
        backbone.eval()
    try:
        with torch.enable_grad():
            _check(backbone, sequence)
    finally:
        for module, training in modes.items():
            module.training = training


def _check(backbone: Callable[..., Tensor], sequence: Tensor) -> None:
    plain = backbone(sequence, None)
    if not isinstance(plain, Tensor) or plain.shape != sequence.shape:
        got = f"shape {list(plain.shape)}" if isinstance(plain, Tensor) else type(plain).__name__
        raise ValueError(f"the backbone maps {list(sequence.shape)} to {got}; return the whole sequence as one tensor")
    _check_meaning(backbone, sequence, plain)
    _check_gradient(backbone, sequence)
    if isinstance(backbone, Backbone):
        _check_offers(backbone, sequence)


def _bias(sequence: Tensor, *closed: int, value: float = -1e9) -> Tensor:
    keys = torch.zeros(SAMPLES, 1, 1, LENGTH, device=sequence.device)
    keys[..., list(closed)] = value
    return keys


def _same(first: Tensor, second: Tensor) -> bool:
    return bool((first - second).abs().max() <= TOLERANCE * (1 + first.abs().max()))


def _check_meaning(backbone: Callable[..., Tensor], sequence: Tensor, plain: Tensor) -> None:
    """0 leaves a key unchanged, -1e9 hides it, values between weaken it, and samples do not affect each other."""
    moved = sequence.clone()
    moved[:, 2] = sequence[:, 2].flip(-1)  # a shift or a scale would be undone by a LayerNorm
    weak, weaker, none = (backbone(sequence, _bias(sequence, 2, value=value))[:, 0] for value in (-1.0, -2.0, -1e9))
    one, other = _bias(sequence), _bias(sequence, 3)
    one[0, ..., 2] = -5.0
    full = _bias(sequence, 2, value=-1.0).expand(SAMPLES, 1, LENGTH, LENGTH)
    neutral = _same(plain, backbone(sequence, _bias(sequence)))
    visible = not _same(backbone(sequence, other)[:, 0], backbone(moved, other)[:, 0])
    hidden = _same(none, backbone(moved, _bias(sequence, 2))[:, 0])
    graded = not (_same(weak, weaker) or _same(weaker, none))
    separate = _same(backbone(sequence, one)[1:], plain[1:])
    broadcast = _same(weak, backbone(sequence, full)[:, 0])
    rules = {
        "a bias of zeros changes the output; it must be added to the attention logits before the softmax, where 0 means "
        "unchanged (a 2-D mask is often read as 0 = drop: pass it in four dimensions)": neutral,
        "CLS does not react to a unit whose bias is 0; the bias hides keys that it should leave unchanged": visible,
        "a key with bias -1e9 still reaches CLS; add the bias to the attention logits of every block": hidden,
        "biases of -1, -2 and -1e9 act alike: the mask is read as yes or no; pass the floats on to the softmax": graded,
        "one sample's bias changes another's output; keep the bias's first axis aligned with the batch": separate,
        "a bias of shape [b, 1, s, s] differs from the same one of shape [b, 1, 1, s]; broadcast both": broadcast,
    }
    for broken, kept in rules.items():
        if not kept:
            raise ValueError(broken)


def _check_gradient(backbone: Callable[..., Tensor], sequence: Tensor) -> None:
    gate = _bias(sequence, 2, value=-1.0).requires_grad_()
    cls = backbone(sequence, gate)[:, 0]
    (gradient,) = torch.autograd.grad(cls.square().sum(), gate, allow_unused=True)
    if gradient is None or not bool((gradient != 0).any()):
        raise ValueError("no gradient reaches the bias, so gates could not learn; do not detach or round it")
    with torch.no_grad():
        fast = backbone(sequence, gate.detach())[:, 0]
    if not _same(cls, fast):
        raise ValueError(
            "under no_grad the bias acts differently: a fused inference path misreads it; switch that path off "
            "during the call, as FromTorch does"
        )


def _check_offers(backbone: Backbone, sequence: Tensor) -> None:
    bias = _bias(sequence, 2)
    if not _same(backbone(sequence, bias)[:, 0], backbone.cls(sequence, bias)):
        raise ValueError("cls(sequence, attn_bias) is not the first position of the output; fix it, or remove cls")
    if type(backbone).attention is Backbone.attention:
        return
    weights = backbone.attention(sequence, bias)
    if weights.shape[-2:] != (LENGTH, LENGTH) or weights.ndim != 4 or bool((weights[..., 2].abs() > TOLERANCE).any()):
        raise ValueError("attention(sequence, attn_bias) must be [b, h, s, s] after the softmax, bias included")
