"""Random numbers as pure functions of integers."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from helpers import Wobbly, assert_equal, dataset
from scipy import stats

from gauge import TrainSettings, fit
from gauge.randomness import derive, key_of, normal, permutation, sample_keys, seeded, uniform

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


def test_numbers_of_one_key_are_uniform_too():
    assert stats.kstest(uniform(torch.tensor([7]), MANY)[0].numpy(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("kind", KEYS)
def test_normal_numbers_are_normal_and_finite(kind):
    draws = normal(KEYS[kind], 2)
    assert draws.isfinite().all()
    assert abs(draws.mean()) < 0.01
    assert abs(draws.var() - 1) < 0.02
    assert stats.kstest(draws[:, 0].numpy(), "norm").pvalue > 1e-3


def key_whose_first_draw_is(bits):
    """SplitMix64 run backwards, from all 64 bits of the hash to the key."""
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        undone = bits
        for _ in range(64 // shift):
            undone = bits ^ (undone >> shift)
        bits = undone * pow(factor, -1, 2**64) % 2**64
    return torch.tensor([(bits - 0x9E3779B97F4A7C15 + 2**63) % 2**64 - 2**63])


@pytest.mark.parametrize(("bits", "extreme"), [(0, 2.0**-24), (2**64 - 1, 1 - 2.0**-24)])
def test_the_extreme_draws_stay_inside_the_interval_and_finite(bits, extreme):
    key = key_whose_first_draw_is(bits)
    assert uniform(key, 1).item() == extreme
    assert normal(key, 1).isfinite().all()


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


def test_numbers_of_one_key_are_uncorrelated_with_each_other():
    correlation = torch.corrcoef(uniform(torch.arange(MANY), 6).T) - torch.eye(6)
    assert correlation.abs().max() < 0.015


def test_a_number_depends_on_its_key_and_position_alone():
    keys = sample_keys(torch.arange(50), 3)
    whole = uniform(keys, 8)
    assert torch.equal(uniform(keys[[41, 7]], 8), whole[[41, 7]])
    assert torch.equal(uniform(keys, 3), whole[:, :3])
    assert torch.equal(sample_keys(torch.tensor([41, 7]), 3), keys[[41, 7]])


def test_keys_of_samples_do_not_collide():
    assert len(sample_keys(torch.arange(MANY), 0).unique()) == MANY


@pytest.mark.parametrize("number", [-1, 0, 2**31, 2**62, -(2**63), 2**63 - 1])
def test_negative_and_huge_seeds_indices_and_parts_work(number):
    others = torch.tensor([5, 6])
    keys = torch.tensor([number, 3])
    for draws in (uniform(keys, 4), uniform(sample_keys(keys, number, number), 4), uniform(derive(others, number), 4)):
        assert ((draws > 0) & (draws < 1)).all()
        assert len(draws.unique()) == 8
    assert key_of(number, "a") != key_of(number, "b")
    with seeded(number, "x"):
        torch.rand(1)


def test_parts_wrap_around_at_64_bits_rather_than_fail():
    assert torch.equal(derive(torch.arange(3), 2**64 + 5), derive(torch.arange(3), 5))


@pytest.mark.parametrize("size", [0, 1, 2, 1000])
def test_permutation_is_a_permutation(size):
    assert permutation(size, 0, "order").sort().values.tolist() == list(range(size))


def test_permutations_differ_between_seeds_and_epochs_and_agree_with_themselves():
    orders = [permutation(50, seed, "order", epoch).tolist() for seed in (0, 1) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4
    assert orders[0] == permutation(50, 0, "order", 0).tolist()
    assert orders[0] != sorted(orders[0])


def test_every_place_of_a_permutation_is_equally_likely():
    first = torch.tensor([int(permutation(5, seed)[0]) for seed in range(2000)])
    assert stats.chisquare(first.bincount(minlength=5).numpy()).pvalue > 1e-3


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


def test_seeded_restores_the_generator_after_an_error():
    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), seeded(0):
        torch.rand(3).tolist()[0] / 0
    assert torch.equal(torch.get_rng_state(), before)


def test_a_seeded_block_draws_what_manual_seed_gives():
    with torch.random.fork_rng([]):
        torch.manual_seed(key_of(7, "a") & (2**63 - 1))
        expected = _draws()
    with seeded(7, "a"):
        assert all(map(torch.equal, _draws(), expected))


def test_a_block_inside_a_block_has_its_own_draws_and_does_not_change_those_around_it():
    with seeded(0):
        first, second = torch.rand(3), torch.rand(3)
    with seeded(0):
        before = torch.rand(3)
        with seeded(1):
            inner = torch.rand(3)
        after = torch.rand(3)
    with seeded(1):
        alone = torch.rand(3)
    assert torch.equal(before, first)
    assert torch.equal(inner, alone)
    assert torch.equal(after, second)


def test_threads_with_the_same_seed_draw_the_same_numbers():
    with seeded(3):
        expected = [_draws() for _ in range(20)]
    start, results = threading.Barrier(4), []

    def draw(number):
        start.wait()
        with seeded(3 if number < 3 else 4):
            results.append((number, [_draws() for _ in range(20)]))

    before = torch.get_rng_state()
    threads = [threading.Thread(target=draw, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert torch.equal(torch.get_rng_state(), before)
    for number, drawn in results:
        same = [torch.equal(*pair) for draws in zip(drawn, expected, strict=True) for pair in zip(*draws, strict=True)]
        assert all(same) == (number < 3)


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


def _draws():
    """One draw of each kind that networks make: weights, dropout, noise, orders, attention."""
    attention = torch.nn.MultiheadAttention(8, 2, dropout=0.5)
    given = torch.ones(1, 3, 8)
    return [
        torch.nn.Linear(3, 5).weight.detach(),
        torch.nn.Embedding(3, 5).weight.detach(),
        torch.nn.Dropout(0.5)(torch.ones(40)),
        torch.nn.functional.dropout2d(torch.ones(1, 30, 2, 2)),
        attention(given, given, given)[0].detach(),
        torch.nn.functional.scaled_dot_product_attention(given, given, given, dropout_p=0.5),
        torch.nn.GRU(8, 4, 2, dropout=0.5)(given)[0].detach(),
        torch.empty(4).normal_(),
        torch.randn_like(given),
        torch.randperm(50),
    ]
