"""Modules of other people as encoders: any `nn.Module` that makes a vector, or a sequence of vectors, of each sample."""

import copy
from collections.abc import Sequence
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.types import Encoder


class OwnEncoder(Encoder):
    """An `nn.Module` (x -> [b, c] or [b, n, c]) as an encoder, or another encoder, whose input is standardised first.

    Parameters
    ----------
    module
        It is called with the values of the modality; an `Encoder` also with `observed`.
    shape
        That of one sample.
    like
        Values such as the module reads: their dtype is that of the trial by which the number of units is found and, where
        they are a table of numbers, each column is standardised by its mean and deviation over these rows, without NaN.

    Examples
    --------
    >>> encoder = OwnEncoder(nn.Sequential(nn.Flatten(), nn.Linear(12, 5)), (3, 4))
    >>> encoder.units, encoder.width
    (1, 5)
    """

    def __init__(self, module: nn.Module, shape: Sequence[int], like: Tensor | None = None) -> None:
        super().__init__()
        made = _checked(module, shape, torch.float32 if like is None else like.dtype)
        self.module, (self.units, self.width) = module, made.shape[1:]
        if isinstance(module, Encoder):
            self.stride, self.whole = module.stride, module.whole
        self.center, self.scale = nn.Buffer(torch.zeros(())), nn.Buffer(torch.ones(()))
        if like is not None and like.ndim == 2 and like.is_floating_point():
            self.center = nn.Buffer(like.nanmean(0).nan_to_num())
            deviation = (like - self.center).square().nanmean(0).sqrt().nan_to_num()
            self.scale = nn.Buffer(torch.where(deviation > 0, deviation, 1.0))

    def train(self, mode: bool = True) -> Self:
        """Frozen parts stay in eval mode: their BatchNorm would learn all the same."""
        super().train(mode)
        for part in self.module.modules():
            if {each.requires_grad for each in part.parameters()} == {False}:
                part.eval()
        return self

    def forward(self, x: Tensor, observed: Tensor) -> Float[Tensor, "b n c"]:
        if self.center.ndim:  # what is missing is zero behind the scaling, too
            known = observed if observed.ndim > 1 else observed[:, None]
            x = torch.where(known, (x - self.center) / self.scale, 0.0)
        return _units(self.module, x, observed)


def check_encoder(module: nn.Module, shape: Sequence[int], *, dtype: torch.dtype = torch.float32) -> None:
    """Raise a ValueError that says what is wrong and how to fix it, unless the module can encode samples of that shape.

    Runs a copy of it, in eval mode, on a few random samples.

    Parameters
    ----------
    module
        Any `nn.Module` that returns [b, c] or [b, n, c] for b samples, or an `Encoder`.
    shape
        That of one sample.
    dtype
        That of its values; whole numbers are tried with zeros, the one code that every vocabulary has.

    Raises
    ------
    ValueError
        With the rule, what the module did, and what to change.

    Examples
    --------
    >>> check_encoder(nn.Linear(3, 8), (3,))
    >>> check_encoder(nn.Conv2d(1, 4, 3), (1, 8, 8))
    Traceback (most recent call last):
    ValueError: Conv2d returns [3, 4, 6, 6] for 3 samples; an encoder returns a tensor, of a vector [3, c] or ...
    """
    _checked(module, shape, dtype)


@torch.inference_mode(False)
def _checked(module: nn.Module, shape: Sequence[int], dtype: torch.dtype) -> Float[Tensor, "b n c"]:
    """The units of a few random samples, or the error of `check_encoder`."""
    name = type(module).__name__
    if not isinstance(module, nn.Module):
        given = f"the class {module.__name__}" if isinstance(module, type) else f"a {name}"
        raise ValueError(f"an encoder is an nn.Module, not {given}; give a module (call its class), or a name of ours")
    if any(isinstance(each, nn.UninitializedParameter) for each in module.parameters()):
        raise ValueError(f"{name} has layers that do not know their size; call it once on samples, or give the sizes")
    if extra := [key for key, each in module.state_dict().items() if not isinstance(each, Tensor)]:
        raise ValueError(f"{name} has {extra} in its state, no tensors that a file could hold; make buffers of them")
    module, device = copy.deepcopy(module).eval(), next(module.parameters(), torch.empty(0)).device
    readable = dtype.is_floating_point or dtype == torch.uint8  # bytes are read as numbers from 0 to 1
    samples = torch.rand(3, *shape, generator=torch.Generator().manual_seed(0)) if readable else torch.zeros(3, *shape)
    samples = samples.to(device, None if readable else dtype)
    with torch.no_grad():
        try:
            units = _units(module, samples.clone())  # it may change them
            alone = [_units(module, sample[None].clone()) for sample in samples]
        except (RuntimeError, LookupError, TypeError, ValueError, AttributeError) as error:
            codes = dtype.is_floating_point and any(isinstance(each, nn.Embedding) for each in module.modules())
            numbers = (
                "; if they are codes, give a tensor of whole numbers (in check_encoder, dtype=torch.long)"
                if codes
                else ""
            )
            numbers = numbers if readable else "; if they are no codes, give bytes (torch.uint8) or torch.float32"
            raise ValueError(
                f"{name} cannot read samples of shape {tuple(shape)} ({error}); change its layers, or the shape of the data "
                f"(values[:, None] adds a channel, values.flatten(1) makes rows){numbers}"
            ) from error
        made = list(units.shape) if isinstance(units, Tensor) else type(units).__name__
        if isinstance(made, str) or len(made) != 3 or made[0] != len(samples):
            raise ValueError(
                f"{name} returns {made} for {len(samples)} samples; an encoder returns a tensor, of a vector "
                f"[{len(samples)}, c] or a sequence [{len(samples)}, n, c] of vectors, for example with flatten(2).mT"
            )
        if units.dtype != torch.float32:
            raise ValueError(f"{name} returns {units.dtype}, and the network reads torch.float32; end it with .float()")
        if readable and not units.isfinite().all():
            raise ValueError(f"{name} returns values that are not finite for random samples; look at its layers")
    same = [torch.allclose(own[0], unit, rtol=1e-3, atol=1e-4) for own, unit in zip(alone, units, strict=True)]
    if not all(same):
        raise ValueError(
            f"{name} returns something else for a sample alone than in a batch, also in eval mode; let it read every "
            "sample by itself, and leave out random parts"
        )
    _check_zeros(module, name, torch.zeros_like(samples))
    return units


def _check_zeros(module: nn.Module, name: str, zeros: Tensor) -> None:
    """Raise an error if missing samples make NaN: their units are hidden, but zero times NaN is NaN in a gradient."""
    weights = [each for each in module.parameters() if each.requires_grad]
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # its LSTM has no backward in eval mode
        units = _units(module, zeros, torch.zeros(len(zeros), dtype=torch.bool, device=zeros.device))
        learns = units.requires_grad and weights
        found = torch.autograd.grad(units, weights, torch.zeros_like(units), allow_unused=True) if learns else ()
    gradients = [each.to_dense() for each in found if each is not None]
    if not all(bool(each.isfinite().all()) for each in (units, *gradients)):
        raise ValueError(
            f"{name} returns NaN for zeros, which it reads for missing samples; add a small number where it divides, as in "
            "x / (x.norm() + 1e-6)"
        )


def _units(module: nn.Module, x: Tensor, observed: Tensor | None = None) -> Tensor:
    if isinstance(module, Encoder):
        return module(x, torch.ones(len(x), dtype=torch.bool, device=x.device) if observed is None else observed)
    units = module(x)
    return units[:, None] if isinstance(units, Tensor) and units.ndim == 2 else units
