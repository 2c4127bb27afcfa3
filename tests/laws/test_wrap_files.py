"""Wrapped models as files: what is loaded or exported answers as the model it came from, and what was changed is refused."""

import json
import shutil

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from helpers import unchecked
from small_transformers import batch, small
from torch import nn

from gauge import export_wrapped, load_wrapped, save_wrapped, wrap
from gauge.paper.gauge import Gate
from gauge.paper.scoring.gradient_norm import gradient_norm
from gauge.randomness import seeded
from gauge.training import checkpoint

pytest.importorskip("transformers")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.mix = nn.Linear(16, 48), nn.Sequential(nn.Linear(16, 16), nn.GELU())

    def forward(self, states):
        query, key, value = self.project(states)[:, None].chunk(3, -1)
        return states + self.mix(F.scaled_dot_product_attention(query, key, value)[:, 0])


class Own(nn.Module):
    """A classifier of one's own."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(4, 16), nn.Linear(16, 3)
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        states = self.embed(x)
        for block in self.blocks:
            states = block(states)
        return self.head(states[:, 0])


class Choosing(Own):
    """What it computes depends on the values of its input."""

    def forward(self, x):
        return super().forward(x if x.sum() > 0 else -x)


class Padded(nn.Module):
    """torch's encoder of texts, which gets their padding."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.embed, self.head = nn.Embedding(20, 16), nn.Linear(16, 3)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, input_ids, attention_mask):
        return self.head(self.encoder(self.embed(input_ids), src_key_padding_mask=attention_mask == 0)[:, 0])


class Hiding(Padded):
    """The same with a mask that is True at padding."""

    def forward(self, input_ids, padding):
        return super().forward(input_ids, ~padding)


def own(kind=Own):
    with seeded(0, "own"):
        return kind().eval(), {"x": torch.rand(2, 5, 4)}


def trained(model):
    """A wrapped model whose gates are not those of a new one."""
    return wrap(model, gate=Gate(threshold=0.3), score=gradient_norm, max_leak=0.04)


@pytest.mark.parametrize("name", ["Bert", "ViT", "Dinov2"])
def test_a_loaded_model_answers_as_the_one_that_was_saved(name, tmp_path):
    wrapped, inputs = trained(small(name)), batch(name)
    expected = wrapped.predict(**inputs)
    save_wrapped(wrapped, tmp_path / "model")
    loaded = load_wrapped(tmp_path / "model", type(wrapped.model).from_pretrained(tmp_path / "model").eval())
    assert (loaded.score, loaded.max_leak, loaded.leak) == (gradient_norm, 0.04, wrapped.leak)
    assert (loaded.average is not None) == (name == "Dinov2")
    answers = loaded.predict(**inputs)
    assert torch.equal(answers.logits, expected.logits)
    assert torch.equal(answers.gates, expected.gates)
    assert not list((tmp_path / "model").glob("*.bin"))


def test_a_model_of_another_library_is_saved_with_its_weights_and_given_to_load(tmp_path):
    model, inputs = own()
    wrapped = trained(model)
    with unchecked():
        expected = wrapped.predict(**inputs).logits
    save_wrapped(wrapped, tmp_path)
    other = Own().eval()
    with pytest.raises(ValueError, match="this Own differs in weights or settings from the Own .*; read it from there"):
        load_wrapped(tmp_path, other)
    other.load_state_dict(safetensors.torch.load_file(tmp_path / "model.safetensors"))
    with unchecked():
        assert torch.equal(load_wrapped(tmp_path, other).predict(**inputs).logits, expected)


