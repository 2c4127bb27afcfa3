"""DyMo against its definition, written out for one sample at a time."""

import itertools
import math
from dataclasses import replace

import helpers
import pytest
import torch
from helpers import CLASSES, SHAPES, rows_of

from gauge import Dataset
from gauge.masks import AnyModalities, mask_split
from gauge.types import Encoder
from gauge_lab.benchmarks.polymnist5k import BENCHMARK
from gauge_lab.methods.dymo import CALIBRATIONS, TAILS, DyMo, SubsetState
from gauge_lab.plans import last_stage, plan_of

NAMES = list(SHAPES)
SUBSETS = [set(names) for size in (1, 2, 3) for names in itertools.combinations(range(3), size)]
KINDS = [("cosine", "log"), ("cosine", "ratio"), ("euclidean", "log"), ("euclidean", "ratio")]


def double_data(split, rows, seed=0):
    """Double precision: then no decision hangs on a rounding error."""
    data = helpers.dataset(split, rows, seed)
    return Dataset(split, {name: values.double() for name, values in data.inputs.items()}, data.labels, data.observed)


TRAIN = double_data("train", 27)


def dymo(distance="cosine", calibration="log", tail="erfc", seed=1, prepared=True):
    """A model with random weights under which samples differ in what they accept."""
    backbone = helpers.any_subset(distance=distance, projection=4)
    with torch.no_grad():
        for place, parameter in enumerate(backbone.parameters()):
            parameter.add_(0.2 * helpers.noise(*parameter.shape, seed=1000 * seed + place))
    method = DyMo(backbone, helpers.imputer("mean", TRAIN), calibration=calibration, tail=tail).double()
    if prepared:
        method.prepare(TRAIN)
    return method


@pytest.fixture
def batch():
    """Thirty samples with all kinds of gaps, tables that are observed in part among them."""
    data = double_data("test", 30, seed=60)
    keep = mask_split(AnyModalities(), data.feature_counts, 30, seed=1, split="test")
    return data.batch(torch.arange(30), keep=keep)


def feature_of(method, batch):
    """Logits and features of what is observed in one sample."""
    backbone = method.backbone
    units = backbone.encoder(batch)
    bias = torch.cat([torch.zeros(1, 1), torch.where(units.observed, 0.0, -1e9)], 1)[:, None, None]
    state = backbone.classifier.features(units.tokens, bias)[0]
    feature = backbone.projection(state)
    if backbone.distance == "cosine":
        feature = feature / feature.norm()
    return backbone.classifier.head(state), feature


def distance_of(method, feature, centre):
    if method.backbone.distance == "cosine":
        return float(1 - feature @ centre)
    return float((feature - centre).norm())


def statistics_of(method, train):
    means, spreads = {}, {}
    for number, subset in enumerate(SUBSETS):
        for label in range(CLASSES):
            features = []
            for row in range(len(train)):
                if int(train.labels[row]) == label:
                    sample = train.batch(torch.tensor([row]))
                    kept = {
                        name: flags & torch.tensor(place in subset)
                        for place, (name, flags) in enumerate(sample.observed.items())
                    }
                    if not any(bool(flags.any()) for flags in kept.values()):
                        kept = sample.observed
                    features.append(feature_of(method, replace(sample, observed=kept))[1])
            mean = sum(features) / len(features)
            means[number, label] = mean
            distances = [distance_of(method, feature, mean) for feature in features]
            spreads[number, label] = math.sqrt(sum(d * d for d in distances) / len(distances))
    prototypes = [sum(means[number, label] for number in range(7)) / 7 for label in range(CLASSES)]
    return means, spreads, prototypes


