"""Every encoder, backbone, imputer and expert can be exported, or says why not; the graph gives what the original gives."""

from dataclasses import replace
from pathlib import Path

import helpers
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import nn

from gauge import (
    Batch,
    Dataset,
    FromHuggingFace,
    FromTimm,
    FromTorch,
    Gating,
    Gauge,
    GaugeClassifier,
    GaugePlusClassifier,
    Network,
    TrainSettings,
    Transformer,
    UnitEncoder,
    export,
)
from gauge.data import gather
from gauge.deploy.exported import ExportedClassifier, open_session
from gauge.encoders.columns import Columns
from gauge.imputers.oracle import Oracle
from gauge.paper.gauge import UNGATED
from gauge.plus.gauge_plus import GaugePlus
from gauge.randomness import seeded
from gauge.registry import COLUMNS, ENCODERS, EXPERTS, IMPUTERS
from gauge.tabular.experts._terms import Terms
from gauge.tabular.experts.linear import Linear
from gauge.tabular.table.columns.image import Image
from gauge.training.traced import to_onnx, trace
from gauge_lab.imputers.tip import TIP

pytest.importorskip("onnxruntime")
COUNTS = (1, 7, 300)
SMALL = {  # options that make an encoder small
    "tabular": {"inner": 8, "depth": 1, "heads": 2},
    "tabular_vector": {"inner": 8, "depth": 1, "heads": 2},
}


def samples(tensor: torch.Tensor, count: int) -> torch.Tensor:
    return tensor[torch.arange(count) % len(tensor)]


def differences(module: nn.Module, tensors: list[torch.Tensor], names: list[str]) -> dict[str, float]:
    """The largest difference of each output of the exported module, over batches of 1, 7 and 300 samples."""
    module.eval().requires_grad_(False)
    inputs = [f"x{index}" for index in range(len(tensors))]
    with helpers.unchecked():
        session = open_session(to_onnx(module, tensors, inputs, names).SerializeToString(), Path("module.onnx"))
        worst = dict.fromkeys(names, 0.0)
        for count in COUNTS:
            given = [samples(tensor, count) for tensor in tensors]
            feed = dict(zip(inputs, (tensor.numpy() for tensor in given), strict=True))
            for name, own, other in zip(names, module(*given), session.run(names, feed), strict=True):
                scale = max(1.0, float(own.abs().max()))
                worst[name] = max(worst[name], float(np.abs(own.numpy() - other).max()) / scale)
    return worst


class Simple(nn.Module):
    """An imputer and two encoders that are traced quickly."""

    def __init__(self, train: Dataset):
        super().__init__()
        self.imputer, self.encoder = helpers.imputer("mean", train), helpers.unit_encoder()

    def forward(self, image, signal, table, shown, heard, cells):
        names = ("image", "signal", "table")
        batch = Batch(
            dict(zip(names, (image, signal, table), strict=True)), dict(zip(names, (shown, heard, cells), strict=True))
        )
        return (self.encoder(self.imputer.complete(batch), hide_missing=False).tokens,)


def test_a_traced_module_gives_the_same_for_any_number_of_samples(train, batch):
    module = Simple(train).eval().requires_grad_(False)
    tensors = [*batch.inputs.values(), *batch.observed.values()]
    with helpers.unchecked():
        program = trace(module, tensors).module()
        for count in COUNTS:
            given = [samples(tensor, count) for tensor in tensors]
            torch.testing.assert_close(program(*given), module(*given), atol=1e-5, rtol=0)


class Peeking(nn.Module):
    def forward(self, x):
        return (x if x.sum() > 0 else -x,)


