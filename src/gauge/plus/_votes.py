"""The votes of several classifiers on one batch, and their weights, learned from validation samples under many masks."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gauge.data import Dataset
from gauge.masks import AnyCells, AnyModalities, Corruption, Protocol
from gauge.plus.combination import Combination
from gauge.randomness import permutation, sample_keys
from gauge.values import Batch

SOUND = Corruption()


class Votes(NamedTuple):
    """What a `Combination` reads: the logits of all votes, which of them are present, the observed share of each modality
    and, where it is not full, the trust in what each voter reads."""

    logits: Float[Tensor, "b j k"]
    present: Bool[Tensor, "b j"]
    share: Float[Tensor, "b m"]
    trust: Float[Tensor, "b j"] | None = None


def head_votes(logits: Float[Tensor, "b m k"], batch: Batch, corrupt: Corruption = SOUND) -> Votes:
    """The votes of a head for each modality: those of observed modalities are present. With `corrupt`, what is wrong in
    the data, each is trusted by the share that is sound."""
    share = torch.stack([flags.reshape(flags.shape[0], -1).float().mean(1) for flags in batch.observed.values()], 1)
    trust = torch.full_like(share, corrupt.sound) if corrupt else None
    return Votes(logits.float(), batch.any_observed(), share, trust)


def validation_rows(train: Dataset, val: Dataset) -> Int[Tensor, "rows"]:
    """The validation samples to learn weights from, drawn at random since samples may be ordered by class: no more than
    there are labelled training samples, so that experiments with few labels use few in total."""
    # weights are learned from at most 4,096 validation samples
    count = min(len(val), int(train.labelled.sum()), 4096)
    return permutation(len(val), 0, "combination", device=val.device)[:count].sort().values


def masked_samples(val: Dataset, rows: Int[Tensor, "rows"], *, corrupt: Corruption = SOUND) -> Iterator[Batch]:
    """These samples under masks of every kind: any subset of the modalities, and of a table any share of its cells."""
    protocols: list[Protocol] = [AnyModalities()]
    protocols += [AnyCells()] if any(val.feature_counts.values()) else []
    for number in range(16):  # masks under which weights are learned from a validation sample
        for index in rows.split(512):
            key = sample_keys(index, number, "combination")
            draws = [protocol.keep(val.feature_counts, key) for protocol in protocols]
            keep = {name: _both(*(draw[name] for draw in draws)) for name in val.feature_counts}
            yield val.batch(index, keep=keep, key=key, corrupt=corrupt)


def learn_weights(
    combination: Combination, votes: Callable[[Batch], Votes], batches: Iterable[Batch], rows: int
) -> None:
    """Learn the weights of the votes on the batches, which show `rows` different samples."""
    parts = []
    for batch in batches:
        logits, present, share, trust = votes(batch)
        parts.append((logits, present, share, batch.labels, *([] if trust is None else [trust])))
    combination.learn(*map(torch.cat, zip(*parts, strict=True)), rows=rows)


def _both(first: Tensor, second: Tensor | None = None) -> Tensor:
    if second is None:
        return first
    return first[:, None] & second if second.ndim == 2 else first & second
