"""Missingness protocols: pure functions of (protocol, seed, split or epoch, index)."""

import hashlib

import numpy as np
import pytest
import torch
from scipy import stats

from gauge.masks import gamma_mask, mask_split, parse_protocol, passes
from gauge.randomness import sample_keys

VIEWS = {f"m{view}": None for view in range(5)}
PAIRS = {f"{digit}{view}": None for view in range(3) for digit in "ab"}
CLINIC = {"scan": None, "table": 8}
PROTOCOLS = [
    ("complete", VIEWS),
    ("missing=m1+m3", VIEWS),
    ("eta=0.4", VIEWS),
    ("every=0.4", VIEWS),
    ("overall=0.4", VIEWS),
    ("views=2", PAIRS),
    ("any-subset", VIEWS),
    ("any-gamma", CLINIC),
    ("gamma=0.3", CLINIC),
    ("gamma-per-sample=0.5", CLINIC),
]
RANDOM = [(text, feature_counts) for text, feature_counts in PROTOCOLS if text not in ("complete", "missing=m1+m3")]


def keep(text, feature_counts, index, seed=0, epoch=0):
    return parse_protocol(text).keep(feature_counts, sample_keys(torch.as_tensor(index), seed, "train", epoch))


def table_of(text, feature_counts, rows, **where):
    return torch.stack(list(keep(text, feature_counts, torch.arange(rows), **where).values()), 1)


# T:data/create_missing_mask.ipynb, test split (seed 2023); SHA-1 of the bit-packed mask, row-major
RATES = (0.1, 0.3, 0.5, 0.7, 0.9)
PUBLISHED = {
    (88207, 17): ("18d1c076cdcd", "f792f96a3d4c", "43d784351e41", "6713857c78eb", "1d3cb757db10"),
    (3617, 75): ("981436421da8", "2bec4e18daad", "283211e861a3", "2b7760387cdf", "02f9268a41be"),
}


@pytest.mark.parametrize("shape", PUBLISHED)
@pytest.mark.parametrize("rate", RATES)
def test_gamma_masks_are_the_published_ones(shape, rate):
    mask = gamma_mask(*shape, rate, seed=2023)
    assert hashlib.sha1(np.packbits(mask).tobytes()).hexdigest()[:12] == PUBLISHED[shape][RATES.index(rate)]
    assert mask.sum() == int(shape[0] * shape[1] * rate)


def test_the_test_split_gets_the_published_draw_whatever_the_seed():
    for seed in (0, 1):
        kept = mask_split(parse_protocol("gamma=0.9"), {"image": None, "table": 75}, 3617, seed=seed, split="test")
        assert hashlib.sha1(np.packbits(~kept["table"].numpy()).tobytes()).hexdigest()[:12] == "02f9268a41be"
        assert kept["image"].all()
    other = mask_split(parse_protocol("gamma=0.9"), {"table": 75}, 3617, seed=0, split="val")
    assert not torch.equal(other["table"], kept["table"])


@pytest.mark.parametrize(("rate", "missing"), [(0, 0), (0.2, 1), (0.4, 2), (0.6, 3), (0.8, 4)])
def test_eta_takes_exactly_its_share_of_the_modalities_from_every_sample(rate, missing):
    assert (table_of(f"eta={rate}", VIEWS, 500).sum(1) == 5 - missing).all()


@pytest.mark.parametrize(("text", "count"), [("eta=0.2", 5), ("eta=0.4", 10), ("eta=0.6", 10), ("any-subset", 31)])
def test_every_subset_is_equally_likely(text, count):
    observed = table_of(text, VIEWS, 20_000)
    assert observed.any(1).all()
    codes = (observed * 2 ** torch.arange(5)).sum(1)
    found = codes.unique(return_counts=True)[1]
    assert len(found) == count
    assert stats.chisquare(found.numpy()).pvalue > 1e-3


@pytest.mark.parametrize("count", [1, 2, 3])
def test_views_keeps_exactly_that_many_of_each_object(count):
    observed = keep(f"views={count}", PAIRS, torch.arange(500))
    assert list(observed) == list(PAIRS)
    for digit in "ab":
        assert (sum(observed[f"{digit}{view}"].int() for view in range(3)) == count).all()


@pytest.mark.parametrize("rate", [0, 0.1, 0.3, 0.5, 0.8])
def test_the_overall_share_of_modalities_is_exact_over_a_split_and_every_sample_keeps_one(rate):
    kept = torch.stack(list(mask_split(parse_protocol(f"overall={rate}"), VIEWS, 400, seed=0, split="t").values()), 1)
    assert int((~kept).sum()) == round(rate * 400 * 5)
    assert kept.any(1).all()
    assert stats.chisquare(kept.sum(0).numpy()).pvalue > 1e-3, "no modality is missing more often than others"


