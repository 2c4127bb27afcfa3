"""export(): the whole prediction of a classifier or a network as one graph, with the scoring pass inside.

A classifier becomes ONNX with all of its experts and their combination; a network becomes ONNX, too.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gauge import __version__
from gauge.data.files import write_bytes
from gauge.data.graph import Graph
from gauge.deploy.exported import FORMAT, KEY, ExportDescription, graph_inputs, numbered, open_session, seal
from gauge.deploy.operators import check_operators
from gauge.multimodal.classifier import GaugePlusClassifier
from gauge.paper.gauge import Gauge
from gauge.plus.gauge_plus import GaugePlus
from gauge.tabular.estimator import GaugeClassifier
from gauge.tabular.experts._ensemble import Ensemble
from gauge.tabular.experts._graph import GraphRows
from gauge.tabular.fitted import Fitted
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Encoded, Schema
from gauge.training.traced import Flat, Graphable, check_exportable, cycled, to_onnx
from gauge.values import Batch

CHECKED = (1, 5)  # samples with which a written file is compared with the model


@dataclass(frozen=True)
class Exported:
    """A written file: its inputs with their shapes (without the batch), its outputs, and the largest difference from the
    probabilities of the model and from the gates of a network."""

    path: Path
    inputs: Mapping[str, tuple[int, ...]]
    outputs: tuple[str, ...]
    difference: float

    def __str__(self) -> str:
        return f"{self.path} differs from the model by at most {self.difference:.1g} in a probability or gate"


def export(
    model: Gauge | GaugePlus | GaugePlusClassifier | GaugeClassifier, path: str | Path, *, example: Batch | None = None
) -> Exported:
    """Write the model as ONNX.

    The graph takes any number of samples. Its inputs are `inputs.NAME` and `observed.NAME` for each modality, for texts
    whose words are counted `terms.NAME` and `counts.NAME`, and `rare` for columns that tell rare categories apart. Its
    outputs are `probabilities`; those of a network also `logits` and, where it has gates, `scores` and `gates`. The columns
    of a classifier travel along as JSON in the metadata, so that `gauge predict model.onnx` needs no torch. A part that
    cannot be exported is an error. The written file is compared with the model before this returns.

    Parameters
    ----------
    model
        A fitted classifier, or a network.
    path
        Of the file; it ends in .onnx.
    example
        A batch for the shapes of the inputs of a network; classifiers know them.

    Returns
    -------
    Exported
        The shapes of the inputs, the names of the outputs, and how far the file is from the model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = GaugeClassifier(experts="linear", random_state=0, verbose=False).fit(X, y)
    >>> exported = export(model, "model.onnx")
    >>> exported.inputs["inputs.table"], exported.outputs
    ((4,), ('probabilities',))
    """
    path = Path(path)
    if isinstance(model, GaugeClassifier):
        check_is_fitted(model, "fitted_")
        return _export_classifier(model.fitted_, path)
    if isinstance(model, GaugePlusClassifier):
        network, shown = model.module_, model.example()
        model, example = network, shown.batch(torch.arange(4)) if example is None else example
    if not isinstance(model, Gauge | GaugePlus):
        raise ValueError(
            f"{type(model).__name__} cannot be exported; give a Gauge, a GaugePlus, a GaugePlusClassifier or a "
            "GaugeClassifier (export_wrapped exports a model of gauge.wrap)"
        )
    if example is None:
        raise ValueError("a network does not know the shapes of its inputs; give a batch of them as example=")
    check_exportable(model)
    flat = Flat(deepcopy(model).cpu().eval().requires_grad_(False), list(example.inputs))
    tensors = [tensor.cpu() for part in (example.inputs, example.observed) for tensor in part.values()]
    return write_graph(flat, tensors, path, {"format": FORMAT, "version": __version__})


def _export_classifier(fitted: Fitted, path: Path) -> Exported:
    for column in fitted.columns:
        if column.export_problem:
            raise ValueError(column.export_problem)
    metadata = ExportDescription.model_construct(
        format=FORMAT,
        version=__version__,
        classes=fitted.classes,
        class_weight=fitted.class_weight,
        target=fitted.target,
        columns=fitted.schema.to_json()["columns"],
        names=list(fitted.names),
        named=fitted.named,
        prediction_sets=fitted.prediction_sets,
        vocabularies={},
        missing_rates=dict(fitted.missing_rates),
        training_rows=fitted.n_rows["train"],
    ).model_dump(mode="json")
    graph = Graph()
    rows = GraphRows(graph, fitted.schema)
    probabilities = fitted.ensemble.export(rows)
    graph.output("probabilities", probabilities, np.float64, (len(fitted.classes),))
    content = _write(graph.model(), path, {**metadata, "vocabularies": rows.vocabularies})
    session = open_session(content, path)
    example = _example_rows(fitted.schema, rows.vocabularies)
    parts = [example.take(np.arange(count)) for count in CHECKED]
    # single rows, as texts of a batch hide what a row with one of two texts meets
    parts += [example.take(np.array([i % len(example)])).without(own.name) for i, own in enumerate(fitted.columns[:50])]
    difference = max(_apart(fitted.ensemble, session, rows, part) for part in parts)
    _check(difference, path)
    shapes = {value.name: tuple(value.shape[1:]) for value in session.get_inputs()}
    return Exported(path, shapes, tuple(graph.outputs), difference)


def write_graph(flat: Graphable, tensors: Sequence[Tensor], path: Path, metadata: Mapping[str, Any]) -> Exported:
    """Write a module as a graph, with an example of its inputs, and compare the two."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch's, of other hardware
        with torch.backends.mkldnn.flags(enabled=False):  # its LSTM is one operator that ONNX does not have
            graph = to_onnx(flat, tensors, flat.inputs, flat.outputs)
    try:
        check_operators(graph.SerializeToString())
    except ValueError as error:
        raise ValueError(
            f"the network cannot be exported: as ONNX {error}; replace the module that needs it, such as an EmbeddingBag"
        ) from error
    session = open_session(_write(graph, path, metadata), path)
    differences = [_difference(flat, session, [cycled(tensor, count) for tensor in tensors]) for count in CHECKED]
    difference = np.max(differences)  # NaN if any is, unlike max()
    _check(float(difference), path)
    shapes = {name: tuple(tensor.shape[1:]) for name, tensor in zip(flat.inputs, tensors, strict=True)}
    return Exported(path, shapes, tuple(flat.outputs), float(difference))


