"""MAP: missing-aware prompts. The subset that a sample shows chooses learned tokens that join it at every block.

h_0 = [CLS, units]; h_i = block_i([h_{i-1}, prompts_{S,i}]), so the sequence grows by the prompts of each block.
L = CE of the CLS state of the last block; † averages it over K random subsets in every step.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from gauge.masks import draw_subsets, subsets
from gauge.methods.any_subset import under_subsets
from gauge.methods.mtl import subset_code
from gauge.model.backbones.transformer import Transformer
from gauge.model.gates import FEW_UNITS
from gauge.model.network import Network
from gauge.model.nn.attention import small_parameter
from gauge.model.units import UnitEncoder
from gauge.types import Batch, Method, Prediction, Units

__all__ = ["MAP"]

LENGTHS = {33: 8, 91: 16}  # prompts by the number of units: DVM's, then CAD's and Infarction's
FEW, MANY = 4, 12  # for all others: up to FEW_UNITS units (MST, CelebA), and more (PolyMNIST)
FILLING = 1.0  # of the content of missing units, like the all-ones picture of the original


def prompt_length(units: int) -> int:
    """How many prompts join `units` units at each block.

    NOTE[PAPER] map-prompts: published lengths are set for each benchmark; here the number of units decides, and the
    published benchmarks get theirs.

    >>> [prompt_length(units) for units in (2, 3, 20, 33, 91)]
    [4, 4, 12, 8, 16]
    """
    return LENGTHS.get(units, MANY if units > FEW_UNITS else FEW)


class MAP(Method):
    """The shared network with `length` prompts for each subset and block (`prompt_length` when 0); everything trains.

    With `subsets_per_step` = 0 the batch is seen as it is: on complete data the prompts of all other subsets never train.

    NOTE[PAPER] map-from-scratch: the original freezes a large pre-trained Transformer and trains prompts and head; as in
    DyMo's comparison, all of it trains here, from scratch.
    """

    def __init__(
        self, encoder: UnitEncoder, classifier: Network, *, length: int = 0, subsets_per_step: int = 0
    ) -> None:
        super().__init__()
        if not isinstance(classifier.backbone, Transformer):
            raise ValueError(
                f"MAP adds prompts before every block, which {type(classifier.backbone).__name__} does not show; use "
                "gauge.model.backbones.transformer.Transformer"
            )
        self.encoder = encoder
        self.classifier = classifier
        self.subsets_per_step = subsets_per_step
        self.register_buffer("subsets", subsets(len(encoder.layout)), persistent=False)
        self.subsets: Tensor
        length = length or prompt_length(sum(encoder.layout.values()))
        self.prompts = small_parameter(
            len(self.subsets), len(classifier.backbone.blocks), length, len(classifier.cls_token)
        )

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        assert batch.labels is not None
        units = self.encoder(batch)
        if not self.subsets_per_step:
            return {"task": F.cross_entropy(self.classify(units, units.observed), batch.labels)}
        chosen = draw_subsets(batch.key, self.subsets, self.subsets_per_step)
        logits = self.classify(*under_subsets(units, chosen))
        return {"task": F.cross_entropy(logits, batch.labels.repeat(len(chosen)))}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        units = self.encoder(batch.check())
        return Prediction(self.classify(units, units.observed))

    def classify(self, units: Units, visible: Bool[Tensor, "b n"]) -> Float[Tensor, "b k"]:
        """The logits of the visible units. Prompts have no position, so they may stand last: CLS stays first."""
        prompts = self.prompts[subset_code(visible, units.modality, len(self.encoder.layout))]
        filled = replace(units, content=torch.where(visible[..., None], units.content, FILLING))
        cls = (self.classifier.cls_token + self.classifier.cls_position).expand(len(visible), 1, -1)
        sequence = torch.cat([cls, filled.tokens], 1)
        assert isinstance(self.classifier.backbone, Transformer)
        blocks = self.classifier.backbone.blocks
        for place, block in enumerate(blocks, 1):
            reads = 1 if place == len(blocks) else None
            sequence = block(torch.cat([sequence, prompts[:, place - 1]], 1), reads=reads)
        return self.classifier.head(sequence[:, 0])
