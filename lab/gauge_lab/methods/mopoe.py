"""MoPoE classification: a linear classifier on the frozen imputer's latent of the observed values (Sutter et al. 2021)."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.imputers.mopoe import MoPoE
from gauge.masks import draw_subsets, visible_under
from gauge.nn.losses import cross_entropy
from gauge.paper.units import Frozen
from gauge.types import Method
from gauge.values import Batch, Prediction

__all__ = ["LatentClassifier"]


class LatentClassifier(Method):
    """Only one Linear layer is trained. With `subsets_per_step` (the † of tables) a step averages over that many random
    subsets, otherwise it uses all observed modalities. Styles of the imputer are not read.

        logits = W μ_S + b, with μ_S the mean of the imputer's posterior q(z | S), a product of Gaussian experts.

    Sutter et al. 2021.

    NOTE[PAPER] frozen-parts: published code leaves the frozen imputer in training mode; here it stays in eval mode.
    """

    def __init__(self, imputer: MoPoE, latent: int, num_classes: int, *, subsets_per_step: int | None = None) -> None:
        super().__init__()
        self.imputer = Frozen(imputer)
        self.head = nn.Linear(latent, num_classes)
        self.subsets_per_step = subsets_per_step

    @property
    def vae(self) -> MoPoE:
        assert isinstance(self.imputer.imputer, MoPoE)
        return self.imputer.imputer

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        chosen = draw_subsets(batch.key, self.vae.subsets, self.subsets_per_step)
        return {"task": cross_entropy(batch, self(batch, chosen))}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self(batch.check(), self.vae.subsets[-1:])[0])

    def forward(self, batch: Batch, chosen: Bool[Tensor, "r m"]) -> Float[Tensor, "r b k"]:
        return self.head(self.vae.posterior(batch, visible_under(batch.any_observed(), chosen))[0])
