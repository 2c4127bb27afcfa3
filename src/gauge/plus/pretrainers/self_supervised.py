"""Self-supervised pre-training: hidden evidence is reconstructed, modalities of a sample are matched, strays are found."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.choices import pick
from gauge.nn.contrast import PairContrast
from gauge.nn.tabular import CellHeads, ColumnLayout, by_cell, share_of
from gauge.paper.network import Network, hiding_bias
from gauge.paper.units import UnitEncoder
from gauge.plus.heads import head_pooling, pool
from gauge.randomness import choose, derive, uniform
from gauge.types import Pretrainer, UnsupportedError
from gauge.values import Batch, Units

__all__ = ["SelfSupervised"]


class SelfSupervised(Pretrainer):
    """Trains an encoder and a network for `GaugePlus`, without reading labels.

        loss = masked + contrast + matching

    masked: hidden cells of tables, and the content of hidden units of other modalities, from what the network still
    sees; contrast: every modality finds the others of its sample within the batch; matching: does one modality come from
    another sample. These are TIP's three terms (Du et al. 2024) for any number of modalities, any of which a sample may
    lack.

    Parameters
    ----------
    encoder, network
        What is trained; only the network's head is left as it is.
    tables
        The number of categories of each column of the modalities that are tables, 1 for numbers. Their cells are hidden
        before they are encoded. Of other modalities units are hidden from the network.
    masked
        The share of a sample's observed cells, and of the units of a modality, that is hidden.
    projection
        The width in which modalities are matched.

    Examples
    --------
    >>> from gauge.encoders.mlp import Mlp
    >>> encoder = UnitEncoder({"scan": Mlp((3,), 8), "blood": Mlp((5,), 8)}, dim=8)
    >>> pretrainer = SelfSupervised(encoder, Network(lambda sequence, attn_bias=None: sequence, dim=8, num_classes=3))
    >>> flags = {name: torch.ones(4, dtype=torch.bool) for name in ("scan", "blood")}
    >>> batch = Batch({"scan": torch.rand(4, 3), "blood": torch.rand(4, 5)}, flags)
    >>> list(pretrainer.loss(batch))
    ['masked', 'contrast', 'matching']
    """

    looks_across_batch = True

    def __init__(
        self,
        encoder: UnitEncoder,
        network: Network,
        tables: Mapping[str, Sequence[int]] | None = None,
        *,
        masked: float = 0.5,
        projection: int = 128,
    ) -> None:
        super().__init__()
        self.encoder, self.network = encoder, network
        modalities, dim = len(encoder.unit_counts), network.head.in_features
        layouts = {name: ColumnLayout(sizes) for name, sizes in (tables or {}).items()}
        # the units of each modality without the one that reads all of it
        whole = {name: encoder.has_whole(name) and count > 1 for name, count in encoder.unit_counts.items()}
        self.counts = {name: count - whole[name] for name, count in encoder.unit_counts.items()}
        _check(self.counts, layouts)
        network.head.requires_grad_(False)
        self.pooling = nn.Buffer(head_pooling(encoder), persistent=False)
        self.shares = nn.Buffer(share_of(masked, max(self.counts.values())), persistent=False)  # of 0, 1, ... units
        self.norm = nn.LayerNorm(dim)
        self.cells = nn.ModuleDict({name: CellHeads(layout, dim) for name, layout in layouts.items()})
        self.content = nn.Linear(dim, dim)
        self.contrast = PairContrast(dim, modalities, projection)
        self.match = nn.Linear(dim, 2)

    def release(self) -> tuple[UnitEncoder, Network]:
        """Return what was trained, for a model that learns from labels.

        Returns
        -------
        UnitEncoder, Network
            Those that were given, as in `GaugePlus(*pretrainer.release())`.

        Examples
        --------
        >>> encoder, network = pretrainer.release()
        """
        self.network.head.requires_grad_(True)
        return self.encoder, self.network

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the terms of the loss, from one encoding of the batch without the hidden cells. A sample counts in the
        terms that it can teach: a single modality is reconstructed, and needs another one to be matched.

        Parameters
        ----------
        batch
            Labels are not read.

        Returns
        -------
        dict
            The terms whose sum training minimises: "masked" and, of several modalities, "contrast" and "matching".

        Examples
        --------
        >>> list(pretrainer.loss(batch))
        ['masked', 'contrast', 'matching']
        """
        hidden_cells = self._hidden_cells(batch)
        left = {name: self._flags(batch, name) & ~hidden for name, hidden in hidden_cells.items()}
        units = self.encoder(replace(batch, observed={**batch.observed, **left}))
        present = batch.any_observed()
        hidden = self._hidden_units(units, present, batch)
        visible = units.observed & ~hidden
        states = self.norm(self.network.states(units.keep(visible).tokens, hiding_bias(visible)))
        terms = {"masked": self._reconstruction(states[:, 1:], units, hidden, hidden_cells, batch)}
        if len(self.counts) > 1:
            terms["contrast"] = self.contrast(pool(self.pooling, units), present)
            terms["matching"] = self._matching(states[:, 0], units, visible, present, batch)
        return terms

    def _flags(self, batch: Batch, name: str) -> Bool[Tensor, "b f"]:
        return by_cell(batch.observed[name], batch.inputs[name])

    def _hidden_cells(self, batch: Batch) -> dict[str, Bool[Tensor, "b f"]]:
        """The same share of the observed cells of every table."""
        return {
            name: choose(derive(batch.key, "masked", name), self._flags(batch, name), self.shares)
            for name in self.cells
        }

    def _hidden_units(self, units: Units, present: Bool[Tensor, "b m"], batch: Batch) -> Bool[Tensor, "b n"]:
        """Of every second modality that is no table, a share of its units and the unit that reads all of it. One that has a
        single unit is hidden if the sample has another modality."""
        parts, several = [], present.sum(1, keepdim=True) > 1
        for number, (name, count) in enumerate(self.encoder.unit_counts.items()):
            flags, fine = present[:, number : number + 1].expand(-1, count), self.counts[name]
            if name in self.cells:
                parts.append(torch.zeros_like(flags))
                continue
            key = derive(batch.key, "masked", name)
            chosen = uniform(derive(key, "modality"), 1) < 0.5
            if fine == 1:
                parts.append(flags & chosen & several)
                continue
            part = choose(key, flags[:, :fine], self.shares)
            parts.append(F.pad(part, (0, count - fine), value=True) & flags & chosen)
        return torch.cat(parts, 1)

    def _reconstruction(
        self,
        states: Float[Tensor, "b n c"],
        units: Units,
        hidden: Bool[Tensor, "b n"],
        hidden_cells: Mapping[str, Tensor],
        batch: Batch,
    ) -> Float[Tensor, ""]:
        """The mean cost of hidden cells, over the tables, and of hidden units; what is to be found of a unit is not trained
        to be easy to find."""
        costs = []
        if len(self.cells) < len(self.encoder.unit_counts):
            errors = (self.content(states) - units.content.detach()).float().square().mean(-1)
            costs.append((errors * hidden).sum() / hidden.sum().clamp_min(1))
        parts = dict(
            zip(self.encoder.unit_counts, states.split(list(self.encoder.unit_counts.values()), 1), strict=True)
        )
        values = batch.blanked().inputs
        for name, heads in self.cells.items():
            assert isinstance(heads, CellHeads)
            costs.append(heads.cost(parts[name][:, : self.counts[name]], values[name], hidden_cells[name]))
        return torch.stack(costs).mean()

    def _matching(
        self,
        cls: Float[Tensor, "b c"],
        units: Units,
        visible: Bool[Tensor, "b n"],
        present: Bool[Tensor, "b m"],
        batch: Batch,
    ) -> Float[Tensor, ""]:
        """Half of the samples as they are, half with one modality of another sample, the same one in the whole batch."""
        size, count = present.shape
        draws = uniform(derive(batch.key[:1], "matching"), 2)[0]
        modality = (draws[:1] * count).long().clamp_max(count - 1)
        steps = 1 + (draws[1] * (size - 1)).long().clamp_max(size - 2)
        donors = (torch.arange(size, device=present.device) + steps) % size
        swapped = units.modality == modality
        content = torch.where(swapped[:, None], units.content[donors], units.content)
        mixed = torch.where(swapped, visible[donors], visible)
        stray = self.norm(self.network.features(replace(units, content=content).keep(mixed).tokens, hiding_bias(mixed)))
        logits = self.match(torch.cat([cls, stray])).float()
        truth = (torch.arange(len(logits), device=present.device) < len(cls)).long()
        has = present.index_select(1, modality)[:, 0]
        shown = (visible & ~swapped).any(1) & (visible & swapped).any(1)
        known = has & has[donors] & shown & (mixed & swapped).any(1)
        costs = F.cross_entropy(logits, truth, reduction="none")
        return (costs * known.repeat(2)).sum() / (2 * known.sum()).clamp_min(1)


def _check(counts: Mapping[str, int], layouts: Mapping[str, ColumnLayout]) -> None:
    for name, layout in layouts.items():
        pick(counts, name, "modality")
        if counts[name] != layout.count:
            raise UnsupportedError(
                f"the encoder of {name!r} emits {counts[name]} units for {layout.count} columns; pre-training "
                "reconstructs cells from units: use an encoder with one for each column, or leave it out of `tables`"
            )
    if list(counts.values()) == [1] and not layouts:
        raise UnsupportedError(
            f"the only modality {next(iter(counts))!r} has a single unit: nothing can be hidden of it"
        )
