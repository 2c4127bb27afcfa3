"""Bag: experts of one kind that answer together; OutOfFold: each row is answered by the one that has not seen it."""

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from scipy.special import logsumexp

from gauge.tabular.experts import Expert, Folds, Saved, Task, with_prefix
from gauge.tabular.experts._graph import GraphRows
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema

__all__ = ["Bag", "OutOfFold", "bag", "load_expert"]


class _Several(Expert):
    """Experts of one kind, of which the first has the network and the record that are shown."""

    def __init__(self, members: Sequence[Expert]) -> None:
        self.members = tuple(members)
        self.network, self.training = members[0].network, members[0].training

    @classmethod
    def reads(cls, schema: Schema) -> bool:
        return True

    @classmethod
    def fit(cls, task: Task, folds: Folds) -> tuple[Expert, list[Expert]]:
        raise NotImplementedError("it is made of fitted experts")

    def save(self) -> Saved:
        saved = [member.save() for member in self.members]
        tensors = {f"{number}.{name}": each for number, own in enumerate(saved) for name, each in own.tensors.items()}
        return Saved(tensors, {"members": [own.metadata for own in saved]})

    @classmethod
    def load(cls, saved: Saved, schema: Schema) -> Self:
        raise NotImplementedError("load_expert knows the kind of its members")

    def to(self, device: torch.device) -> None:
        for member in self.members:
            member.to(device)

    def record(self) -> None:
        for member in self.members:
            member.record()


class Bag(_Several):
    """The mean of the probabilities of all members."""

    def predict(self, rows: Rows) -> np.ndarray:
        answers = np.stack([member.predict(rows) for member in self.members])
        return np.asarray(logsumexp(answers, axis=0) - np.log(len(self.members)))

    def export(self, rows: GraphRows) -> str:
        graph = rows.graph
        shares = [graph.node("Exp", member.export(rows)) for member in reversed(self.members)]  # the first is shown
        total = shares[0]
        for each in shares[1:]:
            total = graph.node("Add", total, each)
        return graph.node("Log", graph.node("Div", total, graph.constant(float(len(shares)))))


class OutOfFold(_Several):
    """Member number k answers the rows of fold k, which it has not seen."""

    def predict(self, rows: Rows) -> np.ndarray:
        if len(self.members) == 1:
            return self.members[0].predict(rows)
        assert rows.fold is not None
        parts = [np.flatnonzero(rows.fold == number) for number in range(len(self.members))]
        every = [member.predict(rows.take(part)) for member, part in zip(self.members, parts, strict=True)]
        answers = np.empty((len(rows), every[0].shape[1]))
        for part, own in zip(parts, every, strict=True):
            answers[part] = own
        return answers


def bag(experts: Sequence[Expert]) -> Expert:
    """Experts of one kind as one, bags by their members; a single expert is itself."""
    members = [each for expert in experts for each in (expert.members if isinstance(expert, Bag) else [expert])]
    return members[0] if len(members) == 1 else Bag(members)


def load_expert(kind: type[Expert], saved: Saved, schema: Schema) -> Expert:
    """The expert of this kind that was saved, or the bag of such experts."""
    max_members = 1000  # of a bag that is read from a file
    if set(saved.metadata) != {"members"}:
        return kind.load(saved, schema)
    members = saved.metadata["members"]
    if not isinstance(members, list) or not 1 < len(members) <= max_members:
        raise ValueError(f"{saved.source} has a bag that is not one of 2 to {max_members} experts")
    return Bag(
        [
            kind.load(Saved(with_prefix(f"{number}.", saved.tensors), metadata, saved.source), schema)
            for number, metadata in enumerate(members)
        ]
    )
