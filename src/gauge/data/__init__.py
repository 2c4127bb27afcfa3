"""Dataset holds one split of the data and makes Batches of it. It loads when first used: images are read without torch."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from gauge.data.dataset import Dataset as Dataset

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"dataset": ["Dataset"]})
