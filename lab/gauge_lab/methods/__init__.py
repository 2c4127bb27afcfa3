"""One file for each method, a `Method` with `loss(batch)` and `predict(batch)`; `experiments/plans` says how it trains."""
