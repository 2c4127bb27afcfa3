"""Random numbers as pure functions of integers."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from helpers import Wobbly, assert_equal, dataset
from scipy import stats

from gauge import TrainSettings, fit
from gauge.randomness import derive, normal, permutation, sample_keys, seeded, uniform

MANY = 100_000
KEYS = {
    "counted": torch.arange(MANY),
    "of samples": sample_keys(torch.arange(MANY), 0, "train", 3),
    "derived": derive(torch.arange(MANY), "noise"),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("column", [0, 2])
def test_uniform_numbers_are_uniform_inside_the_unit_interval(kind, column):
    draws = uniform(KEYS[kind], 3)[:, column]
    assert draws.min() > 0
    assert draws.max() < 1
    assert abs(draws.mean() - 1 / 2) < 0.004
    assert abs(draws.var() - 1 / 12) < 0.001
    assert stats.kstest(draws.numpy(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("kind", KEYS)
def test_normal_numbers_are_normal_and_finite(kind):
    draws = normal(KEYS[kind], 2)
    assert draws.isfinite().all()
    assert abs(draws.mean()) < 0.01
    assert abs(draws.var() - 1) < 0.02
    assert stats.kstest(draws[:, 0].numpy(), "norm").pvalue > 1e-3


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda key: derive(key, 1), lambda key: derive(key, 2)),
        (lambda key: derive(key, "masks"), lambda key: derive(key, "noise")),
        (lambda key: key, lambda key: derive(key, "noise")),
        (lambda key: derive(key, "a", "b"), lambda key: derive(key, "b", "a")),
        (lambda key: sample_keys(key, 0), lambda key: sample_keys(key, 1)),
        (lambda key: sample_keys(key, 0, "train", 0), lambda key: sample_keys(key, 0, "train", 1)),
        (lambda key: sample_keys(key, 0), lambda key: sample_keys(key + 1, 0)),
    ],
)
def test_streams_of_different_parts_are_uncorrelated(first, second):
    key = torch.arange(MANY)
    draws = torch.stack([uniform(first(key), 1)[:, 0], uniform(second(key), 1)[:, 0]])
    assert abs(torch.corrcoef(draws)[0, 1]) < 0.015
    assert (draws[0] == draws[1]).float().mean() < 1e-3


def test_a_number_depends_on_its_key_and_position_alone():
    keys = sample_keys(torch.arange(50), 3)
    whole = uniform(keys, 8)
    assert torch.equal(uniform(keys[[41, 7]], 8), whole[[41, 7]])
    assert torch.equal(uniform(keys, 3), whole[:, :3])
    assert torch.equal(sample_keys(torch.tensor([41, 7]), 3), keys[[41, 7]])


def test_permutations_differ_between_seeds_and_epochs_and_agree_with_themselves():
    orders = [permutation(50, seed, "order", epoch).tolist() for seed in (0, 1) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4
    assert orders[0] == permutation(50, 0, "order", 0).tolist()
    assert orders[0] != sorted(orders[0])


def test_seeded_follows_its_key_and_restores_the_generator():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    draws = []
    for seed in (0, 0, 1):
        with seeded(seed, "epoch"):
            draws.append(torch.rand(3))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_fits_in_threads_learn_what_each_learns_alone():
    def learn(seed):
        method = Wobbly()  # it has dropout
        fit(method, dataset("train", 40), settings=TrainSettings(epochs=8, batch_size=8, seed=seed))
        return method.state_dict()

    expected = [learn(seed) for seed in range(3)]
    with ThreadPoolExecutor(3) as threads:
        results = list(threads.map(learn, range(3)))
    for learned, alone in zip(results, expected, strict=True):
        assert_equal(learned, alone)
