"""check_backbone(): tests whether a backbone uses the attention bias as gates need it, like `check_estimator`."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from gauge.types import Backbone

SAMPLES, LENGTH = 3, 6
TOLERANCE = 1e-4  # of the largest change that the backbone makes to its input


def check_backbone(backbone: Callable[..., Tensor], dim: int) -> None:
    """Raise a ValueError that says what is wrong and how to fix it, unless the backbone keeps the whole contract.

    Runs a copy of the backbone on a few random sequences, in eval mode and, where it can, in double precision: the blocks
    of a fresh network with LayerScale change their input by less than single precision resolves.

    Parameters
    ----------
    backbone
        A `Backbone` or any function of (sequence [b, s, c], attention bias or None) that returns [b, s, c].
    dim
        The width c of its tokens.

    Raises
    ------
    ValueError
        With the rule that the backbone breaks, and what to change.

    Examples
    --------
    >>> from gauge.nn.attention import Transformer
    >>> check_backbone(Transformer(16, heads=2, depth=2), dim=16)
    """
    if isinstance(backbone, nn.TransformerEncoder):
        raise ValueError("nn.TransformerEncoder does not take an attention bias as it is; use FromTorch(encoder)")
    if not callable(backbone):
        raise ValueError(f"a backbone is a Backbone or a function, not {backbone!r}; give one")
    sequence = torch.randn(SAMPLES, LENGTH, dim, generator=torch.Generator().manual_seed(0))
    candidate = copy.deepcopy(backbone).eval() if isinstance(backbone, nn.Module) else backbone
    if isinstance(candidate, nn.Module):
        sequence = sequence.to(next(candidate.parameters(), sequence))
    with torch.enable_grad():
        _Checks(*_read(candidate, sequence)).run()


def _read(backbone: Callable[..., Tensor], sequence: Tensor) -> tuple[Callable[..., Tensor], Tensor, Tensor]:
    """The backbone, the sequence and its output, in double precision if everything in the backbone can be converted."""
    try:
        double = copy.deepcopy(backbone).double() if isinstance(backbone, nn.Module) else backbone
        return double, sequence.double(), double(sequence.double(), None)
    except (RuntimeError, TypeError):  # it holds tensors of its own precision, or what it is called with is wrong
        pass
    try:
        return backbone, sequence, backbone(sequence, None)
    except (RuntimeError, TypeError) as error:
        dim = sequence.shape[-1]
        raise ValueError(
            f"the backbone does not run on tokens of width {dim} and a bias or None; check dim={dim} and its arguments "
            f"({error})"
        ) from error


class _Checks:
    def __init__(self, backbone: Callable[..., Tensor], sequence: Tensor, plain: Tensor) -> None:
        if not isinstance(plain, Tensor) or plain.shape != sequence.shape:
            got = f"shape {list(plain.shape)}" if isinstance(plain, Tensor) else type(plain).__name__
            raise ValueError(f"the backbone maps {list(sequence.shape)} to {got}; return the sequence as one tensor")
        self.backbone, self.sequence, self.plain = backbone, sequence, plain
        rounding = 8 * torch.finfo(plain.dtype).eps * plain.abs().max()
        self.tolerance = TOLERANCE * (plain - sequence).abs().max() + rounding

    def run(self) -> None:
        self.meaning()
        self.gradient()
        if isinstance(self.backbone, Backbone):
            self.offers(self.backbone)

    def bias(self, *closed: int, value: float = -1e9) -> Tensor:
        keys = self.sequence.new_zeros(SAMPLES, 1, 1, LENGTH)
        keys[..., list(closed)] = value
        return keys

    def same(self, first: Tensor, second: Tensor) -> bool:
        return bool((first - second).abs().max() <= self.tolerance)

    def meaning(self) -> None:
        """0 leaves a key unchanged, -1e9 hides it, values between weaken it, and samples do not affect each other."""
        backbone, sequence, same = self.backbone, self.sequence, self.same
        moved = sequence.clone()
        moved[:, 2] = sequence[:, 2].flip(-1)  # a shift or a scale would be undone by a LayerNorm
        weak, weaker, none = (backbone(sequence, self.bias(2, value=value))[:, 0] for value in (-1.0, -2.0, -1e9))
        one, other = self.bias(), self.bias(3)
        one[0, ..., 2] = -5.0
        full = self.bias(2, value=-1.0).expand(SAMPLES, 1, LENGTH, LENGTH)
        before, after = backbone(sequence, other), backbone(moved, other)
        visible = not same(before[:, 0], after[:, 0])
        mixed = torch.cat([moved[:1], sequence[1:]])
        rules = {
            "a bias of zeros changes the output; it must be added to the attention logits before the softmax, where 0 "
            "means unchanged (a 2-D mask is often read as 0 = drop: pass it in four dimensions)": same(
                self.plain, backbone(sequence, self.bias())
            ),
            "attention is causal, so CLS in the first position sees nothing that follows it; use an encoder without a "
            "causal mask, or gate the whole model with gauge.wrap(model)": visible or same(before[:, -1], after[:, -1]),
            "CLS does not react to a unit whose bias is 0; the bias hides keys that it should leave unchanged": visible,
            "a key with bias -1e9 still reaches CLS; add the bias to the attention logits of every block": same(
                none, backbone(moved, self.bias(2))[:, 0]
            ),
            "biases of -1, -2 and -1e9 act alike: the mask is read as yes or no; pass the floats on to the softmax": not (
                same(weak, weaker) or same(weaker, none)
            ),
            "one sample's content changes another's output; attend over the second axis of [b, s, c] (in torch, "
            "batch_first=True)": same(backbone(mixed, self.bias())[1:], self.plain[1:]),
            "one sample's bias changes another's output; keep the bias's first axis aligned with the batch": same(
                backbone(sequence, one)[1:], self.plain[1:]
            ),
            "a bias of shape [b, 1, s, s] differs from the same one of shape [b, 1, 1, s]; broadcast both": same(
                weak, backbone(sequence, full)[:, 0]
            ),
        }
        for broken, kept in rules.items():
            if not kept:
                raise ValueError(broken)

    def gradient(self) -> None:
        gate = self.bias(2, value=-1.0).requires_grad_()
        cls = self.backbone(self.sequence, gate)[:, 0]
        (gradient,) = torch.autograd.grad(cls.square().sum(), gate, allow_unused=True)
        if gradient is None or not bool((gradient != 0).any()):
            raise ValueError("no gradient reaches the bias, so gates could not learn; do not detach or round it")
        with torch.no_grad():
            fast = self.backbone(self.sequence, gate.detach())[:, 0]
        if not self.same(cls, fast):
            raise ValueError(
                "under no_grad the bias acts differently: a fused inference path misreads it; switch that path off "
                "during the call, as FromTorch does"
            )

    def offers(self, backbone: Backbone) -> None:
        bias = self.bias(2)
        if not self.same(backbone(self.sequence, bias)[:, 0], backbone.cls(self.sequence, bias)):
            raise ValueError("cls(sequence, attn_bias) is not the first position of the output; fix it, or remove cls")
        if not backbone.offers_attention:
            return
        weights = backbone.attention(self.sequence, bias)
        square = weights.ndim == 4 and weights.shape[-2:] == (LENGTH, LENGTH)
        if not square or bool((weights[..., 2].abs() > TOLERANCE).any()):
            raise ValueError("attention(sequence, attn_bias) must be [b, h, s, s] after the softmax, bias included")
