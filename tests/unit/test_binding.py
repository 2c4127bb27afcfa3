"""Davis and KIBA: which pairs bind, what the views say, and that no text of a cold split is known."""

import json

import numpy as np
import pytest
import torch

from gauge_lab.benchmarks import BENCHMARKS
from gauge_lab.benchmarks._binding import FILES
from gauge_lab.benchmarks.readers import binding

DRUGS, PROTEINS = 12, 15
RESIDUES = np.array(list("ACDEFGHIKLMNPQRSTVWY"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Texts that repeat: two drugs have the same SMILES, and every third protein the sequence of the one before."""
    root, draw = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    smiles = ["C" * (number + 3) + "(=O)N" for number in range(DRUGS - 1)]
    sequences = ["".join(draw.choice(RESIDUES, 40)) for _ in range(PROTEINS)]
    for number in range(2, PROTEINS, 3):
        sequences[number] = sequences[number - 1]
    for name in ("davis", "kiba"):
        folder = root / "DeepDTA" / name
        (folder / "folds").mkdir(parents=True)
        texts = {"ligands_can": [*smiles, smiles[0]], "proteins": sequences}
        for part, values in texts.items():
            (folder / f"{part}.txt").write_text(json.dumps({f"{part}{n}": text for n, text in enumerate(values)}))
        affinities = np.where(draw.random((DRUGS, PROTEINS)) < 0.3, 50.0, 10_000.0)
        if name == "kiba":
            affinities = np.where(affinities < 100, 12.1, 11.0)
            affinities[draw.random(affinities.shape) < 0.2] = np.nan
        np.savetxt(folder / FILES[name][0], affinities)
        order = draw.permutation(int((~np.isnan(affinities)).sum())).tolist()
        folds = [order[start::6] for start in range(6)]
        (folder / "folds" / "train_fold_setting1.txt").write_text(json.dumps(folds[:5]))
        (folder / "folds" / "test_fold_setting1.txt").write_text(json.dumps(folds[5]))
    return root


def parts(name, data, fold=0):
    benchmark = BENCHMARKS.get(name).for_seed(fold)
    return {split: benchmark.load(split, data) for split in ("train", "val", "test")}


@pytest.mark.parametrize("name", ["davis", "kiba"])
def test_published_folds_divide_the_measured_pairs_and_the_test_fold_stays(data, name):
    affinities = np.loadtxt(data / "DeepDTA" / name / FILES[name][0])
    measured = affinities[~np.isnan(affinities)]
    test = json.loads((data / "DeepDTA" / name / "folds" / "test_fold_setting1.txt").read_text())
    for fold in (0, 3):
        splits = parts(name, data, fold)
        assert sum(map(len, splits.values())) == len(measured)
        binds = measured[sorted(test)] <= 100 if name == "davis" else measured[sorted(test)] >= 12.1
        assert splits["test"].labels.tolist() == binds.astype(int).tolist()
    assert parts(name, data, 0)["val"].fingerprint != parts(name, data, 3)["val"].fingerprint


@pytest.mark.parametrize("benchmark", ["davis_drugs", "davis_proteins", "kiba_drugs", "kiba_proteins"])
def test_no_text_that_is_held_out_is_in_another_split_and_every_text_is_tested_once(data, benchmark):
    view = "smiles" if benchmark.endswith("drugs") else "sequence"
    tested = []
    for fold in range(binding.FOLDS):
        splits = parts(benchmark, data, fold)
        texts = {split: {tuple(row) for row in part.inputs[view].tolist()} for split, part in splits.items()}
        assert not texts["train"] & texts["test"]
        assert not texts["train"] & texts["val"]
        assert not texts["val"] & texts["test"]
        assert len(splits["test"].groups.unique()) == len(texts["test"])
        tested += texts["test"]
    assert len(tested) == len(set(tested)) == (DRUGS - 1 if view == "smiles" else PROTEINS - PROTEINS // 3)


def test_counts_and_shares_are_scaled_by_training_texts_alone(data):
    train = parts("davis_drugs", data)["train"]
    texts = train.inputs["counts"].unique(dim=0)
    varying = texts.std(0) > 0
    assert varying.any()
    torch.testing.assert_close(texts[:, varying].mean(0), torch.zeros(int(varying.sum())), atol=0.3, rtol=0)
    assert train.inputs["composition"].shape[1] == len(binding.RESIDUES) ** 2
    assert train.inputs["smiles"].max() < len(binding.ATOMS) + 1


def test_pieces_are_counted_and_neighbours_are_shares():
    counts = np.expm1(binding.grams(["CCO", "C"], np.array([0, 1])))
    assert counts[0, 0] == pytest.approx(2), "the piece that most texts have is first"
    shares = binding.composition(["AAC", "X?A"])
    assert shares[0][[0, 1]].tolist() == [0.5, 0.5]
    assert shares[1].sum() == 0, "an unknown symbol has no neighbours"


def test_folds_of_other_data_are_an_error(data, tmp_path):
    folder = data / "DeepDTA" / "davis"
    with pytest.raises(ValueError, match=r"leave out some of 1000 pairs; they belong to other data"):
        binding.published_parts(folder, 1000, 0)
    with pytest.raises(ValueError, match="davis needs data; give --data DIR with DeepDTA/davis"):
        BENCHMARKS.get("davis").load("train")
    with pytest.raises(ValueError, match="holds no kiba data"):
        BENCHMARKS.get("kiba").load("train", tmp_path)
