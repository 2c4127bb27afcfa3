"""Hostile tables, files, images and saved models, drawn at random: each is answered rightly or refused in one line.

python studies/fuzz.py [--inputs 5000] [--mutations 1000] [--seed 0] [--out studies/results]
python studies/fuzz.py --forgeries 400 [--seed 0] [--out studies/results]
python studies/fuzz.py --exports 300 [--seed 0] [--out studies/results]

A refusal is a ValueError of one line that this package raises; those of other libraries are unclear. A traceback is any
other error. A silent prior is an answer equal to the class prior without a warning. A silent load is a changed model that
loads without an error. A forgery is a change whose checksums were renewed: it is refused, or it is another model that
answers with finite probabilities. With --exports, the description or the graph of an exported file is forged. Forgeries run
in processes of their own, with limits of memory and time, that note when a program is started or a connection opened.
"""

import argparse
import contextlib
import io
import json
import logging
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import torch
from PIL import Image

from gauge import ExportedClassifier, GaugeClassifier, export
from gauge.deploy.exported import CHECKSUM_KEY, KEY, seal
from gauge.tabular.saved.files import (
    CARD,
    HISTORY,
    METADATA,
    TOKENIZERS,
    WEIGHTS,
    checksum,
    file_record,
)
from gauge.tabular.table.columns import infer_kind
from gauge.tabular.table.files import read_rows
from gauge.tabular.table.inspection import inspect_table
from gauge.tabular.table.schema import Schema
from gauge.training import checkpoint
from gauge_lab.recording import origin, write_record

