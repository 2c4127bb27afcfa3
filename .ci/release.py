"""Exit with a sentence unless version and changelog are those of a release."""

import re
import sys
from pathlib import Path

from gauge import __version__

changelog = (Path(__file__).parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
if not re.fullmatch(r"\d+\.\d+\.\d+", __version__):
    sys.exit(f"{__version__} is not the version of a release; set __version__ in src/gauge/__init__.py")
if not re.search(rf"^## \[{re.escape(__version__)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
    sys.exit(f"CHANGELOG.md has no entry '## [{__version__}] - DATE'; write one, with the date of the release")
