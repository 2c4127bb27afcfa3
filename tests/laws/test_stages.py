"""Results that cannot be stale: a stage is kept under what it is built from, and trained anew when its code changes."""

import importlib.util
import logging
import math
import re
import sys
from pathlib import Path

import pytest
import torch
from helpers import SETTINGS, Wobbly, assert_equal, dataset

from gauge.imputers.zero import Zero
from gauge.training import checkpoint, source
from gauge.training.stages import Stage, StageStore
from gauge_lab.benchmarks import BENCHMARKS, Benchmark, Overrides
from gauge_lab.benchmarks.polymnist import BENCHMARK
from gauge_lab.experiment import Experiment
from gauge_lab.parts import imputer_stage
from gauge_lab.plans import plan_of
from gauge_lab.registry import METHODS
from gauge_lab.results import read_results

QUICK = SETTINGS.model_copy(update={"epochs": 1})
CODE = '''"""A module."""
from torch import nn
from gauge.types import Method


def double(x):
    """Twice."""
    return 2 * x


class Mine(Method):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(size, double(2))
'''


def make_wobbly(train, *, hidden: int) -> Wobbly:
    return Wobbly(hidden)


def store(folder: Path | None, **options) -> StageStore:
    return StageStore(dataset("train", 40), dataset("val", 30, seed=50), folder, **options)


def module_of(path: Path, text: str):
    """The text as a module of its own name; each call reads the file anew."""
    path.write_text(text, encoding="utf-8")
    source._source.cache_clear()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def code_of(path: Path, text: str) -> str:
    return source.code(module_of(path, text).Mine)[path.stem]


def test_comments_docstrings_formatting_and_paths_do_not_change_the_code(tmp_path):
    before = code_of(tmp_path / "mine.py", CODE)
    (tmp_path / "elsewhere").mkdir()
    dressed = CODE.replace('"""Twice."""', '"""Two times."""').replace("2 * x", "(\n        2 * x  # doubled\n    )")
    assert code_of(tmp_path / "elsewhere" / "mine.py", dressed) == before


@pytest.mark.parametrize("change", [("2 * x", "3 * x"), ("double(2)", "double(3)"), ("nn.Linear(", "nn.Bilinear(2, ")])
def test_any_other_change_of_the_source_changes_the_code(tmp_path, change):
    before = code_of(tmp_path / "mine.py", CODE)
    assert code_of(tmp_path / "mine.py", CODE.replace(*change)) != before