def state_of(method, sample, completed, added):
    """Logits, q and π with the modalities in `added` taken from the completed sample."""
    inputs = {name: (completed if name in added else sample).inputs[name] for name in NAMES}
    observed = {name: torch.ones_like(flags) if name in added else flags for name, flags in sample.observed.items()}
    logits, feature = feature_of(method, replace(sample, inputs=inputs, observed=observed))
    scores = []
    for prototype in method.prototypes:
        if method.backbone.distance == "cosine":
            scores.append(float(feature @ prototype) / 0.1)
        else:
            scores.append(-(float((feature - prototype).norm()) ** 2) / 0.1)
    quality = max(math.exp(s - max(scores)) for s in scores) / sum(math.exp(s - max(scores)) for s in scores)
    whole = {place for place, name in enumerate(NAMES) if observed[name].all()}
    some = {place for place, name in enumerate(NAMES) if observed[name].any()}
    number, answer = SUBSETS.index(whole or some), int(logits.argmax())
    deviation = distance_of(method, feature, method.means[number, answer]) / float(method.spreads[number, answer])
    if method.tail == "float32":
        cdf = torch.distributions.Normal(torch.tensor(0.0), torch.tensor(1.0)).cdf(torch.tensor(deviation))
        return logits, quality, float(2 * (1 - cdf))
    return logits, quality, math.erfc(deviation / math.sqrt(2))


def factor_of(method, before, after):
    if after >= before:
        return 1.0
    if method.calibration == "ratio":
        return after / (before + 1e-9)
    factor = math.log(before) / math.log(after + 1e-9)
    return factor if method.tail == "float32" else min(1.0, max(0.0, factor))


@torch.no_grad()
def selection_of(method, sample):
    """The loop for one sample: what was accepted, in order, and the answer."""
    completed = method.imputer.complete(sample)
    hidden = [name for name, flags in sample.observed.items() if not flags.all()]
    added, bad = [], set()
    logits, quality, tail = state_of(method, sample, completed, added)
    for _ in range(len(hidden)):
        found = {}
        for name in hidden:
            if name not in added and name not in bad:
                then = state_of(method, sample, completed, [*added, name])
                found[name] = then[1] * factor_of(method, tail, then[2]) - quality, then
        bad |= {name for name, (reward, _) in found.items() if reward < 0}
        if not any(reward > 0 for reward, _ in found.values()):
            break
        best = max(found, key=lambda name: found[name][0])
        added.append(best)
        logits, quality, tail = found[best][1]
    return added, logits


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_statistics_are_means_and_root_mean_square_distances_of_every_subset_and_class(distance):
    method = dymo(distance)
    with torch.no_grad():
        means, spreads, prototypes = statistics_of(method, TRAIN)
    for (number, label), mean in means.items():
        torch.testing.assert_close(method.means[number, label], mean)
        assert float(method.spreads[number, label]) == pytest.approx(spreads[number, label])
    torch.testing.assert_close(method.prototypes, torch.stack(prototypes))


@pytest.mark.parametrize(
    ("distance", "calibration", "tail"), [*((*kind, "erfc") for kind in KINDS), ("cosine", "log", "float32")]
)
def test_the_selection_of_every_sample_is_the_one_by_hand(batch, distance, calibration, tail):
    counts = set()
    for seed in (1, 2):
        method = dymo(distance, calibration, tail, seed)
        selection = method.select(batch)
        for row in range(len(batch)):
            added, logits = selection_of(method, rows_of(batch, torch.tensor([row])))
            accepted = [name for place, name in enumerate(NAMES) if selection.accepted[row, place]]
            assert accepted == sorted(added, key=NAMES.index)
            torch.testing.assert_close(selection.logits[row], logits)
            counts.add(len(added))
        torch.testing.assert_close(method.predict(batch).logits, selection.logits)
    assert {0, 1, 2} <= counts


def scripted(qualities):
    """DyMo whose quality depends on what is accepted alone, as a string of modality numbers."""
    method = dymo()

    def look(observed, recovered, accepted):
        sets = ["".join(str(place) for place in range(3) if flags[place]) for flags in accepted]
        quality = torch.tensor([qualities[accepted] for accepted in sets], dtype=torch.float64)
        return SubsetState(torch.zeros(len(sets), CLASSES), quality, torch.ones(len(sets)))

    method._look = look
    return method


@pytest.mark.parametrize(
    ("alone", "accepted"),
    [
        pytest.param(0.4, [False, True, False], id="a negative reward closes a modality for good"),
        pytest.param(0.5, [False, True, True], id="a reward of zero leaves it open"),
    ],
)
def test_a_rejected_modality_is_never_reconsidered(batch, alone, accepted):
    only_image = {"image": True, "signal": False, "table": False}
    observed = {name: torch.tensor([flag]) for name, flag in only_image.items()}
    sample = replace(rows_of(batch, torch.tensor([0])), observed=observed)
    method = scripted({"": 0.5, "1": 0.6, "2": alone, "12": 0.9})
    assert method.select(sample).accepted[0].tolist() == accepted


