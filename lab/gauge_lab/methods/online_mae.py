"""OnlineMAE: a masked auto-encoder of modality vectors restores dropped modalities, a classifier reads its output."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.nn.attention import Transformer
from gauge.nn.initialise import small_parameter
from gauge.nn.losses import cross_entropy
from gauge.paper.network import Network
from gauge.randomness import derive, uniform
from gauge.types import Method
from gauge.values import Batch, Prediction
from gauge_lab.methods.multiae import encoder_width
from gauge_lab.vectors import VectorEncoder

__all__ = ["OnlineMAE", "MaskedAutoEncoder"]


class MaskedAutoEncoder(nn.Module):
    """(tokens, kept) -> all tokens, including the kept ones. Attention hides dropped tokens from the encoder, which equals
    removing them, so each sample may keep its own number."""

    def __init__(self, tokens: int, dim: int, *, memory: int, heads: int, depth: int) -> None:
        super().__init__()
        self.memory, self.mask_token = small_parameter(memory, dim), small_parameter(dim)
        self.positions = small_parameter(memory + tokens, dim)
        self.encoder, self.encoder_norm = Transformer(dim, heads=heads, depth=depth), nn.LayerNorm(dim)
        self.decoder, self.decoder_norm = Transformer(dim, heads=heads, depth=depth), nn.LayerNorm(dim)
        self.output = nn.Linear(dim, dim)

    def forward(self, tokens: Float[Tensor, "b m c"], kept: Bool[Tensor, "b m"]) -> Float[Tensor, "b m c"]:
        visible = F.pad(kept, (len(self.memory), 0), value=True)
        sequence = torch.cat([self.memory.to(tokens.dtype).expand(len(tokens), -1, -1), tokens], 1) + self.positions
        state = self.encoder_norm(self.encoder(sequence, torch.where(visible, 0.0, -1e9)[:, None, None]))
        state = torch.where(visible[..., None], state, self.mask_token.to(state.dtype)) + self.positions
        return self.output(self.decoder_norm(self.decoder(state))[:, len(self.memory) :])


class OnlineMAE(Method):
    """The vector of each modality becomes a token; the classifier reads the auto-encoder's output for all tokens. In
    training the auto-encoder restores available modalities that were dropped; the targets are their own tokens.

        X = LN_m(vector of m);   X̂ = decoder(encoder(kept tokens, memory), mask token elsewhere);   logits = head(CLS | X̂)
        loss = CE + mean over dropped tokens of |X̂ - standardised X|² / c

    (ActionMAE, Woo et al. 2023.) n modalities are kept: n is drawn from 1 .. M-1 for a batch, which ones for each
    sample.

    NOTE[PAPER] online-mae-target: published code also trains the encoders to be easy to restore; identical tokens are the
    easiest, and training can collapse to them. Here the target is detached.
    """

    def __init__(self, encoder: VectorEncoder, autoencoder: MaskedAutoEncoder, classifier: Network) -> None:
        super().__init__()
        width, dim = encoder_width(encoder), classifier.head.in_features
        self.encoder = encoder.requires_grad_(True)
        self.project = nn.ModuleList(
            nn.Sequential(nn.Linear(width, dim) if width != dim else nn.Identity(), nn.LayerNorm(dim))
            for _ in encoder.encoders
        )
        self.autoencoder, self.classifier = autoencoder, classifier
        self.positions = small_parameter(len(self.project), dim)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        tokens, available = self.tokens(batch)
        kept = draw_kept(batch.key, available)
        restored = self.autoencoder(tokens, kept)
        target = F.layer_norm(tokens.detach(), tokens.shape[-1:], eps=1e-6)
        dropped = (available & ~kept).to(restored.dtype)
        errors = (restored - target).square().mean(-1) * dropped
        task = cross_entropy(batch, self.classifier(restored + self.positions))
        return {"task": task, "reconstruction": errors.sum() / dropped.sum().clamp_min(1)}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self.classifier(self.autoencoder(*self.tokens(batch.check())) + self.positions))

    def tokens(self, batch: Batch) -> tuple[Float[Tensor, "b m c"], Bool[Tensor, "b m"]]:
        """One token for each modality, and which are available."""
        vectors, available = self.encoder(batch)
        parts = zip(self.project, vectors.unbind(1), strict=True)
        return torch.stack([project(vector) for project, vector in parts], 1), available


def draw_kept(key: Int[Tensor, "b"], available: Bool[Tensor, "b m"]) -> Bool[Tensor, "b m"]:
    """n available modalities, or all if there are fewer: n is drawn once for the batch, which ones for each sample."""
    count = available.shape[1]
    keep = 1 + (uniform(derive(key[:1], "kept count"), 1)[0] * (count - 1)).long().clamp_max(max(count - 2, 0))
    ranks = uniform(derive(key, "kept"), count).masked_fill(~available, 2.0).argsort(1).argsort(1)
    return available & (ranks < keep)
