"""Predictions on two workers of Ray or Spark on this machine, one of which dies."""

import os
import shutil
import signal
import sys
import time

import numpy as np
import pandas as pd
import pytest
from helpers import unchecked

from gauge import GaugeClassifier
from gauge.deploy.cluster import Predictor, predict_on_ray

FRAME = pd.DataFrame({"id": range(60), "age": np.arange(60) % 7 * 10.0, "ill": ["no", "yes"] * 30})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    with unchecked():
        model = GaugeClassifier(experts="linear", random_state=0, verbose=False).fit(FRAME.drop(columns="id"), "ill")
    model.save(folder / "model")
    for number in range(3):
        FRAME[20 * number : 20 * (number + 1)].to_parquet(folder / f"part-{number}.parquet", index=False)
    return folder


def test_a_predictor_is_a_function_of_frames_that_loads_its_model_once(folder):
    predictor = Predictor(folder / "model", keep=["id"])
    answers = predictor(FRAME)
    assert list(answers) == ["id", "prediction", "p(no)", "p(yes)"]
    assert answers["prediction"].tolist() == GaugeClassifier.load(folder / "model").predict(FRAME).tolist()
    assert predictor.classifier is predictor.classifier


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_workers_answer_and_one_that_dies_is_replaced(folder, monkeypatch):
    monkeypatch.setattr("gauge.tabular.table.arrays.ROWS_AT_ONCE", 4)
    ray = pytest.importorskip("ray")

    class Mortal(Predictor):  # defined here, so that Ray sends its code to the workers
        def __call__(self, rows):
            own = str(os.getpid())
            if not (folder / "died").exists():
                (folder / "died").write_text(own)
                os.kill(os.getpid(), signal.SIGKILL)
            (folder / f"{own}.worker").touch()
            for _ in range(200):  # until the other one has rows, too
                if len(list(folder.glob("*.worker"))) == 2:
                    break
                time.sleep(0.05)
            return super().__call__(rows).assign(worker=own)

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        predict_on_ray(Mortal(folder / "model", keep=["id"]), folder / "part-*.parquet", folder / "out", workers=2)
    finally:
        ray.shutdown()
    answers = pd.read_parquet(folder / "out").sort_values("id", ignore_index=True)
    workers = set(answers["worker"])
    assert len(workers) == 2
    assert (folder / "died").read_text() not in workers
    expected = Predictor(folder / "model", keep=["id"])(FRAME)
    assert answers["prediction"].tolist() == expected["prediction"].tolist()
    assert np.allclose(answers.filter(like="p("), expected.filter(like="p("), atol=2e-6)
    assert not list(folder.glob("*.part"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_spark_answers_as_one_process_also_when_a_python_worker_dies(folder, tmp_path, monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    predict = Predictor(folder / "model", keep=["id"])

    def answers(parts):
        for rows in parts:
            own = str(os.getpid())
            if not (tmp_path / "died").exists():
                (tmp_path / "died").write_text(own)
                os.kill(os.getpid(), signal.SIGKILL)
            yield predict(rows).assign(worker=own)

    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
        "spark.sql.files.maxPartitionBytes": "1000",  # a partition for each file
    }
    builder = sql.SparkSession.builder.master("local[2, 4]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        schema = "id long, prediction string, `p(no)` double, `p(yes)` double, worker string"
        rows = spark.read.parquet(str(folder / "part-*.parquet"))
        rows.mapInPandas(answers, schema).write.parquet(str(tmp_path / "answers"))
    finally:
        spark.stop()
    frame = pd.read_parquet(tmp_path / "answers").sort_values("id", ignore_index=True)
    assert (tmp_path / "died").read_text() not in set(frame["worker"])
    expected = Predictor(folder / "model", keep=["id"])(FRAME)
    pd.testing.assert_frame_equal(frame.drop(columns="worker"), expected, check_dtype=False, check_exact=True)
