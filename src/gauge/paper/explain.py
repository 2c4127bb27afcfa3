"""explain(): the score and the gate of every unit of a batch, and the attention it received before and after gating."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from gauge.paper.gauge import Gating, Reading, attention_bias
from gauge.paper.scoring.exact import exact_effects
from gauge.types import SupportsAttention
from gauge.values import Batch, Evidence, Prediction, Units

if TYPE_CHECKING:
    import pandas as pd


@runtime_checkable
class Explainable(Protocol):
    """What `explain` needs from a method, which is a `Gauge` or contains one."""

    def eval(self) -> object: ...

    def read(self, batch: Batch) -> Reading: ...

    def decide(self, reading: Any) -> Prediction: ...

    def weigh(self, reading: Any) -> tuple[Evidence, Tensor]: ...

    @property
    def gating(self) -> Gating: ...


@dataclass(frozen=True)
class BatchExplanation:
    """How GAUGE read a batch. `completed` is the input with imputed values, as the encoders read it; `classifier` is the
    network that read the units, for further queries."""

    completed: Batch
    units: Units
    evidence: Evidence
    gates: Float[Tensor, "b n"]
    logits: Float[Tensor, "b k"]
    attention_before: Float[Tensor, "b n"]
    attention_after: Float[Tensor, "b n"]
    classifier: SupportsAttention
    trust: Float[Tensor, "b n"] | None = None
    reference: Tensor | None = None

    @property
    def used(self) -> Float[Tensor, "b n"]:
        """The signed effect of every unit, exactly (Eq. 2): positive where it supports the network's ungated prediction."""
        return exact_effects(self.classifier, self.units.tokens, reference=self.reference)

    def to_frame(self, names: Mapping[str, Sequence[str]]) -> "pd.DataFrame":
        """One row for every unit of every sample. `names` holds the names of the units of each modality, in order. `used`
        is the effect of a unit on the prediction, and `trusted` the probability that it is right, where that is learned."""
        import pandas as pd

        modality, unit = zip(*[(name, unit) for name, units in names.items() for unit in units], strict=True)
        samples, count = self.gates.shape
        columns = {
            "sample": self.completed.index.repeat_interleave(count),
            "modality": modality * samples,
            "unit": unit * samples,
            "observed": self.units.observed,
            "score": self.evidence.scores,
            "gate": self.gates,
            "used": self.used,
            **({} if self.trust is None else {"trusted": self.trust}),
            "attention_before": self.attention_before,
            "attention_after": self.attention_after,
        }
        return pd.DataFrame({name: x.flatten().cpu() if isinstance(x, Tensor) else x for name, x in columns.items()})


@torch.no_grad()
def explain(method: Explainable, batch: Batch) -> BatchExplanation:
    """The evidence behind the predictions for a batch. Attention is that of CLS in the last block, averaged over heads, and
    NaN if the backbone does not offer it."""
    method.eval()
    reading = method.read(batch.check())
    prediction = method.decide(reading)
    evidence, gates = prediction.evidence, prediction.gates
    if evidence is None or gates is None:  # an error: there are no gates
        evidence, gates = method.weigh(reading)

    def from_cls(bias: Tensor | None) -> Tensor:
        if not reading.classifier.offers_attention:
            return torch.full_like(reading.units.observed, torch.nan, dtype=torch.float32)
        return reading.classifier.attention(reading.units.tokens, bias)[:, :, 0, 1:].mean(1)

    return BatchExplanation(
        reading.completed,
        reading.units,
        evidence,
        gates,
        prediction.logits,
        from_cls(None),
        from_cls(attention_bias(gates)),
        reading.classifier,
        prediction.trust,
        method.gating.reference,
    )
