"""Gated attention (Eq. 8), and the sizes of the paper's networks."""

import pytest
import torch
from helpers import DIM, network, noise

from gauge import Network, Transformer, UnitEncoder
from gauge.encoders.conv_grid import ConvGrid
from gauge.nn.attention import Attention, Block
from gauge.paper.gauge import attention_bias
from gauge.paper.network import hiding_bias
from gauge.randomness import seeded


@pytest.fixture
def attention():
    with seeded(0, "attention"):
        return Attention(DIM, heads=2)


@pytest.fixture
def sequence():
    return noise(3, 6, DIM)


def gates_of(samples=3, units=5):
    return torch.rand(samples, units, generator=torch.Generator().manual_seed(1)) * 0.98 + 0.01


def by_hand(attention, sequence, gates):
    """Unnormalised weights exp(qk / sqrt(d)), multiplied by the gates (1 for CLS), then normalised."""
    size = DIM // attention.heads
    query, key, value = attention.qkv(sequence).chunk(3, -1)
    heads = []
    for head in range(attention.heads):
        part = slice(head * size, (head + 1) * size)
        weight = torch.exp(query[..., part] @ key[..., part].transpose(1, 2) / size**0.5)
        weight = weight * torch.cat([torch.ones(len(gates), 1), gates], 1)[:, None, :]
        heads.append(weight / weight.sum(-1, keepdim=True))
    gathered = [weight @ value[..., h * size : (h + 1) * size] for h, weight in enumerate(heads)]
    return attention.project(torch.cat(gathered, -1)), torch.stack(heads, 1)


def test_adding_log_g_multiplies_the_unnormalised_weight_by_g(attention, sequence):
    gates = gates_of()
    output, weights = by_hand(attention, sequence, gates)
    torch.testing.assert_close(attention(sequence, attention_bias(gates)), output)
    torch.testing.assert_close(attention.weights(sequence, attention_bias(gates)), weights)


def test_open_gates_change_nothing(network, tokens):
    torch.testing.assert_close(network(tokens, attention_bias(torch.ones(4, 7))), network(tokens), rtol=0, atol=1e-6)


@pytest.mark.parametrize("unit", [0, 3, 6])
def test_a_closed_gate_equals_removing_the_unit(network, tokens, unit):
    kept = torch.arange(7) != unit
    closed = network(tokens, hiding_bias(kept.expand(4, 7)))
    torch.testing.assert_close(closed, network(tokens[:, kept]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("biased", [False, True])
def test_cls_is_the_first_position_of_the_output(sequence, depth, biased):
    backbone = network(depth).backbone
    bias = attention_bias(gates_of()) if biased else None
    torch.testing.assert_close(backbone.cls(sequence, bias), backbone(sequence, bias)[:, 0])


def test_every_query_reads_its_own_row_of_the_bias(attention, sequence):
    bias = noise(3, 2, 6, 6, seed=2)
    value = attention.qkv(sequence)[..., 2 * DIM :].unflatten(-1, (2, -1)).transpose(1, 2)
    expected = attention.project((attention.weights(sequence, bias) @ value).transpose(1, 2).flatten(2))
    torch.testing.assert_close(attention(sequence, bias), expected)
    torch.testing.assert_close(attention.first(sequence, bias), expected[:, :1])


def test_the_bias_reaches_every_block(sequence):
    backbone = network().backbone
    bias = attention_bias(gates_of())
    first, second = backbone.blocks
    torch.testing.assert_close(backbone(sequence, bias), second(first(sequence, bias), bias))
    assert not torch.allclose(backbone(sequence, bias), second(first(sequence, bias)), atol=1e-5)
    assert not torch.allclose(backbone(sequence, bias), second(first(sequence), bias), atol=1e-5)


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(("dim", "heads", "count"), [(32, 2, 12_608), (128, 4, 197_888), (256, 8, 788_992)])
def test_a_block_has_the_published_number_of_parameters(dim, heads, count):
    assert parameters(Block(dim, heads)) == count


def test_the_polymnist_network_has_the_published_number_of_parameters():
    encoder = UnitEncoder({f"m{view}": ConvGrid((3, 28, 28), 128) for view in range(5)}, 128)
    classifier = Network(Transformer(128, heads=4, depth=2), 128, 10)
    assert sum(encoder.unit_counts.values()) == 20
    assert parameters(encoder) + parameters(classifier) == 950_602