ROWS = 80
MAX_BYTES = 6 * 2**30  # addresses of a process that loads forgeries
MAX_SECONDS, MAX_WAIT = 60, 1800  # of the CPU and of the clock, for one forgery
CELLS: list[Any] = [
    *(None, np.nan, pd.NA, pd.NaT, "", "  ", "NA", "?", "unknown", "-", "nan", "inf", "-inf", "1e999", "0x10", "1_000"),
    *(0, -1, 1.5, 1e308, -1e308, 1e-320, np.inf, -np.inf, 10**18, 2**63, 10**400, -(10**5000), True, False, 1j),
    *("1,5", "1.234,5", "$5", "€5", "5 %", "12 345", "1'000", "٣", "½", "²", "−4", "007", "1.0", "1e5"),
    *(
        "2020-01-01",
        "9999-12-31",
        "0000-00-00",
        "31.12.2020",
        "12/31/2020",
        "2020-01-01T00:00:00Z",
        "24:00",
        "1 Jan 2020",
    ),
    *(pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-01", tz="UTC"), date(9999, 12, 31), date(1, 1, 1)),
    *(np.datetime64("NaT"), np.datetime64("9999-12-31"), pd.Timedelta(days=1), pd.Period("2020-01", "M")),
    *(pd.Interval(0, 1), [1, 2], {"a": 1}, {1, 2}, (1,), b"bytes", np.array([1, 2]), object(), float, 3 + 0j),
    *(
        "a",
        "b",
        "é",
        "\U0001f600",
        "\ud800",
        "\0",
        "\n",
        "a\tb",
        '"',
        "'",
        "<script>",
        "=1+1",
        "x" * 5000,
        "word " * 300,
    ),
    *("0.png", "x" * 300 + ".png", "../0.png", "/etc/passwd", "nul\0.png", ".", "https://x/y.png", "con.png", "0.PNG"),
]
DTYPES: list[Any] = [
    "object",
    "float64",
    "Int64",
    "string",
    "category",
    "boolean",
    "datetime64[ns]",
    "complex128",
    "float16",
    "uint8",
]


class Warned(logging.Handler):
    """Counts the warnings of a case."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        record.getMessage()  # formatting may fail, too
        self.count += 1


def training_table(folder: Path) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 3, ROWS)
    for row in range(ROWS):
        pixels = draw.integers(0, 90, (12, 12, 3)).astype(np.uint8)
        pixels[2:8, 2:8, labels[row]] += 150
        Image.fromarray(pixels).save(folder / f"{row}.png")
    words = np.array(["itches a lot here", "grew fast last year", "bleeds at night now"])[labels]
    return pd.DataFrame(
        {
            "age": 40 + 12 * labels + draw.normal(0, 4, ROWS),
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(draw.integers(0, 900, ROWS), unit="D"),
            "price": [f"{value},50 €" for value in draw.integers(1, 90, ROWS)],
            "site": np.array(["arm", "leg", "back"])[labels],
            "notes": [f"{text} {row}" for row, text in enumerate(words)],
            "photo": [f"{row}.png" for row in range(ROWS)],
            "label": np.array(["p", "q", "r"])[labels],
        }
    )


def hostile_frame(draw: random.Random, frame: pd.DataFrame) -> Any:
    """Rows of the table with some columns replaced, renamed, dropped or turned into another type, or in another form."""
    rows = frame.drop(columns="label").sample(draw.randint(0, 6), random_state=draw.randrange(2**31)).astype(object)
    for name in rows.columns:
        fate = draw.random()
        if fate < 0.5:
            cells = [draw.choice(CELLS) if draw.random() < 0.7 else value for value in rows[name]]
            rows[name] = pd.Series(cells, rows.index, dtype=object)
        elif fate < 0.6:
            rows[name] = pd.Series([draw.choice(CELLS)] * len(rows), rows.index, dtype=object)
        elif fate < 0.7:
            with contextlib.suppress(TypeError, ValueError, OverflowError):
                rows[name] = rows[name].astype(draw.choice(DTYPES))
        elif fate < 0.75:
            rows = rows.drop(columns=name)
        elif fate < 0.8:
            rows = rows.rename(columns={name: draw.choice([name.upper(), 7, None, ("a", "b"), "label", "age", ""])})
    return _other_form(draw, rows)


def _other_form(draw: random.Random, rows: pd.DataFrame) -> Any:
    form = draw.random()
    if form < 0.1:
        return rows.to_numpy()
    if form < 0.15:
        return rows.to_numpy().tolist()
    if form < 0.2:
        return rows.set_axis(pd.MultiIndex.from_product([["x"], range(rows.shape[1])]), axis=1)
    if form < 0.25:
        return rows.set_axis(pd.MultiIndex.from_product([["x"], range(len(rows))]), axis=0)
    return rows.set_axis([0] * len(rows), axis=0) if form < 0.3 else rows


def hostile_file(draw: random.Random, frame: pd.DataFrame, path: Path) -> Path:
    """A file of such rows with other separators, fields, quotes, bytes or encodings."""
    part = frame.drop(columns="label").sample(draw.randint(1, 6), random_state=draw.randrange(2**31))
    lines = draw.random() < 0.3
    text = (
        part.to_json(orient="records", lines=True, date_format="iso")
        if lines
        else part.to_csv(index=draw.random() < 0.1)
    )
    for _ in range(draw.randint(0, 4)):
        at = draw.randrange(len(text) + 1)
        junk = draw.choice(
            [",", ";", "\t", '"', "\n", "\r\n", "\0", "'", ",,", "{", "}", "1e999", "NaN", "\ufeff", "9" * 5000]
        )
        text = text[:at] + junk + text[at + draw.randint(0, 3) :]
    if draw.random() < 0.1:
        text = text.replace("\n", ",\n")
    content = text.encode(draw.choice(["utf-8"] * 8 + ["utf-16", "utf-8-sig"]), "surrogatepass")
    if draw.random() < 0.1:
        content = content[: draw.randrange(len(content) + 1)]
    path = path.with_suffix(".jsonl" if lines else draw.choice([".csv"] * 5 + [".tsv"]))
    path.write_bytes(content)
    return path


def hostile_image(draw: random.Random, folder: Path) -> str:
    """An image of any mode, format and size, with bytes changed."""
    noise = np.random.default_rng(draw.randrange(2**31))
    mode = draw.choice(["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I", "I;16", "F", "YCbCr"])
    side = (draw.randint(1, 40), draw.randint(1, 40))
    if mode in ("I", "I;16", "F"):
        kind = {"I": np.int32, "I;16": np.uint16, "F": np.float32}[mode]
        image = Image.fromarray((noise.random(side) * draw.choice([1, 255, 65535])).astype(kind))
    else:
        image = Image.fromarray(noise.integers(0, 255, (*side, 3)).astype(np.uint8)).convert(
            mode if mode != "LA" else "L"
        )
    buffer = io.BytesIO()
    form = draw.choice(["PNG", "JPEG", "TIFF", "BMP", "GIF", "WEBP"])
    try:
        image.save(buffer, form)
    except (OSError, KeyError, ValueError):
        image.convert("RGB").save(buffer, form)
    content = bytearray(buffer.getvalue())
    for _ in range(draw.choice([0, 1, 3, 20])):
        content[draw.randrange(len(content))] = draw.randrange(256)
    if draw.random() < 0.2:
        content = content[: draw.randrange(len(content))]
    name = f"hostile.{draw.choice(['png', 'jpg', 'tif', 'gif'])}"
    (folder / name).write_bytes(bytes(content))
    return name


def _same_rows(draw: random.Random, rows: pd.DataFrame, folder: Path) -> list[Any]:
    form = draw.choice(["array", "shuffled", "csv", "jsonl", "texts", "objects", "target", "one by one"])
    if form in ("csv", "jsonl"):
        path = folder / f"same.{form}"
        if form == "csv":
            rows.to_csv(path, index=False)
        else:
            rows.to_json(path, orient="records", lines=True, date_format="iso")
        return list(read_rows(path, draw.choice([1, 2, 100])))
    if form == "shuffled":
        return [rows[draw.sample(list(rows.columns), rows.shape[1])]]
    if form == "texts":
        return [rows.apply(lambda column: column.astype(str).where(column.notna(), None))]
    if form == "one by one":
        return [rows.iloc[index : index + 1] for index in range(len(rows))]
    return [{"array": rows.to_numpy(object), "objects": rows.astype(object), "target": rows.assign(label="p")}[form]]


def mutate(draw: random.Random, folder: Path) -> str:
    """Changes a file of a saved model; returns what was done."""
    path = folder / draw.choice(["model.json", "model.safetensors", "metrics.jsonl"])
    content = bytearray(path.read_bytes())
    deed = draw.choice(["byte", "byte", "cut", "insert", "swap", "value", "empty"])
    at = draw.randrange(len(content)) if draw.random() < 0.5 else draw.randrange(min(len(content), 3000))
    if deed == "byte":
        content[at] ^= 1 << draw.randrange(8)
    elif deed == "cut":
        content = content[:at]
    elif deed == "insert":
        content[at:at] = bytes(draw.randrange(256) for _ in range(draw.randint(1, 9)))
    elif deed == "swap":
        other = draw.randrange(len(content))
        content[at], content[other] = content[other], content[at]
    elif deed == "empty":
        content = bytearray()
    else:
        path = folder / "model.json"
        content = bytearray(json.dumps(_changed(draw, json.loads(path.read_text()))).encode())
    before = path.read_bytes()
    path.write_bytes(bytes(content))
    same = path.name == "model.json" and _same_json(before, bytes(content))
    return "unchanged" if same or bytes(content) == before else f"{deed} in {path.name}"


def _changed(draw: random.Random, value: Any) -> Any:
    """One value, somewhere inside, replaced, removed or doubled."""
    if isinstance(value, dict) and value and draw.random() < 0.95:
        key = draw.choice(sorted(value))
        if draw.random() < 0.1:
            return {name: item for name, item in value.items() if name != key}
        return value | {key: _changed(draw, value[key])}
    if isinstance(value, list) and value and draw.random() < 0.95:
        at = draw.randrange(len(value))
        return [*value[:at], _changed(draw, value[at]), *value[at + 1 :]]
    return draw.choice([None, 0, -1, 1e308, "x", [], {}, True, [[]], float("nan"), 10**30])


HUGE: list[Any] = [2**31 - 1, 2**63, 10**12, 1e300, "x" * 10**5, [0] * 10**5, {"a": {"b": []}}, [["a"]] * 1000]


def forge(draw: random.Random, folder: Path) -> str:
    """Changes a saved model and renews its checksums; returns what was done."""
    path = folder / METADATA
    metadata, (tensors, about) = json.loads(path.read_text()), checkpoint.load(folder / WEIGHTS)
    deed = draw.choice(["json", "json", "json", "json", "tensor", "tensor", "tensor", "trees", "history", "file"])
    if deed == "json":
        part = draw.choice([*sorted(metadata), "schema", "ensemble", "trust", "training"])
        change = _forged if draw.random() < 0.4 else _changed
        metadata[part] = change(draw, metadata[part])
        deed = f"json {part}"
    elif deed in ("tensor", "trees"):
        names = sorted(name for name in tensors if deed == "tensor" or "forest." in name or ".trees." in name)
        name = draw.choice(names)
        tensors.pop(name) if draw.random() < 0.1 else tensors.update({name: _forged_tensor(draw, tensors[name])})
        checkpoint.save(folder / WEIGHTS, tensors, about)
    elif deed == "history":
        lines = draw.choice(
            ["", "{}", "[]", "7", "null", '{"stage": 1}', "[" * 10**5, "\0", '{"epoch": NaN}', "x" * 10**6]
        )
        (folder / HISTORY).write_text(lines)
    else:
        _forged_file(draw, folder)
    metadata.pop("sha256", None)
    if isinstance(metadata.get("files"), dict) and deed != "json files":
        with contextlib.suppress(ValueError, MemoryError):  # what is refused for its size would take long to hash
            checkpoint.read_metadata(folder / WEIGHTS)
            metadata["files"] = file_record(folder)
    path.write_text(json.dumps(metadata | {"sha256": checksum(metadata)}))
    return deed


def _forged(draw: random.Random, value: Any) -> Any:
    """One value, somewhere inside, replaced by one of the same type or by something huge."""
    if isinstance(value, dict | list) and value and draw.random() < 0.9:
        keys = sorted(value) if isinstance(value, dict) else range(len(value))
        key, other = draw.choice(keys), draw.choice(keys)
        changed = value.copy()
        changed[key] = value[other] if draw.random() < 0.2 else _forged(draw, value[key])
        return changed
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float) and draw.random() < 0.7:
        return draw.choice([-value, value + 1, 0, value * 1000, value - 1, type(value)(2**31 - 1)])
    if isinstance(value, str) and draw.random() < 0.5:
        return draw.choice(
            ["", "large", "medium", "mask", "impute", "../../etc/passwd", "\0", "network", "%", value * 2]
        )
    return draw.choice(HUGE)


def _forged_tensor(draw: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with another type, form, size or other values."""
    deeds: list[Callable[[], torch.Tensor]] = [
        lambda: tensor.to(
            draw.choice([torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.bool, torch.int64])
        ),
        lambda: tensor.to(torch.float8_e4m3fn) if tensor.is_floating_point() else tensor.to(torch.uint8),
        lambda: tensor.reshape(1, -1),
        lambda: tensor.reshape(-1)[: tensor.numel() // 2],
        lambda: tensor.new_zeros(0),
        lambda: tensor.new_zeros(()),
        lambda: tensor.new_zeros(tensor.numel() * 3 + 1),
        lambda: torch.zeros_like(tensor) + (float("nan") if tensor.is_floating_point() else -1),
        lambda: tensor.flip(0) if tensor.ndim else tensor,
        lambda: (tensor.double() * draw.choice([-1.0, 1e30, 1e-30, 0.0, 7.0])).to(tensor.dtype),
        lambda: _one_value(draw, tensor),
        lambda: _one_value(draw, tensor),
        lambda: _one_value(draw, tensor),
    ]
    return draw.choice(deeds)().contiguous()


def _one_value(draw: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    changed = tensor.clone().reshape(-1)
    if changed.numel():
        value = draw.choice(
            [0, 1, 2, 5, 100, -1, -5, 2**31 - 1, -(2**31), 2**24, 1e308, -1e308, float("inf"), float("nan")]
        )
        at = draw.randrange(changed.numel())
        changed[at : at + 1] = torch.tensor([value], dtype=torch.float64).to(tensor.dtype)
    return changed.reshape(tensor.shape)


def _forged_file(draw: random.Random, folder: Path) -> None:
    """A file is removed, swapped for another, cut, lengthened, or added."""
    names = [WEIGHTS, HISTORY, CARD]
    name, other = draw.sample(names, 2)
    deed = draw.choice(["remove", "swap", "cut", "lengthen", "add", "folder"])
    if deed == "lengthen":
        with (folder / name).open("r+b") as file:
            file.truncate(draw.choice([10**6, 2**31, 2**40]))  # sparse: it takes no place on the disk
    elif deed == "swap":
        shutil.copy(folder / other, folder / name)
    elif deed == "cut":
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: draw.randrange(len(content))])
    elif deed == "add":
        (folder / TOKENIZERS / "3").mkdir(parents=True)
        (folder / TOKENIZERS / "3" / "tokenizer.json").write_text(draw.choice(["{}", "x", '{"version": "1.0"}']))
    else:
        (folder / name).unlink()
        if deed == "folder":
            (folder / name).mkdir()


def forge_export(draw: random.Random, model: onnx.ModelProto) -> str:
    """Changes the description or the graph of an exported classifier; returns what was done."""
    graph, numbers = model.graph, [each for each in model.graph.initializer if each.raw_data]
    deeds: dict[str, Callable[[], Any]] = {
        "description": lambda: _forge_description(draw, model),
        "no node": lambda: graph.node.pop(draw.randrange(len(graph.node))),
        "operator": lambda: setattr(
            draw.choice(graph.node), "op_type", draw.choice(["Relu", "Nope", "Identity", "Sqrt"])
        ),
        "domain": lambda: setattr(draw.choice(graph.node), "domain", "other"),
        "input": lambda: draw.choice(graph.node).input.__setitem__(0, draw.choice(graph.node).output[0]),
        "no outputs": lambda: graph.ClearField("output"),
        "name of an output": lambda: setattr(graph.output[0], "name", "other"),
        "type of an input": lambda: setattr(
            draw.choice(graph.input).type.tensor_type, "elem_type", draw.choice([1, 7, 8])
        ),
        "noise": lambda: _set_bytes(draw.choice(numbers), draw.randbytes),
        "ones": lambda: _set_bytes(draw.choice(numbers), lambda count: b"\xff" * count),
        "no bytes": lambda: _set_bytes(draw.choice(numbers), lambda count: b""),
        "shape": lambda: _forge_shape(draw, draw.choice([each for each in graph.initializer if each.dims])),
        "type of numbers": lambda: setattr(draw.choice(graph.initializer), "data_type", draw.choice([1, 6, 7, 8, 11])),
        "another file": lambda: _point_elsewhere(draw, draw.choice(numbers)),
        "attribute": lambda: _forge_attribute(draw, draw.choice([each for each in graph.node if each.attribute])),
        "loop": lambda: _append(graph, "Loop"),
        "sum": lambda: _append(graph, "Add"),
    }
    deed = draw.choice([*deeds, *["description"] * 8])
    deeds[deed]()
    return deed


def _forge_description(draw: random.Random, model: onnx.ModelProto) -> None:
    change = draw.choice([_forged, _changed])
    for entry in model.metadata_props:
        if entry.key == KEY:
            entry.value = json.dumps(change(draw, json.loads(entry.value)))


def _set_bytes(tensor: onnx.TensorProto, make: Callable[[int], bytes]) -> None:
    tensor.raw_data = make(len(tensor.raw_data))


def _forge_shape(draw: random.Random, tensor: onnx.TensorProto) -> None:
    tensor.dims[0] = draw.choice([0, -1, 10**12, tensor.dims[0] + 1])


def _point_elsewhere(draw: random.Random, tensor: onnx.TensorProto) -> None:
    tensor.raw_data, tensor.data_location = b"", onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=draw.choice(["/etc/passwd", "../../x", "/dev/zero", "0.png"]))


