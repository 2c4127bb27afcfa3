"""Files of tables as they are, or unpacked while they are read: gzip, bzip2, xz, and zip archives of one file."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from gauge.tabular.table.paths import packing

ALWAYS_UNPACKED = 2**26  # bytes, whatever the ratio
DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error, BadZipFile, RuntimeError, NotImplementedError)


@contextmanager
def open_table(path: Path) -> Iterator[Any]:
    """The bytes of a file of a table, unpacked if its name ends in a packing; an error once they are far too many."""
    with ExitStack() as stack:
        file: Any = stack.enter_context(path.open("rb"))
        if packed := packing(path):
            try:
                opened: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
                content = opened[packed](file) if packed in opened else _only_member(file, stack)
                stack.enter_context(content)
            except DAMAGED as error:
                raise _damaged(error) from error
            file = stack.enter_context(io.BufferedReader(_Bounded(content, path.stat().st_size)))
        yield file


class _Bounded(io.RawIOBase):
    """What is read of `content` as far as the limit for a file of `size` bytes."""

    def __init__(self, content: Any, size: int) -> None:
        self.content, self.size, self.count = content, size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            part = self.content.read(len(buffer))
        except DAMAGED as error:
            raise _damaged(error) from error
        self.count += len(part)
        check_unpacked(self.size, self.count)
        buffer[: len(part)] = part
        return len(part)


def check_unpacked(size: int, count: int, *, ratio: int = 200, always: int | None = None) -> None:
    """An error if a file of `size` bytes unpacks to so many: the ratio of tables is about 10, that of bombs above 1,000."""
    if count > max(ALWAYS_UNPACKED if always is None else always, ratio * size):
        raise ValueError(
            f"it has {size} bytes and unpacks to more than {ratio} times as many, which tables do not; unpack it yourself "
            "if you trust it"
        )


def _damaged(error: Exception) -> ValueError:
    return ValueError(f"it cannot be unpacked ({error}): it is damaged, cut off, or has a password; pack it again")


def _only_member(file: Any, stack: ExitStack) -> Any:
    archive = stack.enter_context(ZipFile(file))
    members = [each for each in archive.infolist() if not each.is_dir() and not each.filename.startswith("__MACOSX/")]
    if len(members) != 1:
        raise ValueError(f"the archive holds {len(members)} files; pack one table, or unpack it")
    return archive.open(members[0])
