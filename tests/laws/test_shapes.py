"""Shapes are types, and every test run checks them: the import hook of conftest.py is really on."""

import jaxtyping
import pytest
import torch
from beartype import beartype
from helpers import unchecked
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from gauge import Units
from gauge.masks import parse_protocol
from gauge.paper.gauge import attention_bias, normalize_scores, taylor_evidence


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


def test_functions_inside_functions_are_checked_and_are_each_their_own():
    def times(factor):
        @jaxtyping.jaxtyped(typechecker=beartype)
        def product(x: Float[Tensor, "b c"], rows: int = 2) -> Float[Tensor, "b c"]:
            return factor * x[:rows]

        return product

    double, triple = times(2), times(3)
    x = torch.ones(2, 4)
    assert torch.equal(triple(x), 3 * x)
    assert torch.equal(double(x), 2 * x)
    for wrong in ([x[0]], [x, "two"], [x, 1]):  # an axis too few, another type, another number of rows than were given
        with pytest.raises(TypeCheckError):
            double(*wrong)
    with unchecked():
        assert double(x, 1).shape == (1, 4)


def test_types_are_checked_where_no_axis_is_named():
    with pytest.raises(TypeCheckError):
        parse_protocol(3)
