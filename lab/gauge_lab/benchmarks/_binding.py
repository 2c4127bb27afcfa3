"""What Davis and KIBA share: two views of the drug and two of the protein, small encoders, one training for all methods."""

from functools import partial
from typing import Any

from gauge.masks import parse_protocols
from gauge.training.metrics import AUC
from gauge.training.settings import TrainSettings
from gauge_lab.benchmarks import Benchmark, Modality, StageSettings
from gauge_lab.benchmarks.readers.binding import (
    ATOMS,
    FOLDS,
    GRAMS,
    RESIDUES,
    SEQUENCE_LENGTH,
    SMILES_LENGTH,
    Cold,
    read_binding,
)

FILES = {
    "davis": ("drug-target_interaction_affinities_Kd__Davis_et_al.2011v1.txt", -100.0),  # nM
    "kiba": ("kiba_binding_affinity_v2.txt", 12.1),
}


def binding(name: str, *, cold: Cold = "", epochs: int = 20) -> Benchmark:
    """Does a drug bind a protein: Kd of at most 100 nM (Davis), a KIBA score of at least 12.1. All stages train alike."""
    protocols = parse_protocols("complete", "eta=0.25", "eta=0.5", "eta=0.75", "missing=counts+composition")
    shared: dict[str, Any] = {"learning_rate": 1e-3, "schedule": "cosine", "patience": None, "precision": "tf32"}
    file, binds = FILES[name]
    training = TrainSettings(epochs=epochs, batch_size=256, **shared)
    long = {"symbols": len(RESIDUES) + 1, "strides": (4, 4)}
    return Benchmark(
        name=f"{name}_{cold}" if cold else name,
        modalities={
            "smiles": Modality((SMILES_LENGTH,), "conv_tokens", {"symbols": len(ATOMS) + 1}),
            "counts": Modality((GRAMS,), "mlp", {"hidden": 128}),
            "sequence": Modality((SEQUENCE_LENGTH,), "conv_tokens", long),
            "composition": Modality((len(RESIDUES) ** 2,), "mlp", {"hidden": 128}),
        },
        num_classes=2,
        dim=64,
        heads=4,
        imputer="zero",
        imputer_options={},
        protocols=protocols,
        settings=StageSettings(
            imputer=training.model_copy(update={"epochs": 0}), backbone=training, experts=training, finetune=training
        ),
        read=partial(read_binding, name=name, file=file, binds=binds, cold=cold),
        files=f"DeepDTA/{name}: ligands_can.txt, proteins.txt, {file} and folds",
        metric=AUC,
        backbones=FOLDS,
        folds=FOLDS,
        disjoint=bool(cold),
    )
