"""Any-subset backbone: one Transformer trained on random subsets of its modalities; missing units are masked."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.choices import pick
from gauge.masks import draw_subsets, subsets, visible_under
from gauge.paper.network import Network, hiding_bias
from gauge.paper.units import UnitEncoder
from gauge.types import Method
from gauge.values import Batch, Prediction, Units

__all__ = ["AnySubset"]

TEMPERATURE = 0.1  # DyMo, every benchmark


@dataclass(frozen=True)
class FeatureMetric:
    """How features are compared: `embed` maps projections into the feature space, `similarity` compares features with the
    prototypes of all classes, `distance` with one centre each."""

    embed: Callable[[Tensor], Tensor]
    similarity: Callable[[Tensor, Tensor], Tensor]
    distance: Callable[[Tensor, Tensor], Tensor]


METRICS = {
    "cosine": FeatureMetric(
        embed=lambda features: F.normalize(features, dim=-1),
        similarity=lambda features, prototypes: features @ prototypes.T,
        distance=lambda features, centres: (1 - (features * centres).sum(-1)).clamp_min(0),
    ),
    "euclidean": FeatureMetric(
        embed=lambda features: features,
        # -‖f - p‖² without ‖f‖², which is the same for all classes
        similarity=lambda features, prototypes: 2 * features @ prototypes.T - prototypes.square().sum(-1),
        distance=lambda features, centres: (features - centres).norm(dim=-1),
    ),
}


class AnySubset(Method):
    """Every step encodes each modality once and classifies the batch under several subsets. Hidden units lose their content
    and attention ignores them. Buffers are updated in place, so that steps can be captured as CUDA graphs.

    L = mean CE + [epoch >= 3] · mean -log softmax_c(s(f, p_c) / 0.1)[y], with f the projected CLS state and p_c the mean
    of all f of class c in the epoch before.

    Du et al. 2026.

    NOTE[PAPER] prototypes: means of unit vectors, as published not normalised again; a class without samples keeps its own.
    """

    def __init__(
        self,
        encoder: UnitEncoder,
        classifier: Network,
        *,
        subsets_per_step: int,
        projection: int = 16,
        distance: Literal["cosine", "euclidean"] = "cosine",
    ) -> None:
        super().__init__()
        pick(METRICS, distance, "distance")
        self.encoder, self.classifier = encoder, classifier
        self.projection = nn.Linear(classifier.head.in_features, projection)
        self.subsets_per_step, self.distance = subsets_per_step, distance
        classes = classifier.head.out_features
        self.subsets = nn.Buffer(subsets(len(encoder.unit_counts)), persistent=False)
        self.prototypes = nn.Buffer(torch.zeros(classes, projection))
        self.epochs = nn.Buffer(torch.tensor(0))
        self.sums = nn.Buffer(torch.zeros(classes, projection))
        self.counts = nn.Buffer(torch.zeros(classes))

    @property
    def metric(self) -> FeatureMetric:
        return METRICS[self.distance]

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy and prototype term, averaged over distinct random subsets, drawn once for the batch."""
        assert batch.labels is not None
        chosen = draw_subsets(batch.key, self.subsets, self.subsets_per_step)
        logits, features = self.represent(*under_subsets(self.encoder(batch), chosen))
        labels = batch.labels.repeat(len(chosen))
        return {"task": F.cross_entropy(logits, labels), "prototype": self._prototype_term(features, labels)}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        units = self.encoder(batch.check())
        return Prediction(self.represent(units, units.observed)[0])

    def represent(self, units: Units, visible: Bool[Tensor, "b n"]) -> tuple[Float[Tensor, "b k"], Tensor]:
        """Logits and features [b, p] of the visible units, from one pass."""
        state = self.classifier.features(units.keep(visible).tokens, hiding_bias(visible))
        return self.classifier.head(state), self.metric.embed(self.projection(state))

    @torch.no_grad()
    def end_epoch(self) -> None:
        """The epoch's class means become the prototypes of the next."""
        seen = self.counts[:, None] > 0
        self.prototypes.copy_(torch.where(seen, self.sums / self.counts[:, None].clamp_min(1), self.prototypes))
        self.sums.zero_()
        self.counts.zero_()
        self.epochs.add_(1)

    def _prototype_term(self, features: Tensor, labels: Tensor) -> Tensor:
        """Always computed, and multiplied by zero in the first epochs, so that all steps are the same CUDA graph."""
        with torch.autocast(features.device.type, enabled=False):
            features = features.to(self.prototypes.dtype)
            if self.training:
                members = one_hot(labels, self.counts)
                self.sums.add_(members.T @ features.detach())
                self.counts.add_(members.sum(0))
            scores = self.metric.similarity(features, self.prototypes) / TEMPERATURE
            return (self.epochs >= 3).to(scores.dtype) * F.cross_entropy(scores, labels)  # DyMo, counted from 0


def under_subsets(units: Units, chosen: Bool[Tensor, "r m"]) -> tuple[Units, Bool[Tensor, "rb n"]]:
    """The units repeated for every subset, and which of them are visible under it (see `visible_under`)."""
    visible = visible_under(units.observed, chosen[:, units.modality]).flatten(0, 1)
    content, observed = units.content.repeat(len(chosen), 1, 1), units.observed.repeat(len(chosen), 1)
    return replace(units, content=content, observed=observed), visible


def one_hot(labels: Int[Tensor, "b"], like: Float[Tensor, "k ..."]) -> Float[Tensor, "b k"]:
    """One column for each row of `like`. Sums by class are products with it, which are reproducible on a GPU, where
    `index_add_` is not."""
    return (labels[:, None] == torch.arange(len(like), device=like.device)).to(like.dtype)
