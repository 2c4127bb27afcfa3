"""The paper's own numbers, in percent, where ours stand beside them. Cited, never computed here.

From the tables "Comparison of incomplete-modality methods", "Ablation of fine-grained evidence control" and "Ablation of
evidence-unit scoring" of the GAUGE paper. Its PolyMNIST has other photos and its imputer other training flags: the numbers
are comparable in kind, not digit for digit.
"""

POLYMNIST: dict[str, dict[str, float]] = {
    "multiae": {"complete": 99.77, "eta=0.6": 95.36, "eta=0.8": 84.39},
    "multiae:multiae-dagger": {"complete": 99.94, "eta=0.6": 97.50, "eta=0.8": 89.86},
    "mopoe": {"complete": 99.79, "eta=0.6": 93.94, "eta=0.8": 79.84},
    "mopoe:mopoe-dagger": {"complete": 99.63, "eta=0.6": 96.81, "eta=0.8": 87.06},
    "m3care": {"complete": 99.93, "eta=0.6": 56.66, "eta=0.8": 40.53},
    "m3care:m3care-dagger": {"complete": 99.99, "eta=0.6": 97.27, "eta=0.8": 87.92},
    "online_mae": {"complete": 100.00, "eta=0.6": 98.29, "eta=0.8": 90.09},
    "moddrop": {"complete": 99.97, "eta=0.6": 97.66, "eta=0.8": 88.44},
    "mtl": {"complete": 99.97, "eta=0.6": 98.43, "eta=0.8": 91.14},
    "map": {"complete": 99.86, "eta=0.6": 43.00, "eta=0.8": 23.19},
    "map:map-dagger": {"complete": 99.99, "eta=0.6": 96.74, "eta=0.8": 76.20},
    "muse": {"complete": 99.93, "eta=0.6": 94.73, "eta=0.8": 77.56},
    "dymo": {"complete": 100.00, "eta=0.6": 99.79, "eta=0.8": 96.74},
    "gauge:v1": {"eta=0.8": 87.21},
    "gauge:v2": {"eta=0.8": 97.35},
    "gauge:v3": {"eta=0.8": 97.23},
    "gauge": {"complete": 100.00, "eta=0.6": 99.67, "eta=0.8": 97.61},
    "gauge:gauge-random": {"eta=0.8": 97.14},
    "gauge:gauge-feature-norm": {"eta=0.8": 97.16},
    "gauge:gauge-gradient-norm": {"eta=0.8": 96.93},
    "gauge:gauge-attention": {"eta=0.8": 96.87},
}
