"""The cardiac files of UK Biobank, as TIP prepares them: three phases of the heart and 75 measures of its owner."""

from pathlib import Path

from gauge.data.dataset import Dataset
from gauge.data.tip import Files, find_folder, read_split

FOLDERS = (
    "UKBB/cardiac_segmentations/projects/SelfSuperBio/18545/final",
    "cardiac_segmentations/projects/SelfSuperBio/18545/final",
    "UKBB",
    ".",
)
LENGTHS = "tabular_lengths_reordered.pt"
CARDINALITIES = (*(2,) * 13, 3, 6, 4, 3, 3, 8, 8, 8, 3, 8, 3, 4, 3, *(1,) * 49)
HELD_OUT = {"val": 6_510, "test": 3_617}


def files(target: str, split: str) -> Files:
    """The names of a split's files. Training rows are balanced for each target, the others as people come."""
    if split == "train":
        return Files(
            f"cardiac_features_train_imputed_noOH_tabular_imaging_{target}_balanced_reordered.csv",
            f"cardiac_labels_{target}_train_balanced.pt",
            f"cardiac_train_paths_imaging_{target}_balanced.pt",
            LENGTHS,
        )
    return Files(
        f"cardiac_features_{split}_imputed_noOH_tabular_imaging_reordered.csv",
        f"cardiac_labels_{target}_{split}.pt",
        f"cardiac_{split}_paths_imaging.pt",
        LENGTHS,
    )


def read_heart(target: str, split: str, data: Path | None, *, train_rows: int) -> Dataset:
    """One split of the hearts with labels for `target`, CAD or Infarction.

    NOTE[PAPER] heart-imputer-rows: the published imputer learned from all 26,040 training subjects and served both
    targets; here it learns, as everything does, from the balanced rows of its target.
    """
    folder = find_folder(data, target.lower(), FOLDERS, LENGTHS)
    assert data is not None  # find_folder has said so
    return read_split(
        split,
        folder,
        files(target, split),
        cardinalities=CARDINALITIES,
        num_classes=2,
        official=train_rows if split == "train" else HELD_OUT[split],
        data=data,
    )
