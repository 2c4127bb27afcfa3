"""Where tables lie. Nothing here imports pandas: a command checks its files before it imports anything heavy."""

import re
from pathlib import Path

SEPARATORS = {".csv": ",", ".tsv": "\t"}
LINES = (".jsonl", ".ndjson")
SHEETS = (".xlsx", ".xlsm")
PACKED = (".gz", ".bz2", ".xz", ".zip")  # after one of the endings of text


def table_files(table: Path) -> list[Path]:
    """The files of a table, sorted: the file itself, those in a folder, or those that match a pattern (part-*.csv)."""
    suffixes = (*SEPARATORS, *LINES, ".parquet", *SHEETS)
    supported = f"{', '.join(suffixes)}, or packed text such as .csv.gz ({', '.join(PACKED)})"
    if table.is_dir():
        files = sorted(path for path in table.iterdir() if kind(path) in suffixes)
    elif table.exists() or not re.search(r"[*?[]", table.name):
        files = [table]
    else:
        files = sorted(table.parent.glob(table.name))
    endings = sorted({kind(path) + packing(path) for path in files})
    if not files:
        raise ValueError(f"{table} holds no table; give a file, a folder or a pattern of files that end in {supported}")
    if len(endings) > 1:
        raise ValueError(f"{table} holds files that end in {' and '.join(endings)}; choose one kind by a pattern")
    if kind(files[0]) not in suffixes:
        cures = {
            **dict.fromkeys((".xls", ".xlsb", ".ods", ".numbers"), "save the sheet as .xlsx or CSV UTF-8"),
            **dict.fromkeys(PACKED, "name it after the table in it, as in table.csv.gz, or unpack it"),
            **dict.fromkeys((".zst", ".7z", ".tar", ".tgz"), "unpack it"),
            **dict.fromkeys(
                (".txt", ".dat", ".data"), "if columns are separated by tabs or commas, rename it to .tsv or .csv"
            ),
            ".json": "write every row as an object in a line of its own (.jsonl)",
            **dict.fromkeys(
                (".dta", ".sav", ".sas7bdat", ".feather", ".orc"), "read it with pandas and write it with to_parquet"
            ),
        }
        cure = f"; {cures[endings[0]]}" if endings[0] in cures else ""
        raise ValueError(f"{files[0]} is not a supported table{cure}; give a file that ends in {supported}")
    for path in files:
        if not path.is_file():
            raise ValueError(f"there is no file {path}")
    return files


def packing(path: Path) -> str:
    """How a file of text is packed, by its ending; empty if it is not."""
    packed = path.suffix.lower()
    return packed if packed in PACKED and Path(path.stem).suffix.lower() in (*SEPARATORS, *LINES) else ""


def kind(path: Path) -> str:
    """The ending that says what kind of table a file is.

    >>> kind(Path("rows.CSV.gz")), kind(Path("rows.parquet")), kind(Path("rows.gz"))
    ('.csv', '.parquet', '.gz')
    """
    return Path(path.stem if packing(path) else path.name).suffix.lower()


def table_folder(table: Path) -> Path:
    """The folder of a table, which the paths of images are relative to."""
    return table if table.is_dir() else table.parent
