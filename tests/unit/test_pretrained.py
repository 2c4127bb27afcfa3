"""Pretrained encoders: never changed, explained by their own tokens, saved whole, refused with a cure before training."""

import json
import shutil
import sys

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
import transformers
from helpers import clinic, invoke, mistake, unchecked
from small_transformers import SIZES, SPECIAL
from torch import nn

from gauge import GaugeClassifier
from gauge.encoders._pretrained import PretrainedGrid, PretrainedTokens
from gauge.tabular.table.columns import ReadOptions
from gauge.tabular.table.columns.text import PretrainedText
from gauge.tabular.table.pretrained import Pretrained
from gauge.tabular.table.schema import Schema

NETWORK = {"experts": "network", "trust": False}
pytestmark = pytest.mark.usefixtures("offline")


@pytest.fixture(scope="module")
def table(images):
    return clinic(images, rows=80)


@pytest.fixture(scope="module")
def fitted(table, images, models):
    """A network alone, and one with all experts."""
    options = {"encoders": models, "image_folder": images, "epochs": 1, "random_state": 0, "verbose": False}
    alone = GaugeClassifier(**options, **NETWORK).fit(table, "diagnosis")
    with unchecked():
        return {"alone": alone, "all": GaugeClassifier(**options).fit(table, "diagnosis")}


@pytest.fixture
def texts(models):
    column = pd.Series(["Itches a lot", "grew fast , at night", None, "bleeds"], name="notes")
    return PretrainedText.from_column(column, ReadOptions(models["notes"]))


def test_a_pretrained_encoder_is_not_changed_by_training(fitted, models):
    for model in fitted.values():
        encoders = model.model_.encoder.encoders
        for modality, column in (("text0", "notes"), ("image0", "photo")):
            now = encoders[modality].fine.network.network.state_dict()
            for name, before in transformers.AutoModel.from_pretrained(models[column]).state_dict().items():
                assert torch.equal(now[name], before), name


@pytest.mark.parametrize("experts", ["alone", "all"])
def test_explanations_show_the_tokens_of_the_tokenizer_and_no_special_ones(fitted, table, experts):
    row = int(table["notes"].str.startswith("itches", na=False).to_numpy().argmax())
    explanation = fitted[experts].explain(table[row : row + 20])
    shown = [unit.value for unit in explanation.rows[0].units if unit.column == "notes"]
    assert shown[:7] == ["itch", "es", "a", "lot", ",", "seen", "on"]
    frame = explanation.to_frame()
    assert not set(frame["value"]) & set(SPECIAL)


