"""How good imputers are at the cells of a benchmark's table: categories that are right, squared error of numbers.

    python studies/imputation.py leaf99 --data DIR --runs runs/leaf99 [--config FILE] [--out FOLDER]

Imputers that train are taken from the workspace of `gauge benchmark`, or trained there. Numbers have unit variance in the
training rows: an error of 1 is that of the mean.
"""

import argparse
import json
from pathlib import Path

import torch

from gauge.data import Dataset
from gauge.masks import parse_protocol
from gauge.nn.tabular import ColumnLayout
from gauge.training.inference import masked_batches
from gauge.training.progress import stage_progress
from gauge.types import Imputer, SupportsComplete
from gauge_lab.benchmarks import BENCHMARKS, ImputerOverride, Overrides
from gauge_lab.experiment import Experiment
from gauge_lab.parts import imputer_stage
from gauge_lab.recording import origin, write_record
from gauge_lab.workspace import Workspace

PROTOCOLS = ("gamma=0.1", "gamma=0.3", "gamma=0.5", "gamma=0.7", "gamma=0.9", "gamma=1")


@torch.no_grad()
def quality(imputer: SupportsComplete, data: Dataset, protocol: str, columns: ColumnLayout) -> dict[str, float]:
    """Over the cells of the test split that were there and are taken away."""
    right, wrong = [], []
    for batch in masked_batches(data, parse_protocol(protocol), 512):
        imputed, truth = imputer.complete(batch).inputs["table"], data.inputs["table"][batch.index]
        hidden = data.observed["table"][batch.index] & ~batch.observed["table"]
        same = columns.codes(imputed) == columns.codes(truth)
        right.append(same[hidden[:, columns.categorical]])
        error = (imputed - truth).square()[:, columns.numbers]
        wrong.append(error[hidden[:, columns.numbers]])
    parts = {"categories_right": torch.cat(right).float(), "squared_error": torch.cat(wrong)}
    return {name: float(values.mean()) for name, values in parts.items() if len(values)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("benchmark", choices=["leaf99", "ham10000", "dvm", "cad", "infarction"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True, help="workspace of `gauge benchmark`")
    parser.add_argument("--imputers", nargs="*", default=["tip", "iterative", "nearest", "mean"])
    parser.add_argument("--config", type=Path, help="settings that `gauge benchmark` was given")
    parser.add_argument("--seeds", type=int, default=1, help="how many divisions of the data, where there are several")
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--device")
    options = parser.parse_args()
    overrides = Overrides.load(options.config) if options.config else Overrides()
    own, records = BENCHMARKS.get(options.benchmark), []
    with stage_progress() as on_epoch:
        workspace = Workspace(options.runs, options.device, on_epoch)
        for seed in range(options.seeds):
            for name in options.imputers:
                chosen = overrides.model_copy(update={"imputer_options": ImputerOverride(name=name)})
                experiment = Experiment(
                    benchmark=options.benchmark, seed=seed, data=str(options.data), overrides=chosen
                )
                job = workspace.job(experiment)
                columns = ColumnLayout(own.imputer_options["cardinalities"]).to(job.test.device)
                imputer = job.store.trained(imputer_stage(job.benchmark)).module
                assert isinstance(imputer, Imputer)
                for protocol in PROTOCOLS:
                    result = quality(imputer, job.test, protocol, columns)
                    record = {"imputer": name, "seed": seed, "protocol": protocol, **result}
                    print(json.dumps(record), flush=True)
                    records.append(record)
    settings = overrides.model_dump(mode="json", exclude_unset=True)
    content = {"benchmark": options.benchmark, "settings": settings, "rows": records}
    path = options.out / "imputation.json"
    write_record(path, origin(options, job.test.device) | content)
    print(f"written to {path}")


if __name__ == "__main__":
    main()