def _forge_attribute(draw: random.Random, node: onnx.NodeProto) -> None:
    attribute = draw.choice(node.attribute)
    if attribute.ints:
        attribute.ints[draw.randrange(len(attribute.ints))] = draw.choice([-1, 0, 5, 10**9, 2**40])
    elif attribute.floats:
        attribute.floats[draw.randrange(len(attribute.floats))] = draw.choice([float("nan"), float("inf"), 1e38])
    else:
        attribute.i = draw.choice([-5, 99, 10**9])


def _append(graph: onnx.GraphProto, operator: str) -> None:
    """The probabilities go through another operator: a loop without end, or a sum with themselves."""
    (answer,) = (node for node in graph.node if "probabilities" in node.output)
    answer.output[list(answer.output).index("probabilities")] = "before"
    if operator == "Add":
        graph.node.append(onnx.helper.make_node("Add", ["before", "before"], ["probabilities"]))
        return
    value = onnx.helper.make_tensor_value_info
    inputs = [value("step", 7, []), value("go", 9, []), value("value", 11, None)]
    body = [onnx.helper.make_node("Identity", [name], [f"{name} again"]) for name in ("go", "value")]
    outputs = [value("go again", 9, []), value("value again", 11, None)]
    repeated = onnx.helper.make_graph(body, "body", inputs, outputs)
    graph.node.append(onnx.helper.make_node("Loop", ["", "", "before"], ["probabilities"], body=repeated))


