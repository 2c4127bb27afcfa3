"""Handwritten: the views of a row belong together, whichever files they come from."""

import numpy as np
import pytest
import torch

from gauge.masks import mask_split
from gauge_lab.benchmarks import Overrides, handwritten
from gauge_lab.incomplete import incomplete

EACH = 20  # rows of a class
PARTS = ("train", "val", "test")
SHARES = {"train": 14, "val": 2, "test": 4}


def write_digits(folder, *, packaged=False, rows=10 * EACH):
    """Every number of a row is its own: the row, and a thousandth of the column."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, size in handwritten.VIEWS.values():
        values = np.arange(rows)[:, None] + np.arange(size) / 1000
        if packaged:
            labels = np.repeat(np.arange(10), rows // 10)
            header = ",".join([*map(str, range(size)), "0"])
            path, table = folder / f"mfeat-{file}.csv", np.column_stack([values, labels])
            np.savetxt(path, table, "%.3f", delimiter=",", header=header, comments="")
        else:
            np.savetxt(folder / f"mfeat-{file}", values, "  %.3f", delimiter=" ")


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    root = tmp_path_factory.mktemp("digits")
    write_digits(root / "mfeat")
    return root


def shown_rows(part):
    """The number of each row, from its rank in every view; all views agree."""
    ranks = [values[:, 0].argsort().argsort() for values in part.inputs.values()]
    assert all(torch.equal(rank, ranks[0]) for rank in ranks)
    return ranks[0]


def test_the_views_of_a_digit_come_from_the_same_row_and_its_class_from_the_order_of_the_file(digits):
    parts = [handwritten.BENCHMARK.load(split, digits) for split in PARTS]
    for part, (split, each) in zip(parts, SHARES.items(), strict=True):
        assert part.shapes == {name: (size,) for name, (_, size) in handwritten.VIEWS.items()}
        assert part.labels.bincount().tolist() == [each] * 10, split
        assert torch.equal(part.labels, part.labels[shown_rows(part).argsort()].sort().values)
    together = torch.cat([part.inputs["zernike"][:, 0] for part in parts])
    assert torch.equal(torch.cat([part.labels for part in parts])[together.argsort()], torch.arange(10 * EACH) // EACH)


def test_the_package_and_the_official_files_hold_the_same_digits(digits, tmp_path):
    write_digits(tmp_path, packaged=True)
    for split in PARTS:
        official, packaged = (handwritten.BENCHMARK.load(split, folder) for folder in (digits, tmp_path))
        assert torch.equal(official.labels, packaged.labels)
        for name, values in official.inputs.items():
            torch.testing.assert_close(values, packaged.inputs[name])


def test_five_divisions_test_every_row_once_and_scale_by_their_training_rows(digits):
    folds = [handwritten.BENCHMARK.for_seed(seed) for seed in range(5)]
    tested = []
    for fold in folds:
        train, test = fold.load("train", digits), fold.load("test", digits)
        assert abs(float(train.inputs["pixels"].mean())) < 1e-5
        torch.testing.assert_close(train.inputs["pixels"].std(0), torch.ones(240))
        scale = np.arange(10 * EACH)[np.isin(np.arange(10 * EACH), _rows(train, digits, fold.fold))]
        tested += np.round(test.inputs["pixels"][:, 0].numpy() * scale.std(ddof=1) + scale.mean()).astype(int).tolist()
    assert sorted(tested) == list(range(10 * EACH))


def _rows(part, data, fold):
    """The numbers of the rows of a split, whose first number is an affine image of them."""
    parts = [handwritten.BENCHMARK.for_seed(fold).load(split, data).inputs["pixels"][:, 0] for split in PARTS]
    order = torch.cat(parts).argsort().argsort()
    return order[: len(part)].numpy()


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_a_share_of_all_views_is_missing_in_training_and_in_test_rows_and_one_stays(digits, rate):
    benchmark = handwritten.BENCHMARK.with_overrides(Overrides(incomplete={"rate": rate})).for_seed(0)
    protocol = next(each for each in benchmark.protocols if str(each) == f"overall={rate}")
    train, test = benchmark.load("train", digits), benchmark.load("test", digits)
    for flags in (train.observed, mask_split(protocol, test.feature_counts, len(test), seed=0, split="test")):
        kept = torch.stack(list(flags.values()), 1)
        assert kept.any(1).all()
        assert float((~kept).float().mean()) == pytest.approx(rate, abs=0.06 if flags is train.observed else 1e-7)
    assert all(flags.all() for flags in test.observed.values()), "the protocol hides what test rows miss"
    again = incomplete(handwritten.BENCHMARK.load("train", digits), rate, "random", seed=0)
    assert all(torch.equal(flags, again.observed[name]) for name, flags in train.observed.items())


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("fac", lambda text: "\n".join(text.splitlines()[:-1]), "mfeat-fac has 199 rows, and they do not match the"),
        ("mor", lambda text: text.replace("  1.005", "", 1), "mfeat-mor lacks a number in row 2; download it again"),
        ("zer", lambda text: text.replace("0.001", "x", 1), "mfeat-zer: 1 is 'x', not a number"),
        ("kar", lambda text: "\n".join(f"{line} 1" for line in text.splitlines()), "has 65 numbers in a row, not 64"),
        ("pix", None, "mfeat-pix does not exist; unpack it beside the other views"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, file, change, message):
    write_digits(tmp_path)
    path = tmp_path / f"mfeat-{file}"
    if change is None:
        path.unlink()
    else:
        path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=message):
        handwritten.BENCHMARK.load("train", tmp_path)