def change_config(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_attention_heads": 4}))


def change_byte(name):
    def change(folder):
        content = bytearray((folder / name).read_bytes())
        content[-1] ^= 1
        (folder / name).write_bytes(content)

    return change


def forge(**changes):
    """Changes the settings beside the gates, or the gates, and renews the checksum."""

    def change(folder):
        tensors, settings = checkpoint.load(folder / "gauge.safetensors")
        tensors |= {name: value for name, value in changes.items() if name in tensors}
        settings |= {name: value for name, value in changes.items() if name not in tensors}
        checkpoint.save(folder / "gauge.safetensors", tensors, settings)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_config, "BertForSequenceClassification differs in weights or settings from the Bert"),
        (change_byte("model.safetensors"), "BertForSequenceClassification differs in weights or settings from the"),
        (change_byte("gauge.safetensors"), "gauge.safetensors is damaged or has another format; save the wrapped"),
        (lambda folder: (folder / "gauge.safetensors").unlink(), r"has no gauge.safetensors\); give a folder that"),
        (
            lambda folder: shutil.copy(folder / "model.safetensors", folder / "gauge.safetensors"),
            "gauge.safetensors is damaged or has another format",
        ),
        (forge(wrapped="gauge-wrapped-2"), "gauge.safetensors is damaged or has another format"),
        (forge(fixed=-1), "gauge.safetensors is damaged or has another format"),
        (forge(score="taylr"), "there is no scorer 'taylr'"),
        (forge(threshold=torch.tensor(torch.nan)), "has gates that are NaN or infinite; train the wrapped model again"),
        (forge(threshold=torch.zeros(2)), r"threshold is float32 \[2\], the model has float32 \[\]"),
    ],
)
def test_changed_files_are_refused(tmp_path, change, message):
    model = small("Bert")
    save_wrapped(wrap(model), tmp_path)
    change(tmp_path)
    with pytest.raises(ValueError, match=message):
        load_wrapped(tmp_path, type(model).from_pretrained(tmp_path))


def test_a_scorer_without_a_name_is_not_saved(tmp_path):
    def mine(classifier, tokens):
        return gradient_norm(classifier, tokens)

    with pytest.raises(ValueError, match="the scorer mine has no name to save; register it with @SCORERS.register"):
        save_wrapped(wrap(small("Bert"), score=mine), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Bert", "DistilBert", "ViT", "Dinov2", "Torch", "Hiding"])
def test_an_exported_model_gives_the_predictions_scores_and_gates_of_the_wrapped_one(name, tmp_path):
    session = pytest.importorskip("onnxruntime").InferenceSession
    with seeded(0, "torch"):
        kind = {"Torch": Padded, "Hiding": Hiding}.get(name)
        model, inputs = (kind().eval(), batch("Bert")) if kind else (small(name), batch(name))
    if name == "Hiding":
        inputs["padding"] = inputs.pop("attention_mask") == 0
    wrapped = wrap(model, gate=Gate(threshold=0.3))
    with unchecked():
        exported = export_wrapped(wrapped, tmp_path / "model.onnx", inputs)
    assert exported.difference < 1e-5
    run = session(exported.path).run
    for count in (1, 2, 9):
        rows = {key: values[torch.arange(count) % 2] for key, values in inputs.items()}
        if "input_ids" in rows:  # padding elsewhere than in the example
            rows["padding" if name == "Hiding" else "attention_mask"][0, 3:] = name == "Hiding"
        own = wrapped.predict(**rows)
        answers = run(list(exported.outputs), {key: values.numpy() for key, values in rows.items()})
        expected = (own.logits, own.logits.softmax(1), own.evidence.scores, own.gates)
        for answer, value in zip(answers, expected, strict=True):
            assert np.abs(answer - value.numpy()).max() < 1e-5


def test_what_cannot_be_exported_is_refused(tmp_path):
    model, inputs = own(Choosing)
    with unchecked(), pytest.raises(ValueError, match=r"the network cannot be traced \(.+\); components in it must"):
        export_wrapped(wrap(model), tmp_path / "model.onnx", inputs)
    with unchecked(), pytest.raises(ValueError, match="the example has x; give a batch of tensors, by name"):
        export_wrapped(wrap(model), tmp_path / "model.onnx", {"x": [1.0]})
    with (
        unchecked(),
        pytest.raises(ValueError, match="the example is a tuple; give a batch of tensors, by name: {'x': x}"),
    ):
        export_wrapped(wrap(model), tmp_path / "model.onnx", (inputs["x"],))
    with (
        unchecked(),
        pytest.raises(ValueError, match="not show what the head of Choosing reads; give one with a sample"),
    ):
        export_wrapped(wrap(model), tmp_path / "model.onnx", {"x": inputs["x"][:, :2]})
    assert not list(tmp_path.iterdir())
