"""Gauge is the paper: its scores, gates and logits are those of a reference written from Eqs. 1 to 9 alone."""

from dataclasses import replace

import helpers
import pytest
import torch
from helpers import CLASSES, DIM, double, enlarged, noise

from gauge import Gating, Gauge, Network, Transformer, UnitEncoder
from gauge.encoders.mlp import Mlp


def norm(layer, x):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + layer.eps).sqrt() * layer.weight + layer.bias


def logits_of(network, tokens, gates):
    """Eqs. 1, 8 and 9 of one sample: [n, c] and [n] -> [k]. A gate multiplies the unnormalised attention on its unit."""
    state = torch.cat([(network.cls_token + network.cls_position)[None], tokens])
    gates = torch.cat([torch.ones(1, dtype=tokens.dtype), gates.clamp_min(1e-9)])
    for block in network.backbone.blocks:
        x, heads, gathered = norm(block.attention_norm, state), block.attention.heads, []
        for weight in zip(*(part.chunk(heads) for part in block.attention.qkv.weight.chunk(3)), strict=True):
            query, key, value = (x @ part.T for part in weight)
            attention = torch.exp(query @ key.T / query.shape[1] ** 0.5) * gates
            gathered.append(attention / attention.sum(1, keepdim=True) @ value)
        state = state + torch.cat(gathered, 1) @ block.attention.project.weight.T + block.attention.project.bias
        state = state + block.mlp(norm(block.mlp_norm, state))
    return state[0] @ network.head.weight.T + network.head.bias


def reference(method, units, seen, *, zscore, by_modality):
    """Scores, gates and logits of every sample; units that are not `seen` do not exist."""
    scores, gates, logits = torch.zeros(seen.shape), torch.zeros(seen.shape), []
    for row, visible in enumerate(seen):
        tokens = units.tokens[row, visible].detach().requires_grad_()
        ungated = logits_of(method.classifier, tokens, torch.ones(len(tokens), dtype=tokens.dtype))
        (gradient,) = torch.autograd.grad(-ungated.max(), tokens)  # of minus the predicted logit
        effects = (gradient * (0 - tokens)).abs().sum(1).detach()  # Eq. 4
        score = (effects - effects.mean()) / max(effects.std(), 1e-6) if zscore else effects  # Eq. 6
        if by_modality:  # v3
            own = units.modality[visible]
            score = torch.stack([score[own == each].mean() for each in own])
        gate = torch.sigmoid((score - method.gate.threshold) / method.gate.log_temperature.exp())  # Eq. 7
        scores[row, visible], gates[row, visible] = effects.float(), gate.float().detach()
        logits.append(logits_of(method.classifier, tokens, gate).detach())
    return scores, gates, torch.stack(logits)


@pytest.mark.parametrize("granularity", ["unit", "modality"])
@pytest.mark.parametrize("normalization", ["adaptive", "raw", "zscore"])
@pytest.mark.parametrize("imputed", [False, True])
def test_gauge_is_the_equations_of_the_paper(train, batch, imputed, normalization, granularity):
    imputer = helpers.imputer("mean", train) if imputed else None
    method = enlarged(helpers.gauge(imputer, granularity=granularity, normalization=normalization)).double().eval()
    check(method, double(batch), zscore=normalization != "raw", by_modality=granularity == "modality")


def test_three_units_keep_their_raw_scores():
    encoders = {f"m{view}": Mlp((3,), DIM, hidden=4) for view in range(3)}
    network = Network(Transformer(DIM, heads=2, depth=2), DIM, CLASSES)
    method = enlarged(Gauge(UnitEncoder(encoders, DIM), network, gating=Gating())).double().eval()
    batch = helpers.incomplete_batch()
    inputs = {name: noise(6, 3, seed=place) for place, name in enumerate(encoders)}
    batch = replace(batch, inputs=inputs, observed={name: noise(6, seed=9) < 9 for name in encoders})
    check(method, double(batch), zscore=False, by_modality=False)


def check(method, batch, **how):
    completed = batch if method.imputer is None else method.imputer.complete(batch)
    units = method.encoder(completed, hide_missing=method.imputer is None)
    seen = units.observed if method.imputer is None else torch.ones_like(units.observed)
    scores, gates, logits = reference(method, units, seen, **how)
    found = method.predict(batch)
    torch.testing.assert_close(found.evidence.scores * seen, scores, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found.gates * seen, gates, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found.logits, logits, rtol=1e-6, atol=1e-6)
