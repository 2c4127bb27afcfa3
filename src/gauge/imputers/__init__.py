"""One file for each imputer: `complete(batch)` imputes missing values. Made by `Imputer.from_dataset(train, **options)`."""
