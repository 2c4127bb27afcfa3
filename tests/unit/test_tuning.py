"""Fine-tuned encoders: what is trained is what was asked for, at the rates that were asked for, and it is what is saved."""

import numpy as np
import pytest
import torch
import transformers
from helpers import assert_equal, clinic, unchecked
from small_transformers import small
from torch import nn
from torch.nn.utils import parametrize

from gauge import AnySubset, Dataset, GaugeClassifier, Network, TrainSettings, Transformer, UnitEncoder, fit
from gauge.encoders._pretrained import PretrainedGrid, PretrainedTokens
from gauge.randomness import seeded

RATES = {"photo": "lora", "notes": "all"}
pytestmark = pytest.mark.usefixtures("offline")


@pytest.fixture(scope="module")
def table(images):
    return clinic(images, rows=60)


@pytest.fixture(scope="module")
def options(models, images):
    return {
        "encoders": models,
        "tune": RATES,
        "image_folder": images,
        "experts": "network",
        "trust": False,
        "epochs": 2,
        "random_state": 0,
        "verbose": False,
    }


@pytest.fixture(scope="module")
def fitted(table, options):
    with unchecked():
        return GaugeClassifier(**options).fit(table, "diagnosis")


def vit():
    return small("ViT").vit


def encoder(tune="head"):
    with seeded(0, "encoder"):
        return PretrainedGrid(vit(), 16).tune(tune)


def method(tune):
    """The laws of training hold for encoders on tensors too."""
    with seeded(0, "method"):
        units = UnitEncoder({"photo": encoder(tune)}, dim=8)
        return AnySubset(units, Network(Transformer(8, heads=2, depth=1), dim=8, num_classes=2), subsets_per_step=1)


@pytest.fixture(scope="module")
def photos():
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(24) % 2
    return Dataset("train", {"photo": torch.rand(24, 3, 16, 16, generator=draw)}, labels)


SETTINGS = TrainSettings(epochs=2, batch_size=8, learning_rate=0.01, schedule="cosine", warm_up=0.25)


def pretrained(model):
    return model.encoder.encoders["photo"].network


@pytest.mark.parametrize("tune", ["head", "lora", "all"])
def test_training_changes_the_weights_that_tune_names_and_no_others(photos, tune):
    model = method(tune)
    before = {name: tensor.clone() for name, tensor in pretrained(model).state_dict().items()}
    fit(model, photos, settings=SETTINGS)
    changed = {name for name, tensor in pretrained(model).state_dict().items() if not torch.equal(tensor, before[name])}
    low_rank = {name for name in before if name.endswith((".up", ".down"))}
    assert (tune == "lora") == bool(low_rank)
    unused = {name for name in before if "pooler" in name or "mask_token" in name}  # the units do not depend on them
    expected = {"head": set(), "lora": low_rank, "all": before.keys() - unused}[tune]
    assert changed == expected


@pytest.mark.parametrize("name", ["Bert", "DistilBert", "ViT", "Dinov2"])
def test_low_rank_changes_start_at_zero_and_are_merged_into_the_weights(name):
    network = small(name).base_model
    image = name in ("ViT", "Dinov2")
    with seeded(0, "low rank"):
        before = PretrainedGrid(network, 16) if image else PretrainedTokens(network, 5, (1,), (2,))
        x = torch.rand(3, 3, 16, 16) if image else torch.randint(0, 20, (3, 5))
        observed = torch.ones(3, dtype=torch.bool)
        plain = before(x, observed)
        tuned = before.tune("lora")
        assert torch.equal(tuned(x, observed), plain)
        changes = [each for each in tuned.network.modules() if parametrize.is_parametrized(each)]
        assert len(changes) == 2 * 4  # query, key, value and output in each of two layers
        for each in changes:
            nn.init.normal_(each.parametrizations.weight[0].up)
        unmerged = tuned(x, observed).detach()
    merged = tuned.tune("head")(x, observed)
    assert not torch.allclose(unmerged, plain, atol=1e-3)
    assert torch.allclose(merged, unmerged, atol=1e-6)
    assert set(merged_names := dict(network.named_parameters())) == set(dict(small(name).base_model.named_parameters()))
    assert not any(parameter.requires_grad for parameter in merged_names.values())


def test_a_saved_classifier_holds_the_tuned_weights(fitted, table, models, images, tmp_path):
    encoders = fitted.model_.encoder.encoders
    for modality, column in (("text0", "notes"), ("image0", "photo")):
        before = transformers.AutoModel.from_pretrained(models[column]).state_dict()
        tuned = encoders[modality].fine.network.network.state_dict()
        assert before.keys() == tuned.keys()
        assert any(not torch.equal(tuned[name], before[name]) for name in before)
    fitted.save(tmp_path)
    loaded = GaugeClassifier.load(tmp_path, image_folder=images)
    assert np.array_equal(loaded.predict_proba(table), fitted.predict_proba(table))
    assert_equal(loaded.model_.state_dict(), fitted.model_.state_dict())
    assert loaded.tune == RATES
    assert not any(each.requires_grad for each in loaded.model_.encoder.encoders["image0"].fine.parameters())
    assert "vit (fine-tuned: lora)" in (tmp_path / "README.md").read_text()


def test_what_cannot_be_tuned_is_refused_with_a_cure(table, options):
    def fit(**changes):
        return GaugeClassifier(**{**options, **changes}).fit(table, "diagnosis")

    with pytest.raises(ValueError, match="there is no tune 'lor'; did you mean 'lora'?"):
        fit(tune="lor")
    with pytest.raises(ValueError, match="there is no pretrained encoder of column 'age'"):
        fit(tune={"age": "lora"})
    with pytest.raises(
        ValueError, match="tune='all' trains pretrained encoders, and there are none; give some with enc"
    ):
        fit(tune="all", encoders=None)
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1], layer_type="basic")
    with pytest.raises(
        ValueError, match="ResNetModel has no attention of nn.Linear modules, .*; use tune='all' or 'head'"
    ):
        PretrainedGrid(transformers.ResNetModel(config), 32).tune("lora")
    layers = {"attn_layers": ["local"], "axial_pos_embds": False, "attention_head_size": 8, "is_decoder": False}
    config = transformers.ReformerConfig(vocab_size=20, hidden_size=16, num_attention_heads=2, **layers)
    with pytest.raises(ValueError, match="no gradient reaches the weights of ReformerModel that tune='lora' trains"):
        PretrainedTokens(transformers.ReformerModel(config), 4).tune("lora")  # it computes its gradients itself
