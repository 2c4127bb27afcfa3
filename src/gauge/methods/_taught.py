"""Taught: a method that learns from samples without labels, by another one's answers to them.

L = mean_i max(p_i) · loss(student, x_i under masks, argmax p_i),   p_i = teacher(x_i as it is)

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


class Taught(Method):
    """`answers` are the teacher's class probabilities for every row that the student learns from. Labels of these rows are
    never read."""

    def __init__(self, student: GaugePlus, answers: Float[Tensor, "rows k"]) -> None:
        super().__init__()
        self.student = student
        best = answers.max(1)
        self.labels, self.weights = (nn.Buffer(each, persistent=False) for each in (best.indices, best.values))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        taught = replace(batch, labels=self.labels[batch.index])
        return self.student.loss(taught, self.weights[batch.index])

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return self.student.predict(batch)

    def prepare(self, train: Dataset, val: Dataset | None = None) -> None:
        self.student.prepare(train, val)
