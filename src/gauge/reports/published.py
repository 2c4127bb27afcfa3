"""The paper's own numbers, in percent, where ours stand beside them. Cited, never computed here.

From the tables "Comparison of incomplete-modality methods", "Ablation of fine-grained evidence control" and "Ablation of
evidence-unit scoring" of the GAUGE paper. Its PolyMNIST has other photos and its imputer other training flags: the numbers
are comparable in kind, not digit for digit.
"""

POLYMNIST: dict[str, dict[str, float]] = {
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
