"""Ensemble: the experts of a table, and one calibrated prediction from all of them.

logits = Σ_j w_j · log p_j / J over the J experts, w_j = exp(u_j + v_j · share), with share the observed part of the columns

u and v are learned from rows held out (`_weighing.py`), as they are and with further values hidden. Few rows leave the
weights near one: the geometric mean of all experts. The sum of the weights is an inverse temperature.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd
from scipy.special import log_softmax, softmax

from gauge.choices import pick
from gauge.registry import EXPERTS
from gauge.tabular.experts import Expert, Member, Saved, with_prefix
from gauge.tabular.experts._graph import GraphRows
from gauge.tabular.table.columns import FINE_COLUMNS
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema

if TYPE_CHECKING:
    from gauge.plus.gauge_plus import GaugePlus

AUTO = ("network", "trees", "linear")  # the experts of "auto", in the order of their votes
UNUSED = -1000.0  # u of an expert without weight, which is never asked


def choose_experts(wanted: str | Sequence[str], schema: Schema, auto: Sequence[str] = AUTO) -> tuple[str, ...]:
    """The experts by name; "auto" are those of the preset that read the columns of this table, without a network where it
    would read nothing but more than `FINE_COLUMNS` numbers and categories."""
    known = (*AUTO, *(name for name in EXPERTS.names() if name not in AUTO))
    names = tuple(auto) if wanted == "auto" else (wanted,) if isinstance(wanted, str) else tuple(wanted)
    for name in names:
        pick(dict.fromkeys(known), name, "expert")
    chosen = tuple(name for name in known if name in names and EXPERTS.get(name).reads(schema))
    if wanted == "auto" and len(schema.table) > FINE_COLUMNS and not schema.contents:
        chosen = tuple(name for name in chosen if EXPERTS.get(name).cross_fitted) or chosen
    if not chosen:
        kinds = ", ".join(sorted({column.kind for column in schema.columns}))
        raise ValueError(f"experts={wanted!r} reads no column of this table ({kinds}); add 'network', or use 'auto'")
    return chosen


class Weights(NamedTuple):
    """The weights of experts, exp(`offset` + `slope` · share): all one until they are learned."""

    offset: np.ndarray
    slope: np.ndarray

    @classmethod
    def equal(cls, experts: int) -> Self:
        return cls(np.zeros(experts), np.zeros(experts))

    def __call__(self, share: np.ndarray) -> np.ndarray:
        """Return the weights for rows with these shares of their columns: [rows, experts]."""
        return np.asarray(np.exp(self.offset + share[:, None] * self.slope))

    def combine(self, votes: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Return one probability from log-probabilities of each expert: [rows, experts, classes]."""
        logits = log_softmax(votes / votes.shape[1], axis=2)
        return np.asarray(softmax((self(share)[..., None] * logits).sum(1), axis=1))

    @classmethod
    def learn(cls, votes: np.ndarray, share: np.ndarray, labels: np.ndarray, counts: np.ndarray, rows: float) -> Self:
        """Return the weights that minimise the log loss of `combine`, in which each row `counts`, and which `rows` different
        rows say, plus |u|² / (2 rows 0.25²) + |v|² / (2 rows 0.5²): for a complete row u + v, prior deviations of a factor
        of 1.7 for an expert."""
        from scipy.optimize import minimize

        logits, every = log_softmax(votes / votes.shape[1], axis=2), np.arange(len(labels))
        spread = np.array([[0.25], [0.5]])
        powers, counts = np.stack([np.ones_like(share), share]), counts / counts.mean()

        def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
            learned = cls(*parameters.reshape(2, -1))
            weights = learned(share)
            product = log_softmax((weights[..., None] * logits).sum(1), axis=1)
            change = np.exp(product)
            change[every, labels] -= 1
            change *= counts[:, None]
            slopes = powers @ (weights * (change[:, None] * logits).sum(2)) / len(labels)
            penalty = np.stack(learned) / spread**2 / rows
            value = (penalty * np.stack(learned)).sum() / 2 - (counts * product[every, labels]).mean()
            return float(value), (slopes + penalty).ravel()

        start = np.zeros(2 * votes.shape[1])
        result = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 100})
        return cls(*result.x.reshape(2, -1))


