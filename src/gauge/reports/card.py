"""The model card of a classifier: what it predicts, how it was trained, and its columns, in Markdown."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any


def model_card(
    target: str,
    classes: Sequence[Any],
    facts: Mapping[str, str],
    history: Sequence[Mapping[str, Any]],
    columns: Sequence[tuple[str, str, str]],
) -> str:
    """Return the README of a saved model. `columns` are names, kinds and shares of missing values."""
    most = 20  # classes that are named
    shown = ", ".join(map(_plain, classes[:most])) + (" ..." if len(classes) > most else "")
    lines = "\n".join(f"- {name}: {_plain(value)}" for name, value in facts.items())
    cells = "\n".join(f"| {' | '.join(map(_plain, row)).rstrip()} |" for row in columns)
    return f"""\
# A GAUGE classifier

Predicts {_plain(target)}, one of {len(classes)} classes: {shown}.

```python
from gauge import GaugeClassifier

model = GaugeClassifier.load("this folder")
model.predict(table)
```

## Training

{lines}

{_curve(history)}## Columns

| column | kind | missing in training |
|---|---|---|
{cells}
"""


def _plain(value: object) -> str:
    """Return a value of the table in one line, without the marks of HTML and of tables."""
    return escape(" ".join(str(value).split()), quote=False).replace("|", "\\|")


def _curve(history: Sequence[Mapping[str, Any]]) -> str:
    """Return the mean losses of each stage after its first, middle and last epoch."""
    stages: dict[str, list[Mapping[str, Any]]] = {}
    for epoch in history:
        stages.setdefault(epoch["stage"], []).append(epoch)
    lines = []
    for stage, epochs in stages.items():
        for epoch in {shown["epoch"]: shown for shown in (epochs[0], epochs[len(epochs) // 2], epochs[-1])}.values():
            losses = ", ".join(f"{name} {value:.4g}" for name, value in epoch["losses"].items())
            lines.append(f"| {stage} | {epoch['epoch']} | {losses} |\n")
    head = "## Training curve\n\nAll epochs are in `metrics.jsonl`.\n\n| stage | epoch | losses |\n|---|---|---|\n"
    return head + "".join(lines) + "\n" if lines else ""
