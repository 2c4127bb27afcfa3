"""An exported classifier: one ONNX file that answers like the classifier, also where there is no torch."""

import io
import json
import re
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from helpers import BLOCK_TORCH, ONE_THREAD, clinic, mistake, unchecked

from gauge import ExportedClassifier, GaugeClassifier
from gauge.cli.production import export
from gauge.tabular.ensemble import unscored
from gauge.tabular.experts.trees import Trees

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.slow  # tracing takes half a minute

WITHOUT_TORCH = (
    BLOCK_TORCH
    + """
sys.argv = ["gauge", *sys.argv[1:]]
from gauge.cli.main import main

main()
"""
)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, pd.DataFrame, GaugeClassifier, str]:
    """A folder with an exported model, a table with a row without values, the model, and what the command printed."""
    folder = tmp_path_factory.mktemp("exported")
    table = clinic(folder / "photos", rows=40).drop(columns=["photo", "notes"])
    model = GaugeClassifier(experts=["network"], epochs=1, strategy="mask", random_state=0, verbose=False)
    model.fit(table, "diagnosis")
    model.save(folder / "model")
    printed = io.StringIO()
    with unchecked(), redirect_stdout(printed):
        export(folder / "model", to="onnx")
    new = table.drop(columns="diagnosis").assign(ward=1)
    new.loc[3] = np.nan
    return folder, new, model, printed.getvalue()


def test_the_exported_classifier_answers_like_the_classifier(made):
    folder, table, model, printed = made
    exported = ExportedClassifier(folder / "model.onnx")
    for count in (1, 7, 40):
        expected = model.predict_proba(table[:count])
        np.testing.assert_allclose(exported.predict_proba(table[:count]), expected, atol=1e-5)
    observed = [each.predict_with_observed(table)[1] for each in (exported, model.fitted_)]
    np.testing.assert_array_equal(*observed)
    assert exported.predict(table).tolist() == model.predict(table).tolist()
    assert "differs from the model by at most" in printed


def test_the_predict_command_needs_no_torch_for_an_exported_model(made, tmp_path):
    folder, table, model, _ = made
    table.to_csv(tmp_path / "new.csv", index=False)
    command = [sys.executable, "-c", WITHOUT_TORCH, "predict", str(folder / "model.onnx"), "new.csv"]
    done = subprocess.run(command, cwd=tmp_path, env=ONE_THREAD, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = pd.read_csv(io.StringIO(done.stdout))
    assert answers["prediction"].tolist() == model.predict(table).tolist()


def test_parts_that_are_not_in_the_graph_are_named_with_what_that_costs(made, tmp_path, monkeypatch):
    from gauge.deploy import export as exporting

    _, _, model, _ = made
    ensemble = model.ensemble_
    (network,) = ensemble.experts.values()
    trees = Mock(spec=Trees, network=None)

    def with_experts(**experts):
        changed = replace(ensemble, experts=experts)
        return replace(model.fitted_, ensemble=changed, leaderboard=unscored(changed))

    monkeypatch.setattr(model, "fitted_", with_experts(network=network, trees=trees))
    _, about, left_out = exporting._parts(model)
    reason = "only the network is exported, and the file answers as the network alone"
    assert left_out == {"expert 'trees' (weight 50 %)": reason}
    scores = {"expert": ["combined", "trees", "network"], "log_loss": [0.25, 0.3, 0.5], "weight": [1.0, 0.62, 0.38]}
    monkeypatch.setattr(model, "fitted_", replace(model.fitted_, leaderboard=pd.DataFrame(scores)))
    cost = "(log loss 0.500 instead of 0.250 on rows held out)"
    assert exporting._parts(model)[2] == {"expert 'trees' (weight 62 %)": f"{reason} {cost}"}
    assert json.loads(json.dumps(about))["classes"] == model.classes_.tolist()
    monkeypatch.setattr(model, "fitted_", with_experts(trees=trees))
    with pytest.raises(ValueError, match="only networks can be exported, this classifier has trees; fit it with 'net"):
        exporting._parts(model)


def test_a_file_without_all_experts_says_so_where_it_is_written_and_where_it_is_read(made, tmp_path, capsys):
    _, table, model, _ = made
    labels = np.resize(model.classes_, len(table))
    both = GaugeClassifier(experts=["network", "linear"], epochs=1, strategy="mask", random_state=0, verbose=False)
    both.fit(table.drop(columns="ward"), labels).save(tmp_path / "model")
    with unchecked():
        export(tmp_path / "model", to="onnx")
    *_, last = capsys.readouterr().out.splitlines()
    part = r"expert 'linear' \(weight \d+ %\)"
    assert re.search(rf"model\.onnx leaves out {part} of the classifier, and differs from its network by at most", last)
    table.to_csv(tmp_path / "new.csv", index=False)
    command = [sys.executable, "-m", "gauge.cli", "predict", "model.onnx", "new.csv"]
    done = subprocess.run(command, cwd=tmp_path, env=ONE_THREAD, capture_output=True, text=True, check=True)
    lines = [line for line in done.stderr.splitlines() if "model.onnx" in line]
    assert len(lines) == 1
    assert re.fullmatch(rf"gauge: model\.onnx holds the network alone, without {part}", lines[0])


def test_a_file_that_is_not_an_exported_classifier_is_refused(made, tmp_path):
    _, table, _, _ = made
    table.to_csv(tmp_path / "new.csv", index=False)
    (tmp_path / "other.onnx").write_bytes(b"not a graph")
    assert "other.onnx cannot be read as ONNX" in mistake("predict", "other.onnx", "new.csv", cwd=tmp_path)
    assert "there is no file nothing.onnx" in mistake("predict", "nothing.onnx", "new.csv", cwd=tmp_path)
