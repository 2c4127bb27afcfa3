"""Laws of pre-training: labels and missing values never enter, and a sample teaches what it can."""

from dataclasses import replace

import pytest
import torch
from helpers import CLASSES, DIM, dataset, incomplete_batch, plus, rows_of, unit_encoder, with_hidden

from gauge import Network, Transformer, UnitEncoder, fit
from gauge.encoders.mlp import Mlp
from gauge.plus.pretrainers.self_supervised import SelfSupervised
from gauge.randomness import seeded
from gauge.training.settings import TrainSettings
from gauge.types import UnsupportedError

SETTINGS = TrainSettings(epochs=2, batch_size=6, learning_rate=1e-2)
TABLES = {"table": (1,) * 5}


def pretrainer(**options) -> SelfSupervised:
    model = plus()
    with seeded(0, "pretrainer"):
        return SelfSupervised(model.encoder, model.gauge.classifier, TABLES, projection=4, **options)


def test_no_gradient_is_lost_to_missing_values():
    model = pretrainer()
    sum(model.loss(with_hidden(incomplete_batch(), "nan")).values()).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_rows_without_a_label_are_enough():
    train = dataset("train", 24)
    unlabelled = train.without_labels(torch.ones(24, dtype=torch.bool))
    models = [pretrainer() for _ in range(2)]
    for model, data in zip(models, (train, unlabelled), strict=True):
        fit(model, data, settings=SETTINGS)
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(one, other)


def test_a_method_that_learns_from_labels_refuses_rows_without_one():
    train = dataset("train", 24).without_labels(torch.arange(24) < 7)
    with pytest.raises(ValueError, match="7 of 24 training samples have no label, and GaugePlus learns from labels"):
        fit(plus(), train, settings=SETTINGS)


def test_pre_training_reaches_encoders_and_network_but_not_the_head():
    model = pretrainer()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fit(model, dataset("train", 24), settings=SETTINGS)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert not any(name.startswith("network.head") for name in changed)
    for part in ("encoder.encoders.image", "encoder.encoders.signal", "encoder.encoders.table", "network.backbone"):
        assert any(name.startswith(part) for name in changed), part
    encoder, network = model.release()
    assert all(parameter.requires_grad for part in (encoder, network) for parameter in part.parameters())


def test_a_sample_with_one_modality_is_reconstructed_and_not_matched():
    batch = rows_of(incomplete_batch(), torch.tensor([0, 0]))
    only = {"image": torch.tensor([False, False]), "signal": torch.tensor([False, False])}
    alone = replace(batch, observed={**batch.observed, **only})
    terms = pretrainer().eval().loss(alone)
    assert terms["masked"].item() > 0
    assert terms["contrast"].item() == terms["matching"].item() == 0


def test_what_nothing_can_be_learned_from_is_refused():
    network = Network(Transformer(DIM, heads=2, depth=1), DIM, CLASSES)
    alone = UnitEncoder({"signal": Mlp((7,), DIM)}, DIM)
    with pytest.raises(UnsupportedError, match="the only modality 'signal' has a single unit"):
        SelfSupervised(alone, network)
    with pytest.raises(UnsupportedError, match="'signal' emits 1 units for 7 columns"):
        SelfSupervised(unit_encoder(), network, {"signal": (1,) * 7})
