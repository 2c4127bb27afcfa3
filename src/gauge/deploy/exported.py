"""ExportedClassifier: predictions of an exported classifier with onnxruntime and pandas. Nothing here imports torch."""

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gauge.tabular.arrays import columns_from_json, encode_rows

if TYPE_CHECKING:
    from gauge.tabular.estimator import GaugeClassifier

logger = logging.getLogger(__name__)

FORMAT = "gauge-export-1"
KEY = "gauge"  # of the record in the metadata of an ONNX file
AT_ONCE = 256  # rows


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
    path: Path, *, device: str | None = None, image_folder: Path | None = None
) -> "GaugeClassifier | ExportedClassifier":
    """The classifier in a folder that `save` wrote or in a file that `export` wrote; the latter needs no torch."""
    if path.suffix == ".onnx":
        return ExportedClassifier(path, image_folder=image_folder)
    from gauge.tabular.estimator import GaugeClassifier

    return GaugeClassifier.load(path, device=device, image_folder=image_folder)


class ExportedClassifier:
    """The classifier in a file that `gauge.export` wrote; the same answers as the network's, up to rounding."""

    def __init__(self, path: str | Path, *, image_folder: str | Path | None = None) -> None:
        self.session = open_session(Path(path))
        text = self.session.get_modelmeta().custom_metadata_map.get(KEY)
        about = json.loads(text) if text else {}
        if about.get("format") != FORMAT or "columns" not in about:
            raise ValueError(f"{path} is not an exported classifier; give a file that `gauge export` wrote")
        self.classes_ = np.array(about["classes"])
        self.class_prior_ = np.array(about["class_prior"])
        self.target_: str | None = about["target"]
        self.feature_names: list[str] = about["feature_names"]
        self.columns = columns_from_json(about["columns"])
        self.image_folder = Path(image_folder or "")

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:  # noqa: N803 - scikit-learn's name
        """The probability of every class, in the order of `classes_`; the class prior for a row without values."""
        frame = X.rename(columns=str)
        known = {*(self.feature_names or frame.columns), self.target_}
        if new := [name for name in frame.columns if name not in known]:
            logger.warning("column %r (first of %d) was not in training and is ignored", new[0], len(new))
        encoded = encode_rows(self.columns, frame, self.image_folder)
        feed = {f"inputs.{name}": values for name, (values, _) in encoded.items()}
        feed |= {f"observed.{name}": flags for name, (_, flags) in encoded.items()}
        full = np.stack([flags.reshape(len(frame), -1).any(1) for _, flags in encoded.values()], 1).any(1)
        if not full.all():
            logger.warning("%d rows have no values and get the class prior", (~full).sum())
        probabilities = np.tile(self.class_prior_, (len(frame), 1))
        for rows in np.split(np.flatnonzero(full), range(AT_ONCE, int(full.sum()), AT_ONCE)):
            if len(rows):
                part = {name: values[rows] for name, values in feed.items()}
                probabilities[rows] = self.session.run(["probabilities"], part)[0]
        return probabilities

    def predict(self, X: pd.DataFrame) -> np.ndarray:  # noqa: N803
        """The most probable class of every row."""
        return self.classes_[self.predict_proba(X).argmax(1)]