def test_without_gaps_it_is_the_backbone_bit_for_bit(batch):
    complete = {name: torch.ones_like(flags) for name, flags in batch.observed.items()}
    batch = replace(batch, observed=complete)
    for kind in KINDS:
        method = dymo(*kind)
        selection = method.select(batch)
        assert torch.equal(selection.logits, method.backbone.predict(batch).logits)
        assert selection.rounds == 0
        assert selection.visible_modalities.all()
        assert not selection.accepted.any()


class Mixing(Encoder):
    """A table's encoder in which every column sees all others."""

    def __init__(self, columns):
        super().__init__()
        self.columns, self.units, self.width = columns, columns.units, columns.width

    def forward(self, x, observed):
        return self.columns(x + x.mean(1, keepdim=True), observed)


@pytest.mark.parametrize("mixing", [False, True])
def test_a_sample_that_accepts_nothing_keeps_the_answer_of_the_backbone_bit_for_bit(batch, mixing):
    method = dymo()
    if mixing:
        encoders = method.backbone.encoder.encoders
        encoders["table"] = Mixing(encoders["table"])
        method.prepare(TRAIN)
    selection = method.select(batch)
    still = ~selection.accepted.any(1)
    table = batch.observed["table"]
    assert (still & table.any(1) & ~table.all(1)).any()
    assert not still.all()
    assert torch.equal(selection.logits[still], method.backbone.predict(batch).logits[still])


def test_small_passes_give_the_same(batch, monkeypatch):
    expected, statistics = dymo().select(batch), dymo().state_dict()
    monkeypatch.setattr("gauge_lab.methods.dymo.UNITS_PER_PASS", 70)
    method = dymo()
    for name, values in method.state_dict().items():
        torch.testing.assert_close(values, statistics[name])
    selection = method.select(batch)
    assert torch.equal(selection.accepted, expected.accepted)
    torch.testing.assert_close(selection.logits, expected.logits)


def test_tails_and_calibrations_are_the_published_and_the_clean_ones(batch):
    deviation = torch.tensor([0.0, 1.0, 5.0, 5.6, 8.0])
    exact = [math.erfc(float(d) / math.sqrt(2)) for d in deviation]
    torch.testing.assert_close(TAILS["erfc"](deviation), torch.tensor(exact))
    published = TAILS["float32"](deviation)
    assert published[0] == 1
    assert published[3:].tolist() == [0, 0]
    torch.testing.assert_close(published, torch.tensor(exact), rtol=0, atol=2e-7)
    before, after = torch.tensor([0.5, 1e-12, 1.0, 0.2]), torch.tensor([0.25, 1e-13, 0.5, 0.2])
    clean = dymo(calibration="log")._calibrate(before, after)
    torch.testing.assert_close(clean, torch.tensor([0.5, 1.0, 0.0, 1.0]), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(CALIBRATIONS["ratio"](before, after)[0], torch.tensor(0.5))
    assert CALIBRATIONS["log"](before, after)[1] > 1


def test_a_split_without_some_class_is_refused_with_its_number():
    some = torch.arange(4) * 3
    split = Dataset("train", {name: values[some] for name, values in TRAIN.inputs.items()}, TRAIN.labels[some])
    with pytest.raises(ValueError, match=r"train split has no sample of class 1 \(2 such\), so DyMo has no statistics"):
        dymo(prepared=False).prepare(split)


def test_the_plan_stands_on_backbone_and_imputer_and_trains_nothing():
    variants = plan_of("dymo").variants
    stages = {variant: last_stage(BENCHMARK, "dymo", variant, BENCHMARK.backbones + 1) for variant in variants}
    assert len({stage.key("data") for stage in stages.values()}) == len(variants)
    for variant, stage in stages.items():
        backbone, imputer = stage.needs
        assert backbone.name == ("backbone-euclidean-s1" if variant == "dymo-e" else "backbone-s1")
        assert imputer.name == "imputer-mopoe"
        assert (stage.settings.epochs, stage.settings.seed) == (0, 1)
