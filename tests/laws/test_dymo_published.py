"""DyMo against what its published code selects and predicts on the same weights, recorded in numbers.

The network has the published sizes for PolyMNIST and weights that NumPy draws. The published code ran on these weights,
class statistics and images outside of this repository, at commit 64e0f78; what it selected and its logits are below.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gauge import Batch, Dataset
from gauge.imputers.oracle import Oracle
from gauge.plus.any_subset import AnySubset
from gauge_lab.benchmarks.polymnist import BENCHMARK
from gauge_lab.methods.dymo import DyMo
from gauge_lab.parts import Parts

SAMPLES = 48
VISIBLE = [  # bit u of each sample: modality u is visible at the end
    *(25, 29, 9, 5, 1, 6, 26, 8, 12, 19, 25, 29, 8, 15, 28, 6, 22, 27, 6, 5, 27, 9, 1, 2),
    *(17, 4, 19, 6, 13, 11, 8, 1, 27, 20, 13, 16, 10, 4, 6, 25, 22, 14, 22, 15, 13, 13, 9, 30),
]
LOGITS = [  # of the first samples
    [1.4765, 6.4027, -2.8954, 2.7617, -1.6815, 7.4303, -3.1848, -2.0057, 1.3309, 4.4456],
    [1.2242, 5.6540, -4.5167, 2.2303, -1.3504, 8.6374, -2.8616, -2.3220, 1.4721, 5.0720],
    [2.4510, 5.7969, -3.0454, 2.6850, -1.0604, 8.0425, -3.1846, -1.9048, 2.8103, 3.8010],
    [2.0253, 5.8213, -5.5740, 2.3201, 1.3160, 10.0672, -2.4886, -1.2633, 2.6011, 5.7073],
]


def fixed(shape, draw):
    """Weights of about unit gain; vectors, among them norms and biases, near one."""
    values = draw.standard_normal(tuple(shape))
    scale = np.prod(shape[1:]) ** -0.5 if len(shape) > 1 else 0.3
    return torch.from_numpy(scale * 1.5 * values).float()


def images(count, seed):
    draw = np.random.RandomState(seed)
    return {name: torch.from_numpy(draw.rand(count, 3, 28, 28)).float() for name in BENCHMARK.modalities}


def dymo(shared_embedding=True, tail="float32"):
    parts = replace(Parts.from_benchmark(BENCHMARK), shared_embedding=shared_embedding)
    backbone = AnySubset(*parts.unit_network(), subsets_per_step=5, projection=64)
    draw = np.random.RandomState(7)
    with torch.no_grad():
        for _, values in sorted(backbone.named_parameters()):
            values.copy_(fixed(values.shape, draw))
    method = DyMo(backbone, Oracle(), tail=tail)
    method.prepare(Dataset("train", images(60, 8), torch.arange(60) % 10))
    return method


def batch():
    draw = np.random.RandomState(9)
    observed = torch.from_numpy(draw.rand(SAMPLES, 5) < 0.4)
    observed[~observed.any(1), 2] = True
    flags = dict(zip(BENCHMARK.modalities, observed.unbind(1), strict=True))
    return Batch(images(SAMPLES, 10), flags, torch.zeros(SAMPLES, dtype=torch.long), torch.arange(SAMPLES))


@pytest.fixture(scope="module")
def selection():
    return dymo().select(batch())


def test_every_selection_is_that_of_the_published_code(selection):
    assert (selection.visible_modalities.long() * 2 ** torch.arange(5)).sum(1).tolist() == VISIBLE
    assert 0 < selection.accepted.sum() < (~torch.stack(list(batch().observed.values()), 1)).sum()


def test_the_logits_are_those_of_the_published_code(selection):
    torch.testing.assert_close(selection.logits[: len(LOGITS)], torch.tensor(LOGITS), rtol=0, atol=2e-4)


def test_own_embeddings_give_other_logits(selection):
    other = dymo(shared_embedding=False).select(batch())
    assert not torch.allclose(other.logits, selection.logits, atol=1e-2)
