"""The laboratory of GAUGE: benchmarks, the methods compared, and what makes tables of their results.

It comes with a clone of the repository, not with `pip install gauge-ml`. The public names load when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
