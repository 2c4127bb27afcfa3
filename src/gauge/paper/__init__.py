"""GAUGE and nothing else: the method of the paper, from a batch to logits."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["attribution"])
