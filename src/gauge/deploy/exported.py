"""ExportedClassifier: predictions of an exported classifier with onnxruntime. Nothing here imports torch.

The file ends with the checksum of all that comes before it, as one more entry of the metadata of ONNX.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import numpy as np
import pandas as pd
from pydantic import BaseModel, Field

from gauge.deploy.operators import check_operators
from gauge.tabular.saved.classifier import TableClassifier, image_files
from gauge.tabular.saved.files import STRICT, Classes, ClassWeights, Count, Share, validated
from gauge.tabular.saved.prediction_sets import PredictionSets
from gauge.tabular.table.arrays import (
    cells,
    column_of,
    columns_from_json,
    contents,
    count_terms,
    cycles,
    encode_row,
    encode_rows,
    flag_positions,
)
from gauge.tabular.table.columns import Column
from gauge.tabular.table.guard import Training, watched

FORMAT = "gauge-export-1"
KEY, CHECKSUM_KEY = "gauge", "gauge.sha256"  # of entries in the metadata of an ONNX file

Vocabularies = Mapping[str, Mapping[str, int]]
"""The numbers of the terms that are counted in texts, by modality."""

Given = Callable[[Column], pd.Series]
"""The cells of a column as they were given."""


class ExportDescription(BaseModel):
    """What the metadata of an exported classifier holds."""

    model_config = STRICT

    format: Literal["gauge-export-1"]
    version: str
    classes: Classes
    class_weight: ClassWeights
    target: str | None
    columns: Annotated[list[dict[str, Any]], Field(min_length=1)]
    names: list[str]
    named: bool
    prediction_sets: PredictionSets | None
    vocabularies: dict[str, list[str]]
    missing_rates: dict[str, Share]
    training_rows: Count


def seal(content: bytes) -> bytes:
    """A file of these bytes: an ONNX model and, as its last entry of metadata, their checksum."""
    return content + _seal(content)


def _seal(content: bytes) -> bytes:
    """An entry of the field `metadata_props` (14) of an ONNX model, whose fields 1 and 2 are its key and its value."""
    key, value = CHECKSUM_KEY.encode(), hashlib.sha256(content).hexdigest().encode()
    entry = b"\x0a" + bytes([len(key)]) + key + b"\x12" + bytes([len(value)]) + value
    return b"\x72" + bytes([len(entry)]) + entry


def read_sealed(path: Path) -> bytes:
    """The content of a file that `seal` made; an error if any of it has changed."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    content = path.read_bytes()
    length = len(_seal(b""))
    if CHECKSUM_KEY.encode() not in content[-length:]:
        raise ValueError(f"{path} is damaged, or no file that this version of `gauge export` wrote; export it again")
    if seal(content[:-length]) != content:
        raise ValueError(f"{path} is damaged: its checksum does not match; export it again")
    return content


