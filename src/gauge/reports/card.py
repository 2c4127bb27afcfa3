"""The model card of a classifier: what it predicts, how it was trained, and its columns, in Markdown."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

MAX_CLASSES = 20  # that a card names
TEXT = """\
# A GAUGE classifier

Predicts {target}, one of {count} classes: {classes}.

```python
from gauge import GaugeClassifier

model = GaugeClassifier.load("this folder")
model.predict(table)
```

## Training

{facts}

{curve}## Columns

| column | kind | missing in training |
|---|---|---|
{columns}
"""


def model_card(
    target: str,
    classes: Sequence[Any],
    facts: Mapping[str, str],
    history: Sequence[Mapping[str, Any]],
    columns: Sequence[tuple[str, str, str]],
) -> str:
    """Return the README of a saved model. `columns` are names, kinds and shares of missing values."""
    return TEXT.format(
        target=_plain(target),
        count=len(classes),
        classes=", ".join(map(_plain, classes[:MAX_CLASSES])) + (" ..." if len(classes) > MAX_CLASSES else ""),
        facts="\n".join(f"- {name}: {_plain(value)}" for name, value in facts.items()),
        columns="\n".join(f"| {' | '.join(map(_plain, cells)).rstrip()} |" for cells in columns),
        curve=_curve(history),
    )


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