REFUSED = {
    "AnySubset cannot be exported; give a Gauge, a GaugePlus, a Gauge": lambda train: helpers.any_subset(),
    "GaugeClassifier instance is not fitted yet": lambda train: GaugeClassifier(),
    "the imputer Oracle cannot be exported: it returns values that a benchmark has hid": lambda train: helpers.gauge(
        Oracle()
    ),
    "MoPoE cannot be exported: it draws at random by a sample's key": lambda train: helpers.gauge(
        helpers.linear_mopoe(train)
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_exported_is_refused_with_the_reason(tmp_path, train, batch, message):
    with helpers.unchecked(), pytest.raises(ValueError, match=message):
        export(REFUSED[message](train), tmp_path / "model.onnx", example=batch)


def test_a_gauge_needs_an_example_and_the_ending_of_onnx(tmp_path):
    with pytest.raises(ValueError, match="a network does not know the shapes of its inputs; give a batch of them as"):
        export(small_gauge(), tmp_path / "model.onnx")
    example = Batch({"table": helpers.noise(6, 5)}, {"table": helpers.noise(6, 5, seed=1) > -1})
    with helpers.unchecked(), pytest.raises(ValueError, match="model.pt2 should end in .onnx"):
        export(small_gauge(), tmp_path / "model.pt2", example=example)


def test_a_network_that_looks_at_values_cannot_be_traced():
    with pytest.raises(ValueError, match=r"network cannot be traced \(.+\); components in it must compute with ten"):
        trace(Peeking(), [helpers.noise(3, 2)])


class Slope(nn.Module):
    def forward(self, values):
        with torch.enable_grad():
            leaf = values.detach().requires_grad_()
            return torch.autograd.grad((nn.functional.silu(leaf) + nn.functional.mish(leaf)).sum(), leaf)


def test_the_gradient_of_an_activation_that_onnx_does_not_have_is_made_of_what_it_has():
    assert differences(Slope(), [helpers.noise(6, 5)], ["slope"])["slope"] < 1e-6


class Bag(nn.EmbeddingBag):
    def forward(self, values):
        return super().forward(values.long())


class Bessel(nn.Linear):
    def forward(self, values):
        return super().forward(torch.special.bessel_j0(values))


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (Bag(9, 4), "as ONNX it has the operator If; replace the module that needs it"),
        (Bessel(6, 4), r"an operation without a form in ONNX \(.*bessel_j0"),
    ],
)
def test_an_encoder_that_becomes_no_graph_is_refused_with_a_cure(tmp_path, encoder, message):
    data = gather({"own": helpers.noise(20, 6).abs().floor()}, torch.arange(20) % 2)
    settings = TrainSettings(epochs=0)
    with helpers.unchecked():
        model = GaugePlusClassifier({"own": encoder}, ["a", "b"], settings=settings, verbose=False).fit(data)
        with pytest.raises(ValueError, match=message):
            export(model, tmp_path / "model.onnx")
    assert not any(tmp_path.iterdir())


class Encoders(nn.Module):
    def __init__(self):
        super().__init__()
        kinds = {name: ENCODERS.get(name) for name in ENCODERS.names()}
        with seeded(0, "encoders"):
            self.parts = nn.ModuleDict(
                {name: kind(kind.example_shape, 4, **SMALL.get(name, {})) for name, kind in kinds.items()}
            )
        self.shapes = [kind.example_shape for kind in kinds.values()]

    def forward(self, *inputs):
        flags = torch.ones(inputs[0].shape[0], dtype=torch.bool)
        return tuple(part(x, flags) for part, x in zip(self.parts.values(), inputs, strict=True))


@pytest.mark.slow
def test_every_encoder_gives_the_same_in_an_exported_graph():
    encoders = Encoders()
    inputs = [helpers.noise(5, *shape, seed=place).abs() for place, shape in enumerate(encoders.shapes)]
    worst = differences(encoders, inputs, list(encoders.parts))
    assert {name: value for name, value in worst.items() if value >= 1e-5} == {}


class Imputers(nn.Module):
    """Each fills the same batch; TIP, which needs every image, one of its own."""

    def __init__(self, train: Dataset, batch: Batch):
        super().__init__()
        self.parts = nn.ModuleDict(
            {name: helpers.imputer(name, train) for name in helpers.imputers() if name not in ("oracle", "mopoe")}
        )
        self.parts["mopoe"] = helpers.linear_mopoe(train, sample=False)
        photos = {name: values for name, values in train.inputs.items() if name != "signal"}
        sizes = {"width": 8, "depth": 1, "heads": 2, "resnet": 0, "projection": 4}
        complete = Dataset("train", photos, train.labels, {"table": train.observed["table"]})
        self.tip = TIP.from_dataset(complete, **sizes)
        self.modalities = list(batch.inputs)
        self.names = [f"{name} {modality}" for name in self.parts for modality in self.modalities] + ["tip table"]

    def forward(self, *tensors):
        count = len(self.modalities)
        inputs, observed = (dict(zip(self.modalities, x, strict=True)) for x in (tensors[:count], tensors[count:]))
        batch = Batch(inputs, observed)
        filled = [part.complete(batch).inputs[name] for part in self.parts.values() for name in self.modalities]
        photos = {"image": inputs["image"], "table": inputs["table"]}
        shown = {"image": torch.ones_like(observed["image"]), "table": observed["table"]}
        return (*filled, self.tip.complete(Batch(photos, shown)).inputs["table"])


