"""The `gauge` command. Results go to stdout and files, progress to stderr. Heavy modules are imported when needed."""

import json
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from gauge import __version__, registry
from gauge.choices import pick
from gauge.cli import advice, fit, laboratory, models, production, tables
from gauge.cli.options import PRODUCTION, RESEARCH, TABLES, AsJson, Device, Epochs, Plugins
from gauge.cli.output import print_markdown

app = typer.Typer(
    name="gauge",
    help="Classification with missing values and modalities: tables, texts, images and signals as they are, and reasons "
    "for every prediction. Start with `gauge demo --table`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command; mistakes that a user can fix are reported in one line, without a traceback."""
    signal.signal(signal.SIGINT, _stop)
    logging.basicConfig(format="gauge: %(message)s")
    logging.getLogger("gauge").setLevel(logging.INFO)
    try:
        app(prog_name="gauge")
    except (ValueError, FloatingPointError, OSError) as error:
        print(f"gauge: {error}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 2))


def _stop(*_: object) -> None:
    again = "" if "serve" in sys.argv[1:2] else "; run the same command again to continue"
    print(f"gauge: stopped{again}", file=sys.stderr)
    sys.exit(130)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gauge-ml {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _register(panel: str, *commands: Callable[..., None]) -> None:
    for command in commands:
        app.command(rich_help_panel=panel)(command)


_register(TABLES, tables.inspect, fit.fit, tables.predict, tables.explain, advice.advise, models.evaluate, models.audit)
_register(PRODUCTION, production.export, production.serve)


@app.command(rich_help_panel=RESEARCH)
def demo(
    out: Annotated[
        Path | None, typer.Option(help="Where models, results and pages go. Default: gauge-demo, gauge-table-demo.")
    ] = None,
    table: Annotated[bool, typer.Option("--table", help="A real table instead: where 392 cars were built.")] = False,
    seed: Annotated[int, typer.Option(help="Another seed, another run.")] = 0,
    epochs: Epochs = None,
    device: Device = None,
) -> None:
    """Train on real digits and real tables with much of them missing, and write report.html.

    It takes a few minutes on a CPU, and needs the laboratory. Stages that are already trained in the folder are used again.
    With `--table` it fits the table alone, in half a minute, and writes evidence.html.
    """
    if table:
        _table_demo(out or Path("gauge-table-demo"), seed, epochs, device)
    else:
        run = laboratory.laboratory("demo") or laboratory.refuse("demo")
        run(out or Path("gauge-demo"), seed, epochs, device)


def _table_demo(out: Path, seed: int, epochs: int | None, device: str | None) -> None:
    from gauge.tabular import demo

    section, page = demo.run(out, seed=seed, epochs=epochs, device=device)
    print_markdown(section.markdown())
    print(f"{section.text}\n\nOpen {page} to see which evidence was used, or go on with the files beside it:")
    print(f"gauge predict {out / 'model'} {out / 'test-30.csv'} --out predictions.csv")


@app.command("list", rich_help_panel=RESEARCH)
def list_components(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="A kind of component; all of them by default.", autocompletion=lambda: list(registry.KINDS)
        ),
    ] = None,
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """List all components by kind: imputers, encoders, scorers, columns, experts; benchmarks and methods in a clone."""
    registry.load_installed_plugins()
    kinds = {kind: pick(registry.KINDS, kind, "kind of component")} if kind else registry.KINDS
    listed = {
        title: {name: components.describe(name) for name in components.names()} for title, components in kinds.items()
    }
    if as_json:
        print(json.dumps(listed, indent=2))
        return
    for title, components in listed.items():
        print(title)
        for name, description in components.items():
            print(f"  {name:14} {description}")


laboratory.register(app, RESEARCH)
