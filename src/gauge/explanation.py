"""explain(): every unit of a batch with its score, its gate, and the attention it got before and after."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gauge.gates import attention_bias
from gauge.methods.gauge import Gauge
from gauge.types import Batch, Classifier, Evidence, Units


@dataclass(frozen=True)
class BatchEvidence:
    """What GAUGE made of a batch. `completed` holds the input as the encoders read it, imputed values included;
    `classifier` is the network as it saw the units, for whoever wants to ask it more."""

    completed: Batch
    units: Units
    evidence: Evidence
    gates: Float[Tensor, "b n"]
    logits: Float[Tensor, "b k"]
    attention_before: Float[Tensor, "b n"]
    attention_after: Float[Tensor, "b n"]
    classifier: Classifier


@torch.no_grad()
def explain(method: Gauge, batch: Batch) -> BatchEvidence:
    """The evidence behind the predictions for a batch; attention is the last block's, from CLS, averaged over heads."""
    method.eval()
    reading = method.read(batch.check())
    prediction = method.decide(reading)
    if prediction.evidence is None or prediction.gates is None:
        raise ValueError("this method has granularity 'none' and so no gates to explain; use 'unit' or 'modality'")

    def from_cls(bias: Tensor | None) -> Tensor:
        return reading.classifier.attention(reading.units.tokens, bias)[:, :, 0, 1:].mean(1)  # type: ignore[attr-defined]

    return BatchEvidence(
        reading.completed,
        reading.units,
        prediction.evidence,
        prediction.gates,
        prediction.logits,
        from_cls(None),
        from_cls(attention_bias(prediction.gates)),
        reading.classifier,
    )
