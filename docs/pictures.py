"""Make the picture of the README from the evidence page of the gallery: `make pictures`, part of `make docs`.

The page is that of `gauge demo`, a model with fixed data and seed. Beside the picture stands a fingerprint of the templates
that made the page, so that a test notices when the page has changed since.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parent.parent
TEMPLATES = ROOT / "src" / "gauge" / "reports"
PICTURE, FACTS = ROOT / "docs" / "evidence-page.png", ROOT / "docs" / "evidence-page.json"
PAGE = ROOT / "build" / "gallery" / "demo" / "cars" / "evidence.html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 1240, 980  # pixels: the top of the page
COLOURS = 128  # of the file, which keeps it small


def fingerprint() -> str:
    """Of all that gives the evidence page its look."""
    names = ("_page.html", "_palette.html", "_parts.html", "_style.html", "evidence.html", "evidence.js")
    return hashlib.sha256(b"\0".join((TEMPLATES / name).read_bytes() for name in names)).hexdigest()


def main() -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"the picture needs a browser: install one of {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder) / "shot.png"
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/profile",
        ]
        options += [
            f"--window-size={WIDTH},{HEIGHT}",
            f"--screenshot={shot}",
            "--blink-settings=preferredColorScheme=1",
        ]
        subprocess.run([browser, *options, PAGE.as_uri()], check=True, capture_output=True)
        Image.open(shot).convert("RGB").quantize(COLOURS).save(PICTURE, optimize=True)
    facts = {"made by": "make pictures", "page": fingerprint()}
    FACTS.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
