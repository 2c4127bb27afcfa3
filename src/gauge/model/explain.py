"""explain(): every unit of a batch with its score, its gate, and the attention it got before and after."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from gauge.model.gates import attention_bias
from gauge.model.gauge import Gauge
from gauge.types import Batch, Evidence, SupportsAttention, Units

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class BatchExplanation:
    """What GAUGE made of a batch. `completed` holds the input as the encoders read it, imputed values included;
    `classifier` is the network as it saw the units, for whoever wants to ask it more."""

    completed: Batch
    units: Units
    evidence: Evidence
    gates: Float[Tensor, "b n"]
    logits: Float[Tensor, "b k"]
    attention_before: Float[Tensor, "b n"]
    attention_after: Float[Tensor, "b n"]
    classifier: SupportsAttention

    def to_frame(self, names: Mapping[str, Sequence[str]]) -> "pd.DataFrame":
        """One line for every unit of every sample. `names` holds those of the units of each modality, in their order."""
        import pandas as pd

        modality, unit = zip(*[(name, each) for name, mine in names.items() for each in mine], strict=True)
        samples, units = self.gates.shape
        measured = {
            "observed": self.units.observed,
            "score": self.evidence.scores,
            "gate": self.gates,
            "attention_before": self.attention_before,
            "attention_after": self.attention_after,
        }
        columns = {"sample": self.completed.index.repeat_interleave(units), "modality": modality * samples}
        columns |= {"unit": unit * samples} | {key: values.flatten() for key, values in measured.items()}
        return pd.DataFrame(
            {key: values.cpu() if isinstance(values, Tensor) else values for key, values in columns.items()}
        )


def part_names(count: int) -> list[str]:
    """The parts of an image, row by row from top left; a number where they form no square.

    >>> part_names(4)[1], part_names(3)[1]
    ('row 1, column 2', '2')
    """
    side = round(count**0.5)
    if side**2 != count or count == 1:
        return [str(index + 1) for index in range(count)]
    return [f"row {index // side + 1}, column {index % side + 1}" for index in range(count)]


@torch.no_grad()
def explain(method: Gauge, batch: Batch) -> BatchExplanation:
    """The evidence behind the predictions for a batch; attention is the last block's, from CLS, averaged over heads."""
    method.eval()
    reading = method.read(batch.check())
    prediction = method.decide(reading)
    if prediction.evidence is None or prediction.gates is None:
        raise ValueError(
            f"granularity {method.gating.granularity!r} scores no units, so there is nothing to explain; use 'unit' or "
            "'modality'"
        )

    def from_cls(bias: Tensor | None) -> Tensor:
        return reading.classifier.attention(reading.units.tokens, bias)[:, :, 0, 1:].mean(1)

    return BatchExplanation(
        reading.completed,
        reading.units,
        prediction.evidence,
        prediction.gates,
        prediction.logits,
        from_cls(None),
        from_cls(attention_bias(prediction.gates)),
        reading.classifier,
    )