def edit(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """One more line in the source of a module, as the hashes see it."""
    unedited = source._source

    def edited(name: str):
        found = unedited(name)
        return found if found is None or name != module else (f"{found[0]} and one more line", found[1])

    monkeypatch.setattr(source, "_source", edited)


@pytest.mark.parametrize("imputer", ["zero", "mopoe"])
def test_a_trained_imputer_survives_an_edit_of_a_method_not_one_of_the_training_loop(tmp_path, imputer, monkeypatch):
    def stage() -> Stage:
        if imputer == "mopoe":
            return imputer_stage(BENCHMARK)
        return Stage("imputer-zero", Zero.from_dataset, {}, QUICK)

    stages, before = store(tmp_path), stage()
    if imputer == "zero":
        stages.trained(before)
    for module in ("gauge.plus.gauge_plus", "gauge.paper.gauge", "gauge_lab.plans", "gauge.registry"):
        with monkeypatch.context() as patch:
            edit(patch, module)
            assert stage().code == before.code
            assert imputer != "zero" or stages.metadata(stage()) is not None
    with monkeypatch.context() as patch:
        edit(patch, "gauge.training.loop")
        assert stage().code != before.code
        assert stages.metadata(stage()) is None


def builds_on() -> dict[str, set[str]]:
    """The methods whose modules each method's own module and plan import, directly or indirectly, as their text says."""
    root = Path(source.__file__).parents[3]
    folders = [root / "src" / "gauge" / name for name in ("plus", "paper")]
    folders += [root / "lab" / "gauge_lab" / name for name in ("methods", "plans")]
    texts = {
        f"{folder.parent.name}.{folder.name}.{path.stem}": path.read_text("utf-8")
        for folder in folders
        for path in folder.glob("*.py")
    }
    pattern = re.compile(r"from ((?:gauge_lab|gauge)\.(?:methods|plans|plus|paper)\.\w+) import")
    reached = {name: {name, *pattern.findall(text)} for name, text in texts.items()}
    for _ in range(8):
        reached = {name: set().union(*(reached.get(each, {each}) for each in own)) for name, own in reached.items()}
    modules = {name: METHODS.get(name).__module__ for name in METHODS.names()}
    found = {}
    for name, module in modules.items():
        own = reached[module] | reached.get(f"gauge_lab.plans.{name}", set())
        found[name] = {other for other, its_module in modules.items() if its_module in own}
    return found


def codes(benchmarks: tuple[Benchmark, ...]) -> dict[str, list[str]]:
    """The code of the stages of every method."""
    found: dict[str, list[str]] = {}
    for name in METHODS.names():
        plan = plan_of(name)
        served = [benchmark for benchmark in benchmarks if plan.unsupported(benchmark) is None]
        found[name] = [plan.stage(benchmark, plan.rows[0], 0).code for benchmark in served]
    return found


def test_an_edit_of_a_method_leaves_the_trained_stages_of_all_others_valid(monkeypatch):
    benchmarks, parts = (BENCHMARK, BENCHMARKS.get("leaf99")), builds_on()
    before = codes(benchmarks)
    assert all(before.values()), "every method serves one of the benchmarks"
    for name in METHODS.names():
        with monkeypatch.context() as patch:
            edit(patch, METHODS.get(name).__module__)
            after = codes(benchmarks)
        stale = {other for other in before if before[other] != after[other]}
        assert stale == {other for other in before if name in parts[other]}, f"after an edit of {name}"


@pytest.mark.parametrize("kept", [True, False], ids=["in a folder", "in memory"])
def test_a_trained_stage_is_loaded_not_trained_again(tmp_path, kept):
    epochs = []
    stages = store(tmp_path if kept else None, on_epoch=lambda stage, epoch: epochs.append(stage))
    stage = Stage("wobbly", make_wobbly, {"hidden": 6}, QUICK)
    first, second = stages.trained(stage), stages.trained(stage)
    assert epochs == ["wobbly"]
    assert first.module is not second.module
    assert_equal(first.module.state_dict(), second.module.state_dict())
    assert first.metadata["trained"].keys() == {"commit", "code", "hardware"}


def test_a_stage_whose_code_has_changed_is_trained_anew_and_the_log_says_so(tmp_path, caplog):
    epochs = []

    def run(text: str, **options):
        make = module_of(tmp_path / "made.py", text).make
        stages = store(tmp_path, on_epoch=lambda stage, epoch: epochs.append(stage), **options)
        return stages.trained(Stage("wobbly", make, {}, QUICK))

    code = "from helpers import Wobbly\n\ndef make(train):\n    return Wobbly({size})\n"
    run(code.format(size=6))
    run("# a comment\n" + code.format(size=6))
    assert epochs == ["wobbly"]
    with caplog.at_level(logging.WARNING):
        assert not run(code.format(size="3 * 2")).stale
    assert epochs == ["wobbly"] * 2
    assert "the code of wobbly has changed since it was trained; it is trained again" in caplog.text
    assert run(code.format(size="6 * 1"), reuse=True).stale
    assert epochs == ["wobbly"] * 2


def test_a_damaged_stage_is_refused(tmp_path):
    stage = Stage("wobbly", make_wobbly, {"hidden": 6}, QUICK)
    stages = store(tmp_path)
    stages.trained(stage)
    path = stages.path(stage)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged: its checksum does not match"):
        checkpoint.load(path)


def test_seeds_take_turns_on_the_imputers():
    overrides = Overrides.parse({"imputers": 2, "backbones": 3}, "test")
    stages = [Experiment(benchmark="polymnist5k", seed=seed, overrides=overrides) for seed in range(6)]
    needs = [each.stage(each.configured()).needs for each in stages]
    backbones, imputers = ([need[index].identity for need in needs] for index in (0, 1))
    assert imputers == [*imputers[:2]] * 3
    assert backbones == [*backbones[:3]] * 2
    assert len(set(imputers)) == 2
    alone = Experiment(benchmark="polymnist5k", seed=3)
    assert alone.stage(alone.configured()).needs[1].identity == imputers[0], "by default all seeds share the first"


ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", sorted(ROOT.glob("results/**/results.json")), ids=lambda path: path.parent.name)
def test_every_committed_result_is_valid_and_says_what_is_not_recorded(path):
    results = read_results(path)
    assert results
    assert all(result.trained["commit"] for result in results)


class Scaled(Wobbly):
    """A method with one more number to learn."""

    def __init__(self) -> None:
        super().__init__(4)
        self.scale = torch.nn.Parameter(torch.tensor(1.0))

    def loss(self, batch):
        return {"scale": self.scale**2}


def make_scaled(train) -> Scaled:
    return Scaled()


def test_a_stage_records_its_steps_its_rates_and_the_numbers_it_learned(tmp_path):
    settings = SETTINGS.model_copy(update={"epochs": 2, "batch_size": 16, "selection": (), "schedule": "cosine"})
    metadata = store(tmp_path).trained(Stage("scaled", make_scaled, {}, settings)).metadata
    rates = [
        settings.learning_rate * (1 + math.cos(math.pi * step / 6)) / 2 for step in range(6)
    ]  # 40 rows: 3 an epoch
    assert metadata["steps"] == 6
    assert metadata["sum_of_rates"] == pytest.approx(sum(rates))
    assert metadata["scalars"]["start"] == {"scale": 1.0}
    assert 0 < abs(metadata["scalars"]["end"]["scale"] - 1) <= 1.1 * sum(rates)
