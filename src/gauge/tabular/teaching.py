"""Teaching: rows without a label get the probabilities that a teacher gives them, and experts learn from these as well.

Every row without a label is a weighted row of each class that the teacher finds possible. Where the shares of the classes
differ from those of the labelled rows, by ratios ρ_c (EM of Saerens, Latinne and Decaestecker, 2002), such a row counts
1 / Σ_c p(c | x) · ρ_c, as often as a row like it would be labelled.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from gauge.tabular.table.inputs import scale_weights
from gauge.training.metrics import log_losses

MAX_TAUGHT_ROWS = 2000  # rows without a label that experts learn from
EM_STEPS = 100
MIN_SHARE = 1e-3  # of a class
RESAMPLED, MAX_SHIFT_ROWS = 30, 500  # draws for the standard error of shares, and labelled rows in each
SPREAD = 0.7  # prior deviation of the logarithm of a temperature
MIN_SHIFT = 3.0  # standard errors by which the share of a class has to differ


@dataclass(frozen=True)
class Unlabelled:
    """Rows without a label: how many have values, the `experts` that learned from them, and why no other did. The log losses
    are those of all experts that were tried, with and without these rows, on `held_out` labelled rows. `shifted` are the
    estimated shares of the classes, where they differ from those of the labelled rows."""

    rows: int
    experts: tuple[str, ...] = ()
    held_out: int = 0
    log_loss_with: float | None = None
    log_loss_without: float | None = None
    shifted: tuple[float, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        text = f"{self.rows:,} rows without a label: "
        if self.log_loss_with is None:
            return text + self.reason
        scores = f"on {self.held_out:,} rows held out (log loss {self.log_loss_with:.3f} with, "
        scores += f"{self.log_loss_without:.3f} without)"
        if not self.experts:
            return f"{text}learning from them did not pay {scores}, so they are not used for it"
        assert self.log_loss_without is not None
        verdict = "paid" if self.log_loss_with < self.log_loss_without else "did no harm beyond chance"
        text += f"{' and '.join(self.experts)} learned from them as well, which {verdict} {scores}"
        return f"{text}; {self.reason}" if self.reason else text


def class_shares(answers: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """The shares of the classes in rows with these probabilities, under which the rows are most likely; `prior` are those
    that the probabilities assume.

    >>> class_shares(np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]), np.array([0.5, 0.5])).round(2).tolist()
    [0.71, 0.29]
    """
    shares = prior
    for _ in range(EM_STEPS):
        joint = answers * (shares / prior)
        shares = (joint / joint.sum(1, keepdims=True)).mean(0)
    return shares


def shift(answers: np.ndarray, labelled: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, tuple[float, ...]]:
    """The ratios of the class shares of rows without a label to those of labelled rows, one where they do not differ beyond
    chance, and the shares. Both are estimated from answers for rows that the teacher has not seen; the standard error comes
    from resampled labelled rows. Mean answers have to differ beyond chance as well: where a teacher knows little, the most
    likely shares lie at a limit that says nothing."""
    prior = np.maximum(prior, MIN_SHARE) / np.maximum(prior, MIN_SHARE).sum()
    noise = sum(each.var(0) / len(each) for each in (answers, labelled)) ** 0.5
    if (np.abs(answers.mean(0) - labelled.mean(0)) <= MIN_SHIFT * noise).all():
        return np.ones(len(prior)), ()
    draw = np.random.default_rng(0)
    labelled = labelled[draw.permutation(len(labelled))[:MAX_SHIFT_ROWS]]
    resampled = [
        class_shares(labelled[draw.integers(0, len(labelled), len(labelled))], prior) for _ in range(RESAMPLED)
    ]
    new, known = (class_shares(each, prior).clip(MIN_SHARE) for each in (answers, labelled))
    error = np.std(resampled, 0, ddof=1) * (1 + len(labelled) / len(answers)) ** 0.5
    if (np.abs(new - known) <= MIN_SHIFT * error).all():
        return np.ones(len(prior)), ()
    return new / known, tuple((new / new.sum()).tolist())


def row_weights(answers: np.ndarray, ratios: np.ndarray) -> np.ndarray:
    """How much rows without a label count, one on average: as much as such rows occur among labelled ones."""
    return scale_weights(1 / (answers @ ratios))


def temperatures(answers: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> list[float]:
    """For every fold the inverse temperature that suits the answers for the rows of the others best, and last that of all
    of them. Few rows leave it near one."""
    numbers = range(len(answers))
    parts = [[other for other in numbers if other != own] for own in numbers]
    return [
        _temperature([answers[each] for each in part], [labels[each] for each in part]) for part in (*parts, numbers)
    ]


def _temperature(answers: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> float:
    if not answers:
        return 1.0
    from scipy.optimize import minimize_scalar

    every, truth = np.concatenate(answers), np.concatenate(labels)

    def cost(log_beta: float) -> float:
        return float(log_losses(tempered(every, np.exp(log_beta)), truth).sum() + log_beta**2 / (2 * SPREAD**2))

    return float(np.exp(minimize_scalar(cost, bounds=(-3, 3), method="bounded").x))


def tempered(probabilities: np.ndarray, beta: float) -> np.ndarray:
    """Probabilities with this inverse temperature."""
    return softmax(beta * np.log(probabilities.clip(np.finfo(float).tiny)), axis=1)


def calibrated_losses(answers: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> np.ndarray:
    """The log loss of every row held out, fold by fold, with the temperature that suits the other folds: that of the final
    answer is learned in any case."""
    betas = temperatures(answers, labels)
    return np.concatenate(
        [log_losses(tempered(each, beta), own) for each, own, beta in zip(answers, labels, betas[:-1], strict=True)]
    )


def taught_rows(labelled: int, count: int) -> np.ndarray:
    """The positions in `Task.every` of the rows without a label that are taught, at most `MAX_TAUGHT_ROWS`, evenly drawn."""
    return labelled + np.linspace(0, count - 1, min(count, MAX_TAUGHT_ROWS)).astype(int)