@pytest.mark.parametrize("experts", ["alone", "all"])
def test_a_saved_classifier_needs_neither_the_models_nor_a_network(fitted, table, images, models, tmp_path, experts):
    model = fitted[experts]
    before = model.predict_proba(table)
    moved = {path: shutil.move(path, f"{path}-moved") for path in models.values()}
    try:
        model.save(tmp_path / "model")
        loaded = GaugeClassifier.load(tmp_path / "model", image_folder=images)
        assert np.array_equal(loaded.predict_proba(table), before)
        assert loaded.explain(table[:5]).to_frame().equals(model.explain(table[:5]).to_frame())
        loaded.save(tmp_path / "again")
        again = GaugeClassifier.load(tmp_path / "again", image_folder=images)
        assert np.array_equal(again.predict_proba(table), before)
    finally:
        for path, moved_path in moved.items():
            shutil.move(moved_path, path)
    assert loaded.encoders == models
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert f"- Pretrained encoders: photo: {models['photo']}, notes: {models['notes']}" in card
    files = {path.suffix for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert files == {".md", ".json", ".jsonl", ".safetensors"}


def test_a_text_is_read_as_the_model_alone_would_read_it(texts, models):
    numbers, available = texts.encode(pd.Series(["grew fast", "", "itches a lot at night"]))
    assert (texts.length, available.tolist(), numbers[1].tolist()) == (4, [True, False, True], [0] * 4)
    encoder = PretrainedTokens(texts.model.network(weights=True), texts.length, texts.prefix, texts.suffix)
    units = encoder(torch.from_numpy(numbers), torch.from_numpy(available))
    alone = transformers.AutoModel.from_pretrained(models["notes"]).eval()
    inputs = texts.model.tokenizer("grew fast", return_tensors="pt")
    with torch.no_grad():
        states = alone(input_ids=inputs["input_ids"]).last_hidden_state
    assert torch.allclose(units[0, :2], states[0, 1:-1], atol=1e-5)
    assert (units[0, 2:] == 0).all()
    assert (units[1] == 0).all()


def test_parts_of_an_image_come_row_by_row_without_cls_and_normalised_as_the_model_expects(models):
    model = Pretrained.for_images(models["photo"])
    assert (model.side, model.mean, model.std) == (32, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    encoder = PretrainedGrid(model.network(weights=True), model.side, model.mean, model.std)
    pixels = torch.rand(2, 3, 32, 32)
    scaled = (pixels - torch.tensor(model.mean).view(3, 1, 1)) / torch.tensor(model.std).view(3, 1, 1)
    with torch.no_grad():
        patches = transformers.AutoModel.from_pretrained(models["photo"]).eval()(scaled).last_hidden_state[:, 1:]
    assert torch.allclose(encoder(pixels, torch.ones(2).bool()), patches, atol=1e-5)


def fit(table, **options):
    return GaugeClassifier(epochs=1, verbose=False, **NETWORK, **options).fit(table, "diagnosis")


def test_what_cannot_be_a_pretrained_encoder_is_refused_with_a_cure(table, models, tmp_path):
    words = table[["notes", "site", "diagnosis"]]
    with pytest.raises(ValueError, match="there is no column to encode 'note'; did you mean 'notes'?"):
        fit(words, encoders={"note": models["notes"]})
    with pytest.raises(ValueError, match="columns of kind text and image, but 'site' is of kind 'category'; remove"):
        fit(words, encoders={"site": models["notes"]})
    with pytest.raises(ValueError, match="no config can be read from '.*nowhere'.*; give the name of a model on the"):
        fit(words, encoders={"notes": tmp_path / "nowhere"})
    with pytest.raises(ValueError, match="no config can be read from 'nobody/nothing'"):
        fit(words, encoders={"notes": "nobody/nothing"})
    with pytest.raises(ValueError, match="no tokenizer can be read from '.*vit'"):
        fit(words, encoders={"notes": models["photo"]})
    shutil.copytree(models["notes"], tmp_path / "bare")
    (tmp_path / "bare" / "tokenizer.json").unlink()
    (tmp_path / "bare" / "tokenizer_config.json").unlink()
    with pytest.raises(ValueError, match="bare' has no tokenizer.json, .*; save a fast tokenizer beside the model"):
        fit(words, encoders={"notes": tmp_path / "bare"})
    shutil.copytree(models["notes"], tmp_path / "empty")
    (tmp_path / "empty" / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="no network can be read from '.*empty'"):
        fit(words, encoders={"notes": tmp_path / "empty"})


def test_code_that_comes_with_a_model_is_never_run(models, tmp_path):
    shutil.copytree(models["photo"], tmp_path / "own")
    config = json.loads((tmp_path / "own" / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "code.Mine", "AutoModel": "code.Model"}}
    (tmp_path / "own" / "config.json").write_text(json.dumps(config))
    (tmp_path / "own" / "code.py").write_text("raise SystemExit('ran')")
    with pytest.raises(ValueError, match="no config can be read from"):
        Pretrained.for_images(str(tmp_path / "own"))


def rewritten(source, target, **changes):
    """A copy of a folder whose config says something else."""
    shutil.copytree(source, target)
    config = json.loads((target / "config.json").read_text()) | changes
    (target / "config.json").write_text(json.dumps(config))
    return target


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": 3}, "16 of its weights are missing, first '.*layers?.2"),
        ({"num_hidden_layers": 1}, "16 of its weights are more than its config has, first '.*layers?.1"),
        ({"hidden_size": 32}, "37 of its weights are of another shape"),
        ({"hidden_size": "16"}, "no (config|network) can be read from .*got str"),
        ({"num_attention_heads": 0}, "no network can be read from .*by zero"),
        ({"image_size": 100_000}, "reads images of 100000 pixels; use a model of at most 2048"),
        ({"model_type": "timm_wrapper", "architecture": "resnet18"}, "no config can be read from"),
    ],
)
def test_a_config_that_does_not_fit_its_weights_is_refused(models, tmp_path, change, message):
    folder = rewritten(models["photo"], tmp_path / "other", **change)
    with pytest.raises(ValueError, match=message):
        Pretrained.for_images(str(folder)).network(weights=True)