def _write(model: Any, path: Path, metadata: Mapping[str, Any]) -> bytes:
    """Write an ONNX model with its metadata and a checksum of both."""
    if path.suffix != ".onnx":
        raise ValueError(f"{path} should end in .onnx")
    entry = model.metadata_props.add()
    entry.key, entry.value = KEY, json.dumps(metadata)
    content = seal(model.SerializeToString())
    write_bytes(path, lambda file: file.write(content))
    return content


def _example(schema: Schema) -> Encoded:
    """Eight random rows in the form of a classifier's own, half of their images and texts missing."""
    blank, draw, rows = schema.blank(8), np.random.default_rng(0), np.arange(8)
    inputs, observed = {}, {}
    for index, (name, values) in enumerate(blank.inputs.items()):
        if name == "table":
            sizes = np.array(schema.cardinalities)
            codes = np.floor(draw.random(values.shape) * sizes)
            inputs[name] = np.where(sizes > 1, codes, draw.standard_normal(values.shape)).astype(values.dtype)
            observed[name] = draw.random(values.shape) < 0.7
        else:
            most = 256 if values.dtype == np.uint8 else 2  # pixels, or numbers of words
            inputs[name] = draw.integers(0, most, values.shape).astype(values.dtype)
            observed[name] = (rows + index) % 2 == 0
    return replace(blank, inputs=inputs).with_observed(observed)


def _example_rows(schema: Schema, vocabularies: Mapping[str, Sequence[str]]) -> Rows:
    """Such rows with texts of terms that are counted."""
    encoded, draw = _example(schema), np.random.default_rng(0)
    count = len(encoded.empty)
    texts = {}
    for modality, terms in vocabularies.items():
        chosen = draw.choice(np.array(terms, object), (count, 5))  # terms in each text
        observed = encoded.observed[modality].tolist()
        lines = [" ".join(each) if given else "" for each, given in zip(chosen.tolist(), observed, strict=True)]
        texts[schema.contents[modality].name] = np.array(lines, object)
    rare_columns = [column for column in schema.table if column.tells_rare_apart]
    rare = {column.name: draw.integers(column.cardinality - 1, column.level_count, count) for column in rare_columns}
    cycles = draw.uniform(-1, 1, (count, len(schema.cycle_positions))).astype(np.float32)
    return Rows(schema, encoded, texts, rare, cycles)


def _apart(ensemble: Ensemble, session: Any, graph_rows: GraphRows, rows: Rows) -> float:
    """The largest difference of the probabilities of a written graph from those of the experts."""
    encoded = rows.encoded
    arrays = {name: (values, encoded.observed[name]) for name, values in encoded.inputs.items()}
    texts = {modality: rows.texts[rows.schema.contents[modality].name].tolist() for modality in graph_rows.vocabularies}
    feed = graph_inputs(arrays, texts, numbered(graph_rows.vocabularies)) | {"cycles": rows.cycles}
    if rows.rare:
        feed["rare"] = np.stack(list(rows.rare.values()), 1)
    feed = {name: values for name, values in feed.items() if name in graph_rows.graph.inputs}
    return float(np.abs(session.run(["probabilities"], feed)[0] - ensemble.predict(rows)).max())


def _difference(flat: Graphable, session: Any, tensors: list[Tensor]) -> float:
    """The largest difference of the written graph from the network, over probabilities and gates."""
    feed = dict(zip(flat.inputs, (tensor.numpy() for tensor in tensors), strict=True))
    pairs = zip(flat.outputs, flat(*tensors), session.run(list(flat.outputs), feed), strict=True)
    apart = [np.abs(a.numpy() - b).max() for name, a, b in pairs if name in ("probabilities", "gates")]
    return float(np.max(apart))


def _check(difference: float, path: Path) -> None:
    # largest difference of a probability or gate; rounding stays far below it, a wrong graph does not
    if not difference < 1e-3:
        path.unlink()
        raise ValueError(
            f"the graph differs from the model by {difference:.2g} in a probability or gate; nothing was written to {path}"
        )
