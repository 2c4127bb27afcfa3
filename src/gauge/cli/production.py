"""The commands that bring a model into production: export and serve."""

from pathlib import Path
from typing import Annotated

import typer

from gauge.cli.options import Device, Model, ModelOrExport, Plugins, seconds


def export(
    model: Model,
    out: Annotated[Path | None, typer.Option(help="File to write. Default: MODEL.onnx.")] = None,
    plugin: Plugins = None,
) -> None:
    """Write the whole classifier as one graph; `gauge predict FILE.onnx TABLE` needs no torch."""
    from gauge.deploy.export import export as write
    from gauge.tabular.estimator import GaugeClassifier

    path = model.with_name(f"{model.name}.onnx") if out is None else out
    print(write(GaugeClassifier.load(model, device="cpu"), path))


def serve(
    model: ModelOrExport,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8000,
    max_body: Annotated[int, typer.Option(min=1, help="Largest body of a request, in MiB.")] = 16,
    max_rows: Annotated[int, typer.Option(min=1, help="Most rows of a request.")] = 1000,
    max_cells: Annotated[int, typer.Option(min=1, help="Most values of a request, in all its rows.")] = 100_000,
    max_batch: Annotated[int, typer.Option(min=1, help="Most rows that are predicted together.")] = 1024,
    time_limit: Annotated[str, typer.Option(help="Longest time for a response, e.g. 30s.")] = "30s",
    max_connections: Annotated[
        int, typer.Option(min=1, help="Most open connections; one address has half of them.")
    ] = 2000,
    ui: Annotated[bool, typer.Option("--ui", help="Serve a page for people at /, with a form for one row.")] = False,
    plugin: Plugins = None,
    device: Device = None,
) -> None:
    """Serve predictions over HTTP: POST /predict and /explain, GET /health, /metrics and /openapi.json.

    A model that is saved again in the same folder is loaded without a restart.
    """
    try:
        from gauge.deploy.requests import Limits
        from gauge.deploy.serve import run
    except ImportError as error:
        raise ValueError(f"serving needs {error.name}; install it with: pip install 'gauge-ml[serve]'") from error

    limits = Limits(
        body=max_body * 2**20,
        rows=max_rows,
        cells=max_cells,
        seconds=seconds(time_limit),
        connections=max_connections,
        client_connections=-(-max_connections // 2),
        batch=max_batch,
    )
    run(model, host=host, port=port, limits=limits, device=device, ui=ui)
