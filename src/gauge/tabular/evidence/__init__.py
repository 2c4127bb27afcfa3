"""What a fitted ensemble says about rows: trust in cells, effects, explanations, evaluations and audits."""
