"""Tables of the fair trial: which rows are ranked together, what was decided, and what each row was given."""

from pathlib import Path

import pytest

from gauge_lab.comparison import Paired

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _reports(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")


def trial(**rows):
    """The scores of rows under two protocols with three seeds."""
    return {
        row: {name: {seed: float(value + seed) for seed in range(3)} for name in ("complete", "eta=0.8")}
        for row, value in rows.items()
    }


def test_fewer_benchmarks_are_ranked_only_if_they_share_more_rows():
    from report.ranks import families

    two, three = trial(a=1, b=2), trial(a=1, b=2, c=3)
    assert families({"one": two, "two": two, "three": three, "four": three, "five": three}) == [
        (("one", "two", "three", "four", "five"), ("a", "b")),
        (("three", "four", "five"), ("a", "b", "c")),
    ]
    assert families({"one": three, "two": three}) == [], "two benchmarks rank nothing"


def test_rows_are_ranked_by_the_seeds_that_all_of_them_have():
    from report.ranks import ranks_of

    lucky = trial(a=1, b=2)
    lucky["a"]["complete"][7] = lucky["a"]["eta=0.8"][7] = 100.0  # a seed that b does not have
    assert dict(ranks_of(dict.fromkeys("xyz", lucky), ("a", "b")).ranks) == {"a": 2, "b": 1}


@pytest.mark.parametrize(
    ("interval", "gain", "error", "verdict"),
    [
        ((0.1, 0.5), 0.3, 0.3, "reproduced"),
        ((-0.5, 0.2), 0.3, 0.3, "undecided; the paper's point estimate is excluded"),
        ((-0.5, 0.5), 0.3, 0.3, "undecided"),
        ((-0.5, 0.2), 5.0, 0.3, "not reproduced (p = 0.00025)"),
        (None, 5.0, 0.3, "undecided"),
    ],
)
def test_a_gain_is_not_reproduced_only_beyond_the_errors_of_both_numbers(interval, gain, error, verdict):
    from report import claims

    middle = 0.0 if interval is None else sum(interval) / 2
    pair = Paired.model_construct(mean=middle, deviation=0.1, clusters=(0, 1, 2), interval=interval)
    assert claims.verdict(pair, gain, error) == verdict


def test_a_budget_counts_the_stages_and_the_masks_of_a_row():
    from report.plus import budget_of

    plus, alone = (budget_of("leaf99/fair", row) for row in ("gauge_plus", "gauge_plus:gauge_plus-heads-only"))
    assert plus == alone, "the same network"
    assert plus._asdict() == {
        "epochs": "400",
        "width": "128",
        "masks": "any-gamma, 2 subsets a step",
        "labels": "594",
        "samples": "198",
        "seeds": 5,
        "kept": "last",
    }
    gauge, dymo = (budget_of("leaf99/disjoint", row) for row in ("gauge", "dymo"))
    assert (gauge.epochs, dymo.epochs) == ("60 + 60 + 20", "60 + 60")
    assert (gauge.width, gauge.masks, dymo.masks) == ("64", "any-gamma", "gamma=0.3, 2 subsets a step")
    assert gauge.kept == dymo.kept == "best on validation"
