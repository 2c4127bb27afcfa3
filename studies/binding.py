"""AUPR and concordance of classifiers on the published test folds of Davis and KIBA, beside published concordances.

Published numbers are of networks that learn the affinity itself; ours learn whether a pair binds. Both rank the same pairs.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from sklearn.metrics import average_precision_score

from gauge_lab.benchmarks._binding import FILES
from gauge_lab.results import Result, load_predictions

SOURCE = "as listed by Yang et al. 2022 (MGraphDTA, Chemical Science), table 3, for the same test folds"
PUBLISHED = {  # concordance
    "davis": {"KronRLS": 0.871, "SimBoost": 0.872, "DeepDTA": 0.878},
    "kiba": {"KronRLS": 0.782, "SimBoost": 0.836, "DeepDTA": 0.863},
}


def strengths(data: Path, name: str) -> np.ndarray:
    """How strongly the pairs of the test fold bind, in the order of the test split."""
    folder = data / "DeepDTA" / name
    affinities = np.loadtxt(folder / FILES[name][0])
    test = json.loads((folder / "folds" / "test_fold_setting1.txt").read_text(encoding="utf-8"))
    measured = affinities[~np.isnan(affinities)][sorted(test)]
    return -measured if name == "davis" else measured


def concordance(strength: np.ndarray, score: np.ndarray) -> float:
    """The share of pairs of samples with different strengths that scores order alike; ties count half.

    >>> concordance(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.2, 0.2]))
    0.8333333333333334
    """
    right, pairs = 0.0, 0
    for own, value in zip(strength, score, strict=True):
        weaker = strength < own
        right += (value > score[weaker]).sum() + (value == score[weaker]).sum() / 2
        pairs += int(weaker.sum())
    return float(right / pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--data", "--runs", "--out"):
        parser.add_argument(option, type=Path, required=True)
    options = parser.parse_args()
    rows = []
    for path in sorted(options.runs.rglob("*-complete-*.json")):
        result = Result.load(path)
        if result.benchmark in FILES:
            probabilities, labels, _ = load_predictions(path)
            aupr = average_precision_score(labels, probabilities[:, 1])
            ranked = concordance(strengths(options.data, result.benchmark), probabilities[:, 1])
            cell = {"benchmark": result.benchmark, "row": str(result.row), "seed": result.seed, "auc": result.value}
            rows.append(cell | {"aupr": float(aupr), "concordance": ranked})
    content = {"rows": rows, "published_concordance": PUBLISHED, "source": SOURCE}
    options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
