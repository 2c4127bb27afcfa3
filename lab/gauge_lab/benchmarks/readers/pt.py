"""Values in .pt files, read without executing anything in them."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch


def load_pt(path: Path, what: str) -> Any:
    """The plain values, NumPy scalars and tensors in a .pt file; `what` it should hold is named in errors."""
    numpy_globals = [  # for lists of NumPy scalars, written by any version of NumPy
        np.dtype,
        *{type(np.dtype(kind)) for kind in ("int32", "int64", "float32", "float64", "bool", "str")},
        *((np.int64(0).__reduce__()[0], f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
    ]
    if not path.is_file():
        raise ValueError(f"{path} does not exist; put the published files into one folder")
    try:
        with torch.serialization.safe_globals(numpy_globals):  # type: ignore[arg-type]
            return torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{path} cannot be read as {what} ({reason}); save {what} there: torch.save") from error
