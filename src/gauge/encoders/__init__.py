"""One file for each encoder: (x, observed) -> [b, units, width]. Constructed as Encoder(shape, width, **options)."""
