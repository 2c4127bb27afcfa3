"""Files written in one step."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_text(path: Path, text: str) -> None:
    """Write a text file in one step."""
    write_bytes(path, lambda file: file.write(text.encode()))


def write_bytes(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file in one step: a reader sees the old file or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = part_of(path)
    try:
        with part.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):  # a full disk is reported without the file
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    os.replace(part, path)


def part_of(path: Path) -> Path:
    """A name beside a path that no other writer uses, for what is not complete."""
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
