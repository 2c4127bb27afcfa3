"""Taught: a method that learns from samples without labels, by another one's answers to them.

L = Σ_i w_i · loss(student, x_i under masks, argmax p_i) / b,   p_i = teacher(x_i as it is),   w_i = [max p_i >= 0.9]

The teacher reads all of a sample that was observed and the student random subsets of it, so that what a sample says as a
whole teaches what its parts say.
"""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.data import Dataset
from gauge.methods.gauge_plus import GaugePlus
from gauge.types import Batch, Method, Prediction

SURE = 0.9  # the least probability of an answer that is believed


class Taught(Method):
    """`answers` are the teacher's class probabilities for every row that the student learns from. Labels of these rows are
    never read."""

    def __init__(self, student: GaugePlus, answers: Float[Tensor, "rows k"]) -> None:
        super().__init__()
        self.student = student
        best = answers.max(1)
        self.labels = nn.Buffer(best.indices, persistent=False)
        self.weights = nn.Buffer((best.values >= SURE).float(), persistent=False)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        taught = replace(batch, labels=self.labels[batch.index])
        return self.student.loss(taught, self.weights[batch.index])

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return self.student.predict(batch)

    def prepare(self, train: Dataset, val: Dataset | None = None) -> None:
        self.student.prepare(train, val)