def test_weights_are_read_from_safetensors_alone_in_one_file_or_several(models, tmp_path):
    network = transformers.AutoModel.from_pretrained(models["photo"])
    network.save_pretrained(tmp_path / "several", max_shard_size="5KB")
    assert len(list((tmp_path / "several").glob("*.safetensors"))) > 1
    several = Pretrained.for_images(str(tmp_path / "several")).network(weights=True)
    assert all(torch.equal(several.state_dict()[name], values) for name, values in network.state_dict().items())
    for name, content in (("pickled", None), ("cut", b"{"), ("renamed", {"my.weight": torch.zeros(2)})):
        folder = shutil.copytree(models["photo"], tmp_path / name)
        weights = folder / "model.safetensors"
        if content is None:
            weights.unlink()
            torch.save(network.state_dict(), folder / "pytorch_model.bin")
        elif isinstance(content, bytes):
            weights.write_bytes(content)
        else:
            safetensors.torch.save_file(content, weights, metadata={"format": "pt"})
        with pytest.raises(ValueError, match=f"no network can be read from '.*{name}'"):
            Pretrained.for_images(str(folder)).network(weights=True)


PROCESSORS = {
    "MobileViT": {},  # reads blue first, and normalises nothing
    "EfficientNet": {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.5, 0.4, 0.3], "rescale_offset": True},
    "ViT": {"do_normalize": False},
    "Beit": {"do_rescale": False, "image_mean": [120.0, 110.0, 100.0], "image_std": [50.0, 60.0, 70.0]},
    "ConvNext": {"image_mean": 0.4, "image_std": 0.3},
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_colours_are_those_that_the_image_processor_of_the_model_makes(name, models, tmp_path):
    names = (f"{name}ImageProcessor{kind}" for kind in ("Pil", ""))  # the first since transformers 5.4
    processor = next(getattr(transformers, each) for each in names if hasattr(transformers, each))(**PROCESSORS[name])
    folder = shutil.copytree(models["photo"], tmp_path / "model")
    processor.save_pretrained(folder)
    model = Pretrained.for_images(str(folder))
    pixels = np.random.default_rng(0).integers(0, 256, (3, 32, 32)).astype(np.uint8)
    expected = processor(pixels, do_resize=False, do_center_crop=False, return_tensors="pt")["pixel_values"]
    seen = []

    class Seen(nn.Module):
        def forward(self, pixel_values):
            seen.append(pixel_values)
            return transformers.modeling_outputs.BaseModelOutput(last_hidden_state=pixel_values)

    encoder = PretrainedGrid(Seen(), 32, model.mean, model.std, bgr=model.bgr)
    encoder(torch.from_numpy(pixels)[None] / 255, torch.ones(1).bool())
    torch.testing.assert_close(seen[-1], expected.float(), rtol=1e-4, atol=1e-4)
    loaded = Pretrained.from_json(json.loads(json.dumps(model.to_json())), tmp_path / "none")
    assert (loaded.mean, loaded.std, loaded.bgr) == (model.mean, model.std, model.bgr)


CLIP = {"vision_config": {**SIZES, "image_size": 32, "patch_size": 8}, "text_config": {**SIZES, "vocab_size": 20}}
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "vocab_size": 20}


