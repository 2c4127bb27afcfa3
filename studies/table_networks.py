"""The network of GaugeClassifier beside TabM with piecewise-linear embeddings, on the tables of studies/tables.py.

    pip install 'gauge-ml[rivals]'
    python studies/table_networks.py [--seeds 1] [--minutes 10]

Both train on the same rows with the same blank cells, without any other expert. Records are kept in
studies/results/table_networks.json, and what is there is not computed again.
"""

import argparse
import itertools
import json
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from rivals import with_categories
from rtdl_num_embeddings import PiecewiseLinearEmbeddings, compute_bins
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import QuantileTransformer
from tables import RATES, TABLES, blanked, read
from tabm import TabM
from torch import Tensor

from gauge import GaugeClassifier
from gauge.training.metrics import scores
from gauge_lab.recording import origin, write_lines

RESULTS = Path(__file__).parent / "results" / "table_networks.json"
EPOCHS, PATIENCE, BATCH = 100, 16, 128


class TabMClassifier:
    """TabM as its authors train it (AdamW, early stopping on a fifth of the rows), in a size for small tables. Numbers are
    quantiles, missing ones the median beside a flag; a missing category is a category."""

    def fit(self, frame: pd.DataFrame, labels: np.ndarray, seed: int) -> "TabMClassifier":
        torch.manual_seed(seed)
        self.numbers = [
            name for name in frame if pd.api.types.is_numeric_dtype(frame[name]) and frame[name].notna().any()
        ]
        self.words = [name for name in frame if isinstance(frame[name].dtype, pd.CategoricalDtype)]
        self.levels = {name: frame[name].cat.categories for name in self.words}
        inner, held_out = train_test_split(np.arange(len(labels)), test_size=0.2, stratify=labels, random_state=seed)
        quantiles = QuantileTransformer(
            n_quantiles=min(len(inner), 1000), output_distribution="normal", random_state=seed
        )
        self.flags = SimpleImputer(strategy="median", add_indicator=True)
        if self.numbers:
            filled = self.flags.fit(frame[self.numbers]).transform(frame[self.numbers])
            self.quantiles = quantiles.fit(filled[inner, : len(self.numbers)])
        numbers, codes = self._tensors(frame)
        varied = [column for column in range(numbers.shape[1]) if len(numbers[inner, column].unique()) > 1]
        self.varied, classes = varied, int(labels.max()) + 1
        numbers, target = numbers[:, varied], torch.from_numpy(labels)
        bins = compute_bins(numbers[inner], n_bins=min(48, len(inner) - 1)) if varied else []
        embedding = PiecewiseLinearEmbeddings(bins, 16, activation=False, version="B") if varied else None
        self.model = TabM.make(
            n_num_features=len(varied),
            cat_cardinalities=[len(levels) + 1 for levels in self.levels.values()],
            d_out=classes,
            num_embeddings=embedding,
            d_block=128,
            n_blocks=2,
        )
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3, weight_decay=3e-4)
        best, since, kept = float("inf"), 0, self.model.state_dict()
        for _ in range(EPOCHS):
            self.model.train()
            for rows in torch.from_numpy(np.random.default_rng(seed).permutation(inner)).split(BATCH):
                logits = self._logits(numbers[rows], codes[rows])
                loss = F.cross_entropy(logits.flatten(0, 1), target[rows].repeat_interleave(logits.shape[1]))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            cost = F.nll_loss(self._log_proba(numbers[held_out], codes[held_out]), target[held_out]).item()
            since += 1
            if cost < best:
                best, since, kept = cost, 0, {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
            if since >= PATIENCE:
                break
        self.model.load_state_dict(kept)
        return self

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        numbers, codes = self._tensors(frame)
        return self._log_proba(numbers[:, self.varied], codes).exp().numpy()

    def _tensors(self, frame: pd.DataFrame) -> tuple[Tensor, Tensor]:
        numbers = np.zeros((len(frame), 0))
        if self.numbers:
            numbers = self.flags.transform(frame[self.numbers])
            count = len(self.numbers)
            numbers = np.column_stack([self.quantiles.transform(numbers[:, :count]), numbers[:, count:]])
        codes = [frame[name].cat.set_categories(levels).cat.codes + 1 for name, levels in self.levels.items()]
        words = np.column_stack(codes) if codes else np.zeros((len(frame), 0))
        return torch.from_numpy(numbers).float(), torch.from_numpy(words).long()

    def _logits(self, numbers: Tensor, codes: Tensor) -> Tensor:
        return self.model(numbers if self.varied else None, codes if self.words else None)

    @torch.no_grad()
    def _log_proba(self, numbers: Tensor, codes: Tensor) -> Tensor:
        self.model.eval()
        return self._logits(numbers, codes).softmax(-1).mean(1).log()


def records(case: dict[str, Any]) -> list[dict[str, Any]]:
    frame, labels = read(case["table"])
    frame, codes = blanked(frame, case["missing"], case["seed"]), np.unique(labels, return_inverse=True)[1]
    train, test = train_test_split(np.arange(len(codes)), test_size=0.3, stratify=codes, random_state=case["seed"])
    lines = []
    for name in ("network", "TabM"):
        started = time.process_time()
        if name == "TabM":
            given = with_categories(frame)
            model: Any = TabMClassifier().fit(given.iloc[train], codes[train], case["seed"])
        else:
            given = frame
            model = GaugeClassifier(experts="network", random_state=case["seed"], verbose=False)
            model.fit(given.iloc[train], codes[train])
        seconds = time.process_time() - started
        result = scores(model.predict_proba(given.iloc[test]), codes[test])
        rounded = {metric: round(value, 5) for metric, value in result.items()}
        lines.append(case | {"model": name, "cpu_seconds": round(seconds, 2), **rounded})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    options = parser.parse_args()
    logging.getLogger("gauge").setLevel("ERROR")
    started = time.monotonic()
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    for seed, table, rate in itertools.product(range(options.seeds), TABLES, RATES):
        fit = {"table": table, "missing": rate, "seed": seed}
        if any(fit.items() <= record.items() for record in done):
            continue
        if time.monotonic() - started > 60 * options.minutes:
            break
        done += [line | origin(options) for line in records(fit)]
        write_lines(RESULTS, done)
        print(
            fit,
            [(line["model"], line["auc"], line["log_loss"], line["cpu_seconds"]) for line in done[-2:]],
            flush=True,
        )


if __name__ == "__main__":
    main()
