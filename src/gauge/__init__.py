"""GAUGE: classification from incomplete multimodal data that weighs every piece of evidence.

The public names stand in `__init__.pyi`. They load when first used, so `import gauge` costs next to nothing.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["__version__", *_names]
