"""GaugePlusClassifier: digits in two modalities, any missing, with an encoder of one's own, through every step."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import unchecked
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader

from gauge import ExportedClassifier, GaugePlusClassifier, TrainSettings, check_encoder, explain, export
from gauge.data import gather
from gauge.data.mapped import read_dataset, write_dataset
from gauge.multimodal.classifier import _single
from gauge.multimodal.explanation import _hidden

SETTINGS = TrainSettings(epochs=6, batch_size=32, learning_rate=5e-3, selection=("complete",))


class Rows(nn.Module):
    """Each row of an image as a vector."""

    def __init__(self, width=16, sign=1):
        super().__init__()
        self.layer, self.sign = nn.Linear(8, width), sign

    def forward(self, image):
        return self.sign * torch.relu(self.layer(image[:, 0]))


def two_modalities():
    """Upper half of each digit as an image, ink of the columns of the lower half as a table; some of both missing."""
    digits = load_digits(n_class=3)
    scans = torch.tensor(digits.images, dtype=torch.float32) / 16
    image, ink = scans[:, None, :4], scans[:, 4:].sum(1)
    image[::7], ink[1::7], ink[2::7, 0] = torch.nan, torch.nan, torch.nan
    return gather({"image": image, "ink": ink}, digits.target)


@pytest.fixture(scope="module", params=[False, True], ids=["", "trust"])
def fitted(request):
    data, order = two_modalities(), torch.randperm(537, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)  # Rows draws its weights
    encoders, options = {"image": Rows(), "ink": "columns"}, {"dim": 16, "depth": 1, "trust": request.param}
    with unchecked():
        model = GaugePlusClassifier(encoders, ["zero", "one", "two"], settings=SETTINGS, verbose=False, **options)
        return model.fit(data.take(order[:400])), data.take(order[400:])


def test_it_learns_and_is_evaluated_under_every_subset(fitted):
    model, test = fitted
    lines = model.evaluate(test)
    assert list(lines.index) == ["complete", "missing=image", "missing=ink"]
    assert lines["accuracy"]["complete"] == (model.predict(test) == model.classes_[test.labels]).mean() > 0.9
    assert (lines["accuracy"] > 0.6).all()


def test_progress_shows_the_validation_score_also_where_it_selects_nothing(capsys):
    encoders, settings = {"image": Rows(), "ink": "columns"}, TrainSettings(epochs=1, selection=())
    with unchecked():
        GaugePlusClassifier(encoders, ["zero", "one", "two"], settings=settings).fit(two_modalities())
    assert "GAUGE+: epoch 1 of 1, validation " in capsys.readouterr().err


def test_settings_that_are_not_given_are_those_of_the_classifier():
    encoders, classes = {"ink": "columns"}, ["zero", "one"]
    given = TrainSettings(epochs=7, batch_size=256)  # the default of other models
    own, chosen = (GaugePlusClassifier(encoders, classes, settings=each).description.settings for each in (None, given))
    assert chosen == own.model_copy(update={"epochs": 7, "batch_size": 256})
    assert own.selection


def test_effects_are_exact_and_votes_and_subsets_are_shown(fitted, tmp_path):
    model, test = fitted
    some = test.take((test.observed["image"] & test.observed["ink"].all(1)).nonzero()[:5, 0])
    explanation = model.explain(some)
    with pytest.raises(ValueError, match=r"columns= has 2 names for 'ink' of {.*\(8,\)}; name every column"):
        model.explain(some, columns={"ink": ["left", "right"]})
    whole, chosen = model.predict_proba(some), model.predict_proba(some).argmax(1)
    hidden = gather({"ink": some.inputs["ink"], "image": some.inputs["image"] * torch.nan})  # in any order
    effect = (whole - model.predict_proba(hidden))[range(5), chosen]
    np.testing.assert_allclose(explanation.effects["image"], effect, atol=1e-5)
    assert explanation.rows[0].votes.keys() == {"network", "image", "ink"}
    assert explanation.rows[0].subsets["image + ink"] == pytest.approx(whole[0].max(), abs=1e-5)
    units = explanation.to_frame()
    assert (units["trusted"].notna() == model.description.trust).all()
    assert len(explain(model.module_, some.batch(torch.arange(5))).to_frame()) == len(units) == 5 * (4 + 8)
    blank = some.inputs["ink"].clone()
    blank[:, 3] = torch.nan
    effect = (whole - model.predict_proba(gather({**some.inputs, "ink": blank})))[range(5), chosen]
    np.testing.assert_allclose(units["used"][units["name"] == "column 4"], effect, atol=1e-5)
    assert abs(effect).max() > 1e-3
    explanation.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Modalities" in page
    assert "olumns</" not in page, "words of tables"


def test_a_saved_model_gives_the_same_and_what_does_not_fit_is_refused(fitted, tmp_path):
    model, test = fitted
    model.save(tmp_path / "model.safetensors")
    again = GaugePlusClassifier.load(tmp_path / "model.safetensors", {"image": Rows()})
    assert np.array_equal(again.predict_proba(test), model.predict_proba(test))
    assert again.history_ == model.history_ != []
    for own, message in (
        ({}, r"of your own for \['image'\], and load was given \[\]; give them as encoders="),
        ({"image": "conv_grid"}, "load was given {'image': 'conv_grid'}; give them as encoders="),
        ({"image": Rows(width=8)}, r"float32 \[16, 8\], the model has .* build your encoders for \['image'\] as for"),
        ({"image": Rows(sign=-1)}, r"differ by .* although all weights fit; build your encoders for \['image'\]"),
    ):
        with unchecked(), pytest.raises(ValueError, match=message):
            GaugePlusClassifier.load(tmp_path / "model.safetensors", own)


@pytest.mark.slow
def test_an_encoder_of_ones_own_is_exported(fitted, tmp_path):
    model, test = fitted
    with unchecked():
        written = export(model, tmp_path / "model.onnx")
    assert (written.difference < 1e-3, written.inputs["observed.ink"]) == (True, (8,))
    batch = test.batch(torch.arange(len(test)))
    feed = {f"inputs.{name}": values.numpy() for name, values in batch.inputs.items()}  # NaN where nothing is observed
    feed |= {f"observed.{name}": flags.numpy() for name, flags in batch.observed.items()}
    session = pytest.importorskip("onnxruntime").InferenceSession(tmp_path / "model.onnx")
    (probabilities,) = session.run(["probabilities"], feed)
    assert np.isnan(feed["inputs.ink"]).any(1).sum() > np.isnan(feed["inputs.ink"]).all(1).sum()
    np.testing.assert_allclose(probabilities, model.predict_proba(test), atol=1e-4)


@unchecked()
def test_what_is_no_sample_or_label_is_refused(fitted):
    model, test = fitted
    for call in (model.fit, model.predict, model.evaluate, model.explain):
        with pytest.raises(ValueError, match=r"samples are a Dataset, not a list; call gauge.data.gather\(...\) first"):
            call([({"ink": torch.ones(8)}, 0)])
    with pytest.raises(ValueError, match=r"labels go from 0 to 2, not to 7; name all classes"):
        model.evaluate(gather(test.inputs, torch.full((len(test),), 7)))
    with pytest.raises(ValueError, match=r"137 of 137 samples have no label; take\(\) the others"):
        model.evaluate(gather(test.inputs))
    with pytest.raises(ValueError, match=r"the samples have {'ink': \(7,\)}, the model was trained on .*; resize or"):
        model.predict(gather({"ink": torch.ones(2, 7)}))
    with pytest.raises(ValueError, match="modality 'image': a table has shape .*, not .*; flatten it or choose"):
        GaugePlusClassifier({"image": "columns", "ink": "columns"}, model.classes_).fit(test)
    with pytest.raises(ValueError, match="an encoder is an nn.Module, not the class Rows; give a module"):
        GaugePlusClassifier({"image": Rows, "ink": "columns"}, model.classes_).fit(test)


@unchecked()
def test_a_modality_that_no_sample_has_is_missing(fitted):
    model, test = fitted
    ink = test.take(test.observed["ink"].any(1).nonzero()[:, 0].tolist()).inputs["ink"]
    without = gather({"ink": ink, "image": torch.full((len(ink), 1, 4, 8), torch.nan)})
    assert np.array_equal(model.predict_proba(gather({"ink": ink})), model.predict_proba(without))


@unchecked()
def test_codes_that_cannot_be_read_and_what_training_never_saw_are_named():
    codes = torch.arange(20)[:, None] % 9
    model = GaugePlusClassifier({"word": nn.Embedding(9, 4), "scan": "mlp"}, ["no", "yes", "never"], verbose=False)
    model.description = model.description.model_copy(update={"settings": TrainSettings(epochs=1)})
    data = gather({"word": codes, "scan": torch.full((20, 3), torch.nan)}, pd.Series(range(20), index=range(5, 25)) % 2)
    assert repr(data) == "Dataset('train', 20 samples: word [1] observed 100%, scan [3] observed 0%)"
    with pytest.warns(UserWarning, match="has class 'never', of which"), pytest.warns(match="has modality 'scan', of"):
        model.fit(data, data)
    with pytest.raises(
        ValueError, match="'word' has torch.float32 values but was trained on int64; give whole numbers"
    ):
        model.predict(gather({"word": codes.float()}))
    with pytest.raises(
        ValueError, match="modality 'word': index out of range .*; give codes that are in its vocabulary"
    ):
        model.predict(gather({"word": codes + 1}))


@unchecked()
def test_whole_numbers_of_a_table_are_standardised_and_a_row_with_blank_cells_is_not_read_whole():
    table, labels = torch.randint(0, 90, (40, 3)), torch.arange(40) % 2
    one, other = (
        GaugePlusClassifier({"table": "columns"}, ["no", "yes"], settings=TrainSettings(epochs=1), verbose=False)
        .fit(gather({"table": values}, labels))
        .predict_proba(gather({"table": values}))
        for values in (table, pd.DataFrame(table.numpy()))
    )
    np.testing.assert_allclose(one, other, atol=1e-5)
    blank = gather({"table": torch.where(table > 80, torch.nan, table.float())}, labels)
    with pytest.raises(ValueError, match="of 'table' are blank, and its encoder reads them together; use 'columns'"):
        GaugePlusClassifier({"table": nn.Linear(3, 4)}, ["no", "yes"]).fit(blank)


@unchecked()
def test_values_that_would_be_read_otherwise_than_in_training_are_refused():
    bytes_, labels = torch.randint(0, 256, (20, 1, 2, 2), dtype=torch.uint8), torch.arange(20) % 2
    codes = torch.randint(2, 64, (20, 3))
    images = {"bytes": bytes_, "from 0 to 1": bytes_ / 255, "up to 255": bytes_.float()}
    encoders = {"photo": nn.Flatten(), "note": "tokens"}
    settings = TrainSettings(epochs=1)
    for known in images:
        model = GaugePlusClassifier(encoders, ["no", "yes"], settings=settings, verbose=False)
        model.fit(gather({"photo": images[known], "note": codes}, labels))
        for given in images:
            if (known == given) or "up to 255" not in (known, given):
                model.predict(gather({"photo": images[given]}))
            elif "bytes" in (known, given):
                with pytest.raises(
                    ValueError, match="'photo' has .* and bytes are read as numbers from 0 to 1; convert"
                ):
                    model.predict(gather({"photo": images[given]}))
        with pytest.raises(ValueError, match="'photo' has torch.int64 values but was trained on .*; convert them"):
            model.predict(gather({"photo": bytes_.long()}))
        with pytest.raises(ValueError, match="'note' has word numbers from 62 to 125, .* those from 0 to 63; give"):
            model.predict(gather({"note": torch.tensor([[62, 100, 125]])}))


@unchecked()
def test_what_is_missing_does_not_change_how_a_table_is_standardised():
    """Zeros stand behind flags, and columns far from 0 were read as if half of their values were 0."""
    table, labels = 1000 + torch.randn(40, 3), torch.arange(40) % 2
    table[labels == 1] += 2
    lists = [None if row % 3 == 2 else values for row, values in enumerate(table)]
    absent = torch.tensor([each is None for each in lists])
    for given in (lists, [None if each is None else each.double().numpy() for each in lists]):
        data, settings = gather({"blood": given, "other": torch.rand(40, 2)}, labels), TrainSettings(epochs=1)
        model = GaugePlusClassifier({"blood": "mlp", "other": nn.Linear(2, 4)}, ["no", "yes"], settings=settings)
        encoder = model.fit(data, data).module_.encoder.encoders["blood"]
        np.testing.assert_allclose(encoder.center, table[~absent].mean(0), rtol=1e-5)
        np.testing.assert_allclose(encoder.scale, table[~absent].std(0, correction=0), rtol=1e-2)
    double = replace(data, inputs={name: values.double() for name, values in data.inputs.items()})
    np.testing.assert_allclose(model.predict_proba(double), model.predict_proba(data), atol=1e-5)


@unchecked()
def test_a_category_that_the_encoder_has_not_is_refused_and_whole_numbers_are_exported(tmp_path):
    codes = torch.stack([torch.arange(40) % 4, torch.arange(40)], 1)
    encoders, settings = {"table": ("cells", {"cardinalities": [4, 1]})}, TrainSettings(epochs=1)
    model = GaugePlusClassifier(encoders, ["no", "yes"], settings=settings, verbose=False)
    model.fit(gather({"table": codes}, torch.arange(40) % 2))
    assert export(model, tmp_path / "model.onnx").difference < 1e-5
    for wrong in (4, -1, 1.5):
        table = codes.double()
        table[7, 0] = wrong
        with pytest.raises(ValueError, match=f"sample 7 of 'table' has the category {wrong} in column 0, .* 0 to 3"):
            model.predict(gather({"table": table}))


@unchecked()
def test_groups_are_kept_together_and_a_failed_fit_leaves_the_fitted_model():
    group = torch.arange(60) // 4
    data = replace(gather({"scan": torch.rand(60, 3)}, group % 2), groups=group)
    model = GaugePlusClassifier({"scan": "mlp"}, ["no", "yes"], settings=TrainSettings(epochs=1), verbose=False)
    with torch.no_grad():
        train, val = model._held_out(data)
        model.fit(data)
    assert not {*train.groups.tolist()} & {*val.groups.tolist()}
    assert len(val) == 12
    before = model.predict_proba(data)
    with pytest.raises(ValueError, match="the samples have {'scan': .*resize or rename these"):
        model.fit(gather({"scan": torch.rand(60, 5)}, group % 2), data)
    np.testing.assert_array_equal(model.predict_proba(data), before)


@unchecked()
def test_one_module_for_two_modalities_is_shared_and_frozen_parts_stay_as_they_are(tmp_path):
    body, frozen = nn.Linear(3, 8), nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout())
    frozen.requires_grad_(False)
    data = gather({name: torch.rand(40, 3) for name in ("left", "right", "scan")}, torch.arange(40) % 2)
    encoders = {"left": body, "right": body, "scan": frozen}
    model = GaugePlusClassifier(encoders, ["no", "yes"], settings=TrainSettings(epochs=2), verbose=False).fit(data)
    own = model.module_.encoder.encoders
    assert own["left"].module is own["right"].module
    assert own["left"].module is not body
    for name, values in frozen.state_dict().items():
        assert torch.equal(own["scan"].module.state_dict()[name], values), name
    model.save(tmp_path / "shared.safetensors")
    again = GaugePlusClassifier.load(tmp_path / "shared.safetensors", encoders)
    np.testing.assert_array_equal(again.predict_proba(data), model.predict_proba(data))


@unchecked()
def test_a_missing_modality_is_evaluated_on_samples_that_have_another(tmp_path):
    labels, draw = torch.arange(200) % 2, torch.Generator().manual_seed(0)
    knows, noise = torch.randn(200, 3, generator=draw) + 6 * labels[:, None] - 3, torch.randn(200, 3, generator=draw)
    noise[torch.randperm(200, generator=draw)[:120]] = torch.nan
    data, settings = gather({"knows": knows, "noise": noise}, labels), TrainSettings(epochs=5)
    model = GaugePlusClassifier({"knows": "mlp", "noise": "mlp"}, [0, 1], settings=settings, verbose=False).fit(data)
    lines = model.evaluate(data)
    assert lines["samples"].tolist() == [200, 80, 200]
    assert lines["accuracy"]["missing=noise"] > 0.95
    assert lines["accuracy"]["missing=knows"] < 0.7, "samples without the noise kept what they know"
    noisy = model.evaluate(data, ["missing=knows", "missing=knows,noisy=0.1"])
    assert noisy["samples"].tolist() == [80, 80]
    alone = model.evaluate(gather({"knows": knows}, labels))
    assert alone["samples"].tolist() == [200, 0, 200]
    assert np.isnan(alone["accuracy"]["missing=knows"])
    with pytest.raises(ValueError, match="a dataset in files has no masks of its own"):
        write_dataset(str(tmp_path / "files"), [replace(data, masks={"eta=0.5": data.observed})])
    write_dataset(str(tmp_path / "files"), [data])
    assert read_dataset(str(tmp_path / "files")).fingerprint == data.fingerprint
    for rows in ([], [200], [-1], 5, torch.ones(200, dtype=torch.bool), [0.5]):
        with pytest.raises(ValueError, match=r"take\(\) needs a list of numbers of samples, from 0 to 199, not "):
            data.take(rows)


@unchecked()
def test_the_graph_of_a_network_is_not_served_as_that_of_a_table(tmp_path):
    data = gather({"image": torch.rand(20, 1, 8, 8)}, torch.arange(20) % 2)
    settings = TrainSettings(epochs=1)
    with pytest.raises(ValueError, match=r"side 8 is too small for 3 halvings and a pool; give fewer channels than \("):
        GaugePlusClassifier({"image": "conv_grid"}, [0, 1], settings=settings, verbose=False).fit(data)
    encoder = ("conv_grid", {"channels": (8, 16)})
    model = GaugePlusClassifier({"image": encoder}, [0, 1], settings=settings, verbose=False).fit(data)
    export(model, tmp_path / "model.onnx")
    with pytest.raises(ValueError, match="model.onnx has no table to read, as that of a GaugePlus; run it by onnxrun"):
        ExportedClassifier(tmp_path / "model.onnx")
    with pytest.raises(ValueError, match="'image' goes up to 255, in training from 0 to 1; scale it alike, or give"):
        model.predict(gather({"image": torch.full((3, 1, 8, 8), 255.0)}))
    model.predict(gather({"image": torch.full((3, 1, 8, 8), 1.2)}))


@unchecked()
def test_a_recurrent_encoder_is_exported_and_a_sample_of_which_nothing_is_known_has_no_prediction(tmp_path):
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.LSTM(2, 4, batch_first=True)

        def forward(self, signal):
            return self.layer(signal)[0]

    data = gather({"signal": torch.randn(20, 6, 2)}, torch.arange(20) % 2)
    settings = TrainSettings(epochs=1)
    model = GaugePlusClassifier({"signal": Recurrent()}, ["no", "yes"], settings=settings, verbose=False).fit(data)
    assert export(model, tmp_path / "model.onnx").difference < 1e-5
    feed = {"inputs.signal": np.zeros((2, 6, 2), np.float32), "observed.signal": np.array([True, False])}
    session = pytest.importorskip("onnxruntime").InferenceSession(tmp_path / "model.onnx")
    probabilities = session.run(["probabilities"], feed)[0]
    assert np.isnan(probabilities).all(1).tolist() == [False, True]


@unchecked()
def test_no_batch_has_a_single_sample_which_batch_norm_cannot_learn_from():
    data = gather({"scan": torch.rand(41, 3)}, torch.arange(41) % 2)
    encoder = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8))
    settings = TrainSettings(epochs=1, batch_size=10)
    model = GaugePlusClassifier({"scan": encoder}, ["no", "yes"], settings=settings, verbose=False)
    assert len(model.fit(data, data).history_) == 1


@unchecked()
@pytest.mark.parametrize("labels", [np.array([3, 12, 7]), np.array([False, True]), np.array(["ill", "well"])])
def test_predictions_are_labels_as_they_were_given(labels, tmp_path):
    given = np.resize(labels, 30)
    names, numbers = np.unique(given, return_inverse=True)
    data = gather({"scan": np.eye(len(labels))[numbers]}, numbers)
    settings = TrainSettings(epochs=20, learning_rate=1e-2)
    model = GaugePlusClassifier({"scan": "mlp"}, names, settings=settings, verbose=False).fit(data, data)
    model.save(tmp_path / "labels.safetensors")
    for each in (model, GaugePlusClassifier.load(tmp_path / "labels.safetensors")):
        assert (each.predict(data) == given).all()
    assert {row.label for row in model.explain(data).rows} == {*map(str, given.tolist())}


@unchecked()
def test_a_classifier_that_cannot_be_trained_says_why():
    encoders, data = {"scan": "mlp"}, gather({"scan": torch.ones(4, 3)}, [0, 1, 0, 1])
    several = [torch.tensor([0, 1]), 2], [np.array([0, 1]), 2]
    for classes in (2, "ab", ["a"], ["a", "a"], {"a", "b"}, {"a": 0, "b": 1}, ["a", None], *several):
        with pytest.raises(ValueError, match="classes are the names of two classes or more, each once, not "):
            GaugePlusClassifier(encoders, classes)
    for wrong in ({"encoders": ["mlp"]}, {"encoders": encoders, "settings": {"epochs": 1}}):
        with pytest.raises(ValueError, match=r"encoders are {modality: name, .*, settings are TrainSettings\(...\)"):
            GaugePlusClassifier(classes=["a", "b"], **wrong)
    with pytest.raises(ValueError, match=r"modalities cannot be named \['type', 'values'\], .*; rename them"):
        GaugePlusClassifier({"values": "mlp", "type": "mlp"}, ["a", "b"])
    with pytest.raises(ValueError, match="modality 'scan': .* unexpected keyword argument 'hiden'"):
        GaugePlusClassifier({"scan": ("mlp", {"hiden": 3})}, ["a", "b"]).fit(data, data)
    with pytest.raises(ValueError, match="String should match pattern"):
        GaugePlusClassifier({"scan.1": "mlp"}, ["a", "b"])
    model = GaugePlusClassifier(encoders, ["a", "b"])
    with pytest.raises(ValueError, match="samples are a Dataset, not a ndarray; call gauge.data.gather"):
        model.fit(data, np.array([0, 1]))
    with pytest.raises(ValueError, match="a fifth of train is held out where val is not given, and train has 4 sam"):
        model.fit(data)
    groups = replace(gather({"scan": torch.ones(40, 3)}, torch.arange(40) % 2), groups=torch.arange(40) % 4)
    with pytest.raises(ValueError, match="a fifth of train is held out .* train has 4 groups; give val"):
        model.fit(groups)
    for call in (model.predict, model.explain, model.evaluate, lambda _: export(model, "model.onnx")):
        with pytest.raises(ValueError, match=r"not fitted; call fit\(train, val\) first"):
            call(data)


@pytest.mark.parametrize("labels", [["ill", "well"], [0.5, 1], [0, torch.nan], [0, None], [[1, 0], [0, 1]], [[0], [1]]])
def test_labels_that_are_no_numbers_of_classes_are_refused(labels):
    with unchecked(), pytest.raises(ValueError, match="labels are numbers of classes, 0, 1, ..., not .*; np.unique"):
        gather({"scan": torch.ones(2, 3)}, labels)
    with unchecked(), pytest.raises(ValueError, match="not 0.5; np.unique"):
        gather({"scan": torch.ones(3, 3)}, np.array([1, 0.5, 2]))


DAYS, nested = pd.to_datetime(["2020-01-01", None]), partial(torch.nested.nested_tensor, layout=torch.jagged)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([torch.ones(3)], r"samples are {name: values} for all, or a pair \({name: value}, label\) for each"),
        (
            [({"scan": torch.ones(3)}, torch.tensor([0, 1])), ({"scan": torch.ones(3)}, torch.tensor([1, 0]))],
            r"labels of shape \[2\] and modalities of {'scan': \[3\]}, .*; align them, or give the label of a single",
        ),
        ({"scan": np.array([[1.0, None]], object)}, "'scan' has values that are no numbers .*; write NaN"),
        ({"scan": [None, None]}, "no sample has 'scan'; leave it out"),
        ({"scan": [[1.0, None], [1.0, 2.0]]}, "'scan' has values that are no numbers .*; write NaN for a missing cell"),
        ({"scan": [torch.ones(2), torch.ones(3)]}, r"have the shapes \[\(2,\), \(3,\)\]; resize or pad them to one"),
        ({"scan": pd.DataFrame({"a": ["x"]})}, "'scan' has values that are no numbers .*; give codes or columns"),
        (
            {"scan": torch.ones(2, 3), "b": torch.ones(3, 3)},
            "modalities have {'scan': 2, 'b': 3} samples, and .*; align",
        ),
        ({"photo": torch.tensor([[[1.0, 2.0]], [[1.0, torch.nan]]])}, "sample 1 of 'photo' is NaN in part"),
        (
            {"scan": [torch.ones(2), torch.ones(2).byte()]},
            "some samples of 'scan' are bytes, from 0 to 255, and others",
        ),
        ({}, "the samples have no modality; give {name: values} with one at least"),
        ({"scan": None}, "'scan' is None, no values of samples; give a tensor, an array, a list or a DataFrame"),
        ({"scan": 3.0}, "'scan' is 3.0, no values of samples; give a tensor"),
        ({"scan": torch.tensor(3.0)}, r"'scan' is tensor\(3.\), no values of samples; give a tensor"),
        ({"scan": torch.ones(2, 0)}, r"the samples of 'scan' have the shape \[0\], without values; leave it out"),
        ({"scan": pd.DataFrame(index=[1, 2])}, r"the samples of 'scan' have the shape \[0\], without values; leave it"),
        (
            {"scan": nested([torch.ones(2), torch.ones(3)])},
            r"have the shapes \[\(2,\), \(3,\)\]; resize or pad them to one",
        ),
        (
            {"day": pd.DataFrame({"d": DAYS})},
            "'day' has values that are no numbers .*'d': 'datetime64.*; give codes or",
        ),
        (
            {"day": pd.DataFrame({"d": DAYS - DAYS[0]})},
            "'day' has values that are no numbers .*'d': 'timedelta64.*; give",
        ),
        ({"day": DAYS.to_numpy()}, "'day' has values that are no numbers .*datetime64.*; give codes or columns"),
        ({"day": pd.Series(DAYS)}, "'day' has values that are no numbers .*datetime64.*; give codes or columns"),
        (
            {"day": np.array([1, 2**63], np.uint64)},
            r"no numbers \(of torch.long, which ends at 2\*\*63 - 1\); give codes",
        ),
        ({"scan": torch.ones(2, 3) * 1j}, "'scan' has complex numbers; give their real and imaginary parts as columns"),
    ],
)
def test_samples_that_cannot_be_gathered_are_refused(samples, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        gather(samples)


@unchecked()
def test_the_type_of_numbers_does_not_change_a_table():
    whole = gather({"table": torch.tensor([[1, 200], [2, 3]])})
    for other in (torch.tensor([[1, 200], [2, 3]]).byte(), [[1, 200], [2.0, 3.0]], pd.DataFrame([[1, 200], [2, 3]])):
        given = gather({"table": other}).batch(torch.arange(2)).inputs["table"]
        assert torch.equal(given.double(), whole.inputs["table"].double())
    ages = gather({"age": pd.Series([7.5, None, 9.0]), "scan": torch.ones(3, 2)})
    assert (ages.shapes["age"], ages.observed["age"].tolist()) == ((1,), [True, False, True])


def test_pairs_and_loaders_of_them_give_the_same_samples():
    pairs = [({"scan": torch.full((2,), float(row)), "note": torch.tensor([row])}, row % 2) for row in range(5)]
    one, other = gather(pairs), gather(DataLoader(pairs, batch_size=2))
    assert one.fingerprint == other.fingerprint
    apart = gather([({"scan": torch.ones(2)}, 0), ({"note": torch.ones(1)}, 1)])
    assert apart.observed["note"].tolist() == [False, True]


@unchecked()
def test_a_mask_hides_what_it_masks_and_changes_nothing_else():
    whole, byte = np.array([[1, 2], [3, 4]]), np.zeros((2, 1, 2, 2), np.uint8)
    data = gather({"codes": np.ma.array(whole), "photo": np.ma.array(byte), "rows": list(np.ma.array(whole))})
    assert [data.inputs[name].dtype for name in data.inputs] == [torch.int64, torch.uint8, torch.int64]
    masked = np.ma.array(whole, mask=[[True, False], [False, False]])
    pairs = [({"cells": row}, 0) for row in masked]
    for given in ({"cells": masked}, {"cells": list(masked)}, pairs):
        assert gather(given).observed["cells"].tolist() == [[False, True], [True, True]]
    some = gather({"row": list(np.ma.array(whole, mask=[[1, 1], [0, 0]])), "one": [2.0, np.ma.masked]})
    assert [flags.tolist() for flags in some.observed.values()] == [[False, True], [True, False]]
    assert some.inputs["row"].dtype == torch.int64


@unchecked()
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, np.ma.masked])
def test_whatever_stands_for_a_missing_array_its_sample_has_none(missing):
    for given in ([np.ones(2), missing], pd.Series([np.ones(2), missing])):
        assert gather({"scan": given, "blood": [1, 2]}).observed["scan"].tolist() == [True, False]
    batches = [({"scan": [torch.ones(2), missing], "blood": torch.ones(2)}, torch.tensor([0, 1]))]
    assert gather(batches).observed["scan"].tolist() == [True, False]


@unchecked()
def test_numbers_that_single_precision_merges_are_told():
    seconds = 1.7e9 + np.arange(300)
    table = pd.DataFrame({"age": np.arange(300), "time": seconds.astype(int)})
    for given, columns in ((seconds, "[0]"), (seconds.tolist(), "[0]"), (seconds.astype(int), "[0]"), (table, "[1]")):
        with pytest.warns(
            UserWarning, match=re.escape(f"columns {columns} of 'time' have different numbers that are the")
        ):
            gather({"time": given})
    for given in (seconds - seconds.min(), 1e5 + np.random.default_rng(0).standard_normal((5000, 2)), [0.3, 0.1 + 0.2]):
        gather({"time": given})


@unchecked()
def test_sparse_tensors_and_labels_in_a_data_frame_are_read():
    data = gather({"words": torch.eye(2).to_sparse()}, pd.DataFrame({"class": [0, 1]}, index=[5, 6]))
    assert (data.inputs["words"].tolist(), data.labels.tolist()) == (torch.eye(2).tolist(), [0, 1])
    assert gather({"words": [torch.ones(2).to_sparse(), None], "b": [1, 2]}).observed["words"].tolist() == [True, False]
    assert gather({"bits": [np.array([7], np.uint16), None], "b": [1, 2]}).inputs["bits"].tolist() == [[7], [0]]
    table = pytest.importorskip("polars").DataFrame({"age": [7, None], "iron": [0.5, 1.0]})
    assert gather({"table": table}).observed["table"].tolist() == [[True, True], [False, True]]


class Labelled(torch.utils.data.Dataset):
    """Images whose labels are tensors of one number."""

    def __len__(self):
        return 3

    def __getitem__(self, row):
        return {"scan": torch.full((1, 4, 5), float(row))}, torch.tensor([row])


class Endless:
    """Without a length: it ends by an IndexError."""

    def __getitem__(self, row):
        return FirstThree()[range(3)[row]]


@unchecked()
def test_a_sample_keeps_its_axes_whatever_the_shape_of_its_label():
    for loader in (Labelled(), DataLoader(Labelled(), batch_size=None)):
        assert (gather(loader).shapes["scan"], gather(loader).labels.tolist()) == ((1, 4, 5), [0, 1, 2])
    pairs = [({"scan": torch.ones(1, 4, 5)}, row) for row in range(3)]
    for size in (1, 2):
        assert gather(DataLoader(pairs, batch_size=size)).shapes["scan"] == (1, 4, 5)
    assert gather(Endless()).labels.tolist() == [0, 1, 0]


class FirstThree(torch.utils.data.Dataset):
    """A part of what it could give, as its length says."""

    def __len__(self):
        return 3

    def __getitem__(self, row):
        return {"scan": torch.full((2,), float(row))}, row % 2


def test_a_dataset_ends_at_its_length_and_what_is_masked_or_has_gradients_is_read_as_it_is_meant():
    assert gather(FirstThree()).labels.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="labels are given twice, in the pairs and as labels="):
        gather(FirstThree(), labels=[1, 1, 1])
    masked = np.ma.masked_array(np.ones((2, 3)), mask=[[True, False, False], [False] * 3])
    assert gather({"blood": masked}).observed["blood"].tolist() == [[False, True, True], [True] * 3]
    assert not gather({"features": nn.Linear(2, 2)(torch.ones(3, 2))}).inputs["features"].requires_grad
    names = ["ann", "bob", "ann"]
    for groups in (torch.zeros(2, dtype=torch.long), torch.zeros(3), [0, 1], names, np.array(names), pd.Series(names)):
        rule = r"groups are a whole number for each of 3 samples, not .* of shape .*as pd.factorize\(groups\)\[0\] does"
        with unchecked(), pytest.raises(ValueError, match=rule):
            replace(gather(FirstThree()), groups=groups)
    for groups in (pd.Series([4, 4, 7], index=[5, 6, 7]), [4, 4, 7]):
        with unchecked():
            assert replace(gather(FirstThree()), groups=groups).groups.tolist() == [4, 4, 7]


@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_a_module_of_ones_own_reads_zeros_for_samples_without_the_table(offset):
    table = torch.randn(20, 4) + offset
    table[::2] = torch.nan
    data, given = gather({"table": table, "scan": torch.rand(20, 3)}, torch.arange(20) % 2), []
    module = nn.Linear(4, 8)
    module.register_forward_hook(lambda module, inputs, made: given.append(inputs[0]))
    model = GaugePlusClassifier(
        {"table": module, "scan": "mlp"}, [0, 1], settings=TrainSettings(epochs=1), verbose=False
    )
    with unchecked():
        model.fit(data).predict(data)
    assert (given[-1][::2] == 0).all()
    assert given[-1].abs().max() < 10


def test_words_of_a_sequence_of_codes_are_left_out_as_units_and_not_read_as_another_word():
    codes, draw = torch.randint(1, 9, (40, 5), generator=torch.Generator().manual_seed(0)), nn.Embedding(9, 8)
    data = gather({"words": codes, "blood": torch.rand(40, 3)}, (codes[:, 0] > 4).long())
    settings = TrainSettings(epochs=3, learning_rate=1e-2)
    with unchecked():
        model = GaugePlusClassifier({"words": draw, "blood": "mlp"}, ["a", "b"], settings=settings, verbose=False).fit(
            data
        )
        units = model.explain(data.take([0])).rows[0].units
    assert [unit.name for unit in units[:5]] == [f"part {number}" for number in range(1, 6)]
    model.module_.requires_grad_(False)
    reading = model.module_.read(model._on_device(data.take([0])).batch(torch.arange(1)))
    own, visible = model.module_.decide(reading).logits.softmax(1), reading.units.observed.clone()
    visible[:, 0] = False
    without = model.module_.decide(_hidden(model.module_, reading, visible)).logits.softmax(1)
    assert units[0].used == pytest.approx(float((own - without)[0, own.argmax()]), abs=1e-6)


class Lookup(nn.Module):
    """A layer on rows of a table that is no part of the saved weights."""

    def __init__(self, table):
        super().__init__()
        self.layer, self.table = nn.Linear(4, 8), nn.Buffer(table, persistent=False)

    def forward(self, values):
        return self.layer(self.table[values[:, 0]])


@unchecked()
def test_a_loaded_encoder_of_codes_that_computes_something_else_is_refused(tmp_path):
    labels, zeros = torch.arange(40) % 2, torch.zeros(20, 4)
    other = zeros.clone()
    other[1:] = 3  # the row of code 0 is the same
    settings = TrainSettings(epochs=1)
    model = GaugePlusClassifier({"word": Lookup(zeros)}, [0, 1], settings=settings, verbose=False)
    model.fit(gather({"word": torch.arange(40)[:, None] // 2}, labels)).save(tmp_path / "model.safetensors")
    GaugePlusClassifier.load(tmp_path / "model.safetensors", {"word": Lookup(zeros)})
    with pytest.raises(ValueError, match=r"differ by .* although all weights fit; build your encoders for \['word'\]"):
        GaugePlusClassifier.load(tmp_path / "model.safetensors", {"word": Lookup(other)})


@unchecked()
def test_an_example_is_in_the_range_of_training(tmp_path):
    table = pd.DataFrame({"a": np.arange(40) % 4, "b": 1000 + np.arange(40), "c": np.nan})
    table.loc[3, "b"] = np.nan
    codes, signal = torch.arange(40)[:, None] % 9 + torch.tensor([[0, 50]]), 5 + torch.rand(40, 1, 6)
    data = gather({"table": table, "codes": codes, "signal": signal}, torch.arange(40) % 2)
    encoders = {"table": ("cells", {"cardinalities": [4, 1, 1]}), "codes": "mlp", "signal": nn.Flatten()}
    model = GaugePlusClassifier(encoders, [0, 1], settings=TrainSettings(epochs=1), verbose=False).fit(data)
    example = model.example()
    for name, values in data.inputs.items():
        axes = 0 if values.ndim == 2 else (0, 1, 2)
        for column, own in zip(values.mT, example.inputs[name].mT, strict=True) if axes == 0 else [(values, signal)]:
            known, drawn = column[column.isfinite()], own[own.isfinite()]
            assert not len(known) or known.min() <= drawn.min() <= drawn.max() <= known.max(), name
    assert example.inputs["codes"].max() > 50
    model.save(tmp_path / "model.safetensors")
    again = GaugePlusClassifier.load(tmp_path / "model.safetensors", {"signal": nn.Flatten()})
    np.testing.assert_array_equal(again.predict_proba(data), model.predict_proba(data))


@unchecked()
def test_samples_in_single_precision_are_not_copied_and_one_whole_number_is_shown_as_it_is():
    data = gather({"age": pd.Series(range(40)), "scan": torch.rand(40, 3)}, torch.arange(40) % 2)
    assert _single(data) is data
    encoders, settings = {"age": "mlp", "scan": "mlp"}, TrainSettings(epochs=1)
    model = GaugePlusClassifier(encoders, [0, 1], settings=settings, verbose=False).fit(data)
    assert model.explain(data.take([7])).rows[0].units[0].value == "7"


class Direction(nn.Module):
    def __init__(self, *, least=0.0, root=False):
        super().__init__()
        self.layer, self.least, self.root = nn.Linear(3, 4, bias=False), least, root

    def forward(self, values):
        made = self.layer(values)
        if self.root:
            return made.square().sum(1, keepdim=True).sqrt()
        return made / (made.norm(dim=1, keepdim=True) + self.least)


def test_an_encoder_that_makes_nan_of_missing_samples_is_refused():
    for module in (Direction(), Direction(root=True)):
        with (
            unchecked(),
            pytest.raises(ValueError, match="Direction returns NaN for zeros, which it reads for missing sam"),
        ):
            check_encoder(module, (3,))
    with unchecked(), torch.inference_mode():
        check_encoder(Direction(least=1e-6), (3,))


class Double(nn.Module):
    def forward(self, values):
        return values.double()


class Counting(nn.Flatten):
    def get_extra_state(self):
        return {"calls": 0}


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            nn.Conv2d(1, 4, 3),
            r"returns \[3, 4, 2, 6\] for 3 samples; an encoder returns a tensor, of a vector \[3, c\] or a sequence",
        ),
        (nn.Linear(7, 4), r"cannot read samples of shape \(1, 4, 8\) .* change its layers, or the shape of the data"),
        (
            nn.Sequential(nn.Flatten(), nn.Unflatten(1, (4, 8)), nn.LSTM(8, 4)),
            "returns tuple for 3 samples; an encoder returns a tensor",
        ),
        (nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (3, 32)), nn.Softmax(0)), "sample alone than in a batch|cannot"),
        (
            nn.Embedding(9, 4),
            r"if they are codes, give a tensor of whole numbers \(in check_encoder, dtype=torch.long\)",
        ),
        ("mlp", "an encoder is an nn.Module, not a str"),
        (Counting(), r"Counting has \['_extra_state'\] in its state, no tensors that a file could hold; make buffers"),
        (nn.LazyLinear(4), "LazyLinear has layers that do not know their size; call it once on samples"),
        (
            nn.Sequential(nn.Flatten(), Double()),
            "returns torch.float64, and the network reads torch.float32; end it with",
        ),
    ],
)
def test_a_module_that_is_no_encoder_is_refused(module, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        check_encoder(module, (1, 4, 8))
