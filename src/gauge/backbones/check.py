"""check_backbone(): does a backbone take an attention bias the way gates need it? In the spirit of `check_estimator`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

SAMPLES, LENGTH = 3, 6
TOLERANCE = 1e-4


def check_backbone(backbone: Callable[..., Tensor], dim: int) -> None:
    """Raise a ValueError that says what is wrong and how to mend it, unless the backbone keeps the whole contract.

    Runs the backbone on a few random sequences, in eval mode; leaves its mode and its gradients as they were.

    >>> from gauge.backbones.transformer import Transformer
    >>> check_backbone(Transformer(16, heads=2, depth=2), dim=16)
    """
    generator = torch.Generator().manual_seed(0)
    parameter = next(backbone.parameters(), torch.zeros(())) if isinstance(backbone, nn.Module) else torch.zeros(())
    sequence = torch.randn(SAMPLES, LENGTH, dim, generator=generator).to(parameter)
    modes = {module: module.training for module in backbone.modules()} if isinstance(backbone, nn.Module) else {}
    if isinstance(backbone, nn.Module):
        backbone.eval()
    try:
        with torch.enable_grad():
            _check(backbone, sequence)
    finally:
        for module, training in modes.items():
            module.training = training


def _check(backbone: Any, sequence: Tensor) -> None:
    def bias(*closed: int, value: float = -1e9) -> Tensor:
        keys = torch.zeros(SAMPLES, 1, 1, LENGTH, device=sequence.device)
        keys[..., list(closed)] = value
        return keys

    def same(first: Tensor, second: Tensor) -> bool:
        return bool((first - second).abs().max() <= TOLERANCE * (1 + first.abs().max()))

    plain = backbone(sequence, None)
    if not isinstance(plain, Tensor) or plain.shape != sequence.shape:
        got = f"shape {list(plain.shape)}" if isinstance(plain, Tensor) else type(plain).__name__
        raise ValueError(f"the backbone maps {list(sequence.shape)} to {got}; return the whole sequence as one tensor")
    if not same(plain, backbone(sequence, bias())):
        raise ValueError(
            "a bias of zeros changes the output; it must be added to the attention logits before the softmax, where 0 "
            "means untouched (a 2-D mask is often read as 0 = drop: pass it in four dimensions)"
        )
    moved = sequence.clone()
    moved[:, 2] = sequence[:, 2].flip(-1)  # a shift or a scale would be undone by a LayerNorm
    if same(backbone(sequence, bias(3))[:, 0], backbone(moved, bias(3))[:, 0]):
        raise ValueError("CLS does not react to a unit whose bias is 0; the bias hides keys that it should leave alone")
    if not same(backbone(sequence, bias(2))[:, 0], backbone(moved, bias(2))[:, 0]):
        raise ValueError("a key with bias -1e9 still reaches CLS; add the bias to the attention logits of every block")
    graded = [backbone(sequence, bias(2, value=value))[:, 0] for value in (-1.0, -2.0, -1e9)]
    if same(graded[0], graded[1]) or same(graded[1], graded[2]):
        raise ValueError(
            "biases of -1, -2 and -1e9 act alike: the mask is read as yes or no; pass the floats on to the softmax"
        )
    one = bias()
    one[0, ..., 2] = -5.0
    if not same(backbone(sequence, one)[1:], plain[1:]):
        raise ValueError(
            "one sample's bias changes another's output; keep the bias's first axis aligned with the batch"
        )
    gate = bias(2, value=-1.0).requires_grad_()
    (gradient,) = torch.autograd.grad(backbone(sequence, gate)[:, 0].square().sum(), gate, allow_unused=True)
    if gradient is None or not bool((gradient != 0).any()):
        raise ValueError("no gradient reaches the bias, so gates could not learn; do not detach or round it on the way")
    full = bias(2, value=-1.0).expand(SAMPLES, 1, LENGTH, LENGTH)
    if not same(graded[0], backbone(sequence, full)[:, 0]):
        raise ValueError("a bias of shape [b, 1, s, s] differs from the same one of shape [b, 1, 1, s]; broadcast both")
    with torch.no_grad():
        fast = backbone(sequence, bias(2, value=-1.0))[:, 0]
    if not same(graded[0], fast):
        raise ValueError(
            "under no_grad the bias acts differently: a fused inference path misreads it; switch that path off around "
            "the call, as FromTorch does"
        )
    if hasattr(backbone, "cls") and not same(graded[0], backbone.cls(sequence, bias(2, value=-1.0))):
        raise ValueError(
            "cls(sequence, attn_bias) is not the first position of the output; make them agree, or drop cls"
        )
    if hasattr(backbone, "attention"):
        weights = backbone.attention(sequence, bias(2))
        if (
            weights.ndim != 4
            or weights.shape[-2:] != (LENGTH, LENGTH)
            or bool((weights[..., 2].abs() > TOLERANCE).any())
        ):
            raise ValueError("attention(sequence, attn_bias) must be [b, h, s, s] after the softmax, bias included")
