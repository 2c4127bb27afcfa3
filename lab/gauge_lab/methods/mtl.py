"""MTL: every subset of the modalities is a task with its own CLS token, and every step trains all of them."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.masks import subsets
from gauge.nn.initialise import small_parameter
from gauge.nn.losses import cross_entropy
from gauge.paper.network import Network, hiding_bias
from gauge.paper.units import UnitEncoder
from gauge.plus.any_subset import under_subsets
from gauge.types import Method
from gauge.values import Batch, Prediction, Units
from gauge_lab.vectors import shown_modalities

__all__ = ["MTL"]


class MTL(Method):
    """The shared network with one CLS token for each subset.

        L = mean over all 2^M - 1 subsets S of CE(f(x_S, CLS_S), y)

    Missing units are zero; CLS does not see them, the others do.

    Ma et al. 2022.

    NOTE[PAPER] mtl-encode-once: published code runs the encoders for every subset; here all subsets share one encoding.
    """

    def __init__(self, encoder: UnitEncoder, classifier: Network) -> None:
        super().__init__()
        self.encoder = encoder
        self.backbone, self.head = classifier.backbone, classifier.head
        self.cls_position = classifier.cls_position
        self.cls_tokens = small_parameter(2 ** len(encoder.unit_counts) - 1, len(classifier.cls_token))
        self.subsets = nn.Buffer(subsets(len(encoder.unit_counts)), persistent=False)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy over all subsets, each with what it leaves of a sample's observed modalities."""
        return {"task": cross_entropy(batch, self.classify(*under_subsets(self.encoder(batch), self.subsets)))}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        units = self.encoder(batch.check())
        return Prediction(self.classify(units, units.observed))

    def classify(self, units: Units, visible: Bool[Tensor, "b n"]) -> Float[Tensor, "b k"]:
        """The logits of the visible units, by the CLS token of their subset."""
        task = subset_code(visible, units.modality, len(self.encoder.unit_counts))
        cls = (self.cls_tokens[task] + self.cls_position)[:, None]
        sequence = torch.cat([cls, units.keep(visible).tokens], 1)
        return self.head(self.backbone.cls(sequence, cls_hiding_bias(visible)))


def cls_hiding_bias(visible: Bool[Tensor, "b n"]) -> Float[Tensor, "b 1 s s"]:
    """Hides invisible units from the attention of CLS alone."""
    return F.pad(hiding_bias(visible), (0, 0, 0, visible.shape[1]))


def subset_code(visible: Bool[Tensor, "b n"], modality: Int[Tensor, "n"], modalities: int) -> Int[Tensor, "b"]:
    """The number, from 0 to 2^M - 2, of the subset of modalities that each sample shows: the bits less 1."""
    bits = torch.arange(modalities, device=visible.device)
    return (shown_modalities(visible, modality, modalities) * 2**bits).sum(1) - 1
