"""One file for each encoder: (x, observed) -> [b, units, width]. Constructed as Encoder(shape, width, **options)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
