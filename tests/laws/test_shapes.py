"""Shapes are types, and every test run checks them: the import hook of conftest.py is really on."""

import pytest
import torch
from jaxtyping import TypeCheckError

from gauge import Units
from gauge.model.gates import attention_bias, normalize_scores
from gauge.model.scoring.taylor import taylor_evidence


def test_a_wrong_number_of_axes_is_caught(network, tokens):
    for call in (
        lambda: attention_bias(torch.ones(3)),
        lambda: normalize_scores(torch.ones(2, 3, 4)),
        lambda: taylor_evidence(network, tokens[0]),
    ):
        with pytest.raises(TypeCheckError):
            call()


def test_axes_of_one_name_have_one_size():
    with pytest.raises(TypeCheckError, match="visible"):
        normalize_scores(torch.ones(2, 5), visible=torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(TypeCheckError, match="modality"):
        Units(torch.zeros(2, 3, 4), torch.zeros(3, 4), torch.zeros(2).long(), torch.ones(2, 3).bool())