def test_of_a_model_of_texts_and_images_or_an_encoder_decoder_the_part_that_reads_is_used(models, tmp_path):
    clip = transformers.CLIPModel(transformers.CLIPConfig(**CLIP)).eval()
    clip.save_pretrained(shutil.copytree(models["notes"], tmp_path / "clip"))
    seeing = Pretrained.for_images(str(tmp_path / "clip"))
    reading = Pretrained.for_texts(str(tmp_path / "clip"))
    t5 = transformers.T5EncoderModel(transformers.T5Config(**T5)).eval()
    t5.save_pretrained(shutil.copytree(models["notes"], tmp_path / "t5"))
    pixels, words = torch.rand(1, 3, seeing.side, seeing.side), torch.tensor([[2, 5, 6, 3]])
    for model, own, inputs in (
        (seeing, clip.vision_model, {"pixel_values": pixels}),
        (reading, clip.text_model, {"input_ids": words}),
        (Pretrained.for_texts(str(tmp_path / "t5")), t5, {"input_ids": words}),
    ):
        network = model.network(weights=True).eval()
        with torch.no_grad():
            torch.testing.assert_close(network(**inputs).last_hidden_state, own(**inputs).last_hidden_state)
        assert not any("decoder" in name for name, _ in network.named_parameters())
        assert network.state_dict().keys() == model.network(weights=False).state_dict().keys()


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(models, tmp_path):
    config = transformers.BertConfig(vocab_size=18, **SIZES)
    transformers.BertModel(config).save_pretrained(shutil.copytree(models["notes"], tmp_path / "small"))
    column = PretrainedText.from_column(pd.Series(["itches a lot"]), ReadOptions(str(tmp_path / "small")))
    with pytest.raises(ValueError, match="BertModel does not read texts of 4 tokens with numbers below 20"):
        column.encoder(8, (), weights=True)


def test_networks_that_read_a_random_part_or_return_nan_are_refused():
    config = {**SIZES, "image_size": 32, "patch_size": 8}
    with pytest.raises(ValueError, match="ViTMAEModel gives a different output each time"):
        PretrainedGrid(transformers.ViTMAEModel(transformers.ViTMAEConfig(**config)), 32)
    network = transformers.ViTModel(transformers.ViTConfig(**config))
    nn.init.constant_(network.layernorm.weight, torch.nan)
    with pytest.raises(ValueError, match="ViTModel gives an output with NaN or infinity; give a model without such"):
        PretrainedGrid(network, 32)


def test_without_transformers_the_extra_is_named_and_other_tables_are_served(table, models, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ValueError, match=r"encoders need transformers; install it with: pip install 'gauge-ml\[hf\]'"):
        fit(table[["notes", "diagnosis"]], encoders={"notes": models["notes"]})
    assert Schema.from_frame(table[["notes"]]).columns[0].kind == "text"


def test_the_command_line_names_encoders_by_column(table, models, tmp_path):
    table[["age", "notes", "diagnosis"]].to_csv(tmp_path / "train.csv", index=False)
    fit = ["fit", "train.csv", "--target", "diagnosis", "--epochs", "1", "--out", "model"]
    fit += ["--experts", "network"]
    assert "--encoder 'notes' is not NAME=VALUE" in mistake(*fit, "--encoder", "notes", cwd=tmp_path)
    invoke(*fit, "--encoder", f"notes={models['notes']}", cwd=tmp_path)
    about = json.loads((tmp_path / "model" / "model.json").read_text())
    assert about["options"]["encoders"] == {"notes": models["notes"]}


def test_loading_never_reaches_the_network(table, models, tmp_path, monkeypatch):
    model = fit(table[["age", "notes", "diagnosis"]], encoders={"notes": models["notes"]})
    model.save(tmp_path)

    connections = []

    def connect(*address, **_):
        connections.append(address)
        raise OSError("no network")

    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("socket.socket.connect", connect)
    monkeypatch.setattr("socket.getaddrinfo", connect)
    again = GaugeClassifier.load(tmp_path)
    assert not connections
    assert np.array_equal(again.predict_proba(table), model.predict_proba(table))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"backbone": "microsoft/resnet-50"}, "its config sets 'backbone' to 'microsoft/resnet-50', which may be read"),
        ({"attn_implementation": "kernels-community/flash-attn"}, "its config sets 'attn_implementation'"),
        ({"auto_map": {"AutoModel": "code.Model"}}, "its config sets 'auto_map'"),
        ({"num_hidden_layers": 10**6}, "its config sets 'num_hidden_layers' to 1000000; at most 256 is supported"),
        ({"vocab_size": 10**12}, "its config sets 'vocab_size'"),
        ({"hidden_size": 10**6, "num_attention_heads": 1}, "parameters, the limit is 4,000,000,000"),
    ],
)
def test_configs_ask_for_nothing_from_elsewhere_and_for_bounded_sizes(models, change, message):
    config = Pretrained.for_images(models["photo"]).config
    with pytest.raises(ValueError, match=message):
        Pretrained("saved", {**config, **change}).network(weights=False)
