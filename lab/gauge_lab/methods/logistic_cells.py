"""Logistic regression on the cells of the table alone, with a flag for each missing one; without any the class prior."""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gauge.masks import Protocol
from gauge_lab.methods._cells import CellClassifier, CellRows

__all__ = ["LogisticCells"]


class LogisticCells(CellClassifier):
    """Logistic regression fitted by scikit-learn; the weights are buffers, and nothing is trained by gradient steps.

        logits = W [standardised cells, 0 where missing; flags of missing cells] + b,   least mean NLL + |W|² / (2 C n)

    C is the one of a few with the least loss on validation rows under the masks of training.
    """

    def __init__(
        self, tables: Mapping[str, Sequence[int]], num_classes: int, *, masks: Protocol, seed: int = 0
    ) -> None:
        super().__init__(tables, num_classes, masks=masks, seed=seed)
        self.mean, self.deviation = nn.Buffer(torch.zeros(self.width)), nn.Buffer(torch.ones(self.width))
        self.weight = nn.Buffer(torch.zeros(num_classes, 2 * self.width))
        self.offset = nn.Buffer(torch.zeros(num_classes))

    def fit_rows(self, train: CellRows, val: CellRows | None) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of columns without any value
            mean, deviation = np.nanmean(train.features, 0), np.nanstd(train.features, 0)
        self.mean.copy_(torch.from_numpy(np.nan_to_num(mean)))
        self.deviation.copy_(torch.from_numpy(np.where(deviation > 0, deviation, 1.0)))
        strengths = (0.01, 0.1, 1.0, 10.0, 100.0)  # C
        fits = [self._fit(train, strength) for strength in (strengths if val else (1.0,))]
        self._load(*(fits[0] if val is None else min(fits, key=lambda fit: self._loss(val, *fit))))

    def scores(self, features: Float[Tensor, "b d"]) -> Float[Tensor, "b k"]:
        return self._inputs(features) @ self.weight.T + self.offset

    def _inputs(self, features: Float[Tensor, "b d"]) -> Float[Tensor, "b e"]:
        missing = features.isnan()
        standardised = torch.where(missing, 0.0, (features - self.mean) / self.deviation)
        return torch.cat([standardised, missing.to(standardised.dtype)], 1)

    def _fit(self, rows: CellRows, strength: float) -> tuple[Tensor, Tensor]:
        """The weights and offsets of all classes; with two classes, those of the first are zero."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        inputs = self._inputs(torch.from_numpy(rows.features).to(self.mean)).double().cpu().numpy()
        model = LogisticRegression(C=strength, max_iter=300)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the steps are a limit as good as any
            model.fit(inputs, rows.labels, sample_weight=np.full(len(rows.labels), rows.weight))
        # the offset of a class without training rows
        weight, offset = torch.zeros_like(self.weight), torch.full_like(self.offset, -30.0)
        offset[model.classes_] = 0.0
        fitted = model.classes_[-len(model.coef_) :]
        weight[fitted] = torch.from_numpy(model.coef_).to(weight)
        offset[fitted] = torch.from_numpy(model.intercept_).to(offset)
        return weight, offset

    def _load(self, weight: Tensor, offset: Tensor) -> None:
        self.weight.copy_(weight)
        self.offset.copy_(offset)

    def _loss(self, rows: CellRows, weight: Tensor, offset: Tensor) -> float:
        self._load(weight, offset)
        logits = self.scores(torch.from_numpy(rows.features).to(self.mean))
        return float(F.cross_entropy(logits, torch.from_numpy(rows.labels).to(logits.device)))
