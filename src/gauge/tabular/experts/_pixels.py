"""Images as columns of numbers: the principal components of their pixels, which trees and linear models read."""

from collections.abc import Mapping
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.decomposition import PCA
from torch import Tensor

from gauge.tabular.table.columns import Image
from gauge.tabular.table.rows import Rows

SIDE = 16  # pixels, to which images are shrunk first
COMPONENTS = 30  # of each image column, at most
LEARNED_FROM = 2000  # images of a column, at most
AT_ONCE = 1024  # images
LEAST = 1e-3  # deviation of a component that is used; a pixel lies between 0 and 1
FARTHEST = 4.0  # deviations from the mean; components beyond are clipped


class Pixels:
    """The mean image of every image column in training and the directions in which images differ most, so scaled that each
    component has deviation 1."""

    def __init__(self, means: Mapping[str, np.ndarray], directions: Mapping[str, np.ndarray]) -> None:
        self.means, self.directions = (  # in one layout, as products in another are rounded otherwise
            {name: np.ascontiguousarray(each) for name, each in values.items()} for values in (means, directions)
        )
        self.count = sum(len(each) for each in self.directions.values())

    @classmethod
    def fit(cls, rows: Rows) -> Self:
        means, directions = {}, {}
        for modality, columns in rows.schema.modalities.items():
            available = np.flatnonzero(rows.encoded.observed[modality].numpy())
            if isinstance(columns[0], Image) and len(available) > 1:
                chosen = available[np.linspace(0, len(available) - 1, min(len(available), LEARNED_FROM)).astype(int)]
                vectors = _vectors(rows.encoded.inputs[modality][torch.from_numpy(chosen)])
                count = min(COMPONENTS, len(chosen) - 1)
                components = PCA(count, svd_solver="randomized", random_state=0).fit(vectors)
                scale = np.sqrt(components.explained_variance_)
                scale[scale < LEAST] = np.inf  # all images are alike
                means[modality], directions[modality] = components.mean_, components.components_ / scale[:, None]
        return cls(means, directions)

    def columns(self, rows: Rows) -> np.ndarray:
        """The components of all image columns, NaN where an image is missing: [rows, components]."""
        parts = [np.zeros((len(rows), 0), np.float32)]
        for modality, directions in self.directions.items():
            images = rows.encoded.inputs[modality].split(AT_ONCE)
            values = [(_vectors(part) - self.means[modality]) @ directions.T for part in images]
            observed = rows.encoded.observed[modality].numpy()[:, None]
            parts.append(np.where(observed, np.concatenate(values).clip(-FARTHEST, FARTHEST), np.nan))
        return np.concatenate(parts, 1, dtype=np.float32)

    def tensors(self) -> dict[str, Tensor]:
        return {
            f"pixels.{kind}.{modality}": torch.from_numpy(each)
            for kind, values in (("means", self.means), ("directions", self.directions))
            for modality, each in values.items()
        }

    @classmethod
    def load(cls, tensors: Mapping[str, Tensor]) -> Self:
        """From those among the tensors of an expert that `tensors` wrote."""
        means, directions = (
            {name.removeprefix(start): each.numpy() for name, each in tensors.items() if name.startswith(start)}
            for start in ("pixels.means.", "pixels.directions.")
        )
        return cls(means, directions)


def _vectors(images: Tensor) -> np.ndarray:
    return F.adaptive_avg_pool2d(images.float() / 255, SIDE).flatten(1).numpy()
