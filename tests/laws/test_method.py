"""GAUGE as a whole (Eq. 10, Algorithm 1), and the any-subset backbone it starts from."""

from contextlib import nullcontext
from dataclasses import replace

import helpers
import pytest
import torch
from helpers import CLASSES, DIM, assert_equal, count_calls, gradients, rows_of, with_hidden
from torch import nn

from gauge import Evidence, Gating, Gauge, Network, Transformer, UnitEncoder
from gauge.encoders.mlp import Mlp
from gauge.registry import IMPUTERS, SCORERS

BLIND = [name for name in helpers.imputers() if not IMPUTERS.get(name).reads_hidden_values]
MODES = {
    "eval": (False, nullcontext),
    "train": (True, nullcontext),
    "no_grad": (False, torch.no_grad),
    "inference_mode": (False, torch.inference_mode),
    "autocast": (False, lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
}


@pytest.fixture(params=["none", *BLIND])
def imputer(request, train):
    return None if request.param == "none" else helpers.imputer(request.param, train)


@pytest.fixture(params=["any_subset", "masked", *BLIND])
def method(request, train):
    """Every method here that must not look at hidden values: AnySubset, and Gauge with each imputer and with none."""
    if request.param == "any_subset":
        return helpers.any_subset()
    return helpers.gauge(None if request.param == "masked" else helpers.imputer(request.param, train))


def test_encoders_run_once_a_step_and_the_classifier_twice(imputer, batch):
    method = helpers.gauge(imputer)
    encoded, classified = count_calls(*method.encoder.encoders.values()), count_calls(method.classifier.head)
    method.loss(batch)["task"].backward()
    assert encoded == [6] * 3
    assert classified == [6] * 2


def test_task_gradients_reach_gate_encoders_backbone_and_head(imputer, batch):
    method = helpers.gauge(imputer)
    found = gradients(method, method.loss(batch)["task"])
    assert found.keys() == dict(method.named_parameters()).keys()
    still = [name for name, gradient in found.items() if not (gradient != 0).any()]
    assert still == []
    assert found["gate.threshold"].abs() > 1e-6
    assert found["gate.log_temperature"].abs() > 1e-6


@pytest.mark.parametrize("score", ["taylor", "exact", "feature_norm", "attention", "gradient_norm"])
def test_task_gradients_never_pass_through_the_scores(imputer, batch, score):
    method = helpers.gauge(imputer, score=score)
    evidence = method(batch).evidence
    constant = Evidence(evidence.scores.clone(), evidence.logits.clone())
    frozen_scores = helpers.gauge(imputer, score=lambda *args, **options: constant)
    expected = gradients(frozen_scores, frozen_scores.loss(batch)["task"])
    assert_equal(gradients(method, method.loss(batch)["task"]), expected)


@pytest.mark.parametrize("mode", MODES)
def test_output_is_the_same_in_every_mode(imputer, batch, mode):
    method = helpers.gauge(imputer)
    expected = method.predict(batch)
    training, context = MODES[mode]
    method.train(training)
    with context():
        prediction = method(batch)
    tolerance = {"rtol": 0.1, "atol": 0.03} if mode == "autocast" else {"rtol": 1e-5, "atol": 1e-6}
    for first, second in (
        (prediction.logits, expected.logits),
        (prediction.gates, expected.gates),
        (prediction.evidence.scores, expected.evidence.scores),
    ):
        torch.testing.assert_close(first, second, **tolerance, check_dtype=False)


@pytest.mark.parametrize("score", SCORERS.names())
def test_every_weight_learns_under_bf16_autocast(score, train, batch):
    """The scoring pass comes first; what autocast keeps of it must not cut the weights off from the loss."""
    method = helpers.gauge(helpers.imputer("mean", train), score=score)
    expected = gradients(method, method.loss(batch)["task"])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = method.loss(batch)["task"]
    found = gradients(method, loss)
    assert found.keys() == expected.keys()
    flat = [torch.cat([each.flatten().float() for each in grads.values()]) for grads in (found, expected)]
    assert torch.cosine_similarity(*flat, dim=0) > 0.98


def test_without_gates_the_prediction_is_the_ungated_one(imputer, batch):
    plain = helpers.gauge(imputer, granularity="none")
    prediction = plain.predict(batch)
    assert prediction.gates is None
    assert prediction.evidence is None
    assert not any(name.startswith("gate.") for name, _ in plain.named_parameters())
    gated = helpers.gauge(imputer).predict(batch)
    torch.testing.assert_close(prediction.logits, gated.evidence.logits)
    assert not torch.allclose(prediction.logits, gated.logits, atol=1e-4)


def of_vectors(count, **gating):
    encoders = {f"m{view}": Mlp((3,), DIM, hidden=4) for view in range(count)}
    classifier = Network(Transformer(DIM, heads=2, depth=1), DIM, CLASSES)
    return Gauge(UnitEncoder(encoders, DIM), classifier, gating=Gating(**gating))


@pytest.mark.parametrize(
    ("count", "normalization", "threshold"),
    [(2, "adaptive", 0.5), (3, "adaptive", 0.5), (4, "adaptive", 0.0), (3, "zscore", 0.0), (4, "raw", 0.5)],
)
@pytest.mark.parametrize("granularity", ["unit", "modality"])
def test_threshold_starts_at_zero_with_standardised_and_at_a_half_with_raw_scores(
    count, normalization, threshold, granularity
):
    gate = of_vectors(count, normalization=normalization, granularity=granularity).gate
    assert gate.threshold.item() == threshold
    assert gate.log_temperature.item() == 0


@pytest.mark.parametrize("filling", ["noise", "nan"])
@pytest.mark.parametrize("score", ["taylor", "attention"])
def test_unobserved_values_never_change_logits_or_gradients(method, batch, filling, score):
    if isinstance(method, Gauge):
        method.score = SCORERS.get(score)
    first, second = with_hidden(batch, 0.0), with_hidden(batch, filling)
    torch.testing.assert_close(method.predict(second).logits, method.predict(first).logits, rtol=0, atol=0)
    found = gradients(method, method.loss(second)["task"])
    assert all(gradient.isfinite().all() for gradient in found.values())
    assert_equal(found, gradients(method, method.loss(first)["task"]))


def test_logits_of_a_sample_do_not_depend_on_its_batch(method, batch):
    whole = method.predict(batch).logits
    for rows in (torch.tensor([4]), torch.tensor([1]), torch.tensor([5, 0, 2])):
        torch.testing.assert_close(method.predict(rows_of(batch, rows)).logits, whole[rows], rtol=1e-4, atol=1e-6)


def test_a_sample_without_any_observed_value_is_refused(method, batch):
    empty = replace(batch, observed={name: torch.zeros_like(flags) for name, flags in batch.observed.items()})
    with pytest.raises(ValueError, match=r"nothing is observed in sample 10 \(6 such in the batch\)"):
        method.predict(empty)


def test_an_observed_nan_is_refused_with_its_place(method, batch):
    broken = dict(batch.inputs, signal=batch.inputs["signal"].clone())
    broken["signal"][2, 3] = torch.nan
    with pytest.raises(ValueError, match=r"inputs\['signal'\] holds 1 NaN .* first in sample 12; set observed"):
        method.predict(replace(batch, inputs=broken))


class Restless(nn.Module):
    """An imputer that would move if it were trained: BatchNorm statistics, dropout noise, weights."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop, self.map = nn.BatchNorm1d(7), nn.Dropout(0.5), nn.Linear(7, 7)

    def complete(self, batch):
        known = torch.nan_to_num(batch.inputs["signal"])
        zeros = {name: torch.zeros_like(values) for name, values in batch.inputs.items()}
        return batch.filled(zeros | {"signal": self.map(self.drop(self.norm(known)))})


def test_frozen_means_frozen(batch):
    imputer = Restless()
    method = helpers.gauge(imputer)
    before = {name: values.clone() for name, values in imputer.state_dict().items()}
    start = {name: values.clone() for name, values in method.state_dict().items()}
    optimizer = torch.optim.SGD(method.parameters(), lr=0.1)
    for _ in range(3):
        method.train()
        optimizer.zero_grad()
        method.loss(batch)["task"].backward()
        optimizer.step()
    assert_equal(imputer.state_dict(), before)
    assert not imputer.training
    assert not imputer.norm.training
    assert all(parameter.grad is None for parameter in imputer.parameters())
    assert all(not torch.equal(values, start[name]) for name, values in method.state_dict().items() if "gate" in name)


def test_any_subset_averages_over_distinct_subsets_of_one_encoding(batch):
    method = helpers.any_subset()
    encoded, classified = count_calls(*method.encoder.encoders.values()), count_calls(method.classifier.head)
    method.loss(batch)
    assert encoded == [6] * 3
    assert classified == [18]
    everything = replace(batch, key=torch.full((6,), 5))
    method.subsets_per_step = 7
    seven = method.loss(everything)["task"]
    torch.testing.assert_close(
        method.loss(replace(everything, key=everything.key + 1))["task"], seven, rtol=1e-5, atol=1e-6
    )
