"""One file for each method, a `Method` with `loss(batch)` and `predict(batch)`; `gauge_lab.plans` says how it trains."""
