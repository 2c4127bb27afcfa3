"""Results say what was measured, survive the disk, and fall into tables."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import any_subset, dataset

from gauge_lab.benchmarks import BENCHMARKS
from gauge_lab.experiment import Experiment, Row
from gauge_lab.plans import plan_of
from gauge_lab.published import ELSEWHERE, PUBLISHED, SOURCES
from gauge_lab.results import Result, evaluate, load_predictions

KEYS = ["benchmark", "method", "variant", "protocol", "metric", "value", "interval", "calibration_error", "log_loss"]
KEYS += ["seed", "config", "commit", "trained", "hardware", "data", "seconds"]


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


def test_a_broken_result_file_and_missing_predictions_are_explained(result, tmp_path):
    (tmp_path / "broken.json").write_text('{"benchmark": 1')
    with pytest.raises(ValueError, match=r"broken.json is not a result file"):
        Result.load(tmp_path / "broken.json")
    path = result[0].save(tmp_path, result[1])
    path.with_suffix(".npz").unlink()
    with pytest.raises(ValueError, match="predictions of .* are missing"):
        load_predictions(path)


def test_samples_that_share_a_photo_are_grouped_in_the_result_and_beside_it(tmp_path):
    data = replace(dataset("test", rows=30), groups=torch.arange(30) // 10)
    experiment = Experiment(benchmark="made", method="any_subset", variant="any_subset")
    made, predictions = evaluate(any_subset(), data, "complete", experiment=experiment)
    single, _ = evaluate(any_subset(), replace(data, groups=None), "complete", experiment=experiment)
    assert made.data["groups"] == 3
    assert made.interval != single.interval
    assert made.data["fingerprint"] == single.data["fingerprint"], "groups are no part of what stages are stored under"
    assert load_predictions(made.save(tmp_path, predictions))[2].tolist() == data.groups.tolist()


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
