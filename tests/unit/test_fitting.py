"""How the stages of a table model are trained: the backbone first, then short fine-tuning at a lower rate."""

import pandas as pd
import pytest
import torch

from gauge.masks import Complete
from gauge.tabular.experts._recipe import Recipe
from gauge.tabular.experts._training import plan
from gauge.tabular.table.schema import Schema
from gauge.training.metrics import ACCURACY


@pytest.fixture
def stages():
    frame = pd.DataFrame({"age": [30.0, 41.5, 58.0, 62.5], "dose": [1.5, 2.0, 0.5, 3.25]})
    recipe = Recipe(
        size="small",
        strategies=("mask", "impute"),
        imputer="masked_columns",
        gates=True,
        rate=0.5,
        epochs=50,
        batch_size=None,
        learning_rate=4e-3,
        metric=ACCURACY,
        donors=10,
        seed=0,
        seconds=None,
    )
    return plan(Schema.from_frame(frame), 2, recipe, recipe.settings(rows=4), torch.ones(4))


def test_fine_tuning_has_a_quarter_of_the_rate_and_a_fifth_of_the_epochs_of_the_backbone(stages):
    assert (stages["backbone"].settings.learning_rate, stages["backbone"].settings.epochs) == (4e-3, 50)
    for strategy in ("mask", "impute"):
        settings = stages[strategy].settings
        assert settings.learning_rate == pytest.approx(1e-3)
        assert (settings.epochs, settings.patience) == (10, None)
        assert settings.masks == stages["backbone"].settings.masks


def test_both_strategies_stand_on_one_backbone_and_only_one_on_the_imputer(stages):
    assert [need.name for need in stages["mask"].needs] == ["backbone"]
    assert [need.name for need in stages["impute"].needs] == ["backbone", "imputer"]
    imputer = stages["impute"].needs[1].settings
    assert (imputer.masks, imputer.selection, imputer.epochs) == (Complete(), (), 16)
