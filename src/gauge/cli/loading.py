"""How commands read the models and tables they are given: checked first, and heavy modules imported once."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gauge.tabular.fitted import Fitted


@contextmanager
def heavy_imports() -> Iterator[None]:
    """Import modules without looking for garbage meanwhile, which takes a fifth of the time and finds none, and never look
    through what they hold again, not even when the process ends."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def check_paths(model: Path | None, table: Path) -> None:
    """Report a table or a model that does not exist before anything heavy is imported."""
    from gauge.tabular.table.paths import table_files

    table_files(table)
    if model is not None and not model.exists():
        kind = "file" if model.suffix == ".onnx" else "folder"
        raise ValueError(f"there is no {kind} {model}; give a folder of `gauge fit`, or a file of `gauge export`")


def load_fitted(model: Path, table: Path, *, outside_images: bool, device: str | None = None) -> "Fitted":
    """The classifier in a folder; paths of images are relative to the table."""
    check_paths(model, table)
    with heavy_imports():  # those of the experts, too
        from gauge.tabular.fitted import Fitted
        from gauge.tabular.saved.classifier import image_files
        from gauge.tabular.table.paths import table_folder

        files = image_files(table_folder(table), outside=outside_images)
        return Fitted.load(model, device=device, files=files)
