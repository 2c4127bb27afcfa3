"""ExportedClassifier: predictions of an exported classifier with onnxruntime and pandas. Nothing here imports torch."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from gauge.data.signature import check_signature
from gauge.tabular.classifier import TableClassifier, image_files
from gauge.tabular.table.arrays import by_modality, columns_from_json, encode_rows
from gauge.tabular.table.columns import Column

logger = logging.getLogger(__name__)

FORMAT = "gauge-export-1"
KEY = "gauge"  # of the record in the metadata of an ONNX file
BATCH_ROWS = 256
MIN_PRIOR = 1e-6  # of a class


def open_session(path: Path) -> Any:
    """The ONNX file, ready to run."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ValueError("reading ONNX needs onnxruntime; install it with: pip install 'gauge-ml[onnx]'") from error
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no base class but this
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{path} cannot be read as ONNX ({reason}); export it again") from error


def load_classifier(
    path: Path,
    *,
    device: str | None = None,
    image_folder: Path | None = None,
    outside_images: bool = False,
    trusted: Path | str | None = None,
) -> TableClassifier:
    """The classifier in a folder that `save` wrote or in a file that `export` wrote; the latter needs no torch. With
    `trusted`, a public key or its file, one that was not signed with that key is refused."""
    if path.suffix == ".onnx":
        if trusted is not None:
            check_signature(path, trusted)
        return ExportedClassifier(path, image_folder=image_folder, outside_images=outside_images)
    from gauge.tabular.fitted import Fitted

    return Fitted.load(path, device=device, files=image_files(image_folder, outside=outside_images), trusted=trusted)


class ExportedClassifier(TableClassifier):
    """The classifier in a file that `gauge.export` wrote; the same answers as the network's, up to rounding."""

    def __init__(
        self, path: str | Path, *, image_folder: str | Path | None = None, outside_images: bool = False
    ) -> None:
        self.session = open_session(Path(path))
        text = self.session.get_modelmeta().custom_metadata_map.get(KEY)
        metadata = json.loads(text) if text else {}
        if metadata.get("format") != FORMAT or "columns" not in metadata:
            raise ValueError(f"{path} is not an exported classifier; give a file that `gauge export` wrote")
        if left_out := metadata["left_out"]:
            logger.warning("%s holds the network alone, without %s", path, ", ".join(left_out))
        self.classes = np.array(metadata["classes"])
        self.class_prior = np.array(metadata["class_prior"])
        self.class_weight = np.array(metadata["class_weight"])
        self.calibration: dict[str, float] = metadata["calibration"]
        self.target: str | None = metadata["target"]
        self.named: bool = metadata["named"]
        self.files = image_files(image_folder, outside=outside_images)
        self._names: list[str] = metadata["names"]
        self._columns = columns_from_json(metadata["columns"])

    @property
    def columns(self) -> Sequence[Column]:
        return self._columns

    @property
    def names(self) -> Sequence[str]:
        return self._names

    @property
    def classes_(self) -> np.ndarray:
        """The classes, by scikit-learn's name."""
        return self.classes

    def evidence(self, X: Any) -> NoReturn:
        raise NotImplementedError("an exported model explains nothing; serve the folder that `gauge fit` wrote")

    def predict_with_observed(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        frame = self.frame(X)
        encoded = encode_rows(self.columns, frame, self.files)
        feed = {f"inputs.{name}": values for name, (values, _) in encoded.items()}
        feed |= {f"observed.{name}": flags for name, (_, flags) in encoded.items()}
        flags = np.concatenate([flags.reshape(len(frame), -1) for _, flags in encoded.values()], 1)
        full = flags.any(1)
        if not full.all():
            logger.warning("%d rows have no values and get the class prior", (~full).sum())
        probabilities = np.tile(self.class_prior, (len(frame), 1))
        for rows in np.split(np.flatnonzero(full), range(BATCH_ROWS, int(full.sum()), BATCH_ROWS)):
            if len(rows):
                part = {name: values[rows] for name, values in feed.items()}
                answers = self.session.run(["probabilities"], part)[0].astype(np.float64)
                probabilities[rows] = self._calibrated(answers, flags[rows].mean(1, keepdims=True))
        order = [column.name for columns in by_modality(self.columns).values() for column in columns]
        return probabilities, flags[:, [order.index(column.name) for column in self.columns]]

    def _calibrated(self, probabilities: np.ndarray, share: np.ndarray) -> np.ndarray:
        """As `gauge.tabular.ensemble` has it for one expert: smoothed by the prior, with an inverse temperature that
        depends on the share of values that a row has."""
        floor = self.calibration["smoothing"] * np.maximum(self.class_prior, MIN_PRIOR)
        weight = np.exp(self.calibration["offset"] + self.calibration["slope"] * share)
        powers = ((probabilities + floor) / (1 + floor.sum())) ** weight
        return powers / powers.sum(1, keepdims=True)
