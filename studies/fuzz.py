"""Hostile tables, files, images and saved models, drawn at random: each is answered rightly or refused in one line.

python studies/fuzz.py [--inputs 5000] [--mutations 1000] [--seed 0] [--out studies/results]

A refusal is a ValueError of one line that this package raises; those of other libraries are unclear. A traceback is any
other error. A silent prior is an answer equal to the class prior without a warning. A silent load is a changed model that
loads without an error.
"""

import argparse
import contextlib
import io
import json
import logging
import random
import re
import shutil
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
import pandas as pd
from PIL import Image

from gauge import GaugeClassifier
from gauge.experiments.recording import origin, write_record
from gauge.tabular.table.columns import infer_kind
from gauge.tabular.table.files import read_rows
from gauge.tabular.table.inspection import inspect_table
from gauge.tabular.table.schema import Schema

ROWS = 80
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
        options: dict[str, Any] = {"epochs": 3, "strategy": "mask", "random_state": 0, "verbose": False}
        self.model = GaugeClassifier(image_folder=folder, image_size=16, **options).fit(self.table, "label")
        self.model.save(folder / "model")

    def cases(self, kind: str, count: int, case: Callable[[random.Random], str]) -> None:
        counts = self.counts[kind] = Counter()
        for number in range(count):
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
        finite = all(values.float().isfinite().all() for values in encoded.inputs.values())
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
    options = parser.parse_args()
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
