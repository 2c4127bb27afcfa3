"""Bad input answers with the rule, the value and the cure; good input passes through unharmed."""

import pytest
import torch
from helpers import DIM, incomplete_batch, network, unchecked, unit_encoder

from gauge import Batch, Dataset, Gauge, UnitEncoder
from gauge.choices import pick
from gauge.encoders.columns import Columns
from gauge.imputers.zero import Zero
from gauge.registry import IMPUTERS, KINDS, SCORERS
from gauge.training.settings import TrainSettings
from gauge_lab.benchmarks import BENCHMARKS, Overrides, StageOverride
from gauge_lab.experiment import Experiment


def photo(samples: int = 2) -> torch.Tensor:
    return torch.rand(samples, 3, 4, 4)


@pytest.mark.parametrize(
    ("inputs", "observed", "message"),
    [
        ({}, {}, "a batch needs at least one modality"),
        ({"photo": photo()}, {}, r"inputs has modalities \['photo'\] but observed has \[\]"),
        (
            {"photo": photo()},
            {"photo": torch.ones(3).bool()},
            r"give one flag per sample, \[2\], or one per feature, \[2, 3\]",
        ),
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
    with pytest.raises(
        ValueError, match=r"inputs\['photo'\] holds 1 NaN .* first in sample 1; set observed\['photo'\] to False"
    ):
        broken.check()


def test_an_encoder_that_emits_other_units_than_it_says_is_named():
    encoder = unit_encoder()
    encoder.unit_counts["signal"] = 2
    with pytest.raises(
        ValueError, match=r"encoder 'signal' says it emits 2 units but gave a tensor of shape \[6, 1, 8\]"
    ):
        encoder(incomplete_batch())


def test_flags_that_fit_no_unit_are_explained():
    encoder = UnitEncoder({"table": Columns((17,), DIM)}, DIM)
    encoder.encoders["table"].units = 17
    batch = Batch({"table": torch.rand(2, 12)}, {"table": torch.ones(2, 12).bool()})
    encoder.encoders["table"].forward = lambda x, observed: torch.rand(2, 17, DIM)
    with pytest.raises(
        ValueError, match=r"emits 17 units but observed\['table'\] marks 12 features; give one flag per unit"
    ):
        encoder(batch)


def test_a_batch_of_other_modalities_is_refused():
    with pytest.raises(
        ValueError, match=r"the batch has modalities \['photo'\], the encoder \['image', 'signal', 'table'\]"
    ):
        unit_encoder()(Batch({"photo": photo()}, {"photo": torch.ones(2).bool()}))


def test_scores_that_are_not_finite_name_the_sample():
    method = Gauge(unit_encoder(), network(), Zero())
    with torch.no_grad():
        method.classifier.head.weight.fill_(torch.inf)
    with pytest.raises(ValueError, match="the evidence scores of sample 10 are not finite"):
        method.predict(incomplete_batch())


def test_gates_that_cannot_tell_units_apart_are_logged(caplog):
    method = Gauge(unit_encoder(), network(), Zero())
    with torch.no_grad():
        method.classifier.head.weight.zero_()
    method.predict(incomplete_batch())
    assert "the gates cannot tell units apart" in caplog.text


@pytest.mark.parametrize(
    ("inputs", "labels", "observed", "message"),
    [
        (photo(9), torch.zeros(5).long(), {}, r"inputs\['photo'\] has 9 rows but there are 5 labels; align them"),
        (photo(5), torch.zeros(5).long(), {"photo": torch.ones(8).bool()}, r"observed\['photo'\] has 8 rows but"),
        (
            photo(5),
            torch.zeros(5),
            {},
            "class numbers 0, 1, ... or -1 for samples without one, .* not torch.float32",
        ),
        (photo(0), torch.zeros(0).long(), {}, "the train split has no rows"),
    ],
)
def test_a_dataset_that_does_not_line_up_is_refused(inputs, labels, observed, message):
    with pytest.raises(ValueError, match=message), unchecked():
        Dataset("train", {"photo": inputs}, labels, observed)


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(ValueError, match="there is no scorer 'tailor'; did you mean 'taylor'?"):
        SCORERS.get("tailor")
    with pytest.raises(ValueError, match="there is no imputer 'xyz'; known: iterative, masked_columns, mean, mopoe"):
        IMPUTERS.get("xyz")
    with pytest.raises(ValueError, match="there is no kind of component 'method'; did you mean 'methods'?"):
        pick(KINDS, "method", "kind of component")


def test_settings_round_trip_through_yaml_and_refuse_what_they_do_not_know(tmp_path):
    settings = TrainSettings(epochs=3, selection=("complete", "eta=0.8"), learning_rate=3e-4)
    settings.save(tmp_path / "settings.yaml")
    assert TrainSettings.load(tmp_path / "settings.yaml") == settings
    (tmp_path / "wrong.yaml").write_text("epochs: -1\nlearning_rat: 0.1\n")
    with pytest.raises(ValueError, match=r"epochs: .*; learning_rat: .* \(settings: epochs, batch_size"):
        TrainSettings.load(tmp_path / "wrong.yaml")
    (tmp_path / "list.yaml").write_text("- 1\n")
    with pytest.raises(ValueError, match="must hold a mapping of settings, not list"):
        TrainSettings.load(tmp_path / "list.yaml")
    with pytest.raises(ValueError, match="cannot be read as YAML"):
        Experiment.load(tmp_path / "absent.yaml")
    with pytest.raises(ValueError, match="no missingness protocol 'eta=2'"):
        TrainSettings(epochs=1, masks="eta=2")


def test_overrides_change_one_stage_and_nothing_else():
    benchmark = BENCHMARKS.get("polymnist5k")
    changed = benchmark.with_overrides(Overrides(finetune=StageOverride(epochs=77)))
    assert changed.settings.finetune.epochs == 77
    assert changed.settings.backbone == benchmark.settings.backbone
    with pytest.raises(ValueError, match=r"here: finetun: .* did you mean 'finetune'\? \(settings: imputer, pretrain"):
        Overrides.parse({"finetun": {"epochs": 1}}, "here")
    with pytest.raises(ValueError, match=r"here: finetune.epoch: .* not permitted, did you mean 'epochs'\?"):
        Overrides.parse({"finetune": {"epoch": 1}}, "here")


def test_overrides_of_the_backbone_reach_a_baseline_without_settings_of_its_own():
    changed = BENCHMARKS.get("polymnist5k").with_overrides(Overrides(backbone=StageOverride(epochs=77)))
    assert changed.settings.baseline.epochs == 77
    both = Overrides(backbone=StageOverride(epochs=77), baseline=StageOverride(epochs=5))
    changed = BENCHMARKS.get("polymnist5k").with_overrides(both)
    assert (changed.settings.backbone.epochs, changed.settings.baseline.epochs) == (77, 5)
