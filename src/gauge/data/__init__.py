"""Dataset holds one split of the data and makes Batches of it. It loads when first used: images are read without torch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
