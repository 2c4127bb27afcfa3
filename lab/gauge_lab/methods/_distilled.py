"""Distilled: a method that learns from samples without labels, by the class probabilities that others give them."""

from dataclasses import replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.data import Dataset
from gauge.types import Method
from gauge.values import Batch, Prediction


@runtime_checkable
class Student(Protocol):
    """A method that learns from class probabilities."""

    def loss(self, batch: Batch) -> dict[str, Tensor]: ...
    def predict(self, batch: Batch) -> Prediction: ...
    def validate(self, train: Dataset, val: Dataset) -> dict[str, float]: ...
    def prepare(self, train: Dataset, val: Dataset | None = None) -> None: ...


class Distilled(Method):
    """`targets` are the class probabilities of every row that the student learns from.

    L = loss(student, x_i under masks, p_i),   p_i = the label where there is one, else the prediction of the teacher for x_i

    The teacher reads all observed values of a sample and the student random subsets of them, so that the student learns
    to predict from parts as the teacher does from the whole.
    """

    needs_labels = False

    def __init__(self, student: Student, targets: Float[Tensor, "rows k"]) -> None:
        super().__init__()
        self.student = student
        self.targets = nn.Buffer(targets, persistent=False)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        return self.student.loss(replace(batch, labels=self.targets[batch.index]))

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return self.student.predict(batch)

    def validate(self, train: Dataset, val: Dataset) -> dict[str, float]:
        return self.student.validate(train, val)

    def prepare(self, train: Dataset, val: Dataset | None = None) -> None:
        self.student.prepare(train, val)