@pytest.mark.slow
def test_every_imputer_gives_the_same_in_an_exported_graph_or_says_why_not(train, batch):
    module = Imputers(train, batch)
    assert {*module.parts, "tip", "oracle"} == set(IMPUTERS.names())
    tensors = [*batch.blanked().inputs.values(), *batch.observed.values()]
    worst = differences(module, tensors, module.names)
    assert {name: value for name, value in worst.items() if value >= 1e-5} == {}


def backbones() -> dict[str, nn.Module]:
    transformers = pytest.importorskip("transformers")
    layer = nn.TransformerEncoderLayer(helpers.DIM, 2, 16, batch_first=True, norm_first=True)
    sizes = {"hidden_size": helpers.DIM, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    bert = transformers.BertModel(transformers.BertConfig(initializer_range=0.3, vocab_size=9, **sizes))
    return {
        "transformer": Transformer(helpers.DIM, heads=2, depth=1),
        "torch": FromTorch(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)),
        "transformers": FromHuggingFace(bert.encoder),
        "timm": FromTimm([helpers.TimmBlock(helpers.DIM)]),
    }


class Backbones(nn.Module):
    """One encoder, and a gated classifier on each backbone."""

    def __init__(self):
        super().__init__()
        with seeded(0, "backbones"):
            encoder = UnitEncoder({"table": Columns((5,), helpers.DIM)}, helpers.DIM)
            parts = {
                name: Gauge(encoder, Network(each, helpers.DIM, helpers.CLASSES)) for name, each in backbones().items()
            }
        self.parts = nn.ModuleDict(parts)
        self.names = [f"{name} {output}" for name in parts for output in ("logits", "scores", "gates")]

    def forward(self, table, observed):
        predictions = [part(Batch({"table": table}, {"table": observed})) for part in self.parts.values()]
        return tuple(values for each in predictions for values in (each.logits, each.evidence.scores, each.gates))


@pytest.mark.slow
def test_scores_and_gates_of_every_backbone_are_the_same_in_an_exported_graph():
    module = Backbones()
    observed = helpers.noise(6, 5, seed=1) > -0.5
    worst = differences(module, [helpers.noise(6, 5), observed], module.names)
    assert {name: value for name, value in worst.items() if value >= 1e-5} == {}


def small_gauge() -> Gauge:
    encoder = UnitEncoder({"table": Columns((5,), helpers.DIM)}, helpers.DIM)
    return Gauge(encoder, Network(Transformer(helpers.DIM, heads=2, depth=1), helpers.DIM, helpers.CLASSES))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gating", "tolerance"),
    # untrained trust is ill-conditioned: a relative change of 1e-7 in the input moves it by 1e-4 without any export
    [(Gating(), 1e-5), ("trust", 5e-4), (UNGATED, 1e-5)],
    ids=["unit", "trust", "none"],
)
def test_a_gauge_plus_gives_the_same_in_an_exported_graph(tmp_path, gating, tolerance):
    with seeded(0, "plus"):
        encoder = UnitEncoder({"table": Columns((5,), helpers.DIM)}, helpers.DIM)
        network = Network(Transformer(helpers.DIM, heads=2, depth=1), helpers.DIM, helpers.CLASSES)
        model = helpers.finished(GaugePlus(encoder, network, gating=gating))
    example = Batch({"table": helpers.noise(6, 5)}, {"table": helpers.noise(6, 5, seed=1) > -1})
    with helpers.unchecked():
        exported = export(model, tmp_path / "model.onnx", example=example)
    assert exported.difference < tolerance
    assert ("gates" in exported.outputs) == model.gating.gates_units


