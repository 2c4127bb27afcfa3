"""One file for each method: a module with `loss(batch)` and `predict(batch)`, and a `plan` of the stages that train it."""
