"""GAUGE and nothing else: the method of the paper, from a batch to logits."""
