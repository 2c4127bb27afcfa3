"""Make the README's picture of one row explained, and the table of the same data beside it: `make pictures`.

Both are of the cars of `gauge demo --table`, data with a fixed seed. The accuracies stand in a file beside the picture.
"""

import base64
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gauge import GaugeClassifier
from gauge.tabular import demo

ROOT = Path(__file__).parent.parent
PICTURE, FACTS = ROOT / "docs" / "evidence-page.png", ROOT / "docs" / "evidence-page.json"
ROW = 35  # of the test rows: a Volvo, with reasons for and against, and two values missing
WIDTH = 760  # pixels; phones show the picture at half of that


def explain_and_compare(page: Path) -> dict[str, list[float]]:
    """Write the page of the row; return the accuracy of each model by the share of blank cells, in percent."""
    table = demo.cars()
    train, test = table.divided(0)
    tests = [table.with_blanks(test, rate, seed=1) for rate in demo.RATES]
    rivals = demo.Rivals(table, train, seed=0)
    classes = np.unique(train[table.target])
    predicted: dict[str, list[Any]] = {}
    for preset in ("fast", "default"):
        model = GaugeClassifier(preset=preset, columns=dict(table.kinds), random_state=0, verbose=False)
        model.fit(train, table.target)
        predicted[f"GaugeClassifier, `{preset}`"] = [model.predict(rows) for rows in tests]
        if preset == "fast":
            model.explain(tests[1][ROW : ROW + 2], table.target, exact=True).to_html(page)
    for name in rivals.models:
        predicted[name] = [classes[rivals.predictions(rows)[name].argmax(1)] for rows in tests]
    right = {name: [(each == test[table.target]).mean() for each in given] for name, given in predicted.items()}
    return {name: [round(100 * float(share), 1) for share in shares] for name, shares in right.items()}


def main() -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    from browser import BROWSER, browser

    if BROWSER is None:
        sys.exit("the picture needs a browser; install Chromium or Chrome")
    with tempfile.TemporaryDirectory() as folder, browser(Path(folder)) as tab:
        page = Path(folder) / "evidence.html"
        cars = explain_and_compare(page)
        tab.open(page.as_uri(), WIDTH)
        tab.value("document.querySelector('#row-1 a').remove()")  # back to all rows
        tops = "document.getElementById('row-{}').getBoundingClientRect().top + scrollY"
        top, bottom = (tab.value(tops.format(number)) for number in (1, 2))
        clip = {"x": 0, "y": top + 8, "width": WIDTH, "height": bottom - top - 44, "scale": 1.5}
        shot = tab("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
    image = Image.open(io.BytesIO(base64.b64decode(shot))).convert("RGB")
    image.quantize(256).save(PICTURE, optimize=True)
    facts = {"made by": "make pictures", "cars": cars}
    FACTS.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
