"""Baselines of the laboratory have as many trained parameters as the published networks."""

import pytest
from helpers import untrained, weightless, zeros

from gauge_lab.benchmarks import BENCHMARKS
from gauge_lab.plans import last_stage

VECTORS = 5 * 1_142_336  # of PolyMNIST: trunks of 93,248 and Linear(2048, 512)
BLOCK = 197_888
CODE = (2560 * 512 + 512) + (512 * 512 + 512)
AUTOENCODER = 4 * BLOCK + 2 * 256 + (128 * 128 + 128) + (6 + 1 + 11) * 128
SIZES = {
    "any_subset": {"polymnist": 958_858},
    "concat": {"polymnist": VECTORS + 25_610},
    "dynmm": {"polymnist": 1_314_310},
    "late_fusion:unimodal": {"polymnist": VECTORS + 5 * 5_130},
    "m3care": {"polymnist": 2_591_834},
    "m3care:m3care-dagger": {"polymnist": 2_591_834},
    "map": {"polymnist": 1_045_834, "mst": 732_826 + 7 * 2 * 4 * 32},
    "map:map-dagger": {"polymnist": 1_045_834, "mst": 732_826 + 7 * 2 * 4 * 32},
    "moddrop": {"polymnist": 950_602, "mst": 732_826, "celeba": 34_712_386},
    "mopoe": {"polymnist": 5_130},
    "mtl": {"polymnist": 954_442},
    "multiae": {"polymnist": CODE + 5_130},
    "muse": {"polymnist": 2_075_978},
    "online_mae": {
        "polymnist": VECTORS + 5 * (512 * 128 + 128 + 2 * 128) + AUTOENCODER + 2 * BLOCK + 1290 + (1 + 1 + 5) * 128
    },
    "pdf": {"polymnist": VECTORS + 5 * 5_130 + 5 * 1_050_625},
    "qmf": {"polymnist": VECTORS + 5 * 5_130},
}


@pytest.mark.parametrize(("row", "name"), [(row, name) for row, sizes in SIZES.items() for name in sizes])
def test_a_baseline_has_the_published_size(row, name):
    method, _, variant = row.partition(":")
    benchmark = BENCHMARKS.get(name)
    stage = last_stage(benchmark, method, variant or method, 0)
    module = (weightless if stage.needs else untrained)(stage, zeros(benchmark))
    assert sum(each.numel() for each in module.parameters() if each.requires_grad) == SIZES[row][name]
