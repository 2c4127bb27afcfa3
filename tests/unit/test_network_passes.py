"""What a prediction of the network computes: nothing that its answer does not need."""

import pandas as pd
import pytest
import torch

from gauge.tabular.experts._architecture import Architecture
from gauge.tabular.experts.network import NetworkExpert
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema


@pytest.fixture
def backward_passes(monkeypatch):
    """A list that grows with every backward pass."""
    passes, autograd = [], torch.autograd.grad

    def grad(*tensors, **options):
        passes.append("autograd")
        return autograd(*tensors, **options)

    monkeypatch.setattr(torch.autograd, "grad", grad)
    return passes


@pytest.mark.parametrize(("columns", "rows"), [(4, 1), (4, 20), (90, 3)])
@pytest.mark.parametrize(("gates", "answers"), [(False, True), (True, False), (True, True)])
def test_only_gates_that_change_the_answer_take_a_backward_pass(backward_passes, gates, answers, columns, rows):
    frame = pd.DataFrame({f"number{index}": [0.5 * row + index for row in range(rows + 1)] for index in range(columns)})
    schema = Schema.from_frame(frame)
    architecture = Architecture(classes=3, size="small", gates=gates, gates_answer=answers)
    network = architecture.build(schema)
    table = frame[:rows]
    found = NetworkExpert(network.eval(), architecture).predict(Rows.from_frame(schema, table, schema.encode(table)))
    assert found.shape == (rows, 3)
    assert len(backward_passes) == (gates and answers)
