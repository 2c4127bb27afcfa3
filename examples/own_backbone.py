"""Gate a stock nn.TransformerEncoder: score its units, close the weak ones, predict again."""

import torch
from torch import nn

from gauge import FromTorch, Gate, Network, attention_bias, check_backbone, normalize_scores, taylor_evidence

layer = nn.TransformerEncoderLayer(64, nhead=4, dim_feedforward=256, batch_first=True, norm_first=True)
backbone = FromTorch(nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False))
check_backbone(backbone, dim=64)  # says what is wrong, if anything is
classifier = Network(backbone, dim=64, num_classes=3)
gate = Gate()  # the two extra parameters

tokens = torch.randn(8, 12, 64)  # 8 samples of 12 evidence units, from any encoder of yours
evidence = taylor_evidence(classifier, tokens)  # one ungated forward-backward pass
gates = gate(normalize_scores(evidence.scores))
logits = classifier(tokens, attention_bias(gates))  # the gated pass

print("gates of the first sample:", [round(value, 2) for value in gates[0].tolist()])
print("prediction before and after:", evidence.logits[0].argmax().item(), logits[0].argmax().item())
