"""Bad input answers with the rule, the value and the cure; stages that end early or at chance level are reported."""

import logging
import re

import pytest
import torch
from helpers import DIM, SETTINGS, Wobbly, dataset, incomplete_batch, unchecked, unit_encoder

from gauge import Batch, Dataset, UnitEncoder
from gauge.encoders.columns import Columns
from gauge.training.loop import Epoch
from gauge.training.settings import TrainSettings
from gauge.training.stages import Stage, StageStore
from gauge_lab.benchmarks import BENCHMARKS, Overrides, StageOverride
from gauge_lab.experiment import Experiment


def photo(samples: int = 2) -> torch.Tensor:
    return torch.rand(samples, 3, 4, 4)


@pytest.mark.parametrize(
    ("inputs", "observed", "message"),
    [
        ({}, {}, "a batch needs at least one modality"),
        ({"photo": photo()}, {}, r"inputs has modalities \['photo'\] but observed has \[\]"),
        ({"photo": photo()}, {"photo": torch.ones(3).bool()}, r"flag per sample, \[2\], or one per feature, \[2, 3\]"),
        ({"photo": photo()}, {"photo": torch.ones(2)}, "use torch.bool, True where observed"),
        (
            {"photo": photo(), "note": photo(3)},
            {"photo": torch.ones(2).bool(), "note": torch.ones(3).bool()},
            r"inputs\['note'\] holds 3 samples, the first modality 2; align them",
        ),
    ],
)
def test_a_batch_that_does_not_line_up_is_refused(inputs, observed, message):
    with pytest.raises(ValueError, match=message), unchecked():
        Batch(inputs, observed)


def test_a_sample_with_nothing_observed_is_named():
    batch = Batch({"photo": photo()}, {"photo": torch.tensor([True, False])}, index=torch.tensor([4, 17]))
    with pytest.raises(ValueError, match=r"nothing is observed in sample 17 \(1 such in the batch\)"):
        batch.check()
    with pytest.raises(ValueError, match="nothing is observed in sample 2"):
        Dataset("train", {"photo": photo(3)}, torch.zeros(3).long(), {"photo": torch.tensor([True, True, False])})


def test_nan_that_is_marked_observed_is_named_and_nan_that_is_not_is_fine():
    values = photo()
    values[1, 0, 2, 2] = torch.nan
    fine = Batch(
        {"photo": values, "x": torch.ones(2, 1)}, {"photo": torch.tensor([True, False]), "x": torch.ones(2).bool()}
    )
    assert fine.check() is fine
    broken = Batch({"photo": values}, {"photo": torch.ones(2).bool()})
    with pytest.raises(ValueError, match=r"holds 1 NaN .* first in sample 1; set observed\['photo'\] to False"):
        broken.check()


def test_an_encoder_that_emits_other_units_than_it_says_is_named():
    encoder = unit_encoder()
    encoder.unit_counts["signal"] = 2
    with pytest.raises(ValueError, match=r"encoder 'signal' says it emits 2 units but gave a tensor of shape \[6, 1"):
        encoder(incomplete_batch())


def test_flags_that_fit_no_unit_are_explained():
    encoder = UnitEncoder({"table": Columns((17,), DIM)}, DIM)
    encoder.encoders["table"].units = 17
    batch = Batch({"table": torch.rand(2, 12)}, {"table": torch.ones(2, 12).bool()})
    encoder.encoders["table"].forward = lambda x, observed: torch.rand(2, 17, DIM)
    with pytest.raises(ValueError, match=r"17 units but observed\['table'\] marks 12 features; give one flag per unit"):
        encoder(batch)


@pytest.mark.parametrize("names", [["image"], ["table", "image"]])
def test_a_batch_of_other_modalities_or_in_another_order_is_refused(names):
    """In another order the votes of heads would go to other modalities, without a word."""
    encoder = UnitEncoder({name: Columns((3,), DIM) for name in ("image", "table")}, DIM)
    batch = Batch(*(dict.fromkeys(names, values) for values in (torch.rand(2, 3), torch.ones(2).bool())))
    with pytest.raises(
        ValueError, match=rf"{re.escape(str(names))}, the encoder reads \['image', 'table'\]; give the same"
    ):
        encoder(batch)


