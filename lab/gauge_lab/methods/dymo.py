"""DyMo: complete the input, then add imputed modalities one by one while they make the features clearer."""

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.choices import pick
from gauge.data import Dataset
from gauge.paper.units import Frozen
from gauge.plus.any_subset import TEMPERATURE, AnySubset, one_hot, under_subsets
from gauge.types import Prepared, SupportsComplete, UnsupportedError
from gauge.values import Batch, Prediction, Units
from gauge_lab.methods.mtl import subset_code
from gauge_lab.vectors import whole_modalities

__all__ = ["DyMo", "Selection"]

TAIL_FLOOR = 1e-9  # DyMo's own
UNITS_PER_PASS = 2**14  # of a stacked pass: larger ones do not fit the cache of a CPU

Calibration = Literal["log", "ratio"]

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
    """DyMo's decisions: `accepted` are the modalities used as imputed, `visible_modalities` those that are visible in full,
    `rounds` the largest number of rounds of a sample."""

    logits: Float[Tensor, "b k"]
    accepted: Bool[Tensor, "b m"]
    visible_modalities: Bool[Tensor, "b m"]
    rounds: int


class SubsetState(NamedTuple):
    """The backbone's prediction for a set of modalities, and how clear (`quality`) and usual (`tail`) its features are."""

    logits: Float[Tensor, "b k"]
    quality: Float[Tensor, "b"]
    tail: Float[Tensor, "b"]