@pytest.mark.parametrize("rate", [0, 0.25, 0.5, 1])
def test_gamma_per_sample_is_exact_in_every_row(rate):
    kept = keep(f"gamma-per-sample={rate}", CLINIC, torch.arange(300))
    assert ((~kept["table"]).sum(1) == 8 * rate).all()
    assert kept["scan"].all()


@pytest.mark.parametrize(("rate", "count"), [(0.2, 5), (0.4, 10), (0.6, 10), (0.8, 5), (0, 1)])
def test_every_goes_through_each_subset_of_that_size_once(rate, count):
    each = passes(parse_protocol(f"every={rate}"), VIEWS)
    kept = [
        tuple(bool(flags[0]) for flags in one.keep(VIEWS, torch.zeros(1, dtype=torch.long)).values()) for one in each
    ]
    assert len(set(kept)) == len(kept) == count
    assert {sum(flags) for flags in kept} == {round(5 - 5 * rate)}
    assert [str(one) for one in passes(parse_protocol("eta=0.4"), VIEWS)] == ["eta=0.4"]


@pytest.mark.parametrize(("text", "feature_counts"), PROTOCOLS)
def test_flags_of_a_row_do_not_depend_on_the_other_rows(text, feature_counts):
    whole, rows = keep(text, feature_counts, torch.arange(100)), torch.tensor([93, 4, 41])
    for name, flags in keep(text, feature_counts, rows).items():
        assert torch.equal(flags, whole[name][rows])


@pytest.mark.parametrize(("text", "feature_counts"), RANDOM)
def test_masks_repeat_with_seed_and_epoch_and_change_with_either(text, feature_counts):
    def flags(**where):
        return torch.cat(
            [part.reshape(200, -1) for part in keep(text, feature_counts, torch.arange(200), **where).values()], 1
        )

    first = flags()
    assert torch.equal(flags(), first)
    assert (flags(seed=1) != first).any(1).float().mean() > 0.4
    assert (flags(epoch=1) != first).any(1).float().mean() > 0.4


@pytest.mark.parametrize(("text", "feature_counts"), PROTOCOLS)
def test_text_forms_round_trip(text, feature_counts):
    assert str(parse_protocol(text)) == text
    assert parse_protocol(str(parse_protocol(text))) == parse_protocol(text)


UNKNOWN = ["", "eat=0.2", "eta", "eta=", "eta=1.5", "eta=-0.1", "eta=x", "gamma=nan", "complete=1", "missing="]
UNKNOWN += ["views", "views=0", "views=0.5", "views=-1", "views=all"]


@pytest.mark.parametrize("text", UNKNOWN)
def test_an_unknown_protocol_is_answered_with_the_known_ones(text):
    with pytest.raises(
        ValueError, match=f"no missingness protocol '{text}'; .*write complete, any-subset, any-gamma, missing=NAME"
    ):
        parse_protocol(text)


@pytest.mark.parametrize(
    ("text", "feature_counts", "message"),
    [
        ("eta=1", VIEWS, "eta=1 leaves nothing observed; keep at least one of the 5 modalities"),
        ("eta=0.5", VIEWS, "eta=0.5 of 5 modalities is 2.5; choose a rate that is a whole number"),
        ("overall=0.9", VIEWS, "overall=0.9 leaves some samples nothing; choose a rate up to 0.80, so that each keeps"),
        ("views=4", PAIRS, r"views=4 keeps more views of 'a' than \['a0', 'a1', 'a2'\]; keep at most 3"),
        ("missing=m1+text", VIEWS, r"names \['text'\], but the modalities are \['m0', 'm1', 'm2', 'm3', 'm4'\]"),
        ("missing=scan+table", CLINIC, r"leaves nothing observed; keep at least one of \['scan', 'table'\]"),
        ("gamma=0.5", VIEWS, "gamma=0.5 drops single features, but no modality of .* has feature flags"),
        ("gamma-per-sample=0.5", VIEWS, "gamma-per-sample=0.5 drops single features, but no modality"),
    ],
)
def test_a_protocol_that_does_not_fit_the_modalities_says_why(text, feature_counts, message):
    with pytest.raises(ValueError, match=message):
        keep(text, feature_counts, torch.arange(3))
    with pytest.raises(ValueError, match=message):
        mask_split(parse_protocol(text), feature_counts, 3, seed=0, split="test")
