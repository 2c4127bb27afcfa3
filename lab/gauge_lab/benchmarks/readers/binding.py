"""Davis and KIBA as DeepDTA has them: texts of drugs and proteins, a matrix of affinities, and folds of its pairs."""

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int

from gauge.data import Dataset
from gauge_lab.benchmarks.readers.folders import find_folder

Cold = Literal["", "drugs", "proteins"]
ATOMS = "#()+-./123456789=@BCFHINOPS[\\]lr"  # of SMILES
RESIDUES = "ACDEFGHIKLMNPQRSTVWXY"
SMILES_LENGTH, SEQUENCE_LENGTH = 100, 1000
GRAMS = 512  # counted pieces of SMILES, the most frequent ones
FOLDS = 5


@cache
def read_binding(
    split: str,
    data: Path,
    fold: int = 0,
    disjoint: bool = False,
    *,
    name: str,
    file: str,
    binds: float,
    cold: Cold = "",
) -> Dataset:
    """One split of the pairs whose affinity was measured; class 1 has an affinity of at least `binds`.

    The published test fold is always the test split, and the fold of the number `fold` among the others is the validation
    split. With `cold`, whole drugs or proteins are held out instead, by distinct texts: some proteins have the same sequence
    and some drugs the same SMILES, which would be known otherwise. Then every text is tested in one of the folds.
    """
    folder = find_folder(
        data, [f"{parent}/{name}" for parent in ("DeepDTA", "data", ".")] + [name], file, f"{name} data"
    )
    smiles, sequences = (list(_json(folder / f"{part}.txt").values()) for part in ("ligands_can", "proteins"))
    affinities = np.loadtxt(folder / file)
    if affinities.shape != (len(smiles), len(sequences)):
        raise ValueError(
            f"{folder / file} is {list(affinities.shape)}, but there are {len(smiles)} drugs and {len(sequences)} proteins"
        )
    drug, protein = np.nonzero(~np.isnan(affinities))
    held_out = distinct(smiles)[drug] if cold == "drugs" else distinct(sequences)[protein]
    part = cold_parts(held_out, fold) if cold else published_parts(folder, len(drug), fold)
    known = part == "train"
    views = {
        "smiles": numbers(smiles, ATOMS, SMILES_LENGTH)[drug],
        "counts": _scaled(grams(smiles, np.unique(drug[known])), np.unique(drug[known]))[drug],
        "sequence": numbers(sequences, RESIDUES, SEQUENCE_LENGTH)[protein],
        "composition": _scaled(composition(sequences), np.unique(protein[known]))[protein],
    }
    sign = -1 if name == "davis" else 1  # a small Kd binds strongly
    rows, labels = np.flatnonzero(part == split), sign * affinities[drug, protein] >= binds
    inputs = {view: torch.from_numpy(values[rows]) for view, values in views.items()}
    groups = torch.from_numpy(held_out[rows]) if cold else None
    return Dataset(split, inputs, torch.from_numpy(labels[rows].astype(np.int64)), groups=groups)


def published_parts(folder: Path, pairs: int, fold: int) -> np.ndarray:
    """The split of every pair by the published folds, which number the measured pairs row by row."""
    train, test = (_json(folder / "folds" / f"{part}_fold_setting1.txt") for part in ("train", "test"))
    part = np.full(pairs, "     ")
    for number, positions in enumerate(train):
        part[positions] = "val" if number == fold else "train"
    part[test] = "test"
    if (part == "     ").any():
        raise ValueError(f"the folds in {folder / 'folds'} leave out some of {pairs} pairs; they belong to other data")
    return part


def distinct(texts: Sequence[str]) -> Int[np.ndarray, "n"]:
    """The number of each text, the same for equal texts.

    >>> distinct(["b", "a", "b"]).tolist()
    [1, 0, 1]
    """
    order = {text: number for number, text in enumerate(sorted(set(texts)))}
    return np.array([order[text] for text in texts])


def cold_parts(texts: Int[np.ndarray, "pairs"], fold: int) -> np.ndarray:
    """The split of every pair by the number of its text: a fifth of the texts is for the test, the next for validation.

    >>> parts = cold_parts(np.repeat(np.arange(10), 2), fold=0)
    >>> sorted(Counter(parts.tolist()).items()), bool((parts[::2] == parts[1::2]).all())
    ([('test', 4), ('train', 12), ('val', 4)], True)
    """
    part = np.random.default_rng(2025).permutation(texts.max() + 1)[texts] % FOLDS
    return np.select([part == fold, part == (fold + 1) % FOLDS], ["test", "val"], "train")


def numbers(texts: Sequence[str], alphabet: str, length: int) -> Int[np.ndarray, "n {length}"]:
    """The numbers of the first symbols of each text, from 1 on; 0 after its end and for other symbols.

    >>> numbers(["ba!"], "ab", 4).tolist()
    [[2, 1, 0, 0]]
    """
    codes = np.array(texts, f"U{length}").reshape(-1, 1).view(np.uint32).clip(max=127)
    table = np.zeros(128, np.int16)
    table[[ord(symbol) for symbol in alphabet]] = np.arange(1, len(alphabet) + 1)
    return table[codes]


def grams(texts: Sequence[str], known: Int[np.ndarray, "k"]) -> Float[np.ndarray, "n grams"]:
    """How often pieces of one to four symbols are in each text (logarithms): those that most of the `known` texts have."""
    counts = [
        Counter(text[at : at + size] for size in range(1, 5) for at in range(len(text) - size + 1)) for text in texts
    ]
    documents = Counter(piece for index in known for piece in counts[index])
    chosen = [piece for piece, _ in sorted(documents.items(), key=lambda item: (-item[1], item[0]))[:GRAMS]]
    values = np.zeros((len(texts), GRAMS))
    values[:, : len(chosen)] = [[own[piece] for piece in chosen] for own in counts]
    return np.log1p(values)


def composition(texts: Sequence[str]) -> Float[np.ndarray, "n 441"]:
    """The shares of all pairs of neighbouring amino acids in each whole sequence."""
    size = len(RESIDUES)
    shares = np.zeros((len(texts), size * size))
    for row, text in enumerate(texts):
        symbols = numbers([text], RESIDUES, len(text))[0].astype(int)
        pairs = symbols[:-1] * size + symbols[1:] - size - 1
        known = (symbols[:-1] > 0) & (symbols[1:] > 0)
        shares[row] = np.bincount(pairs[known], minlength=size * size) / max(known.sum(), 1)
    return shares


def _scaled(values: np.ndarray, known: np.ndarray) -> Float[np.ndarray, "n f"]:
    """Columns with mean 0 and deviation 1 over the texts of training pairs."""
    mean, deviation = values[known].mean(0), values[known].std(0)
    return ((values - mean) / np.where(deviation > 0, deviation, 1)).clip(-5, 5).astype(np.float32)


@cache
def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}") from error
