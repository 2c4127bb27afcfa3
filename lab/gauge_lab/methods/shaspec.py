"""ShaSpec: shared and specific features of every modality; a missing one gets what the available ones share."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.masks import draw_subsets, subsets, visible_under
from gauge.nn.losses import cross_entropy
from gauge.paper.network import Network
from gauge.paper.units import UnitEncoder
from gauge.plus.late_fusion import masked_mean
from gauge.types import Method
from gauge.values import Batch, Prediction
from gauge_lab.methods._alone import states_alone

__all__ = ["ShaSpec"]

ALIGNMENT, DOMAIN = 0.1, 0.02  # published code, for BraTS


class ShaSpec(Method):
    """Modalities of different shapes cannot enter one network as they are: each goes through its encoder of the shared
    backbone, and the shared and the specific networks read its units. A step encodes everything once; subsets differ in
    what is fused. Modalities that were not observed take no part in the two objectives.

        f_m = s_m + W [s_m; r_m] where m is available, else the mean of s over the available modalities
        L = CE(V [f_1; ...; f_M]) + 0.1 · alignment(s) + 0.02 · CE(which modality r_m is of)

    (Wang et al. 2023.) One network reads s of all modalities, each modality has one of its own for r. Alignment is the
    mean absolute difference of s between neighbouring modalities, summed over neighbours.

    The published code fills a missing modality with the shared features of the first available one, the paper with their
    mean, as here. Published training draws how many modalities are kept, then which; here it is one of all subsets.
    """

    def __init__(
        self, encoder: UnitEncoder, shared: Network, specific: Sequence[Network], *, subsets_per_step: int = 2
    ) -> None:
        super().__init__()
        dim, count = shared.head.in_features, len(encoder.unit_counts)
        self.encoder, self.subsets_per_step = encoder, subsets_per_step
        self.shared, self.specific = shared, nn.ModuleList(specific)
        self.residual, self.domain = nn.Linear(2 * dim, dim, bias=False), nn.Linear(dim, count)
        self.head = nn.Linear(count * dim, shared.head.out_features)
        for network in (shared, *specific):
            network.head = nn.Identity()  # type: ignore[assignment]  # only their features are read
        self.subsets = nn.Buffer(subsets(count), persistent=False)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy over random subsets, drawn once for the batch, and the two objectives for the features."""
        shared, specific, available = self.features(batch)
        chosen = draw_subsets(batch.key, self.subsets, self.subsets_per_step)
        logits = [self.classify(shared, specific, visible) for visible in visible_under(available, chosen)]
        return {
            "task": cross_entropy(batch, torch.stack(logits)),
            "alignment": ALIGNMENT * alignment(shared, available),
            "domain": DOMAIN * domain_loss(self.domain(specific), available),
        }

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self.classify(*self.features(batch.check())))

    def features(self, batch: Batch) -> tuple[Float[Tensor, "b m c"], Float[Tensor, "b m c"], Bool[Tensor, "b m"]]:
        """The shared and the specific features of all modalities, and which are available."""
        units = self.encoder(batch)
        shared = states_alone(self.encoder, units, [self.shared] * len(self.specific))
        specific = states_alone(self.encoder, units, list(self.specific))  # type: ignore[arg-type]
        return shared, specific, batch.any_observed()

    def fuse(
        self, shared: Float[Tensor, "b m c"], specific: Float[Tensor, "b m c"], visible: Bool[Tensor, "b m"]
    ) -> Float[Tensor, "b m c"]:
        """The features of visible modalities; those of the others are generated from what the visible ones share."""
        own = shared + self.residual(torch.cat([shared, specific], -1))
        weight = visible[..., None].to(shared.dtype)
        generated = (shared * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True).clamp_min(1)
        return torch.where(visible[..., None], own, generated)

    def classify(self, shared: Tensor, specific: Tensor, visible: Bool[Tensor, "b m"]) -> Float[Tensor, "b k"]:
        return self.head(self.fuse(shared, specific, visible).flatten(1))


def alignment(shared: Float[Tensor, "b m c"], available: Bool[Tensor, "b m"]) -> Float[Tensor, ""]:
    """The mean absolute difference of the shared features of each modality and the next one, the first after the last;
    summed over modalities, over the samples that have both."""
    distance = (shared - shared.roll(-1, 1)).abs().mean(-1)
    return masked_mean(distance, available & available.roll(-1, 1)).sum()


def domain_loss(logits: Float[Tensor, "b m d"], available: Bool[Tensor, "b m"]) -> Float[Tensor, ""]:
    """The mean cross-entropy of which modality the specific features of available modalities are of."""
    costs = -F.log_softmax(logits, -1).diagonal(dim1=1, dim2=2)
    return (costs * available).sum() / available.sum().clamp_min(1)
