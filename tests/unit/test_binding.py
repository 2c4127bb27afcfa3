"""Davis and KIBA: which pairs bind, what the views say, and that no text of a cold split is known."""

import json

import numpy as np
import pytest

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
