"""The single models that studies hold against GaugeClassifier, each with the preparation of the table that it needs.

They run with their defaults, CatBoost with 300 iterations. Trees read images and texts as components of their pixels and
TF-IDF vectors, logistic regression reads the TF-IDF vectors themselves; the stack reads cross-fitted scores of the texts.
Models of pytabkit have its tuned defaults (TD) or those of the library (D), and stop early by the log loss of 20 % of the
training rows. They read no missing numbers, so these are imputed by the mean and marked.
"""

import importlib.util
import io
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from PIL import Image
from scipy.optimize import minimize_scalar
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from gauge.tabular.table.columns import infer_kind

COMPONENTS = 30  # of pixels and of TF-IDF vectors, for trees
LEVELS = 250  # most frequent ones of a category that HistGradientBoosting reads; it accepts 255


def text_columns(frame: pd.DataFrame) -> list[str]:
    words = [name for name in _words(frame) if not _is_image(frame[name])]
    return [name for name in words if infer_kind(frame[name])[0] == "text"]


def _words(frame: pd.DataFrame) -> list[str]:
    return [str(name) for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]


def _is_image(column: pd.Series) -> bool:
    return isinstance(column.iloc[0], bytes)


def with_categories(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype(dict.fromkeys(_words(frame), "category"))


def with_few_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """Rare levels beyond the limit of HistGradientBoosting are missing."""
    frame, words = frame.copy(), _words(frame)
    frame[words] = frame[words].apply(lambda cells: cells.where(cells.isin(cells.value_counts().index[:LEVELS])))
    return with_categories(frame)


def with_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """CatBoost wants categories as texts."""
    words = _words(frame)
    return frame.astype(dict.fromkeys(words, object)).fillna(dict.fromkeys(words, "missing"))


def same(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


def components(frame: pd.DataFrame, train: np.ndarray, texts: Collection[str]) -> pd.DataFrame:
    """Images, and the texts that are named, as their first components in the training rows."""
    columns = {}
    for name in frame:
        if _is_image(frame[name]):
            images = [Image.open(io.BytesIO(cell)).convert("L").resize((16, 16)) for cell in frame[name]]
            vectors: Any = np.stack([np.asarray(image, float).ravel() for image in images])
            learned: Any = PCA(COMPONENTS, random_state=0).fit(vectors[train])
        elif name in texts:
            words = frame[name].fillna("")
            vectors = TfidfVectorizer(sublinear_tf=True).fit(words.iloc[train]).transform(words)
            learned = TruncatedSVD(COMPONENTS, random_state=0).fit(vectors[train])
        else:
            columns[name] = frame[name]
            continue
        columns |= {f"{name}{index}": values for index, values in enumerate(learned.transform(vectors).T)}
    return pd.DataFrame(columns, frame.index)


def hist_boosting(frame: pd.DataFrame, seed: int) -> Any:
    return HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed)


def lightgbm(frame: pd.DataFrame, seed: int, **settings: Any) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(random_state=seed, verbosity=-1, n_jobs=torch.get_num_threads(), **settings)


def catboost(frame: pd.DataFrame, seed: int) -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        iterations=300,
        cat_features=_words(frame),
        random_seed=seed,
        verbose=False,
        thread_count=1,
        allow_writing_files=False,
    )


