"""MAP: missing-aware prompts. The observed subset of a sample selects learned tokens that join it at every block."""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.masks import draw_subsets, subsets
from gauge.nn.attention import Block, Transformer
from gauge.nn.initialise import small_parameter
from gauge.nn.losses import cross_entropy
from gauge.paper.gauge import MAX_RAW_UNITS
from gauge.paper.network import Network
from gauge.paper.units import UnitEncoder
from gauge.plus.any_subset import under_subsets
from gauge.types import Method, UnsupportedError
from gauge.values import Batch, Prediction, Units
from gauge_lab.methods.mtl import subset_code

__all__ = ["MAP"]


def prompt_length(units: int) -> int:
    """The number of prompts that join `units` units at each block.

    NOTE[PAPER] map-prompts: published lengths are set for each benchmark; here the number of units gives the same ones.

    >>> [prompt_length(units) for units in (2, 3, 20, 33, 91)]
    [4, 4, 12, 8, 16]
    """
    lengths = {33: 8, 91: 16}  # prompts by the number of units: DVM's, then CAD's and Infarction's
    # 4 prompts for up to MAX_RAW_UNITS units (MST, CelebA), and more (PolyMNIST)
    return lengths.get(units, 12 if units > MAX_RAW_UNITS else 4)


class MAP(Method):
    """The shared network with `length` prompts for each subset and block (`prompt_length` when 0). With `subsets_per_step=0`
    all observed modalities are visible: complete data then trains only one subset's prompts.

        h_0 = [CLS, units]; h_i = block_i([h_{i-1}, prompts_{S,i}]), so the sequence grows by the prompts of each block.
        L = CE of the CLS state of the last block; † averages it over K random subsets in every step.

    Lee et al. 2023.

    NOTE[PAPER] map-from-scratch: the original freezes a large pre-trained Transformer; as in DyMo's comparison, everything
    is trained from scratch here.
    """

    def __init__(
        self, encoder: UnitEncoder, classifier: Network, *, length: int = 0, subsets_per_step: int = 0
    ) -> None:
        super().__init__()
        if not isinstance(classifier.backbone, Transformer):
            raise UnsupportedError(
                f"MAP adds prompts before every block, which {type(classifier.backbone).__name__} does not expose; use "
                "gauge.Transformer"
            )
        self.encoder, self.classifier = encoder, classifier
        self.subsets_per_step = subsets_per_step
        self.subsets = nn.Buffer(subsets(len(encoder.unit_counts)), persistent=False)
        length, blocks = length or prompt_length(sum(encoder.unit_counts.values())), len(classifier.backbone.blocks)
        self.prompts = small_parameter(len(self.subsets), blocks, length, len(classifier.cls_token))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        chosen = draw_subsets(batch.key, self.subsets, self.subsets_per_step)
        return {"task": cross_entropy(batch, self.classify(*under_subsets(self.encoder(batch), chosen)))}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        units = self.encoder(batch.check())
        return Prediction(self.classify(units, units.observed))

    def classify(self, units: Units, visible: Bool[Tensor, "b n"]) -> Float[Tensor, "b k"]:
        """The logits of the visible units. Prompts have no position, so they can come last and CLS stays first."""
        prompts = self.prompts[subset_code(visible, units.modality, len(self.encoder.unit_counts))]
        # content of missing units, like the all-ones image of the original
        filled = replace(units, content=torch.where(visible[..., None], units.content, 1.0))
        sequence = self.classifier.sequence(filled.tokens)
        assert isinstance(self.classifier.backbone, Transformer)
        blocks = self.classifier.backbone.blocks
        for index, block in enumerate(blocks):
            sequence = torch.cat([sequence, prompts[:, index]], 1)
            assert isinstance(block, Block)
            sequence = block(sequence) if index < len(blocks) - 1 else block.first(sequence)
        return self.classifier.head(sequence[:, 0])
