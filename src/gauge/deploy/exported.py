"""ExportedClassifier: predictions of an exported classifier with onnxruntime and pandas. Nothing here imports torch."""

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gauge.tabular.table import inputs
from gauge.tabular.table.arrays import columns_from_json, encode_rows
from gauge.tabular.table.columns import ImageFiles

if TYPE_CHECKING:
    from gauge.tabular.estimator import GaugeClassifier

logger = logging.getLogger(__name__)

FORMAT = "gauge-export-1"
KEY = "gauge"  # of the record in the metadata of an ONNX file
AT_ONCE = 256  # rows
RARE = 1e-6  # least prior of a class


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
    path: Path, *, device: str | None = None, image_folder: Path | None = None, outside_images: bool = False
) -> "GaugeClassifier | ExportedClassifier":
    """The classifier in a folder that `save` wrote or in a file that `export` wrote; the latter needs no torch."""
    if path.suffix == ".onnx":
        return ExportedClassifier(path, image_folder=image_folder, outside_images=outside_images)
    from gauge.tabular.estimator import GaugeClassifier

    classifier = GaugeClassifier.load(path, device=device, image_folder=image_folder)
    return classifier.set_params(outside_images=outside_images)


class ExportedClassifier:
    """The classifier in a file that `gauge.export` wrote; the same answers as the network's, up to rounding."""

    def __init__(
        self, path: str | Path, *, image_folder: str | Path | None = None, outside_images: bool = False
    ) -> None:
        self.session = open_session(Path(path))
        text = self.session.get_modelmeta().custom_metadata_map.get(KEY)
        about = json.loads(text) if text else {}
        if about.get("format") != FORMAT or "columns" not in about:
            raise ValueError(f"{path} is not an exported classifier; give a file that `gauge export` wrote")
        self.classes_ = np.array(about["classes"])
        self.class_prior_ = np.array(about["class_prior"])
        self.class_weight_ = np.array(about["class_weight"])
        self.calibration: dict[str, float] = about["calibration"]
        self.target_: str | None = about["target"]
        self.names: list[str] = about["names"]
        self.named: bool = about["named"]
        self.columns = columns_from_json(about["columns"])
        self.files = ImageFiles(Path(image_folder or ""), outside_images or image_folder is None)

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803 - scikit-learn's name
        """The probability of every class, in the order of `classes_`; the class prior for a row without values."""
        if inputs.is_frame(X):
            frame = inputs.match_columns(X, self.names, named=self.named, target=self.target_)
        else:
            frame = inputs.by_position(inputs.from_array(X), self.names)
        encoded = encode_rows(self.columns, frame, self.files)
        feed = {f"inputs.{name}": values for name, (values, _) in encoded.items()}
        feed |= {f"observed.{name}": flags for name, (_, flags) in encoded.items()}
        full = np.stack([flags.reshape(len(frame), -1).any(1) for _, flags in encoded.values()], 1).any(1)
        if not full.all():
            logger.warning("%d rows have no values and get the class prior", (~full).sum())
        probabilities = np.tile(self.class_prior_, (len(frame), 1))
        for rows in np.split(np.flatnonzero(full), range(AT_ONCE, int(full.sum()), AT_ONCE)):
            if len(rows):
                part = {name: values[rows] for name, values in feed.items()}
                answers = self.session.run(["probabilities"], part)[0].astype(np.float64)
                flags = [encoded[name][1][rows].reshape(len(rows), -1) for name in encoded]
                probabilities[rows] = self._calibrated(answers, np.concatenate(flags, 1).mean(1, keepdims=True))
        return probabilities

    def _calibrated(self, probabilities: np.ndarray, share: np.ndarray) -> np.ndarray:
        """As `gauge.tabular.experts.ensemble` has it for one expert: smoothed by the prior, with an inverse temperature that
        depends on the share of values that a row has."""
        floor = self.calibration["smoothing"] * np.maximum(self.class_prior_, RARE)
        weight = np.exp(self.calibration["offset"] + self.calibration["slope"] * share)
        powers = ((probabilities + floor) / (1 + floor.sum())) ** weight
        return powers / powers.sum(1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The class of every row with the largest probability times its `class_weight`."""
        return self.decide(self.predict_proba(X))

    def decide(self, probabilities: np.ndarray) -> np.ndarray:
        """The classes that `predict` chooses, given these probabilities."""
        return self.classes_[(probabilities * self.class_weight_).argmax(1)]