@dataclass(frozen=True)
class Ensemble:
    """Fitted experts by name, and how their votes are combined. `prior` holds the shares of the
    classes in training: the prediction for a row without values. It counts `smoothing` rows beside one, so that no class is
    ruled out by as many rows as there were in training."""

    experts: Mapping[str, Member]
    combination: Weights
    prior: np.ndarray
    smoothing: float

    @property
    def network(self) -> "GaugePlus | None":
        """The network among the experts, whose scores explain rows; None if there is none."""
        return next((each.network for each in self.experts.values() if each.network is not None), None)

    def predict(self, rows: Rows) -> np.ndarray:
        """The probability of every class."""
        probabilities = np.tile(self.prior, (len(rows), 1))
        full = np.flatnonzero(~rows.encoded.empty)
        if len(full):
            rows = rows if len(full) == len(rows) else rows.take(full)
            probabilities[full] = self.combine(self.votes(rows), rows)
        broken = np.flatnonzero(~np.isfinite(probabilities).all(1))
        if len(broken):
            raise ValueError(f"the model predicts row {broken[0]} with NaN; its weights are not usable: fit it again")
        return probabilities

    def votes(self, rows: Rows) -> np.ndarray:
        """The log-probabilities of each expert for rows that have values: [rows, experts, classes]. Experts without weight
        are not asked."""
        nothing = np.full((len(rows), len(self.prior)), -np.log(len(self.prior)))
        asked = zip(self.experts.values(), self.used, strict=True)
        return self.smooth(np.stack([expert.predict(rows) if used else nothing for expert, used in asked], 1))

    @property
    def used(self) -> list[bool]:
        """Which experts have a weight."""
        return (self.combination.offset > UNUSED).tolist()

    def smooth(self, votes: np.ndarray) -> np.ndarray:
        """Log-probabilities none of which is far below what the prior leaves possible."""
        return np.log((np.exp(votes) + self._floor) / (1 + self._floor.sum()))

    @property
    def _floor(self) -> np.ndarray:
        return self.smoothing * np.maximum(self.prior, 1e-6)  # smallest prior of a class

    def combine(self, votes: np.ndarray, rows: Rows) -> np.ndarray:
        """One probability from the log-probabilities of all experts."""
        return self.combination.combine(votes, rows.observed().mean(1))

    def export(self, rows: GraphRows) -> str:
        """Add the prediction to the graph of these rows: the name of the probabilities, in double precision."""
        graph, axis, count = rows.graph, rows.graph.constant(np.array([1])), len(self.experts)
        flags = graph.cast(rows.flags, np.float64)
        share = graph.node("ReduceMean", flags, axis)
        logits = graph.constant(np.zeros((1, len(self.prior))))
        weights = (each.tolist() for each in self.combination)
        for expert, used, offset, slope in zip(self.experts.values(), self.used, *weights, strict=True):
            if not used:
                continue
            shares = graph.node("Exp", expert.export(rows))
            raised = graph.node("Add", shares, graph.constant(self._floor))
            total = graph.constant(1 + self._floor.sum())
            vote = graph.node("Div", graph.node("Log", graph.node("Div", raised, total)), graph.constant(float(count)))
            vote = graph.node("LogSoftmax", vote, axis=1)
            exponent = graph.node("Add", graph.node("Mul", share, graph.constant(slope)), graph.constant(offset))
            logits = graph.node("Add", logits, graph.node("Mul", graph.node("Exp", exponent), vote))
        available = graph.cast(graph.node("ReduceMax", flags, axis), bool)
        return graph.node("Where", available, graph.node("Softmax", logits, axis=1), graph.constant(self.prior))

    def only(self, names: Sequence[str]) -> "Ensemble":
        """Some of the experts, as they predict without the others: with equal weights, as theirs belong to all together."""
        experts = {name: self.experts[name] for name in names}
        return replace(self, experts=experts, combination=Weights.equal(len(experts)))

    def weights(self, rows: Rows) -> np.ndarray:
        """The mean share of each expert in the predictions for these rows; together one."""
        weights = self.combination(rows.observed().mean(1))
        return np.asarray((weights / weights.sum(1, keepdims=True)).mean(0))

    def save(self) -> Saved:
        tensors = {f"combination.{name}": each for name, each in self.combination._asdict().items()}
        experts: dict[str, Any] = {}
        for name, expert in self.experts.items():
            saved = expert.save()
            tensors |= {f"{name}.{key}": tensor for key, tensor in saved.tensors.items()}
            experts[name] = saved.metadata
        return Saved(tensors, {"prior": self.prior.tolist(), "smoothing": self.smoothing, "experts": experts})

    @classmethod
    def load(cls, saved: Saved, schema: Schema) -> "Ensemble":
        experts: dict[str, Expert] = {}
        for name, metadata in saved.metadata["experts"].items():
            own = with_prefix(f"{name}.", saved.tensors)
            experts[name] = EXPERTS.get(name).load(Saved(own, metadata, saved.source), schema)
        combination = Weights(*(saved.tensors[f"combination.{name}"] for name in Weights._fields))
        if any(each.shape != (len(experts),) for each in combination):
            raise ValueError(f"{saved.source} has weights for other than its {len(experts)} experts")
        return cls(experts, combination, np.array(saved.metadata["prior"]), saved.metadata["smoothing"])


def expert_weights(board: pd.DataFrame) -> dict[str, float]:
    """What each expert of a leaderboard weighs in the predictions for rows held out."""
    lines = board[board["expert"] != "combined"]
    return dict(zip(lines["expert"], lines["weight"], strict=True))


def scores_in_words(board: pd.DataFrame, name: str) -> str:
    """What an expert of a leaderboard, or all "combined", scores on the rows held out."""
    lines = board[(board["expert"] == name) & board["accuracy"].notna()]
    if not len(lines):
        return "not validated: too few rows"
    best = lines.iloc[0]
    auc = "" if np.isnan(best["auc"]) else f", AUC {best['auc']:.3f}"
    return f"accuracy {100 * best['accuracy']:.1f} %{auc}, log loss {best['log_loss']:.3f}"
