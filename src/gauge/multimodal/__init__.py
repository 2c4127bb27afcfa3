"""GAUGE+ in one line for each step, for samples of several modalities: fit, predict, evaluate, explain, save, load."""
