"""Our optimizers take the steps of torch's, bit for bit, and leave torch's compiler unloaded."""

import subprocess
import sys

import pytest
import torch
from helpers import SETTINGS, plus

from gauge.nn.minimize import LBFGS
from gauge.training.step import AdamW, make_optimizer

FIT = """
import sys
import numpy as np
import pandas as pd
from gauge import GaugeClassifier
draw = np.random.default_rng(0)
table = pd.DataFrame(draw.normal(size=(80, 2)), columns=["a", "b"])
GaugeClassifier(epochs=1, trust=False, verbose=False, random_state=0).fit(table, table["a"] > 0)
print("torch._dynamo" in sys.modules)
"""


def parameters():
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=draw).requires_grad_() for shape in ((3, 4), (4,), ())]


def step(optimizer, trained):
    """A step down the same slope for the same values; the last parameter has no gradient at times."""
    optimizer.zero_grad()
    matrix, vector, scalar = trained
    cost = (matrix @ vector).square().sum() + vector.cos().sum()
    if optimizer.state[vector].get("step", torch.zeros(())) % 2 == 0:
        cost = cost + (scalar - 1).square()
    cost.backward()
    optimizer.step()


@pytest.mark.parametrize(
    "options",
    [
        {"fused": True},
        {"foreach": True, "weight_decay": 0.1},
        {"foreach": False, "betas": (0.8, 0.9)},
        {"amsgrad": True, "maximize": True},
    ],
    ids=str,
)
def test_adam_is_that_of_torch_bit_for_bit(options):
    ours, theirs = parameters(), parameters()
    groups = [[{"params": each[:1]}, {"params": each[1:], "lr": 0.3}] for each in (ours, theirs)]
    pair = AdamW(groups[0], lr=0.05, **options), torch.optim.AdamW(groups[1], lr=0.05, **options)
    for number in range(8):
        for optimizer, trained in zip(pair, (ours, theirs), strict=True):
            optimizer.param_groups[0]["lr"] = 0.05 / (1 + number)
            step(optimizer, trained)
    for first, second in zip(ours, theirs, strict=True):
        assert torch.equal(first, second)


def test_lbfgs_is_that_of_torch_bit_for_bit():
    found = []
    for kind in (LBFGS, torch.optim.LBFGS):
        (_, vector, _) = trained = parameters()
        optimizer = kind([vector], max_iter=20, line_search_fn="strong_wolfe")

        def cost(trained=trained):
            trained[1].grad = None
            value = (trained[0].detach() @ trained[1] - 1).square().sum() + trained[1].pow(4).sum()
            value.backward()
            return value

        optimizer.step(cost)
        found.append(vector.detach())
    assert torch.equal(*found)


def test_a_fit_does_not_load_the_compiler_of_torch():
    done = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False"], done.stderr


def test_weight_decay_shrinks_weights_of_two_dimensions_and_nothing_else():
    model, settings = plus(), SETTINGS.model_copy(update={"weight_decay": 0.5, "learning_rate": 0.1})
    before = {name: values.detach().clone() for name, values in model.named_parameters()}
    optimizer = make_optimizer(model, settings, torch.device("cpu"))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)  # nothing but decay moves anything
    optimizer.step()
    for name, values in model.named_parameters():
        torch.testing.assert_close(values, before[name] * (0.95 if values.ndim > 1 else 1.0), msg=name)
