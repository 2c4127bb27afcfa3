"""Ensemble: the experts of a table, and one calibrated answer from all of them.

logits = Σ_j w_j · log p_j / J over the J experts, w_j = exp(u_j + v_j · share), with share the observed part of the columns

u and v are learned from rows held out (`gauge.model.combination`), as they are and with further values hidden. Few rows
leave the weights near one: the geometric mean of all experts. The sum of the weights is an inverse temperature.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gauge.choices import pick
from gauge.masks import UpTo
from gauge.methods.gauge_plus import GaugePlus
from gauge.model.combination import Combination
from gauge.tabular.experts import Expert, Folds, Saved
from gauge.tabular.experts.linear import Linear
from gauge.tabular.experts.trees import Trees
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema
from gauge.training.metrics import scores
from gauge.training.recorded import Recorded

BESIDE: dict[str, type[Expert]] = {"trees": Trees, "linear": Linear}  # the experts beside the network
NAMES = ("network", *BESIDE)
SPREAD = 0.5  # prior deviation of u: a factor of 1.6 for an expert
COPIES = 2  # of each row held out, with further values hidden
ENOUGH = 4096  # rows held out that weights are learned from
AT_ONCE = {"cpu": 512}  # rows; a CPU is fastest where activations stay in its cache
RARE = 1e-6  # least prior of a class


def choose_experts(wanted: str | Sequence[str], schema: Schema) -> tuple[str, ...]:
    """The experts by name; "auto" are all that read the columns of this table."""
    names = NAMES if wanted == "auto" else (wanted,) if isinstance(wanted, str) else tuple(wanted)
    for name in names:
        pick(dict.fromkeys(NAMES), name, "expert")
    chosen = tuple(name for name in NAMES if name in names and (name == "network" or BESIDE[name].reads(schema)))
    if not chosen:
        kinds = ", ".join(sorted({column.kind for column in schema.columns}))
        raise ValueError(f"experts={wanted!r} reads no column of this table ({kinds}); add 'network', or use 'auto'")
    return chosen


def make_folds(labels: np.ndarray, count: int, seed: int) -> Folds:
    """Folds with the same shares of all classes; the only row of a class is never held out."""
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    number = np.empty(len(labels), int)
    number[order] = np.arange(len(labels)) % count
    number[np.bincount(labels)[labels] == 1] = -1
    folds = [(np.flatnonzero(number != fold), np.flatnonzero(number == fold)) for fold in range(count)]
    return [(train, held_out) for train, held_out in folds if len(held_out)]


class Network:
    """The network as an expert."""

    def __init__(self, model: GaugePlus) -> None:
        self.model = model
        self.recorded: Recorded | None = None

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def record(self) -> None:
        """On a GPU, predict with CUDA graphs from now on."""
        if self.device.type == "cuda":
            self.recorded = Recorded(self.model)

    def predict(self, rows: Rows) -> np.ndarray:
        predict = (self.recorded or self.model).predict
        answers = [
            predict(batch).logits for batch in rows.encoded.batches(self.device, AT_ONCE.get(self.device.type, 4096))
        ]
        if not answers:
            return np.zeros((0, self.model.gauge.classifier.head.out_features))
        return torch.cat(answers).double().log_softmax(1).cpu().numpy()


@dataclass(frozen=True)
class Ensemble:
    """Fitted experts in the order of `NAMES`, and how their answers are combined. `prior` holds the shares of the classes in
    training: the answer for a row without values. It counts `smoothing` rows beside one, so that no class is ruled out by
    as many rows as there were in training."""

    experts: Mapping[str, Network | Expert]
    combination: Combination
    prior: np.ndarray
    smoothing: float

    def predict(self, rows: Rows) -> np.ndarray:
        """The probability of every class."""
        probabilities = np.tile(self.prior, (len(rows), 1))
        full = np.flatnonzero(~rows.encoded.empty)
        if len(full):
            rows = rows if len(full) == len(rows) else rows.take(full)
            probabilities[full] = self.combine(self.answers(rows), rows)
        broken = np.flatnonzero(~np.isfinite(probabilities).all(1))
        if len(broken):
            raise ValueError(f"the model answers row {broken[0]} with NaN; its weights are not usable: fit it again")
        return probabilities

    def answers(self, rows: Rows) -> np.ndarray:
        """The log-probabilities of each expert for rows that have values: [rows, experts, classes]."""
        return self.smooth(np.stack([expert.predict(rows) for expert in self.experts.values()], 1))

    def smooth(self, answers: np.ndarray) -> np.ndarray:
        """Log-probabilities none of which is far below what the prior leaves possible."""
        floor = self.smoothing * np.maximum(self.prior, RARE)
        return np.log((np.exp(answers) + floor) / (1 + floor.sum()))

    def combine(self, answers: np.ndarray, rows: Rows) -> np.ndarray:
        """One probability from the log-probabilities of all experts."""
        logits = self.combination(*_inputs(answers, rows))
        return logits.softmax(1).numpy()

    def alone(self, name: str) -> "Ensemble":
        """One of the experts, as it answers without the others."""
        return replace(self, experts={name: self.experts[name]}, combination=Combination(1, 1).double())

    def weights(self, rows: Rows) -> np.ndarray:
        """The mean share of each expert in the answers for these rows; together one."""
        _, present, share = _inputs(np.zeros((len(rows), len(self.experts), 1)), rows)
        weights = self.combination.weights(present, share)
        return (weights / weights.sum(1, keepdim=True)).mean(0).numpy()


def learn_combination(ensemble: Ensemble, rows: Rows, labels: np.ndarray, *, rate: float) -> None:
    """The weights that are best on rows held out: as they are, and with up to `rate` of their values hidden."""
    if len(rows) > ENOUGH:
        chosen = np.linspace(0, len(rows) - 1, ENOUGH).astype(int)
        rows, labels = rows.take(chosen), labels[chosen]
    seen = [_inputs(ensemble.answers(rows), rows)] * COPIES
    truth = [torch.from_numpy(labels)] * COPIES
    for number in range(COPIES):
        hidden = rows.hide(UpTo(rate), number)
        left = np.flatnonzero(~hidden.encoded.empty)
        hidden = hidden.take(left)
        seen.append(_inputs(ensemble.answers(hidden), hidden))
        truth.append(torch.from_numpy(labels[left]))
    answers, present, share = (torch.cat(parts) for parts in zip(*seen, strict=True))
    ensemble.combination.learn(answers, present, share, torch.cat(truth), rows=len(rows), spread=SPREAD)


def leaderboard(ensemble: Ensemble, rows: Rows, labels: np.ndarray) -> pd.DataFrame:
    """What each expert scores alone on these rows and what it weighs, the least log loss first; `combined` is all."""
    answers = ensemble.answers(rows)
    each = dict(zip(ensemble.experts, np.exp(answers).swapaxes(0, 1), strict=True))
    each["combined"] = ensemble.combine(answers, rows)
    weights = [*ensemble.weights(rows).tolist(), 1.0]
    lines = [
        {"expert": name, **scores(probabilities, labels), "weight": weight}
        for (name, probabilities), weight in zip(each.items(), weights, strict=True)
    ]
    return pd.DataFrame(lines).sort_values("log_loss", kind="stable", ignore_index=True)


def expert_weights(board: pd.DataFrame) -> dict[str, float]:
    """What each expert of a leaderboard weighs in the answers for rows held out."""
    lines = board[board["expert"] != "combined"]
    return dict(zip(lines["expert"], lines["weight"], strict=True))


def unscored(ensemble: Ensemble) -> pd.DataFrame:
    """The leaderboard where no rows were held out: equal weights."""
    names = list(ensemble.experts)
    return pd.DataFrame(
        {"expert": names, "accuracy": np.nan, "log_loss": np.nan, "auc": np.nan, "weight": 1 / len(names)}
    )


def ensemble_state(ensemble: Ensemble) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Everything but the network and the prior, as tensors and JSON."""
    tensors = {f"experts.combination.{name}": each for name, each in ensemble.combination.state_dict().items()}
    about: dict[str, Any] = {"smoothing": ensemble.smoothing, "experts": {}}
    for name, expert in ensemble.experts.items():
        if not isinstance(expert, Network):
            saved = expert.save()
            tensors |= {f"experts.{name}.{key}": tensor for key, tensor in saved.tensors.items()}
            about["experts"][name] = saved.about
    return tensors, about


def restored(
    about: Mapping[str, Any] | None,
    tensors: Mapping[str, Tensor],
    schema: Schema,
    network: Network | None,
    prior: np.ndarray,
) -> Ensemble:
    """The ensemble that `ensemble_state` describes; the network alone where it describes none."""
    experts: dict[str, Network | Expert] = {} if network is None else {"network": network}
    for name, values in ({} if about is None else about["experts"]).items():
        own = {key.removeprefix(f"{name}."): each for key, each in tensors.items() if key.startswith(f"{name}.")}
        experts[name] = BESIDE[name].load(Saved(own, values), schema)
    combination = Combination(len(experts), 1).double()
    if about is not None:
        combination.load_state_dict({key: tensors[f"combination.{key}"] for key in combination.state_dict()})
    return Ensemble(experts, combination, prior, 0.0 if about is None else about["smoothing"])


def _inputs(answers: np.ndarray, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """What `Combination` reads: the answers, that all are present, and the share of columns that each row has."""
    logits = torch.from_numpy(answers / answers.shape[1])
    share = torch.from_numpy(rows.observed().mean(1, keepdims=True))
    return logits, torch.ones(answers.shape[:2], dtype=torch.bool), share
