"""Components from outside the package: an installed package's entry point, and files named by --plugin."""

import pytest
from helpers import ONE_THREAD, command, mistake, python

from gauge_lab.results import read_results

PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "gauge-halves"
version = "1.0"

[project.entry-points."gauge.plugins"]
halves = "halves.components"

[tool.setuptools]
packages = ["halves"]
"""

HALVES = '''
import torch

from gauge.registry import IMPUTERS
from gauge.types import Imputer
from gauge.values import Batch


@IMPUTERS.register("half")
class Half(Imputer):
    """Half: every missing value becomes 0.5, whatever was observed."""

    def complete(self, batch: Batch) -> Batch:
        return batch.filled({name: torch.tensor(0.5) for name in batch.modalities})
'''

PLUGIN = '''
"""A method, and two signals to try it on."""

import torch
import torch.nn.functional as F

from gauge.data import Dataset
from gauge_lab.benchmarks import Benchmark, Modality, StageSettings
from gauge.masks import parse_protocols
from gauge_lab.benchmarks import BENCHMARKS
from gauge_lab.registry import METHODS
from gauge.training.settings import TrainSettings
from gauge.types import Method
from gauge.values import Prediction

SPLITS = ("train", "val", "test")
PROTOCOLS = parse_protocols("complete", "missing=left")


@METHODS.register("my_method")
class MyMethod(Method):
    """My method: the shared network on what is observed.

    Nothing else.
    """

    def __init__(self, encoder, classifier):
        super().__init__()
        self.encoder, self.classifier = encoder, classifier

    def loss(self, batch):
        return {"task": F.cross_entropy(self.classifier(self.encoder(batch).tokens), batch.labels)}

    @torch.no_grad()
    def predict(self, batch):
        return Prediction(self.classifier(self.encoder(batch.check()).tokens))


def read(split, data=None):
    draw = torch.Generator().manual_seed(SPLITS.index(split))
    labels = torch.arange(80) % 2
    inputs = {name: torch.randn(80, 4, generator=draw) + 3 * labels[:, None] for name in ("left", "right")}
    return Dataset(split, inputs, labels)


STAGE = TrainSettings(epochs=1, batch_size=20, learning_rate=0.01, selection=PROTOCOLS)
BENCHMARKS.register("my_benchmark", "My benchmark: two shifted signals")(
    Benchmark(
        name="my_benchmark",
        modalities={name: Modality((4,), "mlp", {"hidden": 8}) for name in ("left", "right")},
        num_classes=2,
        dim=8,
        heads=2,
        depth=1,
        subsets_per_step=2,
        method_options={"any_subset": {"projection": 4}},
        imputer="mean",
        imputer_options={},
        protocols=PROTOCOLS,
        settings=StageSettings(imputer=STAGE, backbone=STAGE, finetune=STAGE),
        read=read,
    )
)
'''


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder with the plugin and some settings."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "my_plugin.py").write_text(PLUGIN)
    (folder / "settings.yaml").write_text("baseline: {epochs: 6}\n")
    return folder


def benchmark(*arguments, cwd):
    chosen = ["--plugin", "my_plugin.py", "--method", "my_method", "--config", "settings.yaml"]
    return command("benchmark", "my_benchmark", *chosen, *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> str:
    """What is listed without any plugin."""
    return command("list", cwd=tmp_path_factory.mktemp("known")).stdout


def test_an_installed_package_adds_components_by_its_entry_point(known, tmp_path, monkeypatch):
    source, target = tmp_path / "source", tmp_path / "installed"
    (source / "halves").mkdir(parents=True)
    (source / "pyproject.toml").write_text(PYPROJECT)
    (source / "halves" / "__init__.py").write_text("")
    (source / "halves" / "components.py").write_text(HALVES)
    install = ["install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(target)]
    python("-m", "pip", *install, str(source))
    assert "  half " not in known
    monkeypatch.setitem(ONE_THREAD, "PYTHONPATH", str(target))
    listed = command("list", "imputers", cwd=tmp_path).stdout
    assert "  half           Half: every missing value becomes 0.5, whatever was observed.\n" in listed
    assert "  mean " in listed


def test_the_components_of_a_plugin_file_are_listed_with_their_descriptions(known, workplace):
    listed = command("list", "--plugin", "my_plugin.py", cwd=workplace).stdout
    assert "  my_method      My method: the shared network on what is observed.\n" in listed
    assert "  my_benchmark   My benchmark: two shifted signals\n" in listed
    assert "my_method" not in known


@pytest.mark.slow
def test_a_plugin_method_trains_beside_others_and_anew_when_its_code_changes(workplace):
    done = benchmark("--method", "moddrop", "--jobs", "2", cwd=workplace)  # processes that load the plugin themselves
    assert "| my_method |" in done.stdout
    results = read_results(workplace / "runs" / "my_benchmark" / "results.json")
    rows = [(str(result.row), result.protocol) for result in results]
    assert rows == [(row, protocol) for row in ("my_method", "moddrop") for protocol in ("complete", "missing=left")]
    assert [result.config["epochs"] for result in results] == [6] * 4
    assert all(result.value > 0.8 for result in results)
    (workplace / "my_plugin.py").write_text(PLUGIN.replace("cross_entropy(", "cross_entropy(2 * "))
    again = benchmark(cwd=workplace)
    (workplace / "my_plugin.py").write_text(PLUGIN)
    assert "the code of my_method-s0 has changed since it was trained; it is trained again" in again.stderr


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("", "there is no benchmark 'my_benchmark'; known: cad, celeba"),
        ("METHODS.register('gauge')(object)", "there is a method 'gauge' already; choose another name"),
        ("IMPUTERS.register('mean')(object)", "there is an imputer 'mean' already; choose another name"),
    ],
)
def test_a_mistake_in_a_plugin_is_reported_in_one_line(code, message, tmp_path):
    (tmp_path / "mine.py").write_text(
        f"from gauge.registry import IMPUTERS\nfrom gauge_lab.registry import METHODS\n{code}\n"
    )
    said = mistake("benchmark", "my_benchmark", "--plugin", "mine.py", cwd=tmp_path)
    assert message in said
    assert len(said.strip().splitlines()) == 1
