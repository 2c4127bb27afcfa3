"""MoPoE classification: a linear classifier on the frozen imputer's latent of what is observed (Sutter et al. 2021).

logits = W μ_S + b, with μ_S the mean of the imputer's posterior q(z | S), a product of Gaussian experts.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.imputers.mopoe import MoPoE
from gauge.methods.multiae import chosen_subsets, visible_under
from gauge.model.frozen import Frozen
from gauge.types import Batch, Method, Prediction

__all__ = ["LatentClassifier"]


class LatentClassifier(Method):
    """One Linear layer learns; the imputer's encoders run once a step and give the posterior of every subset.

    With `subsets_per_step` (the † of tables) a step averages over that many random subsets; else it sees what there is.
    A style, in imputers that have it, is not read.

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
        assert batch.labels is not None
        logits = self(batch, chosen_subsets(batch, self.vae.subsets, self.subsets_per_step))
        return {"task": F.cross_entropy(logits.flatten(0, 1), batch.labels.repeat(len(logits)))}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self(batch.check(), self.vae.subsets[-1:])[0])

    def forward(self, batch: Batch, chosen: Bool[Tensor, "r m"]) -> Float[Tensor, "r b k"]:
        return self.head(self.latents(batch, chosen))

    @torch.no_grad()
    def latents(self, batch: Batch, chosen: Bool[Tensor, "r m"]) -> Float[Tensor, "r b z"]:
        """The posterior mean of every sample under every subset."""
        return self.vae.posterior(batch, visible_under(batch.any_observed(), chosen))[0]
