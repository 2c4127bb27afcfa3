"""Every modality read alone: a network sees the units of one modality and nothing else."""

from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from gauge.nn.streams import side_by_side
from gauge.paper.network import Network, hiding_bias
from gauge.paper.units import UnitEncoder
from gauge.values import Units


def states_alone(encoder: UnitEncoder, units: Units, networks: Sequence[Network]) -> Float[Tensor, "b m c"]:
    """The CLS state of each modality's network; missing units are hidden from it. Only distinct networks run side by side:
    streams that share weights would have to wait for each other's gradients."""
    counts = list(encoder.unit_counts.values())
    parts = zip(networks, units.tokens.split(counts, 1), units.observed.split(counts, 1), strict=True)
    calls = [partial(network.features, tokens, hiding_bias(observed)) for network, tokens, observed in parts]
    distinct = len(set(networks)) == len(networks)
    return torch.stack(side_by_side(calls) if distinct else [call() for call in calls], 1)
