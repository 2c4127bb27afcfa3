"""How the stages of a benchmark train whose modalities are missing as a whole and are imputed by MoPoE."""

from gauge.masks import AnyModalities, Protocol
from gauge.training.settings import TrainSettings
from gauge_lab.benchmarks import StageSettings


def mopoe_settings(protocols: tuple[Protocol, ...], *, imputer_epochs: int, epochs: int) -> StageSettings:
    """Settings with `imputer_epochs` for the imputer and for what baselines start from, and `epochs` for the backbone and
    fine-tuning, whose best epoch is selected under `protocols`."""
    return StageSettings(
        imputer=TrainSettings(epochs=imputer_epochs, learning_rate=5e-4, patience=None, precision="tf32"),
        own_pretrain=TrainSettings(epochs=imputer_epochs, patience=None, precision="tf32"),
        backbone=TrainSettings(epochs=epochs, selection=protocols, precision="tf32"),
        finetune=TrainSettings(epochs=epochs, masks=AnyModalities(), selection=protocols, precision="tf32"),
    )
