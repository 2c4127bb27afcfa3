"""`evaluate` measures what it says, with a threshold that no test row chose, and its page shows it on any screen."""

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from helpers import invoke, mistake, unchecked
from pages import HOSTILE, Page
from scipy.stats import binomtest
from sklearn.metrics import average_precision_score, balanced_accuracy_score, f1_score

from gauge import GaugeClassifier
from gauge.reports.evaluation import operating_grid
from gauge.tabular.evidence.decisions import check_metric, score_weights
from gauge.tabular.evidence.measures import EvaluatedRows, score_table, share_interval, subgroups
from gauge.tabular.evidence.thresholds import HeldOut, choose_threshold, threshold_weights
from gauge.training import metrics


@pytest.fixture(scope="module", autouse=True)
def resamples():
    """A tenth of the bootstrap: all but the ends of intervals is the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "RESAMPLES", 100)
        yield


@pytest.fixture(scope="module")
def other(ward, tmp_path_factory):
    """A model that does not know the marker."""
    kinds = {"patient": "ignore", "date": "ignore", "marker": "ignore"}
    with unchecked():
        model = GaugeClassifier(columns=kinds, experts="linear", trust=False, random_state=0, verbose=False)
        model.fit(ward.train, "diagnosis")
    model.save(tmp_path_factory.mktemp("other") / "model")
    return model


@pytest.fixture(scope="module")
def evaluation(ward, other):
    with unchecked():
        return ward.model.evaluate(
            ward.test, positive="ill", threshold="sensitivity=0.9", by=["sex", "age"], groups="patient", against=other
        )


def test_intervals_of_shares_are_wilsons_and_wider_where_groups_agree():
    right = np.arange(40) % 4 != 0
    bounds = binomtest(30, 40).proportion_ci(method="wilson")
    assert share_interval(right) == pytest.approx((0.75, bounds.low, bounds.high), abs=1e-12)
    alone = share_interval(right, np.arange(40))
    assert alone == pytest.approx(share_interval(right), abs=0.01)
    pairs = share_interval(np.repeat(right, 2), np.repeat(np.arange(40), 2))
    assert pairs == pytest.approx(alone, abs=0.01)  # each row twice: nothing is learned
    low, high = share_interval(np.ones(10, bool), np.repeat(np.arange(5), 2))[1:]
    assert (round(low, 3), high) == (0.566, 1.0)  # five groups, all right
    equal = np.tile(np.arange(10) < 9, 40)  # in each of forty groups nine of ten, which had an interval without width
    assert share_interval(equal, np.repeat(np.arange(40), 10)) == pytest.approx(share_interval(equal), abs=0.002)
    assert share_interval(equal, np.zeros(400)) == (0.9, *metrics.wilson(0.9, 1))
    assert all(metrics.wilson(0.0, n)[0] == 0.0 and metrics.wilson(1.0, n)[1] == 1.0 for n in range(1, 3000))


def test_a_threshold_keeps_its_promise_on_the_rows_held_out():
    draw = np.random.default_rng(1)
    labels = (draw.random(300) < 0.3).astype(int)
    p = np.clip(0.3 * labels + draw.random(300) * 0.7, 0, 1)
    held_out = HeldOut(np.stack([1 - p, p], 1), labels)
    for share in (0.5, 0.9, 1.0):
        chosen = choose_threshold(f"sensitivity={share}", held_out, 1).value
        assert (p[labels == 1] >= chosen).mean() >= share
        assert (p[labels == 1] > p[p >= chosen].min()).mean() < share  # no larger one does
        chosen = choose_threshold(f"specificity={share}", held_out, 1).value
        assert (p[labels == 0] < chosen).mean() >= share

    def cost(t):
        return 5 * ((p < t) & (labels == 1)).sum() + ((p >= t) & (labels == 0)).sum()

    assert cost(choose_threshold("cost=5", held_out, 1).value) == min(map(cost, p))
    few = np.repeat([0.3, 0.05], 50)  # of the first half a fifth is positive
    tied = HeldOut(np.stack([1 - few, few], 1), (np.arange(100) % 5 == 0) & (few > 0.1))
    for rule, positive in {"specificity=0.9": 0, "cost=0.5": 0, "sensitivity=0.9": 50, "cost=20": 50}.items():
        assert (tied.probabilities * threshold_weights(rule, tied, 1, 2)).argmax(1).sum() == positive
        assert not np.isin(choose_threshold(rule, tied, 1).value, few)  # a model of all rows has others
    assert choose_threshold(0.25, None, 1).value == 0.25
    for wrong in ("sensitivity", "sensitivity=95", "recall=0.9", "-1", "cost=0", "1.2.3"):
        with pytest.raises(ValueError, match=r"is not one; write a number from 0 to 1, sensitivity=0.95"):
            choose_threshold(wrong, held_out, 1)
    with pytest.raises(ValueError, match="no rows were held out from training to choose a threshold by cost=2"):
        choose_threshold("cost=2", None, 1)


def test_the_threshold_comes_from_the_saved_model_not_from_the_rows(ward, evaluation):
    loaded = GaugeClassifier.load(ward.folder / "model")
    with unchecked():
        few = loaded.evaluate(ward.test[:40], positive="ill", threshold="sensitivity=0.9")
    assert few.threshold.value == pytest.approx(evaluation.threshold.value, abs=1e-6)
    held_out = loaded.fitted_.held_out
    assert (held_out.probabilities[held_out.labels == 0, 0] >= few.threshold.value - 1e-9).mean() >= 0.9


def test_a_threshold_goes_along_with_a_model_in_place_of_class_weights(ward, evaluation, tmp_path):
    model = ward.model.with_threshold("sensitivity=0.9", positive="ill")
    hits = ward.model.predict_proba(ward.test)[:, 0] >= evaluation.threshold.value
    model.save(tmp_path)
    for each in (model, GaugeClassifier.load(tmp_path)):
        assert np.array_equal(each.predict(ward.test) == "ill", hits)
        assert each.fitted_.facts()["Decides"] == f"ill from a probability of {evaluation.threshold.value:.3g} on"
    assert np.array_equal(model.predict_proba(ward.test), ward.model.predict_proba(ward.test))
    assert "Sensitivity and specificity for ill" in str(evaluation)
    with pytest.raises(ValueError, match="there is no class 'iil'; did you mean 'ill'"):
        ward.model.with_threshold(0.3, positive="iil")


def test_a_report_at_a_threshold_counts_what_the_model_decides_of_many_classes(caplog, tmp_path):
    draw = np.random.default_rng(0)
    rows = pd.DataFrame(draw.normal(size=(360, 4)), columns=list("abcd"))
    scores = rows.to_numpy() @ draw.normal(size=(4, 3)) + 1.5 * draw.gumbel(size=(360, 3))
    rows["k"] = np.array(["flu", "cold", "covid"])[scores.argmax(1)]
    model = GaugeClassifier(preset="fast", experts=["linear"], random_state=0, verbose=False).fit(rows[:200], "k")
    test, ill = rows[200:], rows["k"][200:] == "covid"
    for rule in (0.4, "sensitivity=0.9", "specificity=0.9", "cost=5"):
        found = model.evaluate(test, positive="covid", threshold=rule)
        hits = model.with_threshold(rule, positive="covid").predict(test) == "covid"
        counts = found.operating.set_index("metric")["right"]
        assert (counts["sensitivity"], counts["specificity"]) == ((hits & ill).sum(), (~hits & ~ill).sum()), rule
    found.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "covid from a share beside the most probable other class of" in page
    backwards = rows["k"][200:][::-1]
    assert model.score(test, backwards) < 0.6
    assert "y and the table have the same index in different orders; they are matched by position" in caplog.text


@pytest.mark.parametrize(("metric", "classes"), [("roc_auc", 3), ("precision", 3), ("jaccard", 2)])
def test_a_score_is_that_of_many_classes_where_there_are_many(metric, classes):
    labels = np.arange(90) % classes
    held_out = HeldOut(np.eye(classes)[labels] * 0.8 + 0.2 / classes, labels)
    check_metric(metric, classes)
    assert (score_weights(metric, held_out) > 0).all()
    with pytest.raises(ValueError, match="metric 'f1_samples' cannot be computed for 3 classes .*; choose another one"):
        check_metric("f1_samples", 3)


def test_of_many_classes_a_threshold_is_about_one_and_a_score_about_all():
    draw = np.random.default_rng(0)
    labels = draw.choice(3, 600, p=(0.8, 0.15, 0.05))
    p = np.exp(np.eye(3)[labels] + draw.normal(size=(600, 3)) + np.log((0.8, 0.15, 0.05)))
    held_out = HeldOut(p / p.sum(1, keepdims=True), labels)
    decided = (held_out.probabilities * threshold_weights("sensitivity=0.9", held_out, 2, 3)).argmax(1)
    assert 0.9 <= (decided[labels == 2] == 2).mean() < 0.95
    for name, score in (("balanced_accuracy", balanced_accuracy_score), ("f1", partial(f1_score, average="macro"))):
        chosen = (held_out.probabilities * score_weights(name, held_out)).argmax(1)
        assert score(labels, chosen) > score(labels, p.argmax(1)) + 0.02
    assert score_weights("neg_log_loss", held_out).tolist() == [1, 1, 1]


def test_an_evaluation_is_a_mapping_that_marks_broken_promises_and_has_the_best_expert(ward, evaluation):
    assert dict(evaluation)["accuracy"] == evaluation["accuracy"]
    with pytest.raises(ValueError, match="there is no metric 'acuracy'; did you mean 'accuracy'"):
        evaluation["acuracy"]
    board = ward.model.leaderboard_.set_index("expert")["log_loss"].drop("combined")
    models = list(evaluation.predictions.models)
    assert models[2] == ("boosted trees" if board.idxmin() == "trees" else f"{board.idxmin()} alone")
    shares = {"value": 0.7, "low": 0.6, "high": 0.8, "right": 7, "of": 10}
    operating = pd.DataFrame([{"metric": "sensitivity"} | shares])
    for promise, mark in ((0.9, ", below 0.9"), (0.75, "")):
        shown = operating_grid(operating, "ill", "", ("sensitivity", str(promise))).lines[0][1]
        assert shown == f"0.700 [0.600, 0.800]{mark}"


def test_decisions_subgroups_and_missing_values_count_the_rows(ward, evaluation):
    ill, p = (ward.test["diagnosis"] == "ill").to_numpy(), ward.model.predict_proba(ward.test)[:, 0]
    hits = p >= evaluation.threshold.value
    measured = evaluation.operating.set_index("metric")
    assert measured.loc["sensitivity", "value"] == pytest.approx(hits[ill].mean())
    assert measured.loc["PPV", "value"] == pytest.approx(ill[hits].mean())
    assert (measured.loc["NPV", "right"], measured.loc["NPV", "of"]) == ((~ill & ~hits).sum(), (~hits).sum())
    assert evaluation.confusion.loc["ill", "ill"] == (ill & hits).sum()
    women = (ward.test["sex"] == "f").to_numpy()
    line = evaluation.subgroups[evaluation.subgroups["part"] == "f"].iloc[0]
    assert (line["rows"], line["specificity"][0]) == (women.sum(), pytest.approx(1 - hits[women & ~ill].mean()))
    ages = evaluation.subgroups[evaluation.subgroups["column"] == "age"]
    assert ages["part"].iloc[-1] == "missing"
    assert ages["rows"].sum() == 300
    missing = ward.test[["age", "marker", "noise"]].isna().sum(axis=1)
    counts = missing.value_counts().sort_index()
    assert evaluation.by_missing["part"].tolist() == [str(count) for count in counts.index]
    assert evaluation.by_missing["rows"].tolist() == counts.tolist()
    assert evaluation["average_precision"] == pytest.approx(average_precision_score(ill, p))


@pytest.mark.parametrize(
    ("by_class", "part", "of_class"), [(False, "", "rows"), (True, "of every class", "of every class, rows")]
)
def test_coverage_is_that_of_the_prediction_sets(ward, evaluation, by_class, part, of_class):
    held = ward.model.predict_set(ward.test, 0.9, by_class=by_class)
    right = held[np.arange(300), np.searchsorted(ward.model.classes_, ward.test["diagnosis"])]
    lines = evaluation.coverage[evaluation.coverage["promised"] == 0.9].set_index("part")
    assert lines.loc[part, "coverage"] == pytest.approx(right.mean())
    assert lines.loc[part, "size"] == pytest.approx(held.sum(1).mean())
    for name in ward.model.classes_:
        own = (ward.test["diagnosis"] == name).to_numpy()
        assert lines.loc[f"{of_class} of {name}", "rows"] == own.sum()
        assert lines.loc[f"{of_class} of {name}", "coverage"] == pytest.approx(right[own].mean())


def test_two_models_are_compared_on_the_same_rows(ward, other, evaluation):
    lines = evaluation.comparison.set_index("metric")
    apart = ward.model.score(ward.test, ward.test["diagnosis"]) - other.score(ward.test, ward.test["diagnosis"])
    assert lines.loc["accuracy", "difference"] == pytest.approx(apart)
    assert lines.loc["AUC", "p"] < 0.001
    assert lines.loc["log loss", "high"] < 0
    assert lines["test"].tolist()[:2] == ["McNemar for groups (Durkalski)", "DeLong for groups (Obuchowski)"]
    with unchecked():
        same = ward.model.evaluate(ward.test, against=ward.model).comparison
        wrong = GaugeClassifier(experts="linear", verbose=False).fit(ward.train[["age", "sex"]], "sex")
        with pytest.raises(ValueError, match=r"other model has the classes \['f', 'm'\], this one \['ill', 'well'\]"):
            ward.model.evaluate(ward.test, against=wrong)
    assert same["difference"].abs().max() == 0
    assert same["p"].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("groups", [4, 8, 40])
def test_an_interval_of_few_groups_holds_the_truth_as_often_as_it_says(groups):
    draw, held, number = np.random.default_rng(0), 0, np.repeat(np.arange(groups), 10)
    for _ in range(400):
        right = draw.random(10 * groups) < np.repeat(draw.beta(7, 3, groups), 10)
        _, low, high = share_interval(right, number)
        held += low <= 0.7 <= high
    assert held >= 0.93 * 400


def test_the_interval_of_a_log_loss_holds_the_truth_also_where_a_class_is_rare():
    """Resamples within classes had the shares of the classes as if they were known."""
    draw, held = np.random.default_rng(0), 0
    for _ in range(60):
        labels = (draw.random(300) < 0.1).astype(int)
        constant = np.tile([0.9, 0.1], (300, 1))
        rows = EvaluatedRows({"model": constant}, labels, np.zeros(300, int), ["no", "yes"], np.ones((300, 1), bool))
        line = score_table(rows).set_index("metric").loc["log_loss"]
        held += line["low"] <= -0.9 * np.log(0.9) - 0.1 * np.log(0.1) <= line["high"]
    assert held >= 52
    assert np.isnan(score_table(rows).set_index("metric").loc["calibration_error", "low"])


def test_a_perfect_area_is_not_certain():
    """Of fifteen rows an AUC of 1 had an interval from 1 to 1."""
    labels = np.repeat([0, 1], [10, 5])
    perfect = np.where(np.eye(2)[labels], 0.9, 0.1)
    for groups, low in (
        (None, 0.566),
        (np.where(labels, 99, np.arange(15)), 0.207),
    ):  # five rows of the class, or one group
        rows = EvaluatedRows(
            {"model": perfect}, labels, labels, ["no", "yes"], np.ones((15, 1), bool), groups, positive=1
        )
        scores = score_table(rows).set_index("metric")[["value", "low", "high"]]
        for each in ("auc", "average_precision"):
            assert scores.loc[each].tolist() == pytest.approx([1, low, 1], abs=1e-3)
        part = subgroups(rows, {"all": {"": np.arange(15)}}, None)
        assert part["auc"][0] == pytest.approx((1, low, 1), abs=1e-3)


def test_groups_widen_the_intervals_of_rows_that_repeat(ward):
    twice = pd.concat([ward.test[:80]] * 4, ignore_index=True).assign(row=np.tile(np.arange(80), 4))
    with unchecked():
        apart, together = (ward.model.evaluate(twice, groups=groups).scores for groups in (None, "row"))
    widths = [(each["high"] - each["low"])[:3] for each in (apart, together)]
    assert (widths[1] > 1.5 * widths[0]).all()
    with pytest.raises(ValueError, match="all labelled rows are of one group, and nothing says how far others differ"):
        ward.model.evaluate(twice, groups=[1] * 320)
    with pytest.raises(ValueError, match="there are 3 groups for 320 rows; give a group for each row"):
        ward.model.evaluate(twice, groups=[1, 2, 3])


def test_one_group_of_those_of_training_has_scores_and_no_interval_but_that_of_the_accuracy(ward, caplog):
    grouped = GaugeClassifier(preset="fast", experts="linear", random_state=0, verbose=False)
    with unchecked():
        grouped.fit(ward.train, "diagnosis", groups="patient")
    measured = grouped.evaluate(ward.test[ward.test["patient"] == ward.test["patient"].iloc[0]])
    assert "all labelled rows are of one group" in caplog.text
    scores = measured.scores.set_index(["model", "metric"]).loc["classifier"]
    assert np.isnan(scores.loc["log_loss", "low"])
    assert scores.loc["accuracy", "high"] > scores.loc["accuracy", "low"]


def test_a_threshold_that_no_row_held_out_reaches_is_above_all_probabilities():
    p = np.array([0.2, 0.6, 1.0, 1.0])
    held_out = HeldOut(np.stack([1 - p, p], 1), np.array([0, 1, 0, 1]))
    assert choose_threshold("specificity=0.9", held_out, 1).value > 1


def test_the_command_writes_a_page_and_json_and_hides_what_a_protocol_says(ward, other, tmp_path):
    model, table = str(ward.folder / "model"), str(ward.folder / "test.csv")

    def gauge(*arguments):
        return invoke("evaluate", model, table, *arguments, cwd=tmp_path)

    written = gauge("--out", "report.html", "--threshold", "0.4", "--positive", "ill", "--by", "sex", "--json")
    answer = json.loads(written.stdout, parse_constant=pytest.fail)  # NaN is not JSON
    assert (answer["positive"], answer["threshold"]) == ("ill", {"value": 0.4, "chosen": "as given"})
    assert [line["part"] for line in answer["subgroups"]] == ["f", "m"]
    assert "sensitivity" in (tmp_path / "report.html").read_text("utf-8")
    hidden = gauge("--protocol", "gamma-per-sample=0.75")
    assert "with further values hidden: gamma-per-sample=0.75" in hidden.stdout
    with unchecked():
        complete, less = (ward.model.evaluate(ward.test, protocol=p) for p in ("complete", "gamma-per-sample=0.75"))
    assert str(complete) == str(ward.model.evaluate(ward.test))
    assert less["auc"] < complete["auc"] - 0.05
    assert set(less.by_missing["part"]) <= {"3", "4"}
    for arguments, said in (
        (["evaluate", model, table, "--protocol", "eta=0.8"], "eta=0.8 is one of benchmarks; for a classifier"),
        (["evaluate", model, table, "--by", "sexx"], "sexx"),
        (["evaluate", model, table, "--out", "report.pdf"], "report.pdf should end in .html"),
    ):
        assert said in mistake(*arguments, cwd=tmp_path)


def test_texts_of_the_table_are_shown_as_texts(ward, tmp_path):
    table = ward.test.assign(sex=HOSTILE)
    with unchecked():
        ward.model.evaluate(table, by="sex").to_html(tmp_path / "page.html")
    page = Page((tmp_path / "page.html").read_text("utf-8"))
    assert HOSTILE.replace("  ", " ") in page.text
    assert not page.all("script")
    assert not page.all("img")
    assert page.addresses == []
