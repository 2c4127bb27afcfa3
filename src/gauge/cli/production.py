"""The commands that bring a model into production: export. Heavy imports are deferred until they are needed."""

from pathlib import Path
from typing import Annotated

import typer

from gauge.cli.options import Model


def export(
    model: Model,
    to: Annotated[str, typer.Option(help="onnx, or pt2 for torch.export.load.")] = "onnx",
    out: Annotated[Path | None, typer.Option(help="File to write. Default: MODEL with the format's ending.")] = None,
) -> None:
    """Write the prediction as one graph, with scores and gates; `gauge predict FILE.onnx TABLE` needs no torch."""
    from gauge.deploy.export import export as write
    from gauge.tabular.estimator import GaugeClassifier

    path = model.with_name(f"{model.name}.{to}") if out is None else out
    exported = write(GaugeClassifier.load(model, device="cpu"), path, to=to)
    print(f"{exported.path} differs from the model by at most {exported.difference:.1g} in a probability or gate")
    for part, reason in exported.left_out.items():
        print(f"{part} is left out: {reason}")


def add_to(app: typer.Typer) -> None:
    app.command()(export)
