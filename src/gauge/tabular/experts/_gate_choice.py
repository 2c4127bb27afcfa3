"""Whether gates change the answer of a trained network: where that pays on rows held out. Otherwise they are evidence."""

import numpy as np
import torch

from gauge.data import Dataset
from gauge.masks import Complete, Protocol
from gauge.plus.gauge_plus import GaugePlus
from gauge.training.distributed import broadcast
from gauge.training.inference import predict_split
from gauge.training.metrics import log_losses, pays
from gauge.types import provisional

MAX_COMBINING_ROWS = 300  # held out, under many masks each, that the weights of network and heads are learned from


def choose_gates(model: GaugePlus, train: Dataset, val: Dataset | None, masks: Protocol) -> dict[str, float]:
    """Let the ungated pass answer unless the gated one has smaller log losses, without the heads, by more than their
    standard error, for validation rows as they are and under masks: its scoring pass takes two thirds of the time of a
    prediction. The combination with the heads is learned for the pass that answers. Returns the mean losses "with" and
    "without" gates, none if there are no rows to compare them on."""
    if val is None:
        model.applies_gates = False
        model.prepare(train)
        return {}
    with_gates = _losses(model, val, masks)
    model.applies_gates = False
    without = _losses(model, val, masks)
    model.applies_gates = broadcast(pays(without - with_gates))
    model.prepare(train, spread(val, MAX_COMBINING_ROWS))
    return {"with": float(with_gates.mean()), "without": float(without.mean())}


def spread(val: Dataset, count: int) -> Dataset:
    """No more than so many of the rows, evenly chosen."""
    if len(val) <= count:
        return val
    return val.take(torch.linspace(0, len(val) - 1, count).long().to(val.device))


def _losses(model: GaugePlus, val: Dataset, masks: Protocol) -> np.ndarray:
    """The log loss of every row without the heads, the mean of that as it is and that under masks."""
    combination, model.combination = model.combination, None
    with provisional(model):
        answers = [predict_split(model, val, protocol) for protocol in (Complete(), masks)]
    model.combination = combination
    return np.mean([log_losses(each.probabilities, each.labels) for each in answers], axis=0)
