"""One file for each method, a `Method` with `loss(batch)` and `predict(batch)`; `gauge_lab.plans` says how it trains.

With several processes, each is given whole batches, with a warning, unless the method is `shardable` (GAUGE, GAUGE+, votes).
"""