@pytest.mark.parametrize(
    ("inputs", "labels", "observed", "message"),
    [
        (photo(9), torch.zeros(5).long(), {}, r"inputs\['photo'\] has 9 rows but there are 5 labels; align them"),
        (photo(5), torch.zeros(5).long(), {"photo": torch.ones(8).bool()}, r"observed\['photo'\] has 8 rows but"),
        (photo(5), torch.zeros(5), {}, "class numbers 0, 1, ... or -1 for samples without one, .* not torch.float32"),
        (photo(0), torch.zeros(0).long(), {}, "the train split has no rows"),
    ],
)
def test_a_dataset_that_does_not_line_up_is_refused(inputs, labels, observed, message):
    with pytest.raises(ValueError, match=message), unchecked():
        Dataset("train", {"photo": inputs}, labels, observed)


def test_settings_round_trip_through_yaml_and_refuse_what_they_do_not_know(tmp_path):
    settings = TrainSettings(epochs=3, selection=("complete", "eta=0.8"), learning_rate=3e-4)
    settings.save(tmp_path / "settings.yaml")
    loaded = TrainSettings.load(tmp_path / "settings.yaml")
    assert loaded == settings
    assert loaded.model_fields_set == settings.model_fields_set, (
        "what was not given is for GaugePlusClassifier to choose"
    )
    (tmp_path / "wrong.yaml").write_text("epochs: -1\nlearning_rat: 0.1\n")
    with pytest.raises(ValueError, match="epochs: .* equal to 0, not -1; .* 'learning_rat'; did you mean"):
        TrainSettings.load(tmp_path / "wrong.yaml")
    (tmp_path / "list.yaml").write_text("- 1\n")
    with pytest.raises(ValueError, match="must hold a mapping of settings, not list"):
        TrainSettings.load(tmp_path / "list.yaml")
    with pytest.raises(ValueError, match="there is no file .*absent.yaml"):
        Experiment.load(tmp_path / "absent.yaml")
    with pytest.raises(ValueError, match="^masks: no missingness protocol 'eta=2'"):
        TrainSettings(epochs=1, masks="eta=2")
    with pytest.raises(ValueError, match="Field required; there is no setting 'lr'; known: epochs, batch_size"):
        TrainSettings(lr=3)


def test_overrides_change_one_stage_and_nothing_else():
    benchmark = BENCHMARKS.get("polymnist5k")
    changed = benchmark.with_overrides(Overrides(finetune=StageOverride(epochs=77)))
    assert changed.settings.finetune.epochs == 77
    assert changed.settings.backbone == benchmark.settings.backbone
    with pytest.raises(ValueError, match=r"here: there is no setting 'finetun'; did you mean 'finetune'\?"):
        Overrides.parse({"finetun": {"epochs": 1}}, "here")
    with pytest.raises(ValueError, match=r"here: finetune: there is no setting 'epoch'; did you mean 'epochs'\?"):
        Overrides.parse({"finetune": {"epoch": 1}}, "here")


def epoch(number, score=None):
    return Epoch(number, 100, {"task": 0.5}, score, seconds=1.0)


def make(train) -> Wobbly:
    return Wobbly(4)


def trained(**settings):
    stage = Stage("wobbly", make, {}, SETTINGS.model_copy(update=settings))
    return StageStore(dataset("train", 40), dataset("val", 300, seed=50), None).trained(stage)


def test_a_stage_that_ends_at_chance_level_is_reported(caplog):
    trained(epochs=1, learning_rate=1e-9)
    assert "wobbly ended at chance level: validation accuracy" in caplog.text
    assert "the class frequencies alone give 33.3 %; train for more epochs" in caplog.text


def test_a_stage_that_ends_before_its_last_epoch_is_reported(caplog):
    with caplog.at_level(logging.INFO, "gauge"):
        trained(epochs=50, learning_rate=1e-9, patience=2)
    assert re.search(r"wobbly ended after \d of 50 epochs; epoch \d was the best", caplog.text)
