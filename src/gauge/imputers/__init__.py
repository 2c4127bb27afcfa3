"""One file for each imputer: `complete(batch)` imputes missing values. Made by `Imputer.of(train, **options)`."""
