"""DyMo: complete the input, then add recovered modalities one by one while they make the features clearer.

State S: q = max_c softmax(s(f, p̄_c) / 0.1), π = P(|z| > d(f, μ_{S,ŷ}) / σ_{S,ŷ}) with ŷ the classifier's answer.
Reward of a modality u: R_u = q_u · g(π, π_u) - q with g = 1 where π_u >= π. The best positive one is added; negative ones
are out for good.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gauge.data import Dataset
from gauge.methods.any_subset import TEMPERATURE, AnySubset, one_hot, under_subsets
from gauge.model.frozen import Frozen
from gauge.model.units import shown_modalities, whole_modalities
from gauge.registry import pick
from gauge.types import Batch, Method, Prediction, SupportsComplete, Units

__all__ = ["DyMo", "Selection"]

TAIL_FLOOR = 1e-9  # DyMo's own
SPREAD_FLOOR = 1e-6
UNITS_PER_PASS = 2**14  # of a stacked pass: larger ones leave the cache of a CPU

Calibration = Literal["log", "ratio"]
Tail = Literal["erfc", "float32"]

TAILS = {
    "erfc": lambda deviation: torch.erfc(deviation / math.sqrt(2)),
    "float32": lambda deviation: 2 * (1 - 0.5 * (1 + torch.erf(deviation.float() / math.sqrt(2)))),
}
CALIBRATIONS = {
    "log": lambda before, after: before.log() / (after + TAIL_FLOOR).log(),
    "ratio": lambda before, after: after / (before + TAIL_FLOOR),
}


@dataclass(frozen=True)
class Selection:
    """What DyMo decided: `accepted` are the modalities it took from the imputer, `visible_modalities` those that the
    answer saw whole; `rounds` the most that a sample of the batch took."""

    logits: Float[Tensor, "b k"]
    accepted: Bool[Tensor, "b m"]
    visible_modalities: Bool[Tensor, "b m"]
    rounds: int


@dataclass(frozen=True)
class State:
    """What the backbone says of one set of modalities: its answer, how clear and how usual its features are."""

    logits: Float[Tensor, "b k"]
    quality: Float[Tensor, "b"]
    tail: Float[Tensor, "b"]


class DyMo(Method):
    """A trained backbone that decides at test time which recovered modalities to look at.

    Nothing here trains; `prepare` takes the class statistics of every subset from the training split.

    NOTE[PAPER] dymo-tail: published code computes π as 2(1 - Φ) in float32, which is 0 beyond 5.3 σ and so switches the
    calibration off there; `tail="erfc"` keeps the tail and holds g within 0 and 1, `tail="float32"` is the original.
    """

    def __init__(
        self, backbone: AnySubset, imputer: SupportsComplete, *, calibration: Calibration = "log", tail: Tail = "erfc"
    ) -> None:
        super().__init__()
        pick(CALIBRATIONS, calibration, "calibration")
        pick(TAILS, tail, "tail")
        self.backbone = backbone.eval().requires_grad_(False)
        self.imputer = Frozen(imputer)
        self.calibration = calibration
        self.tail = tail
        subsets, trained = backbone.subsets, backbone.prototypes
        self.register_buffer("means", trained.new_zeros(len(subsets), *trained.shape))
        self.register_buffer("spreads", trained.new_zeros(len(subsets), len(trained)))
        self.register_buffer("prototypes", torch.zeros_like(trained))
        bits = 2 ** torch.arange(subsets.shape[1], device=subsets.device)
        number = torch.zeros(2 ** len(bits), dtype=torch.long, device=subsets.device)
        number[(subsets * bits).sum(1)] = torch.arange(len(subsets), device=subsets.device)
        self.register_buffer("bits", bits, persistent=False)
        self.register_buffer("number", number, persistent=False)
        self.means: Tensor
        self.spreads: Tensor
        self.prototypes: Tensor
        self.bits: Tensor
        self.number: Tensor

    def train(self, mode: bool = True) -> Self:
        """Stays in eval mode."""
        return super().train(False)

    @torch.no_grad()
    def prepare(self, train: Dataset) -> None:
        """μ, σ = sqrt(mean d²) for every subset and class, and the prototypes p̄ = mean of μ over subsets.

        NOTE[PAPER] dymo-gaps: the published training splits are complete. Here a sample that lacks a part of a subset
        counts there with the rest, or with all it has: the rule of the backbone's training.
        """
        self.to(train.device)
        missing = sorted(set(range(len(self.prototypes))) - set(train.labels.unique().tolist()))
        if missing:
            raise ValueError(
                f"the {train.split} split has no sample of class {missing[0]} ({len(missing)} such), so DyMo has no "
                "statistics for it; add samples, or leave the class out of the model"
            )
        seen = [
            (self._features(batch), one_hot(train.labels[batch.index], self.prototypes)) for batch in train.batches(512)
        ]
        counts = torch.stack([members.sum(0) for _, members in seen]).sum(0)
        means = torch.stack([members.T @ features for features, members in seen]).sum(0) / counts[:, None]
        squares = [
            self.backbone.metric.distance(features, members @ means).square() @ members for features, members in seen
        ]
        self.means.copy_(means)
        self.spreads.copy_((torch.stack(squares).sum(0) / counts).sqrt().clamp_min(SPREAD_FLOOR))
        self.prototypes.copy_(means.mean(0))

    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self.select(batch).logits)

    @torch.no_grad()
    def select(self, batch: Batch) -> Selection:
        """The greedy choice: each round looks at every open (sample, modality) pair in stacked passes."""
        if not (self.spreads > 0).all():
            raise ValueError("DyMo has no class statistics yet; call prepare(train) with the training split")
        completed = self.imputer.complete(batch.check())
        recovered = self.backbone.encoder(completed, hide_missing=False)
        # an encoder that mixes the features of a partly observed modality must not see their filling before they are added
        partly = any(flags.ndim > 1 for flags in batch.observed.values())
        observed = self.backbone.encoder(batch) if partly else recovered
        whole = whole_modalities(observed.observed, observed.modality, len(self.bits))
        accepted, open_ = torch.zeros_like(whole), ~whole
        state = self._look(observed, recovered, accepted)
        rounds = 0
        while len(pairs := open_.nonzero()):
            rounds += 1
            rows, added = pairs.unbind(1)
            proposed = accepted[rows].scatter(1, added[:, None], True)
            after = self._look_at_rows(observed, recovered, rows, proposed)
            reward = after.quality * self._calibrate(state.tail[rows], after.tail) - state.quality[rows]
            rewards = torch.full(open_.shape, -torch.inf, dtype=reward.dtype, device=reward.device)
            rewards[rows, added] = reward
            best, choice = rewards.max(1)
            better = best > 0
            taken = better[rows] & (choice[rows] == added)
            accepted[rows[taken]] = proposed[taken]
            for now, then in zip(_tensors(state), _tensors(after), strict=True):
                now[rows[taken]] = then[taken]
            open_ &= better[:, None] & (rewards >= 0) & ~accepted
        return Selection(state.logits, accepted, whole | accepted, rounds)

    def _features(self, batch: Batch) -> Float[Tensor, "r b p"]:
        """The features of a batch under every subset."""
        units = self.backbone.encoder(batch)
        subsets = self.backbone.subsets.split(self._rows_per_pass(units) // len(batch) or 1)
        found = [self.backbone.represent(*under_subsets(units, chosen))[1] for chosen in subsets]
        return torch.cat(found).unflatten(0, (-1, len(batch)))

    def _look_at_rows(self, observed: Units, recovered: Units, rows: Tensor, accepted: Tensor) -> State:
        step = self._rows_per_pass(observed)
        found = [
            self._look(_rows(observed, some), _rows(recovered, some), flags)
            for some, flags in zip(rows.split(step), accepted.split(step), strict=True)
        ]
        return State(*(torch.cat(parts) for parts in zip(*map(_tensors, found), strict=True)))

    def _look(self, observed: Units, recovered: Units, accepted: Bool[Tensor, "b m"]) -> State:
        """The state in which the accepted modalities are recovered and the others as observed."""
        taken = accepted[:, observed.modality]
        visible = observed.observed | taken
        content = torch.where(taken[..., None], recovered.content, observed.content)
        logits, features = self.backbone.represent(replace(observed, content=content), visible)
        metric, subset, answer = self.backbone.metric, self._subset(visible), logits.argmax(-1)
        quality = (metric.similarity(features, self.prototypes) / TEMPERATURE).softmax(-1).amax(-1)
        deviation = metric.distance(features, self.means[subset, answer]) / self.spreads[subset, answer]
        return State(logits, quality, TAILS[self.tail](deviation))

    def _calibrate(self, before: Tensor, after: Tensor) -> Tensor:
        """g: how much of the new quality counts where the features have become less usual."""
        factor = CALIBRATIONS[self.calibration](before, after)
        if self.tail == "erfc":
            factor = factor.clamp(0, 1)
        return torch.where(after >= before, 1.0, factor)

    def _subset(self, visible: Bool[Tensor, "b n"]) -> Int[Tensor, "b"]:
        """The number of the subset whose statistics apply."""
        shown = shown_modalities(visible, self.backbone.encoder.modality, len(self.bits))
        return self.number[(shown * self.bits).sum(1)]

    def _rows_per_pass(self, units: Units) -> int:
        return max(1, UNITS_PER_PASS // units.content.shape[1])


def _rows(units: Units, rows: Int[Tensor, "r"]) -> Units:
    return replace(units, content=units.content[rows], observed=units.observed[rows])


def _tensors(state: State) -> tuple[Tensor, Tensor, Tensor]:
    return state.logits, state.quality, state.tail
