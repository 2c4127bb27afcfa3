"""A kind of column from a file of one's own: recognised, learned from, explained, saved and served without other edits."""

import json

import numpy as np
import pandas as pd
import pytest

from gauge import GaugeClassifier
from gauge.deploy.requests import Limits, RefusedError, RequestReader
from gauge.registry import COLUMNS, load_plugin, plugin_files
from gauge.tabular.table.inspection import inspect_table

PLUGIN = '''
"""Quartets: four samples each, written 0.5/1/2/0."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from gauge.registry import COLUMNS
from gauge.tabular.table.columns import Content, Guess, ImageFiles, Part, ReadOptions

FORM = "[0-9.]+(/[0-9.]+){3}"


@COLUMNS.register("quartet")
@dataclass(frozen=True)
class Quartet(Content):
    name: str
    largest: float
    kind: ClassVar[str] = "quartet"
    read_by_trees: ClassVar[bool] = True

    @classmethod
    def recognise(cls, values):
        return Guess("four samples") if values.astype(str).str.fullmatch(FORM).all() else None

    @classmethod
    def from_column(cls, column, options=ReadOptions()):
        return cls(str(column.name), float(max(max(samples(cell)) for cell in column.dropna())))

    @classmethod
    def inspect(cls, values, options=ReadOptions()):
        return np.zeros(len(values), bool), ["some samples are zero"] if values.str.contains("/0").any() else []

    @property
    def note(self):
        return "four samples"

    def encode(self, column, files=ImageFiles(), *, training=False):
        observed = column.astype(str).str.fullmatch(FORM).to_numpy(bool)
        rows = [samples(cell) if known else [0.0] * 4 for cell, known in zip(column, observed)]
        return np.array(rows, np.float32).reshape(-1, 4) / np.float32(self.largest), observed

    def request_type(self, *, max_pixels):
        return Annotated[str, Field(pattern=f"^{FORM}$")] | None

    def encoder(self, dim, channels, *, weights):
        from gauge.encoders.columns import Columns

        return Columns((4,), dim)

    def parts(self, cell, values, count):
        return [Part(f"sample {number}", f"{self.largest * value:g}") for number, value in enumerate(values, 1)]


def samples(cell):
    return [float(sample) for sample in cell.split("/")]
'''


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    path = tmp_path_factory.mktemp("plugin") / "quartets.py"
    path.write_text(PLUGIN)
    load_plugin(path)
    yield
    COLUMNS.added.pop("quartet")
    plugin_files.remove(path)


@pytest.fixture(scope="module")
def table(plugin):
    """Rows whose label shows in the second sample of four, some of which are missing."""
    draw = np.random.default_rng(0)
    labels = np.arange(90) % 2
    rows = draw.uniform(0, 1, (90, 4)).round(2) + np.outer(labels, [0, 2, 0, 0])
    pulse = pd.Series(["/".join(f"{value:g}" for value in row) for row in rows], dtype=object)
    pulse[::9] = None
    return pd.DataFrame({"age": draw.normal(size=90), "pulse": pulse, "ill": np.where(labels, "yes", "no")})


@pytest.fixture(scope="module")
def model(table):
    return GaugeClassifier(epochs=12, random_state=0, verbose=False).fit(table, "ill")


def test_a_new_kind_is_recognised_inspected_and_summarised(table):
    inspection = inspect_table(table, target="ill")
    assert inspection.columns[["column", "kind", "missing"]].to_numpy().tolist()[1] == ["pulse", "quartet", "11.1 %"]
    assert inspection.columns["note"][1] == "four samples"
    assert "pulse: some samples are zero" in inspection.problems
    with pytest.raises(ValueError, match="there is no kind of column 'quartets'; did you mean 'quartet'"):
        inspect_table(table, kinds={"pulse": "quartets"})


def test_every_expert_learns_from_a_column_of_a_new_kind(table, model):
    assert model.schema_.modalities["quartet0"][0].name == "pulse"
    assert "read as guessed: pulse (four samples)" in model.schema_.summary()
    assert set(model.experts_) == {"network", "trees", "linear"}
    known = table[table["pulse"].notna()]
    for expert in model.experts_:
        alone = GaugeClassifier(experts=expert, epochs=12, random_state=0, verbose=False).fit(table, "ill")
        assert (alone.predict(known) == known["ill"]).mean() > 0.9, expert


def test_the_evidence_shows_the_parts_of_a_new_kind_and_the_one_that_decides(table, model):
    observed, missing = model.explain(table.iloc[[1, 9]], exact=True).rows
    units = [unit for unit in observed.units if unit.column == "pulse"]
    assert [unit.name for unit in units] == ["sample 1", "sample 2", "sample 3", "sample 4"]
    assert [unit.value for unit in units] == table["pulse"][1].split("/")
    assert max(units, key=lambda unit: unit.used).name == "sample 2"
    assert {unit.state for unit in missing.units if unit.column == "pulse"} == {"missing"}


def test_a_new_kind_is_saved_loaded_and_drawn(table, model, tmp_path):
    model.save(tmp_path / "model")
    loaded = GaugeClassifier.load(tmp_path / "model")
    assert loaded.schema_ == model.schema_
    np.testing.assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))
    loaded.explain(table.iloc[[1]]).to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert all(f">{sample}<" in page for sample in table["pulse"][1].split("/"))


def test_a_request_for_a_new_kind_is_checked_by_it(table, model):
    reader = RequestReader(model.schema_.columns, Limits())
    rows = reader.read(json.dumps({"rows": [{"pulse": table["pulse"][1], "age": None}]}).encode())
    assert model.predict(pd.DataFrame(rows, columns=list(reader.names), dtype=object)).tolist() == ["yes"]
    with pytest.raises(RefusedError) as error:
        reader.read(b'{"rows": [{"pulse": "1/2"}]}')
    assert error.value.detail[0]["where"] == "rows.0.pulse"
