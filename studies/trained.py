"""What the scripts about a trained GAUGE share: the arguments that name it, its experiment and its workspace."""

import argparse
from pathlib import Path

from gauge.training.stages import OnEpoch
from gauge_lab.benchmarks import Overrides
from gauge_lab.experiment import Experiment
from gauge_lab.workspace import Workspace


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return one with the benchmark, the protocol, and where data, runs and settings are."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark")
    parser.add_argument("protocol")
    for name in ("data", "runs", "config"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--reuse", action="store_true", help="use models although the code has changed since")
    return parser


def experiment(arguments: argparse.Namespace, seed: int = 0) -> Experiment:
    overrides = Overrides.load(arguments.config) if arguments.config else Overrides()
    source = None if arguments.data is None else str(arguments.data.resolve())
    return Experiment(benchmark=arguments.benchmark, seed=seed, data=source, overrides=overrides)


def workspace(arguments: argparse.Namespace, device: str | None, on_epoch: OnEpoch) -> Workspace:
    return Workspace(arguments.runs or Path("runs") / arguments.benchmark, device, on_epoch, arguments.reuse)
