"""TokenExplanation: how a wrapped model read the tokens of a batch, as a DataFrame and as a page of evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gauge.data.files import write_text
from gauge.values import Evidence

if TYPE_CHECKING:
    import pandas as pd

    from gauge.reports.evidence import GridImage, RowEvidence, Unit


@dataclass(frozen=True)
class TokenExplanation:
    """How a wrapped model read a batch.

    Parameters
    ----------
    logits, evidence, gates
        Those of the prediction.
    visible
        False for padding.
    attention_before, attention_after
        The attention of the position that the head reads in the last block, averaged over heads, without and with gates: the
        last token of a decoder, otherwise the fixed positions, or all if none is fixed.
    effects
        How far the probability of the predicted class falls when the gate of the token is closed; None if not measured.
    classes
        The names of the classes.
    facts
        What a page says about the model.
    fixed
        The number of first positions, which have no gate.

    Examples
    --------
    >>> one = torch.ones(1, 2)
    >>> explanation = TokenExplanation(torch.ones(1, 3), Evidence(one, torch.ones(1, 3)), one, one > 0, one, one)
    """

    logits: Float[Tensor, "b k"]
    evidence: Evidence
    gates: Float[Tensor, "b n"]
    visible: Bool[Tensor, "b n"]
    attention_before: Float[Tensor, "b n"]
    attention_after: Float[Tensor, "b n"]
    effects: Float[Tensor, "b n"] | None = None
    classes: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    fixed: int = 0

    def to_frame(self, names: Sequence[Sequence[str]] | None = None) -> "pd.DataFrame":
        """Return a line for every token that is not padding.

        Parameters
        ----------
        names
            The words of each sample, without the fixed positions.

        Returns
        -------
        DataFrame
            With score, gate and attention of each token and, if they were measured, the effect `used`.

        Examples
        --------
        >>> explanation.to_frame([["a", "word"]])["name"].tolist()
        ['a', 'word']
        """
        import pandas as pd

        sample, token = self.visible.nonzero(as_tuple=True)
        values = {
            "score": self.evidence.scores,
            "gate": self.gates,
            "attention_before": self.attention_before,
            "attention_after": self.attention_after,
        }
        if self.effects is not None:
            values["used"] = self.effects
        columns: dict[str, Any] = {"sample": sample.cpu(), "token": token.cpu()}
        if names is not None:
            self._check_names(names)
            columns["name"] = [names[i][j] for i, j in zip(sample.tolist(), token.tolist(), strict=True)]
        return pd.DataFrame(columns | {name: value[self.visible].float().cpu() for name, value in values.items()})

    def to_html(
        self,
        path: str | Path,
        *,
        names: Sequence[Sequence[str]] | None = None,
        images: Tensor | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        """Write one file that works offline: every sample with its prediction, the tokens that speak for and against it if
        `effects` were measured, and the gate of every token.

        Parameters
        ----------
        path
            Of the page.
        names
            The words of each sample, without the fixed positions.
        images
            Those that the model was given, [b, 3, h, w], whose patches are the tokens.
        labels
            The true classes, by name.

        Examples
        --------
        >>> explanation.to_html("evidence.html", names=[["a", "word"]])
        """
        from gauge.reports.evidence import EvidencePage, render

        for kind, given in (("images", images), ("labels", labels)):
            if given is not None and len(given) != len(self.logits):
                raise ValueError(
                    f"{kind} has {len(given)} of the {len(self.logits)} samples explained; give one for each"
                )
        if names is not None and images is None:
            self._check_names(names)
        rows = tuple(
            self._row(
                sample,
                None if names is None else names[sample],
                None if images is None else images[sample],
                None if labels is None else labels[sample],
            )
            for sample in range(len(self.logits))
        )
        lead = f"How {self.facts.get('Model', 'a Transformer')} read {len(rows)} samples, token by token."
        write_text(Path(path), render(EvidencePage("Which tokens were used?", lead, rows, self.facts, part="token")))

    def _check_names(self, names: Sequence[Sequence[str]]) -> None:
        """Raise an error unless each sample has a name for every token, with or without padding at the end."""
        samples, padded = self.gates.shape
        if len(names) != samples:
            raise ValueError(f"names are of {len(names)} samples, not of the {samples} explained; give a list for each")
        for sample, (own, visible) in enumerate(zip(names, self.visible, strict=True)):
            count = int(visible.nonzero().max()) + 1 if visible.any() else padded
            if len(own) not in (count, padded):
                raise ValueError(
                    f"sample {sample} has {count} tokens but {len(own)} names; give one for every token after the fixed "
                    f"positions (leave out the first {self.fixed})"
                )

    def _row(self, sample: int, names: Sequence[str] | None, image: Tensor | None, label: str | None) -> "RowEvidence":
        from gauge.reports.evidence import RowEvidence

        column: Literal["text", "image"] = "text" if image is None else "image"
        images: dict[str, GridImage] = {}
        tokens = self.visible[sample].nonzero()[:, 0].tolist()
        if image is not None:
            images[column] = _grid_image(image, self.gates.shape[1])
            width = images[column].grid[1]
            names = [f"row {token // width + 1}, column {token % width + 1}" for token in range(self.gates.shape[1])]
        elif names is None:
            names = [str(token) for token in range(self.gates.shape[1])]
        units = tuple(self._unit(sample, token, column, names[token]) for token in tokens)
        ungated, gated = (self._prediction(logits[sample]) for logits in (self.evidence.logits, self.logits))
        return RowEvidence(f"Sample {sample}", gated, units, images, label=label, ungated=ungated)

    def _unit(self, sample: int, token: int, kind: Literal["text", "image"], name: str) -> "Unit":
        from gauge.reports.evidence import GatedUnit, Unit

        unit = Unit(
            *(kind, kind, name, name if kind == "text" else "", "observed"),
            score=float(self.evidence.scores[sample, token]),
            used=None if self.effects is None else float(self.effects[sample, token]),
        )
        if self.facts.get("Gates") == "open":
            return unit
        return GatedUnit(
            **vars(unit),
            gate=float(self.gates[sample, token]),
            attention_before=float(self.attention_before[sample, token]),
            attention_after=float(self.attention_after[sample, token]),
        )

    def _prediction(self, logits: Tensor) -> tuple[str, float]:
        probability, index = logits.float().softmax(0).max(0)
        return (self.classes[int(index)] if self.classes else str(int(index))), float(probability)


def _grid_image(image: Float[Tensor, "3 h w"], patches: int) -> "GridImage":
    """What the model was given, stretched to the range of pixels, with the grid of its patches."""
    from gauge.reports.evidence import GridImage

    height, width = image.shape[-2:]
    rows = round((patches * height / width) ** 0.5)
    if rows < 1 or patches % rows or rows * width != patches // rows * height:
        raise ValueError(f"{patches} tokens do not form a grid on {height} x {width} pixels; leave images out")
    pixels = image.detach().float().cpu()
    pixels = 255 * (pixels - pixels.min()) / (pixels.max() - pixels.min()).clamp_min(torch.finfo().eps)
    return GridImage(pixels.round().permute(1, 2, 0).numpy().astype(np.uint8), (rows, patches // rows))
