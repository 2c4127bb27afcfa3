"""How the stages of a table model are trained: the backbone first, then short fine-tuning at a lower rate."""

import pandas as pd
import pytest
import torch

from gauge.tabular.experts._recipe import Recipe
from gauge.tabular.experts._training import plan
from gauge.tabular.table.schema import Schema
from gauge.training.metrics import ACCURACY


@pytest.fixture
def stages():
    frame = pd.DataFrame({"age": [30.0, 41.5, 58.0, 62.5], "dose": [1.5, 2.0, 0.5, 3.25]})
    recipe = Recipe(
        size="small",
        gates=True,
        rate=0.5,
        epochs=50,
        batch_size=None,
        learning_rate=4e-3,
        metric=ACCURACY,
        seed=0,
        seconds=None,
    )
    return plan(Schema.from_frame(frame), 2, recipe, recipe.settings(rows=4), torch.ones(4))


def test_fine_tuning_has_a_quarter_of_the_rate_and_a_fifth_of_the_epochs_of_the_backbone(stages):
    assert (stages["backbone"].settings.learning_rate, stages["backbone"].settings.epochs) == (4e-3, 50)
    settings = stages["mask"].settings
    assert settings.learning_rate == pytest.approx(1e-3)
    assert (settings.epochs, settings.patience) == (10, None)
    assert settings.masks == stages["backbone"].settings.masks
    assert stages["mask"].needs == (stages["backbone"],)