def open_session(content: bytes, path: Path) -> Any:
    """An ONNX model, ready to run on one thread: more of them make small networks slower, above all on busy machines."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ValueError("reading ONNX needs onnxruntime; install it with: pip install 'gauge-ml[onnx]'") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # severity from which on onnxruntime logs
    try:
        check_operators(content)
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no base class but this
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{path} cannot be read as ONNX ({reason}); export it again") from error


def load_classifier(
    path: Path, *, device: str | None = None, image_folder: Path | None = None, outside_images: bool = False
) -> TableClassifier:
    """The classifier in a folder that `save` wrote or in a file that `export` wrote; the latter needs no torch."""
    if path.suffix == ".onnx":
        return ExportedClassifier(path, image_folder=image_folder, outside_images=outside_images)
    from gauge.tabular.fitted import Fitted

    return Fitted.load(path, device=device, files=image_files(image_folder, outside=outside_images))


class ExportedClassifier(TableClassifier):
    """The classifier in a file that `gauge.export` wrote, run by onnxruntime without torch. Its predictions are those of the
    classifier, up to rounding.

    Parameters
    ----------
    path
        Of the file, which ends in .onnx.
    image_folder
        The folder that image paths are relative to.
    outside_images
        Whether image paths may lead out of that folder; otherwise such images count as missing.

    Attributes
    ----------
    classes_
        The classes, in the order of `predict_proba`.
    columns
        The columns that are read.

    Examples
    --------
    >>> from gauge import GaugeClassifier, export
    >>> table = pd.DataFrame({"age": [20.0, 70, None, 65] * 20, "ill": [0, 1, 0, 1] * 20})
    >>> model = GaugeClassifier(experts="linear", random_state=0, verbose=False).fit(table, "ill")
    >>> difference = export(model, "model.onnx").difference
    >>> classifier = ExportedClassifier("model.onnx")
    >>> difference < 1e-5, classifier.predict(table[:2]).tolist()
    (True, [0, 1])
    """

    columns: Sequence[Column] = ()
    names: Sequence[str] = ()

    def __init__(
        self, path: str | Path, *, image_folder: str | Path | None = None, outside_images: bool = False
    ) -> None:
        self.path = path = Path(path)
        self.session = open_session(read_sealed(path), path)
        text = self.session.get_modelmeta().custom_metadata_map.get(KEY)
        self.files = image_files(image_folder, outside=outside_images)
        try:
            metadata = json.loads(text or "{}")
        except (ValueError, RecursionError):
            metadata = None
        if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
            raise ValueError(f"{path} is not an exported classifier; give a file that `gauge export` wrote")
        if not {"classes", "columns"} & metadata.keys():
            raise ValueError(f"{path} has no table to read, as that of a GaugePlus; run it by onnxruntime, on arrays")
        try:
            self._describe(validated(ExportDescription, metadata))
            blank = dict.fromkeys(self._required)
            self._run(self._feed(encode_row(self.columns, blank, self.files), lambda each: column_of(each, [None])), 1)
        except Exception as error:  # whatever a forged description causes
            reason = " ".join(f"{error!r:.200}".split())
            raise ValueError(f"{path} does not describe a classifier ({reason}); export it again") from error

    def _describe(self, about: ExportDescription) -> None:
        """What the graph cannot hold: the classes, and how columns are read."""
        self.classes, self.class_weight = about.classes, about.class_weight
        if len(self.classes) != len(self.class_weight):
            raise ValueError("its classes and their weights differ in number")
        self.target, self.named, self.prediction_sets = about.target, about.named, about.prediction_sets
        self.vocabularies = numbered(about.vocabularies)
        self.names, self.columns = about.names, columns_from_json(about.columns)
        if list(about.missing_rates) != [column.name for column in self.columns]:
            raise ValueError("its missing rates are those of other columns")
        self._training = Training(self.columns, about.missing_rates, about.training_rows)
        self._positions = flag_positions(self.columns)
        self._counted = {name: contents(self.columns)[name] for name in self.vocabularies}
        self._required = {column.name for column in self.columns}
        self._known = {*self._required, *self.names, self.target}
        self._inputs = {value.name for value in self.session.get_inputs()}

    @property
    def classes_(self) -> np.ndarray:
        return self.classes

    def evidence(self, X: Any) -> NoReturn:
        raise NotImplementedError("an exported model explains nothing; serve the folder that `gauge fit` wrote")

    def predict_row(self, row: Mapping[str, Any]) -> np.ndarray:
        """The probabilities of one row, given as values by column; those of a DataFrame of one row take longer."""
        if self._required <= row.keys() <= self._known:
            return self.predict_row_with_observed(row)[0][0]
        return self.predict_proba(pd.DataFrame([row], dtype=object))[0]

    def predict_with_observed(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        with watched():
            frame = self.frame(X)
            encoded = encode_rows(self.columns, frame, self.files)
            nothing = pd.Series([None] * len(frame))
            return self._probabilities(encoded, lambda each: column_of(each, frame.get(each.name, nothing).tolist()))

    def predict_row_with_observed(self, row: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        with watched():
            encoded = encode_row(self.columns, row, self.files)
            return self._probabilities(encoded, lambda each: column_of(each, [row[each.name]]))

    def _beside(self, given: Given) -> dict[str, np.ndarray]:
        """The rare categories of the columns that tell them apart, and the cycles of dates and times."""
        beside = {}
        if "rare" in self._inputs:
            rare = [cell for cell in cells(self.columns) if cell.tells_rare_apart]
            beside["rare"] = np.stack([cell.rare_levels(given(cell)) for cell in rare], 1)
        if "cycles" in self._inputs:
            beside["cycles"] = cycles(self.columns, given)
        return beside

    def _probabilities(
        self, encoded: Mapping[str, tuple[np.ndarray, np.ndarray]], given: Given
    ) -> tuple[np.ndarray, np.ndarray]:
        """The probabilities of encoded rows, and which columns they have."""
        flags = np.concatenate([each if each.ndim == 2 else each[:, None] for _, each in encoded.values()], 1)
        observed = flags[:, self._positions]
        with watched() as watch:
            watch.add_rows(observed, self._training)
        return self._run(self._feed(encoded, given), len(flags)), observed

    def _feed(self, encoded: Mapping[str, tuple[np.ndarray, np.ndarray]], given: Given) -> dict[str, np.ndarray]:
        texts = {modality: column.texts(given(column)) for modality, column in self._counted.items()}
        known = {modality: cells for modality, cells in texts.items() if cells is not None}
        feed = graph_inputs(encoded, known, self.vocabularies) | self._beside(given)
        return {name: values for name, values in feed.items() if name in self._inputs}

    def _run(self, feed: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
        """The probabilities of rows; an error if the graph cannot predict, or has another output."""
        batch_rows = 256
        try:
            starts = range(0, rows, batch_rows)
            batches = ({name: values[start : start + batch_rows] for name, values in feed.items()} for start in starts)
            parts = [self.session.run(["probabilities"], batch)[0] for batch in batches]
            probabilities = np.concatenate([np.zeros((0, len(self.classes))), *parts])
        except Exception as error:  # onnxruntime's errors share no base class but this
            reason = str(error).partition("\n")[0][:200]
            raise ValueError(f"{self.path} cannot predict ({reason}); export it again") from error
        # the probabilities of a row sum to 1 but for rounding
        wrong = probabilities.shape[0] != rows or not (abs(probabilities.sum(1) - 1) < 1e-3).all()
        if wrong or (probabilities < 0).any():
            raise ValueError(f"{self.path} has another output than probabilities; export it again")
        return probabilities


def numbered(vocabularies: Mapping[str, Sequence[str]]) -> Vocabularies:
    return {name: {term: number for number, term in enumerate(terms)} for name, terms in vocabularies.items()}


def graph_inputs(
    encoded: Mapping[str, tuple[np.ndarray, np.ndarray]], texts: Mapping[str, Iterable[str]], vocabularies: Vocabularies
) -> dict[str, np.ndarray]:
    """The inputs of an exported graph, from encoded modalities and whole texts."""
    feed = {
        f"{kind}.{name}": values
        for name, pair in encoded.items()
        for kind, values in zip(("inputs", "observed"), pair, strict=True)  # kinds of inputs that every modality has
    }
    for name, vocabulary in vocabularies.items():
        feed[f"terms.{name}"], feed[f"counts.{name}"] = count_terms(texts[name], vocabulary)
    return feed
