"""An exported classifier: one ONNX file that answers like the classifier, also where there is no torch."""

import io
import json
import re
import socket
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import BLOCK_TORCH, ONE_THREAD, clinic, python, unchecked

from gauge import ExportedClassifier, GaugeClassifier
from gauge.cli.production import export
from gauge.deploy.exported import seal

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
MUTATIONS = 150
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
    table = clinic(folder / "photos", rows=60).drop(columns="photo")
    model = GaugeClassifier(epochs=1, random_state=0, verbose=False)
    model.fit(table, "diagnosis")
    model.save(folder / "model")
    printed = io.StringIO()
    with unchecked(), redirect_stdout(printed):
        export(folder / "model")
    new = table.drop(columns="diagnosis").assign(ward=1)
    new.loc[3] = np.nan
    return folder, new, model, printed.getvalue()


def test_the_exported_classifier_answers_like_the_classifier(made):
    folder, table, model, printed = made
    exported = ExportedClassifier(folder / "model.onnx")
    assert exported.predict(table).tolist() == model.predict(table).tolist()
    assert list(model.ensemble_.experts) == ["network", "trees", "linear"]
    assert re.fullmatch(r"\S+model\.onnx differs from the model by at most \S+ in a probability or gate\n", printed)


def test_the_predict_command_needs_no_torch_for_an_exported_model(made, tmp_path):
    folder, table, model, _ = made
    table.to_csv(tmp_path / "new.csv", index=False)
    done = python("-c", WITHOUT_TORCH, "predict", str(folder / "model.onnx"), "new.csv", cwd=tmp_path)
    answers = pd.read_csv(io.StringIO(done.stdout))
    assert answers["prediction"].tolist() == model.predict(table).tolist()


def test_a_served_file_answers_as_the_served_folder(made):
    pytest.importorskip("httptools")
    from serving import serving

    folder, table, _, _ = made
    rows = table.drop(columns="ward").iloc[:6].astype(object)
    rows.loc[1, "site"] = "ear"
    sent = [{name: None if pd.isna(value) else value for name, value in row.items()} for row in rows.to_dict("records")]
    with serving(folder / "model") as whole, serving(folder / "model.onnx", ui=True) as file:
        for part in (sent, sent[:1]):
            (status, one), (other_status, other) = whole.predict(*part), file.predict(*part)
            assert (status, other_status) == (200, 200)
            for own, exported in zip(one["predictions"], other["predictions"], strict=True):
                assert (own["prediction"], own["notes"]) == (exported["prediction"], exported["notes"])
                assert own["probabilities"] == pytest.approx(exported["probabilities"], abs=1e-5)
        wrong = ({"age": "old", "more": 1}, {"age": []})
        for path in ("/predict", "/predict?strict=true", "/predict?coverage=0.9"):
            one, other = (each("POST", path, {"rows": wrong[:1]}) for each in (whole, file))
            assert (one[0], other[0]) in ((200, 200), (422, 422))
            assert one[1].get("detail") == other[1].get("detail")
        assert whole.predict(*wrong) == file.predict(*wrong)
        assert file("GET", "/openapi.json")[1]["components"] == whole("GET", "/openapi.json")[1]["components"]
        status, refused = file("POST", "/explain", {"rows": sent})
        assert (status, refused["detail"]) == (
            501,
            "an exported model explains nothing; serve the folder that `gauge fit` wrote",
        )
        assert file("GET", "/health")[1]["model"] == "model.onnx"
        status, page = file("GET", "/")
        assert (status, "Predicting diagnosis" in page) == (200, True)


