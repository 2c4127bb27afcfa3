"""One file for each imputer: `complete(batch)` fills what is missing. Made for data by `Imputer.of(train, **options)`."""
