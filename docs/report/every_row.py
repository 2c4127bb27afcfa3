"""Learning from every row: pre-training, students and what answers together, beside the rows of the fair trial."""

from collections.abc import Callable
from functools import partial

from report.results import ETA, beside, measured

EVERY, STUDENT, PRETRAINED = (f"gauge_plus:gauge_plus-{name}" for name in ("every-row", "student", "pretrained"))
OURS = (STUDENT, EVERY, PRETRAINED)
VOTERS = ("late_fusion:student", "late_fusion:pretrained")
SVHN_ALONE = ("complete", "missing=text", "missing=svhn+text", "missing=mnist+text")
VIEWS = ("complete", "views=2", "views=1", "eta=0.5")


def digits(folder: str, *others: tuple[str, str]) -> str:
    """PolyMNIST with few labels; `others` are rows of other runs."""
    rows = dict.fromkeys((*OURS, *(VOTERS if folder == "every_row256" else ())), f"polymnist/{folder}")
    return beside(measured(rows | {row: f"polymnist/{run}" for row, run in others}), ETA)


def faces() -> str:
    """Necklaces on five divisions: the combination minus each other row."""
    fair = dict.fromkeys(("gauge_plus", "late_fusion", "logistic_cells", "boosted_cells"), "celeba_table/fair")
    rows = dict.fromkeys((EVERY, STUDENT, PRETRAINED), "celeba_table/every_row")
    return beside(measured(rows | fair), ("complete", "gamma=0.5", "gamma=0.9", "gamma=1"))


def crops() -> str:
    """MST with a quarter of the crops labelled, beside rows with all of them labelled."""
    fair = dict.fromkeys(("gauge_plus", "late_fusion"), "mst/fair")
    return beside(measured(dict.fromkeys(OURS, "mst/every_row") | fair), SVHN_ALONE)


def sums() -> str:
    """Polysum with 2,000 labelled pairs."""
    return beside(measured(dict.fromkeys(OURS, "polysum/every_row2000")), VIEWS)


def labelled(benchmark: str, fair: str, protocols: tuple[str, ...]) -> str:
    """All samples labelled: started from pre-training, minus the same from scratch and voters."""
    rows = {PRETRAINED: f"{benchmark}/pretrained"} | dict.fromkeys(("gauge_plus", "late_fusion"), f"{benchmark}/{fair}")
    return beside(measured(rows), protocols)


TABLES: dict[str, Callable[[], str]] = {
    "every-row-64": partial(digits, "every_row64"),
    "every-row-256": partial(
        digits,
        "every_row256",
        ("gauge_plus", "fair256"),
        ("late_fusion", "fair256"),
        ("late_fusion:distilled", "students256"),
    ),
    "every-row-256-half": partial(digits, "every_row256_half"),
    "every-row-celeba-table": faces,
    "every-row-mst": crops,
    "every-row-polysum": sums,
    "pretrained-polysum": partial(labelled, "polysum", "plus", VIEWS),
    "pretrained-celeba": partial(labelled, "celeba", "fair", ("complete", "missing=img", "missing=text")),
}