def visits(rows: int, folder: Path, seed: int = 0) -> pd.DataFrame:
    """Columns of every kind, written in many ways, with missing cells, files that do not exist, and 40 photos."""
    draw = np.random.default_rng(seed)
    table = helpers.clinic(folder, 40, seed=seed).sample(rows, replace=True, random_state=seed, ignore_index=True)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(draw.integers(0, 900, rows), "D")
    table["weight"] = [f"{value:.2f} kg".replace(".", ",") for value in draw.normal(70, 9, rows)]
    table["visit"] = days.strftime("%d.%m.%Y")
    table["ward"] = [f"{number}w" for number in draw.integers(0, 80, rows)]
    table["embedding"] = [str(vector) for vector in draw.normal(size=(rows, 9)).round(3).tolist()]
    extra = pd.Series(draw.choice(["", " Grew, GREW fast; İzmir!", " it bleeds 3.5 times a night"], rows))
    table["notes"] = (table["notes"] + extra).where(table["notes"].notna())
    keep = draw.random(table.shape) > 0.15
    keep[:, table.columns.get_loc("diagnosis")] = True
    return table.where(keep, None)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A classifier with all experts of the package on columns of all kinds, 1,000 other rows, and a folder."""
    folder = tmp_path_factory.mktemp("visits")
    with helpers.unchecked():
        options = {"epochs": 1, "random_state": 0, "image_size": 20, "verbose": False, "max_categories": 20}
        model = GaugeClassifier(experts=EXPERTS.names(), image_folder=folder, columns={"ward": "category"}, **options)
        model.fit(visits(200, folder), "diagnosis")
    kinds = {column.kind for column in model.schema_.columns}
    assert kinds == set(COLUMNS.names()) - {"signal"}, "signals have a test of their own"
    assert any(column.tells_rare_apart for column in model.schema_.table), "some wards are rare"
    new = visits(1000, folder, seed=1).drop(columns="diagnosis")
    new.loc[::9, "site"] = "ear"  # not in training
    new.loc[::11, "photo"] = "gone.png"
    new.loc[::13, "weight"] = "heavy"
    new.loc[7] = None
    return model, new, folder


@pytest.mark.slow
@pytest.mark.parametrize("experts", [*([name] for name in EXPERTS.names()), None], ids=str)
def test_every_expert_and_all_together_answer_the_same_in_an_exported_file(classifier, tmp_path, experts):
    whole, rows, folder = classifier
    model = whole if experts is None else helpers.with_experts(whole, experts)
    with helpers.unchecked():
        result = export(model, tmp_path / "model.onnx")
        exported = ExportedClassifier(result.path, image_folder=folder)
        expected = model.ensemble_.predict(model.fitted_.read(rows)[1])
        probabilities, observed = exported.predict_with_observed(rows)
    np.testing.assert_allclose(probabilities, expected, atol=1e-5, rtol=0)
    assert (exported.class_numbers(probabilities) == model.fitted_.class_numbers(expected)).all()
    np.testing.assert_array_equal(observed, model.fitted_.read(rows)[1].observed())
    np.testing.assert_array_equal(probabilities[7], model.ensemble_.prior)
    np.testing.assert_allclose(exported.predict_proba(rows[:1]), expected[:1], atol=1e-5, rtol=0)
    assert exported.predict_proba(rows[:0]).shape == (0, 3)


@pytest.mark.parametrize(
    ("experts", "lacking", "message"),
    [
        (["linear"], (Linear, "export"), "the expert Linear cannot be exported; fit without it"),
        (["trees"], (Image, "export_vectors"), "column 'photo' cannot be exported: kind 'image' has no"),
    ],
)
def test_an_expert_or_a_kind_of_column_that_cannot_be_exported_is_refused(
    classifier, tmp_path, monkeypatch, experts, lacking, message
):
    monkeypatch.delattr(*lacking)
    with pytest.raises(ValueError, match=message):
        export(helpers.with_experts(classifier[0], experts), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_terms_are_those_of_scikit_learn(classifier):
    model, rows, _ = classifier
    read = model.fitted_.read(rows)[1]
    texts = np.array([*read.texts["notes"], "", *["İ ı ß ǅ d'accord naïve re-grew_fast ² İ ²"] * 2], object)
    terms = Terms.fit(replace(read, texts={"notes": texts}))
    names, options = terms.vocabularies["notes"], {"ngram_range": (1, 2), "token_pattern": r"(?u)\b\w+\b"}
    expected = TfidfVectorizer(vocabulary=names, sublinear_tf=True, **options)
    expected.idf_ = terms.idf["notes"]
    vectors = terms.vectors(replace(read, texts={"notes": texts}), "notes").toarray()
    np.testing.assert_allclose(vectors, expected.transform(texts).toarray(), rtol=1e-12)