def _same_json(before: bytes, after: bytes) -> bool:
    try:
        return bool(json.loads(before) == json.loads(after))
    except (ValueError, RecursionError):
        return False


class Fuzz:
    """Runs cases and counts their outcomes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.table = training_table(folder)
        self.counts: dict[str, Counter[str]] = {}
        self.examples: list[str] = []
        self.refusals: Counter[str] = Counter()
        self.warned = Warned()
        logging.getLogger("gauge").addHandler(self.warned)
        logging.getLogger("gauge").propagate = False
        options: dict[str, Any] = {"epochs": 3, "random_state": 0, "verbose": False}
        if not (folder / "model").is_dir():
            model = GaugeClassifier(image_folder=folder, image_size=16, **options).fit(self.table, "label")
            model.save(folder / "model")
        self.model = GaugeClassifier.load(folder / "model", image_folder=folder)

    def cases(self, kind: str, count: int, case: Callable[[random.Random], str], first: int = 0) -> None:
        counts = self.counts[kind] = Counter()
        for number in range(first, count):
            draw, self.warned.count = random.Random(f"{self.seed} {kind} {number}"), 0
            try:
                outcome = case(draw)
            except ValueError as error:
                outcome = "refused" if "\n" not in str(error).strip() else "unclear: several lines"
                raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
                if "gauge" not in Path(raised_in).parts:
                    outcome = "unclear: the error of another library"
                    self.examples.append(f"{kind} {number}: {traceback.format_exc()[-900:]}")
                self.refusals[re.sub(r"'.*?'|\d+|/\S+", "_", str(error))[:90]] += 1
            except Exception as error:
                outcome = f"traceback {type(error).__name__}"
                self.examples.append(f"{kind} {number}: {traceback.format_exc()[-900:]}")
            if outcome.startswith(("NaN", "silent", "unclear: several")):
                self.examples.append(f"{kind} {number}: {outcome}")
            counts[outcome] += 1

    def predict(self, rows: Any) -> str:
        probabilities = self.model.predict_proba(rows)
        if not np.isfinite(probabilities).all() or not np.allclose(probabilities.sum(1), 1):
            return "NaN"
        prior = len(probabilities) and np.isclose(probabilities, self.model.class_prior_, atol=1e-12).all(1).any()
        if prior:
            return "reported prior" if self.warned.count else "silent prior"
        return "answered with a warning" if self.warned.count else "answered"

    def frame(self, draw: random.Random) -> str:
        rows = hostile_frame(draw, self.table)
        if draw.random() < 0.3 and isinstance(rows, pd.DataFrame) and rows.columns.nlevels == 1:
            inspect_table(rows).text()
        return self.predict(rows)

    def same(self, draw: random.Random) -> str:
        """The same rows in another form get the same answers."""
        rows = self.table.drop(columns="label").sample(5, random_state=draw.randrange(2**31))
        blank = np.random.default_rng(draw.randrange(2**31)).random(rows.shape) < draw.choice([0, 0.3])
        rows = rows.mask(blank)
        other = _same_rows(draw, rows, self.folder)
        answers = np.concatenate([self.model.predict_proba(part) for part in other])
        return "answered" if np.allclose(self.model.predict_proba(rows), answers, atol=1e-5) else "silently different"

    def training(self, draw: random.Random) -> str:
        """Kinds are inferred from any cells, and the cells encoded, without the cost of training."""
        cells = draw.sample(CELLS, draw.randint(1, 8))
        usual = draw.choice([cells, [1, 2.5, 7], ["1,5", "2,5"], ["2020-01-01", "2021-05-05"], ["a", "b"], ["0.png"]])
        values = [draw.choice(cells if draw.random() < 0.1 else usual) for _ in range(30)]
        frame = pd.DataFrame({"x": pd.Series(values, dtype=object), "y": range(30, 0, -1)})
        infer_kind(frame["y"])
        encoded = Schema.from_frame(frame).encode(frame, training=True)
        finite = all(np.isfinite(values).all() for values in encoded.inputs.values())
        return ("answered with a warning" if self.warned.count else "answered") if finite else "NaN"

    def file(self, draw: random.Random) -> str:
        path = hostile_file(draw, self.table, self.folder / "rows")
        return [self.predict(part) for part in read_rows(path, draw.choice([2, 100]))][-1]

    def image(self, draw: random.Random) -> str:
        rows = self.table.drop(columns="label")[:2].assign(photo=hostile_image(draw, self.folder))
        return self.predict(rows)

    def mutation(self, draw: random.Random) -> str:
        folder = self.folder / "mutated"
        shutil.copytree(self.folder / "model", folder, dirs_exist_ok=True)
        deed = mutate(draw, folder)
        GaugeClassifier.load(folder)
        return "unchanged" if deed == "unchanged" else f"silent load ({deed})"

    def forgery(self, draw: random.Random) -> str:
        """Every way to use a model, unless it is refused before."""
        folder = self.folder / "forged"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder / "model", folder)
        self.deed = forge(draw, folder)
        model, rows = GaugeClassifier.load(folder, image_folder=self.folder), self.table[:3]
        probabilities = model.predict_proba(rows)
        if not np.isfinite(probabilities).all() or not np.allclose(probabilities.sum(1), 1):
            return "NaN"
        model.predict(rows)
        model.explain(rows[:1]).to_html(folder / "evidence.html")
        model.evaluate(self.table[:20], self.table["label"][:20].map(dict(zip("pqr", model.classes_, strict=False))))
        model.fitted_.card()
        repr(model)
        return "answered"

    def exported(self, draw: random.Random) -> str:
        """Read and asked in every way, unless it is refused before."""
        original, path = self.folder / "whole.onnx", self.folder / "forged.onnx"
        if not original.is_file():
            export(GaugeClassifier.load(self.folder / "model", image_folder=self.folder), original)
        model, rows = onnx.load(original), self.table[:5]
        self.deed = forge_export(draw, model)
        for entry in [each for each in model.metadata_props if each.key == CHECKSUM_KEY]:
            model.metadata_props.remove(entry)
        path.write_bytes(seal(model.SerializeToString()))
        classifier = ExportedClassifier(path, image_folder=self.folder)
        probabilities = classifier.predict_proba(rows)
        classifier.predict(rows)
        classifier.predict_row({str(name): value for name, value in rows.iloc[0].drop("label").items()})
        with contextlib.suppress(ValueError):  # it has none
            classifier.predict_set(rows)
        return (
            "answered"
            if np.isfinite(probabilities).all() and np.allclose(probabilities.sum(1), 1, atol=1e-2)
            else "NaN"
        )


def forged_in_process(folder: Path, first: int, last: int, seed: int, kind: str) -> None:
    """Forgeries one by one, each printed as it ends; a process that a case ends has printed all before it."""
    started = []
    harmful = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect", "os.fork")
    sys.addaudithook(lambda event, _: started.append(event) if event in harmful else None)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    fuzz = Fuzz(folder, seed)
    for number in range(first, last):
        signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)  # of the CPU, so that a busy machine counts as no hang
        signal.alarm(MAX_WAIT)
        started.clear()
        fuzz.examples.clear()
        fuzz.cases(kind, number + 1, {"forgeries": fuzz.forgery, "exports": fuzz.exported}[kind], number)
        (outcome,) = fuzz.counts[kind]
        line = {
            "outcome": f"code run: {started[0]}" if started else outcome,
            "deed": fuzz.deed,
            "example": fuzz.examples,
        }
        print(json.dumps(line), flush=True)


def forgeries(folder: Path, count: int, seed: int, kind: str) -> tuple[Counter[str], list[str]]:
    """The outcomes of forgeries, each process going on where the one before it ended, and examples of bad ones."""
    Fuzz(folder, seed)
    counts: Counter[str] = Counter()
    examples, done = [], 0
    while done < count:
        command = [sys.executable, __file__, "--seed", str(seed), "--forged", str(folder), str(done), str(count), kind]
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        counts.update(line["outcome"] for line in lines)
        examples += [f"{line['deed']}: {text}" for line in lines for text in line["example"]]
        done += len(lines)
        if done < count:
            hang = -result.returncode in (signal.SIGALRM, signal.SIGPROF)
            counts["hang" if hang else f"dead process ({result.returncode})"] += 1
            examples.append(f"forgery {done}: the process ended with {result.returncode}")
            done += 1
    return counts, examples


def record_forgeries(options: argparse.Namespace, kind: str) -> None:
    count = getattr(options, kind)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts, examples = forgeries(Path(folder), count, options.seed, kind)
    print(*examples, sep="\n\n")
    bad = {
        name: sum(count for outcome, count in counts.items() if outcome.startswith(starts))
        for name, starts in {
            "tracebacks": "traceback",
            "NaN": "NaN",
            "unclear_errors": "unclear",
            "dead_processes": "dead",
            "hangs": "hang",
            "code_run": "code run",
        }.items()
    }
    content = origin(options) | {"seed": options.seed, "forgeries": count, **bad, "outcomes": dict(counts)}
    write_record(options.out / {"forgeries": "forgeries.json", "exports": "forged_exports.json"}[kind], content)
    print(json.dumps(content, indent=2))


def run(options: argparse.Namespace) -> Iterator[Fuzz]:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fuzz = Fuzz(Path(folder), options.seed)
        share = options.inputs // 20
        fuzz.cases("tables", 7 * share, fuzz.frame)
        fuzz.cases("same rows in another form", 2 * share, fuzz.same)
        fuzz.cases("training tables", 3 * share, fuzz.training)
        fuzz.cases("files", 5 * share, fuzz.file)
        fuzz.cases("images", options.inputs - 17 * share, fuzz.image)
        fuzz.cases("mutations", options.mutations, fuzz.mutation)
        yield fuzz


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--inputs", type=int, default=5000)
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--forgeries", type=int, help="only these, and so many of them")
    parser.add_argument("--exports", type=int, help="only forged exported files, and so many of them")
    parser.add_argument("--forged", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.forged:
        warnings.simplefilter("ignore")
        folder, first, last, kind = options.forged
        forged_in_process(Path(folder), int(first), int(last), options.seed, kind)
        return
    for kind in ("forgeries", "exports"):
        if getattr(options, kind):
            record_forgeries(options, kind)
            return
    started = time.process_time()
    for fuzz in run(options):
        for example in fuzz.examples[:12]:
            print(example, end="\n\n")
        for message, count in fuzz.refusals.most_common():
            print(f"{count:6} {message}")
        bad = Counter(
            {
                "tracebacks": 0,
                "NaN": 0,
                "silent priors": 0,
                "silently different": 0,
                "silent loads": 0,
                "unclear errors": 0,
            }
        )
        names = {
            "traceback": "tracebacks",
            "NaN": "NaN",
            "silent prior": "silent priors",
            "silent load": "silent loads",
        }
        names |= {"unclear": "unclear errors", "silently": "silently different"}
        for counts in fuzz.counts.values():
            for outcome, count in counts.items():
                for start, name in names.items():
                    bad[name] += count * outcome.startswith(start)
        content = origin(options) | {
            "seed": options.seed,
            "inputs": options.inputs,
            "mutations": options.mutations,
            **bad,
            "outcomes": {kind: dict(sorted(counts.items())) for kind, counts in fuzz.counts.items()},
            "cpu_seconds": round(time.process_time() - started),
        }
        write_record(options.out / "fuzz.json", content)
        print(json.dumps(content, indent=2))


if __name__ == "__main__":
    main()