class DyMo(Prepared):
    """A trained backbone that chooses at test time which imputed modalities to use. Nothing is trained here; `prepare`
    computes the class statistics of every subset from the training split.

        state of a subset S:      q = max_c softmax(s(f, p̄_c) / 0.1),   π = P(|z| > d(f, μ_{S,ŷ}) / σ_{S,ŷ}),   ŷ predicted
        reward of a modality u:   R_u = q_u · g(π, π_u) - q,   g = 1 where π_u >= π

    The best positive reward is added; modalities with a negative one are never considered again.

    Du et al. 2026.

    NOTE[PAPER] dymo-tail: published code computes π as 2(1 - Φ) in float32, which is 0 beyond 5.3 σ and so switches the
    calibration off there; `tail="erfc"` keeps the tail and clamps g to 0..1, `tail="float32"` is the original.
    """

    def __init__(
        self,
        backbone: AnySubset,
        imputer: SupportsComplete,
        *,
        calibration: Calibration = "log",
        tail: Literal["erfc", "float32"] = "erfc",
    ) -> None:
        super().__init__()
        pick(CALIBRATIONS, calibration, "calibration")
        pick(TAILS, tail, "tail")
        self.backbone = backbone.eval().requires_grad_(False)
        self.imputer = Frozen(imputer)
        self.calibration, self.tail = calibration, tail
        trained, (count, self.modalities) = backbone.prototypes, backbone.subsets.shape
        self.means = nn.Buffer(trained.new_zeros(count, *trained.shape))
        self.spreads = nn.Buffer(trained.new_zeros(count, len(trained)))
        self.prototypes = nn.Buffer(torch.zeros_like(trained))
        codes = subset_code(backbone.subsets, torch.arange(self.modalities, device=trained.device), self.modalities)
        self.number = nn.Buffer(codes.argsort(), persistent=False)

    def train(self, mode: bool = True) -> Self:
        """Stays in eval mode."""
        return super().train(False)

    @torch.no_grad()
    def prepare(self, train: Dataset, val: Dataset | None = None) -> None:
        """μ, σ = sqrt(mean d²) for every subset and class, and the prototypes p̄ = mean of μ over subsets.

        NOTE[PAPER] dymo-gaps: the published training splits are complete. Here a sample with missing modalities counts
        under every subset with what that leaves of it (`visible_under`), as in the backbone's training.
        """
        self.to(train.device)
        missing = sorted(set(range(len(self.prototypes))) - set(train.labels.unique().tolist()))
        if missing:
            raise UnsupportedError(
                f"the {train.split} split has no sample of class {missing[0]} ({len(missing)} such), so DyMo has no "
                "statistics for it; add samples, or leave the class out of the model"
            )
        labels, batches = one_hot(train.labels, self.prototypes), train.batches(512)
        parts = [(self._features(batch), labels[batch.index]) for batch in batches]
        counts = torch.stack([members.sum(0) for _, members in parts]).sum(0)
        means = torch.stack([members.T @ features for features, members in parts]).sum(0) / counts[:, None]
        distance = self.backbone.metric.distance
        squares = [distance(features, members @ means).square() @ members for features, members in parts]
        self.means.copy_(means)
        self.spreads.copy_((torch.stack(squares).sum(0) / counts).sqrt().clamp_min(1e-6))
        self.prototypes.copy_(means.mean(0))
        self.finished = True

    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self.select(batch).logits)

    @torch.no_grad()
    def select(self, batch: Batch) -> Selection:
        """The greedy choice: each round evaluates every open (sample, modality) pair in stacked passes."""
        self.check_finished()
        completed = self.imputer.complete(batch.check())
        imputed = self.backbone.encoder(completed, hide_missing=False)
        # an encoder that mixes the features of a partly observed modality must not read imputed ones before they are added
        partly = any(flags.ndim > 1 for flags in batch.observed.values())
        observed = self.backbone.encoder(batch) if partly else imputed
        whole = whole_modalities(observed.observed, observed.modality, self.modalities)
        accepted, open_ = torch.zeros_like(whole), ~whole
        state = self._look(observed, imputed, accepted)
        rounds = 0
        while len(pairs := open_.nonzero()):
            rounds += 1
            rows, added = pairs.unbind(1)
            proposed = accepted[rows].scatter(1, added[:, None], True)
            after = self._look_at_rows(observed, imputed, rows, proposed)
            reward = after.quality * self._calibrate(state.tail[rows], after.tail) - state.quality[rows]
            rewards = torch.full(open_.shape, -torch.inf, dtype=reward.dtype, device=reward.device)
            rewards[rows, added] = reward
            best, choice = rewards.max(1)
            better = best > 0
            chosen = better[rows] & (choice[rows] == added)
            accepted[rows[chosen]] = proposed[chosen]
            for current, new in zip(state, after, strict=True):
                current[rows[chosen]] = new[chosen]
            open_ &= better[:, None] & (rewards >= 0) & ~accepted
        return Selection(state.logits, accepted, whole | accepted, rounds)

    def _features(self, batch: Batch) -> Float[Tensor, "r b p"]:
        units = self.backbone.encoder(batch)
        subsets = self.backbone.subsets.split(self._rows_per_pass(units) // len(batch) or 1)
        features = [self.backbone.represent(*under_subsets(units, chosen))[1] for chosen in subsets]
        return torch.cat(features).unflatten(0, (-1, len(batch)))

    def _look_at_rows(self, observed: Units, imputed: Units, rows: Tensor, accepted: Tensor) -> SubsetState:
        step = self._rows_per_pass(observed)
        parts = zip(rows.split(step), accepted.split(step), strict=True)
        states = [self._look(_rows(observed, some), _rows(imputed, some), flags) for some, flags in parts]
        return SubsetState(*map(torch.cat, zip(*states, strict=True)))

    def _look(self, observed: Units, imputed: Units, accepted: Bool[Tensor, "b m"]) -> SubsetState:
        """The state with the accepted modalities imputed and the others as observed."""
        added = accepted[:, observed.modality]
        visible = observed.observed | added
        content = torch.where(added[..., None], imputed.content, observed.content)
        logits, features = self.backbone.represent(replace(observed, content=content), visible)
        metric, label = self.backbone.metric, logits.argmax(-1)
        subset = self.number[subset_code(visible, observed.modality, self.modalities)]
        quality = (metric.similarity(features, self.prototypes) / TEMPERATURE).softmax(-1).amax(-1)
        deviation = metric.distance(features, self.means[subset, label]) / self.spreads[subset, label]
        return SubsetState(logits, quality, TAILS[self.tail](deviation))

    def _calibrate(self, before: Tensor, after: Tensor) -> Tensor:
        """g: the factor of the new quality where the features have become less usual."""
        factor = CALIBRATIONS[self.calibration](before, after)
        if self.tail == "erfc":
            factor = factor.clamp(0, 1)
        return torch.where(after >= before, 1.0, factor)

    def _rows_per_pass(self, units: Units) -> int:
        return max(1, UNITS_PER_PASS // units.content.shape[1])


def _rows(units: Units, rows: Int[Tensor, "r"]) -> Units:
    return replace(units, content=units.content[rows], observed=units.observed[rows])
