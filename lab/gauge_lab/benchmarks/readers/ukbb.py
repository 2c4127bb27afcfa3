"""The cardiac files of UK Biobank, as TIP prepares them: three phases of the heart and 75 measures of its owner."""

from pathlib import Path

from gauge.data.dataset import Dataset
from gauge_lab.benchmarks.readers.folders import find_folder
from gauge_lab.benchmarks.readers.tip import Files, read_split

FOLDERS = (
    "UKBB/cardiac_segmentations/projects/SelfSuperBio/18545/final",
    "cardiac_segmentations/projects/SelfSuperBio/18545/final",
    "UKBB",
    ".",
)
LENGTHS = "tabular_lengths_reordered.pt"
YES_OR_NO = (
    *("shortness of breath", "sex", "diabetes", "angina", "stroke", "high blood pressure", "cholesterol medication"),
    *("blood pressure medication", "insulin", "hormone replacement", "oral contraceptive", "long-standing illness"),
    "ever smoked",
)
CATEGORIES = {"sleeplessness": 3, "alcohol frequency": 6, "overall health": 4, "alcohol drinker": 3, "falls": 3}
CATEGORIES |= {"days walked": 8, "days of moderate activity": 8, "days of vigorous activity": 8, "walking pace": 3}
CATEGORIES |= {"duration of strenuous sports": 8, "current smoking": 3, "past smoking": 4, "smoking status": 3}
PULSE_WAVE = (
    *("heart rate", "systolic brachial pressure", "diastolic brachial pressure", "peripheral pulse pressure"),
    *("central systolic pressure", "central pulse pressure", "number of beats", "central augmentation pressure"),
    *("augmentation index", "cardiac output", "end-systolic pressure", "end-systolic pressure index"),
    *("total peripheral resistance", "stroke volume", "cardiac index"),
)
NUMBERS = (
    *("arterial stiffness index", "systolic blood pressure", "diastolic blood pressure", "pulse rate", "body fat %"),
    *("whole body fat mass", "body mass index", "basal metabolic rate", "waist", "hip", "weight", "ventricular rate"),
    *("P duration", "QRS duration", "cardiac output", "cardiac index", "average heart rate", "body surface area"),
    *("duration of walks", "duration of moderate activity", "duration of vigorous activity"),
    *(f"pulse wave: {name}" for name in PULSE_WAVE),
    *("sleep duration", "tobacco exposure at home", "tobacco exposure outside"),
    *("LVESV", "LVEDV", "LVSV", "LVEF", "LVCO", "LVM", "RVEDV", "RVESV", "RVSV", "RVEF"),
)
COLUMNS = {**dict.fromkeys(YES_OR_NO, 2), **CATEGORIES, **dict.fromkeys(NUMBERS, 1)}
ROWS = {"imputer": 26_040, "val": 6_510, "test": 3_617}


def files(target: str, split: str) -> Files:
    """The files of a split. Training rows are balanced for each target, the others are not; the imputer reads all people of
    the training split."""
    rows, labels = (f"_{target}_balanced", "_balanced") if split == "train" else ("", "")
    split = "train" if split == "imputer" else split
    return Files(
        f"cardiac_features_{split}_imputed_noOH_tabular_imaging{rows}_reordered.csv",
        f"cardiac_labels_{target}_{split}{labels}.pt",
        f"cardiac_{split}_paths_imaging{rows}.pt",
        LENGTHS,
    )


def read_heart(target: str, split: str, data: Path, *, train_rows: int) -> Dataset:
    """One split of the hearts with labels for `target`, CAD or Infarction.

    NOTE[PAPER] heart-imputer-rows: the published imputer learned from all 26,040 training subjects, and so it does here, in
    the split `imputer`; there one served both targets, here each target trains its own. `imputer_split: train` restricts
    it to the balanced rows.
    """
    folder = find_folder(data, FOLDERS, LENGTHS, f"data of {target.lower()}")
    rows = train_rows if split == "train" else ROWS[split]
    return read_split(split, data, folder, files(target, split), columns=COLUMNS, num_classes=2, official=rows)
