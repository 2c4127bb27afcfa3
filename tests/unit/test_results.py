"""Results say what was measured, survive the disk, and fall into tables."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import any_subset, dataset

from gauge import TrainSettings
from gauge.training import stages
from gauge.training.loop import seconds_per_validation
from gauge.training.metrics import calibration_error
from gauge_lab import workspace as workspaces
from gauge_lab.benchmarks import BENCHMARKS, Overrides, StageOverride, polymnist5k
from gauge_lab.experiment import Experiment, Row
from gauge_lab.plans import plan_of
from gauge_lab.published import ELSEWHERE, PUBLISHED, SOURCES
from gauge_lab.results import Result, evaluate, load_predictions
from gauge_lab.tables import result_table
from gauge_lab.workspace import Workspace

KEYS = [
    "benchmark",
    "method",
    "variant",
    "protocol",
    "metric",
    "value",
    "interval",
    "calibration_error",
    "log_loss",
    "seed",
    "config",
    "commit",
    "trained",
    "hardware",
    "data",
    "seconds",
]


@pytest.fixture
def result():
    experiment = Experiment(benchmark="made", method="any_subset", variant="any_subset", seed=3)
    return evaluate(any_subset(), dataset("test", rows=30), "missing=image", experiment=experiment)


def test_a_result_file_holds_every_key_and_the_predictions_behind_it(result, tmp_path):
    saved, predictions = result
    path = saved.save(tmp_path, predictions)
    assert path.name == "made-any_subset-any_subset-s3-missingimage.json"
    assert list(json.loads(path.read_text())) == KEYS
    assert Result.load(path) == saved
    probabilities, labels, _ = load_predictions(path)
    assert np.mean(probabilities.argmax(1) == labels) == saved.value
    assert saved.interval[0] <= saved.value <= saved.interval[1]
    assert saved.data["missing"]["image"] == 1.0
    assert 0.2 <= saved.data["missing"]["signal"] <= 0.3  # really missing, and counted


def test_results_of_other_settings_never_overwrite_each_other(result, tmp_path):
    saved, predictions = result
    paths = {
        saved.model_copy(update={"config": {"stage": stage}}).save(tmp_path, predictions)
        for stage in ("abcdef12", "123456ab")
    }
    assert {path.name[-11:] for path in paths} == {"abcdef.json", "123456.json"}


def test_a_protocol_never_takes_the_last_evidence_of_a_sample_with_real_gaps():
    data = dataset("test", rows=30)
    keep = {name: torch.full((30,), name == "image") for name in data.inputs}
    batch = data.batch(torch.arange(30), keep=keep).check()
    left = sum(batch.observed[name].reshape(30, -1).sum(1) for name in data.inputs)
    assert left.tolist() == [1] * 30  # the image, or one other value that was really there
    assert torch.equal(batch.observed["image"], data.observed["image"])
    assert not (batch.observed["table"] & ~data.observed["table"]).any()


def test_evaluating_twice_gives_the_same_predictions(result):
    again = evaluate(any_subset(), dataset("test", rows=30), "missing=image", experiment=Experiment(benchmark="made"))
    assert np.array_equal(again[1].probabilities, result[1].probabilities)


def test_a_broken_result_file_and_missing_predictions_are_explained(result, tmp_path):
    (tmp_path / "broken.json").write_text('{"benchmark": 1')
    with pytest.raises(ValueError, match=r"broken.json is not a result file"):
        Result.load(tmp_path / "broken.json")
    path = result[0].save(tmp_path, result[1])
    path.with_suffix(".npz").unlink()
    with pytest.raises(ValueError, match="predictions of .* are missing"):
        load_predictions(path)


@pytest.mark.parametrize("value", [-0.1, 1.2, float("nan")])
def test_a_value_that_is_no_share_is_refused(result, value):
    content = result[0].model_dump(mode="json") | {"value": value, "interval": (0, 1)}
    with pytest.raises(ValueError, match="value"):
        Result.model_validate(content)
    with pytest.raises(ValueError, match=r"value 0.5 and interval \[0.6, 0.9\] are not shares in order"):
        Result.model_validate(content | {"value": 0.5, "interval": (0.6, 0.9)})


@pytest.mark.parametrize("name", ["trained", "calibration_error", "log_loss"])
def test_a_result_without_one_of_its_records_is_refused(result, name):
    content = result[0].model_dump(mode="json")
    del content[name]
    with pytest.raises(ValueError, match=f"{name}\n  Field required"):
        Result.model_validate(content)


def test_a_result_carries_calibration_error_and_log_loss_of_its_predictions(result):
    saved, predictions = result
    assert saved.calibration_error == calibration_error(predictions.probabilities, predictions.labels) > 0
    right = predictions.probabilities[np.arange(30), predictions.labels]
    assert saved.log_loss == pytest.approx(-np.log(right).mean(), rel=1e-5)


def test_samples_that_share_a_photo_are_grouped_in_the_result_and_beside_it(tmp_path):
    data = replace(dataset("test", rows=30), groups=torch.arange(30) // 10)
    experiment = Experiment(benchmark="made", method="any_subset", variant="any_subset")
    made, predictions = evaluate(any_subset(), data, "complete", experiment=experiment)
    single, _ = evaluate(any_subset(), replace(data, groups=None), "complete", experiment=experiment)
    assert made.data["groups"] == 3
    assert made.interval != single.interval
    assert made.data["fingerprint"] == single.data["fingerprint"], "groups are no part of what stages are stored under"
    assert load_predictions(made.save(tmp_path, predictions))[2].tolist() == data.groups.tolist()


def test_a_table_shows_deviation_over_seeds_and_marks_the_best(result):
    base = result[0].model_copy(update={"protocol": "complete", "value": 0.5})
    better = base.model_copy(update={"variant": "other", "value": 0.75, "interval": (0.7, 0.8)})
    seeds = [base.model_copy(update={"seed": seed, "value": value}) for seed, value in enumerate((0.5, 0.6))]
    table = result_table([*seeds, better])
    lines = table.markdown().splitlines()
    assert lines[2] == "| any_subset | *55.00 ± 7.07* |"
    assert lines[3] == "| any_subset:other | **75.0 [70.0, 80.0]** |"
    assert r"any\_subset:other & \textbf{75.0 [70.0, 80.0]} \\" in table.latex()
    assert "<td><u>55.00 ± 7.07</u></td>" in table.html()
    assert table.csv().splitlines()[1:3] == ["any_subset,complete,0,50.0", "any_subset,complete,1,60.0"]
    refused = result_table([*seeds, better], {"mopoe": "it has no latent to read"}).markdown()
    assert "| mopoe | – |" in refused
    assert refused.endswith("\n– mopoe: it has no latent to read.\n")
    with pytest.raises(ValueError, match="one benchmark and one metric"):
        result_table([base, base.model_copy(update={"benchmark": "another"})])
    with pytest.raises(ValueError, match="there are no results"):
        result_table([])


def test_published_numbers_stand_beside_ours_where_there_are_any(result):
    results = [
        result[0].model_copy(update={"method": method, "variant": method, "protocol": protocol})
        for method in ("gauge", "qmf")
        for protocol in ("eta=0.2", "eta=0.8")
    ]
    table = result_table(results, paper=PUBLISHED["polymnist"])
    head, _, gauge, qmf, *_ = table.markdown().splitlines()
    assert head == "| accuracy, % | eta=0.2 | eta=0.8 | eta=0.8, paper |"
    assert gauge.endswith("| 97.61 |")
    assert qmf.endswith("| – |")
    assert "eta=0.8, paper" in table.latex()
    assert "<th>eta=0.8, paper</th>" in table.html()
    assert "paper" not in result_table(results).markdown()


def test_published_numbers_are_of_rows_and_conditions_that_can_be_run():
    for benchmark, rows in PUBLISHED.items():
        assert {protocol for row in rows.values() for protocol in row} <= set(
            map(str, BENCHMARKS.get(benchmark).protocols)
        )
        for row in map(Row.parse, rows):
            assert row.variant in plan_of(row.method).variants


def test_numbers_of_other_papers_have_a_source_and_are_of_conditions_that_can_be_run():
    assert {cited.source for cited in ELSEWHERE} == SOURCES.keys()
    for cited in ELSEWHERE:
        assert cited.protocol in map(str, BENCHMARKS.get(cited.benchmark).protocols)
        assert 0 <= cited.deviation < cited.percent <= 100
    assert len({cited[:3] for cited in ELSEWHERE}) == len(ELSEWHERE)


def test_what_training_costs_counts_steps_and_validations(tmp_path, monkeypatch):
    monkeypatch.setattr(workspaces, "MAX_UNMEASURED_STEPS", 0)
    monkeypatch.setattr(stages, "seconds_per_step", lambda *_: 1.0)
    looked = []
    monkeypatch.setattr(stages, "seconds_per_validation", lambda *given: looked.append(given) or 100.0)
    settings = StageOverride(epochs=2, batch_size=500)
    overrides = Overrides(imputer=settings, backbone=settings, finetune=settings)
    asked = Experiment(benchmark="polymnist5k", overrides=overrides)
    workspace = Workspace(tmp_path, "cpu")
    epochs, steps = 2, -(-len(workspace.split(polymnist5k.BENCHMARK, "train")) // 500)
    expected = dict.fromkeys(("imputer-mopoe", "backbone-s0", "gauge-s0"), epochs * (steps + 100.0))
    assert workspace.cost([asked]) == expected
    assert {given[1].split for given in looked} == {"val"}


def test_validation_is_timed_on_a_few_samples_and_costs_nothing_where_nothing_is_selected():
    val, settings = dataset("val", 30), TrainSettings(epochs=1, selection=("complete", "missing=table"))
    method = any_subset()
    asked = []
    monitored = method.predict
    method.predict = lambda batch: asked.append(len(batch)) or monitored(batch)
    assert seconds_per_validation(method, val, settings, samples=10) > 0
    assert asked == [10]
    assert seconds_per_validation(method, val, settings.model_copy(update={"selection": ()})) == 0
