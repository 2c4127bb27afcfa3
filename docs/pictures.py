"""Make the picture of the README from the evidence page of the gallery: `make pictures`, part of `make docs`.

The page is that of `gauge demo`, a model with fixed data and seed. Beside the picture stands a fingerprint of the templates
that made the page, so that a test notices when the page has changed since.
"""

import base64
import hashlib
import io
import json
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parent.parent
TEMPLATES = ROOT / "src" / "gauge" / "reports"
PICTURE, FACTS = ROOT / "docs" / "evidence-page.png", ROOT / "docs" / "evidence-page.json"
PAGE = ROOT / "build" / "gallery" / "demo" / "cars" / "evidence.html"
PARTS = (("columns", "reading"), ("row-4", "row-5"))  # of the page, each from one element to another
WIDTH = 1240  # pixels
COLOURS = 256  # of the file, which keeps it small


def fingerprint() -> str:
    """Of all that gives the evidence page its look."""
    names = ("_page.html", "_palette.html", "_parts.html", "_style.html", "evidence.html", "evidence.js")
    return hashlib.sha256(b"\0".join((TEMPLATES / name).read_bytes() for name in names)).hexdigest()


def main() -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    from browser import BROWSER, browser

    if BROWSER is None:
        sys.exit("the picture needs a browser; install Chromium or Chrome")
    with tempfile.TemporaryDirectory() as folder, browser(Path(folder)) as tab:
        tab.open(PAGE.as_uri(), WIDTH)
        images = []
        for ends in PARTS:
            tops = "document.getElementById({!r}).getBoundingClientRect().top + scrollY - 24"
            top, bottom = (tab.value(tops.format(end)) for end in ends)
            clip = {"x": 0, "y": top, "width": WIDTH, "height": bottom - top, "scale": 1}
            shot = tab("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
            images.append(Image.open(io.BytesIO(base64.b64decode(shot))).convert("RGB"))
    picture = Image.new("RGB", (WIDTH, sum(image.height for image in images)), "white")
    top = 0
    for image in images:
        picture.paste(image, (0, top))
        top += image.height
    picture.quantize(COLOURS).save(PICTURE, optimize=True)
    facts = {"made by": "make pictures", "page": fingerprint()}
    FACTS.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
