"""Where tables lie. Nothing here imports pandas: a command checks its files before it imports anything heavy."""

import re
from pathlib import Path

SEPARATORS = {".csv": ",", ".tsv": "\t"}
LINES = (".jsonl", ".ndjson")
SHEETS = (".xlsx", ".xlsm")
SUFFIXES = (*SEPARATORS, *LINES, ".parquet", *SHEETS)
CURES = {
    **dict.fromkeys((".xls", ".xlsb", ".ods", ".numbers"), "save the sheet as .xlsx or CSV UTF-8"),
    **dict.fromkeys((".gz", ".zip", ".bz2", ".xz", ".zst"), "unpack it"),
    **dict.fromkeys((".txt", ".dat", ".data"), "if columns are separated by tabs or commas, rename it to .tsv or .csv"),
    ".json": "write every row as an object in a line of its own (.jsonl)",
    **dict.fromkeys(
        (".dta", ".sav", ".sas7bdat", ".feather", ".orc"), "read it with pandas and write it with to_parquet"
    ),
}  # for files that people have


def table_files(table: Path) -> list[Path]:
    """The files of a table, sorted: the file itself, those in a folder, or those that match a pattern (part-*.csv)."""
    if table.is_dir():
        files = sorted(path for path in table.iterdir() if path.suffix.lower() in SUFFIXES)
    elif table.exists() or not re.search(r"[*?[]", table.name):
        files = [table]
    else:
        files = sorted(table.parent.glob(table.name))
    endings = sorted({path.suffix.lower() for path in files})
    if not files:
        raise ValueError(f"{table} holds no table; give a file, a folder or a pattern of {', '.join(SUFFIXES)} files")
    if len(endings) > 1:
        raise ValueError(f"{table} holds files that end in {' and '.join(endings)}; choose one kind by a pattern")
    if endings[0] not in SUFFIXES:
        cure = f"; {CURES[endings[0]]}" if endings[0] in CURES else ""
        raise ValueError(f"{files[0]} is not a supported table{cure}; give a file that ends in {', '.join(SUFFIXES)}")
    for path in files:
        if not path.is_file():
            raise ValueError(f"there is no file {path}")
    return files


def table_folder(table: Path) -> Path:
    """The folder of a table, which the paths of images are relative to."""
    return table if table.is_dir() else table.parent
