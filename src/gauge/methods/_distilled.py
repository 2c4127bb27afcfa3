"""Distilled: a method that learns from samples without labels, by the pseudo-labels of another one.

L = mean_i max(p_i) · loss(student, x_i under masks, argmax p_i),   p_i = teacher(x_i as it is)

The teacher reads all observed values of a sample and the student random subsets of them, so that the student learns to
answer from parts as the teacher does from the whole.
"""

from dataclasses import replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.data import Dataset
from gauge.types import Batch, Method, Prediction


@runtime_checkable
class Student(Protocol):
    """A method whose loss can weigh samples."""

    def loss(self, batch: Batch, weights: Float[Tensor, "b"] | None = None) -> dict[str, Tensor]: ...
    def predict(self, batch: Batch) -> Prediction: ...
    def validate(self, train: Dataset, val: Dataset) -> None: ...
    def prepare(self, train: Dataset, val: Dataset | None = None) -> None: ...


class Distilled(Method):
    """`probabilities` are the teacher's class probabilities for every row that the student learns from. Labels of these rows
    are never read."""

    def __init__(self, student: Student, probabilities: Float[Tensor, "rows k"]) -> None:
        super().__init__()
        self.student = student
        best = probabilities.max(1)
        self.labels = nn.Buffer(best.indices, persistent=False)
        self.weights = nn.Buffer(best.values, persistent=False)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        pseudo_labelled = replace(batch, labels=self.labels[batch.index])
        return self.student.loss(pseudo_labelled, self.weights[batch.index])

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return self.student.predict(batch)

    def validate(self, train: Dataset, val: Dataset) -> None:
        self.student.validate(train, val)

    def prepare(self, train: Dataset, val: Dataset | None = None) -> None:
        self.student.prepare(train, val)
