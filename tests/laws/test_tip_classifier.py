"""TIP classification: it starts from the imputer's weights, trains all of them, and averages three classifiers."""

from dataclasses import replace

import helpers
import pytest
import torch
import torch.nn.functional as F
from helpers import noise

from gauge import Batch, Dataset
from gauge_lab.benchmarks import leaf99, polymnist5k
from gauge_lab.imputers.tip import TIP
from gauge_lab.methods.tip import TipClassifier
from gauge_lab.parts import imputer_stage
from gauge_lab.plans import last_stage, plan_of

CLASSES = 3


@pytest.fixture
def pretrained():
    inputs = {"photo": torch.rand(6, 3, 8, 8), "data": torch.tensor([[0.0, 0.3], [2, 0.1], [1, 0.7]]).repeat(2, 1)}
    with helpers.seeded(0, "tip"):
        train = Dataset("train", inputs, torch.zeros(6).long(), {"data": torch.ones(6, 2, dtype=torch.bool)})
        return TIP.from_dataset(train, cardinalities=(3, 1), width=16, depth=1, heads=2, resnet=0)


@pytest.fixture
def batch():
    inputs = {"photo": noise(6, 3, 8, 8), "data": torch.tensor([[0.0, 0.3], [2, 0.1], [1, 0.7]]).repeat(2, 1)}
    cells = torch.tensor([[1, 1], [1, 0], [0, 0], [0, 1], [1, 1], [1, 0]]).bool()
    return Batch(inputs, {"photo": torch.tensor([1, 1, 1, 0, 0, 1]).bool(), "data": cells}, torch.arange(6) % 3)


def classifier(pretrained):
    with helpers.seeded(0, "heads"):
        return TipClassifier(pretrained, CLASSES)


def test_it_starts_from_the_pretrained_weights_and_trains_every_one_that_it_has(pretrained, batch):
    before = {name: values.clone() for name, values in pretrained.state_dict().items()}
    method = classifier(pretrained.requires_grad_(False))
    encoders = [name for name in method.state_dict() if "head" not in name]
    assert {name.partition(".")[0] for name in encoders} == {"photo", "table", "interact"}
    helpers.assert_equal(
        {name: method.state_dict()[name] for name in encoders}, {name: before[name] for name in encoders}
    )
    trained = helpers.gradients(method.train(), method.loss(batch)["task"])
    assert trained.keys() == {name for name, _ in method.named_parameters()}


def test_the_stage_stands_on_the_imputer_that_all_methods_share():
    (need,) = last_stage(leaf99.BENCHMARK, "tip", "tip", 0).needs
    assert need.identity == imputer_stage(leaf99.BENCHMARK).identity


def test_the_answer_is_the_mean_of_three_classifiers_and_without_an_image_that_of_the_table(pretrained, batch):
    method = classifier(pretrained).eval()
    whole = replace(batch, observed=dict(batch.observed) | {"photo": torch.ones(6, dtype=torch.bool)})
    logits = method.predict(whole).logits
    parts = []
    for kept in ("image_head", "table_head", "joint_head"):
        alone = classifier(pretrained).eval()
        for name in {"image_head", "table_head", "joint_head"} - {kept}:
            torch.nn.init.zeros_(getattr(alone, name).weight)
            torch.nn.init.zeros_(getattr(alone, name).bias)
        parts.append(3 * alone.predict(whole).logits)
    torch.testing.assert_close(torch.stack(parts).mean(0), logits)
    missing = ~batch.observed["photo"]
    torch.testing.assert_close(method.predict(batch).logits[missing], parts[1][missing])
    torch.testing.assert_close(method.predict(batch).logits[~missing], logits[~missing])
    torch.testing.assert_close(method.loss(batch)["task"], F.cross_entropy(method.predict(batch).logits, batch.labels))


def test_it_is_refused_without_one_image_and_one_table_and_on_another_imputer():
    unsupported = plan_of("tip").unsupported
    assert unsupported(leaf99.BENCHMARK) is None
    assert (
        unsupported(polymnist5k.BENCHMARK)
        == "it reads one image and one table, and the modalities are m0, m1, m2, m3, m4"
    )
    other = replace(leaf99.BENCHMARK, imputer="mean", imputer_options={})
    assert unsupported(other) == "it starts from the imputer 'tip', and the benchmark has the imputer 'mean'"