def logistic(frame: pd.DataFrame, seed: int, texts: Sequence[str] | None = None) -> Any:
    """Texts are those that are named, or recognised."""
    texts = text_columns(frame) if texts is None else texts
    numbers = [column for column in frame if pd.api.types.is_numeric_dtype(frame[column])]
    words = [column for column in frame if column not in numbers and column not in texts]
    columns: list[Any] = [
        (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore"), words),
    ]
    columns += [(TfidfVectorizer(), column) for column in texts]
    return make_pipeline(make_column_transformer(*columns), LogisticRegression(max_iter=1000))


def of_pytabkit(name: str, **settings: Any) -> Callable[..., Any]:
    """How this model of pytabkit is made; its networks want no label smoothing for log loss and AUC."""

    def make(frame: pd.DataFrame, seed: int) -> Any:
        from pytabkit.models.sklearn import sklearn_interfaces

        numbers = [column for column in frame if pd.api.types.is_numeric_dtype(frame[column])]
        columns = (SimpleImputer(add_indicator=True), numbers)
        imputed = make_column_transformer(columns, remainder="passthrough", verbose_feature_names_out=False)
        classifier = getattr(sklearn_interfaces, f"{name}_Classifier")
        model = classifier("cpu", seed, n_threads=1, val_metric_name="cross_entropy", **settings)
        return make_pipeline(imputed.set_output(transform="pandas"), model)

    return make


class TextStack:
    """A small LightGBM on the columns and, for each text, cross-fitted probabilities of logistic regression on its TF-IDF
    vectors."""

    def __init__(self, seed: int, texts: Sequence[str]) -> None:
        self.seed, self.texts = seed, list(texts)

    def fit(self, frame: pd.DataFrame, labels: np.ndarray) -> "TextStack":
        readers = {
            name: make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(max_iter=1000))
            for name in self.texts
        }
        scored = {
            name: cross_val_predict(reader, frame[name], labels, cv=5, method="predict_proba")
            for name, reader in readers.items()
        }
        self.readers = {name: reader.fit(frame[name], labels) for name, reader in readers.items()}
        self.model = lightgbm(frame, self.seed, n_estimators=100, num_leaves=15, learning_rate=0.05)
        self.model.fit(self._columns(frame, scored), labels)
        self.classes_ = self.model.classes_
        return self

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        scored = {name: reader.predict_proba(frame[name]) for name, reader in self.readers.items()}
        return np.asarray(self.model.predict_proba(self._columns(frame, scored)))

    def _columns(self, frame: pd.DataFrame, scored: dict[str, np.ndarray]) -> pd.DataFrame:
        columns = {f"{name}{index}": values for name, each in scored.items() for index, values in enumerate(each.T)}
        return frame.drop(columns=self.texts).assign(**columns)


class Rival(NamedTuple):
    """How a model is made for a table and a seed, and how the table is prepared; whether it reads texts by itself, and is
    fitted again for a temperature."""

    make: Callable[..., Any]
    prepare: Callable[[pd.DataFrame], pd.DataFrame]
    reads_texts: bool = False
    tempered: bool = True

    def prepared(self, frame: pd.DataFrame, train: np.ndarray, texts: Sequence[str]) -> pd.DataFrame:
        if self.reads_texts:
            kept = frame[list(texts)].fillna("").astype(object)
            frame = components(frame, train, ())
            return self.prepare(frame.drop(columns=list(texts))).join(kept)
        return self.prepare(components(frame, train, texts))

    def built(self, frame: pd.DataFrame, seed: int, texts: Sequence[str]) -> Any:
        return self.make(frame, seed, texts) if self.reads_texts else self.make(frame, seed)


RIVALS: dict[str, Rival] = {
    "HistGradientBoosting": Rival(hist_boosting, with_few_categories),
    "LightGBM": Rival(lightgbm, with_categories),
    "logistic regression": Rival(logistic, same, reads_texts=True),
}
if importlib.util.find_spec("catboost"):
    RIVALS["CatBoost"] = Rival(catboost, with_texts)
PYTABKIT = {
    name: Rival(make, lambda frame: with_categories(with_texts(frame)), tempered=False)
    for name, make in {
        "RealMLP-TD": of_pytabkit("RealMLP_TD", use_ls=False),
        "TabM-D": of_pytabkit("TabM_D"),
        "LightGBM-TD": of_pytabkit("LGBM_TD"),
        "XGBoost-TD": of_pytabkit("XGB_TD"),
        "CatBoost-TD": of_pytabkit("CatBoost_TD"),
    }.items()
}
STACK = Rival(lambda frame, seed, texts: TextStack(seed, texts), with_categories, reads_texts=True)


def temperature(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The inverse temperature with the least log loss."""
    logs = np.log(probabilities.clip(1e-12))

    def loss(log_beta: float) -> float:
        scaled = np.exp(log_beta) * logs
        return float((np.logaddexp.reduce(scaled, 1) - scaled[np.arange(len(labels)), labels]).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-4, 3), method="bounded").x))


def tempered(probabilities: np.ndarray, beta: float) -> np.ndarray:
    scaled = beta * np.log(probabilities.clip(1e-12))
    return np.exp(scaled - np.logaddexp.reduce(scaled, 1, keepdims=True))