def test_the_serve_command_needs_no_torch_for_an_exported_model(made, tmp_path):
    pytest.importorskip("httptools")
    from serving import Client

    folder, _, model, _ = made
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", WITHOUT_TORCH, "serve", str(folder / "model.onnx"), "--port", str(port)]
    row = {"age": 50.0, "site": "arm"}
    with subprocess.Popen(command, cwd=tmp_path, env=ONE_THREAD, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert any("running on" in line for line in server.stderr)
            status, answer = Client(port).predict(row)
        finally:
            server.terminate()
    assert status == 200
    assert answer["predictions"][0]["prediction"] == model.predict(pd.DataFrame([row]))[0]


def test_a_changed_file_is_refused(made, tmp_path):
    content, draw = (made[0] / "model.onnx").read_bytes(), np.random.default_rng(0)
    path = tmp_path / "model.onnx"
    for number in range(MUTATIONS):
        start, length = int(draw.integers(len(content))), int(draw.choice([1, 1, 8, 100]))
        noise = draw.integers(0, 256, length).astype(np.uint8).tobytes()
        changed = {
            0: content[:start] + bytes([content[start] ^ 1 << int(draw.integers(8))]) + content[start + 1 :],
            1: content[:start] + noise + content[start + length :],
            2: content[:start] + noise + content[start:],
            3: content[:start] + content[start + length :],
            4: content[:start] + content,
        }[number % 5]
        if changed == content:
            continue
        path.write_bytes(changed)
        with pytest.raises(ValueError, match="model.onnx is damaged.*; export it again"):
            ExportedClassifier(path)
    for changed in (content + b"\0", content[:-100], b""):
        path.write_bytes(changed)
        with pytest.raises(ValueError, match="model.onnx is damaged.*; export it again"):
            ExportedClassifier(path)


def test_a_forged_description_with_a_renewed_checksum_is_refused(made, tmp_path):
    path, model = tmp_path / "model.onnx", onnx.load(made[0] / "model.onnx")
    entries = {entry.key: entry.value for entry in model.metadata_props}
    about = json.loads(entries["gauge"])
    forged = [{name: value for name, value in about.items() if name != left} for left in about]
    forged += [about | {"classes": about["classes"] | {"type": name}} for name in ("float9", "V8", "int8", ["text"])]
    forged += [
        about | {name: 7}
        for name in about
        if name not in ("target", "named", "classes", "class_weight", "training_rows")
    ]
    forged += [
        about | {"class_weight": weights} for weights in (["x", "y"], [{}], [1.0], [float("nan")] * 2, [-1.0] * 2)
    ]
    forged += [
        about | {"classes": {"values": values, "type": "object"}} for values in ([], ["a", "a"], [["a"]], [None, 1])
    ]
    forged += [about | {"target": 7}, about | {"named": 7}, about | {"more": 7}]
    forged += [about | {"columns": [{"kind": "number"}]}, [], 7]
    for description in forged:
        del model.metadata_props[:]
        model.metadata_props.add(key="gauge", value=json.dumps(description))
        path.write_bytes(seal(model.SerializeToString()))
        with pytest.raises(ValueError, match="export it again|gauge export|fit"):
            ExportedClassifier(path)


def endless(graph):
    """The probabilities come out of a loop without end."""
    values = onnx.helper.make_tensor_value_info
    (answer,) = (node for node in graph.node if "probabilities" in node.output)
    answer.output[list(answer.output).index("probabilities")] = "before"
    inputs = [values("step", 7, []), values("go", 9, []), values("value", 11, None)]
    body = [onnx.helper.make_node("Identity", [name], [f"{name} again"]) for name in ("go", "value")]
    outputs = [values("go again", 9, []), values("value again", 11, None)]
    repeated = onnx.helper.make_graph(body, "body", inputs, outputs)
    graph.node.append(onnx.helper.make_node("Loop", ["", "", "before"], ["probabilities"], body=repeated))


def doubled(graph):
    (answer,) = (node for node in graph.node if "probabilities" in node.output)
    answer.output[list(answer.output).index("probabilities")] = "before"
    graph.node.append(onnx.helper.make_node("Add", ["before", "before"], ["probabilities"]))


def renamed(graph):
    (answer,) = (node for node in graph.node if "probabilities" in node.output)
    answer.output[list(answer.output).index("probabilities")] = graph.output[0].name = "other"


def of_a_file(graph):
    largest = max((each for each in graph.initializer if each.raw_data), key=lambda each: len(each.raw_data))
    largest.raw_data, largest.data_location = b"", onnx.TensorProto.EXTERNAL
    largest.external_data.add(key="location", value="/etc/passwd")


GRAPHS = {
    endless: r"cannot be read as ONNX \(it has the operator Loop\); export it again",
    doubled: "has another output than probabilities; export it again",
    renamed: "cannot predict .*; export it again",
    of_a_file: "cannot be read as ONNX .*; export it again",
}


@pytest.mark.parametrize("forge", GRAPHS)
def test_a_forged_graph_with_a_renewed_checksum_is_refused_when_it_is_read(made, tmp_path, forge):
    path, model = tmp_path / "model.onnx", onnx.load(made[0] / "model.onnx")
    del model.metadata_props[-1]
    forge(model.graph)
    path.write_bytes(seal(model.SerializeToString()))
    with pytest.raises(ValueError, match=GRAPHS[forge]) as refused:
        ExportedClassifier(path)
    assert "\n" not in str(refused.value)
