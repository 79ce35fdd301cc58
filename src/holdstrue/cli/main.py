"""The entry point: commands, version and help; nothing heavy is imported before a command runs."""

from __future__ import annotations

import gc
import sys
from typing import Annotated

import typer

from holdstrue import __version__
from holdstrue.cli.commands.accept import accept
from holdstrue.cli.commands.apply import apply
from holdstrue.cli.commands.check import check
from holdstrue.cli.commands.demo import demo
from holdstrue.cli.commands.discover import discover
from holdstrue.cli.commands.explain import explain
from holdstrue.cli.commands.fragments import fragments
from holdstrue.cli.commands.import_rules import import_rules
from holdstrue.cli.commands.init import init
from holdstrue.cli.commands.report import report
from holdstrue.cli.commands.rules import rules
from holdstrue.cli.commands.serve import serve
from holdstrue.cli.commands.site import site
from holdstrue.cli.commands.status import status
from holdstrue.cli.commands.suspects import suspects
from holdstrue.cli.commands.vacuum import vacuum
from holdstrue.cli.commands.verify import verify
from holdstrue.cli.commands.violations import violations
from holdstrue.cli.commands.watch import watch
from holdstrue.cli.failures import explained

app = typer.Typer(
    name="holdstrue",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 clean, 1 violations, 2 bad usage or bad input, 3 internal failure.",
)
for _command in (
    demo,
    check,
    discover,
    suspects,
    init,
    apply,
    watch,
    violations,
    accept,
    status,
    report,
    serve,
    explain,
    rules,
    import_rules,
    vacuum,
    verify,
):
    app.command()(_command)
app.add_typer(fragments)
app.add_typer(site)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdstrue {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Declare what must hold in your data; see every row that breaks it, now and after every change."""


def run() -> None:
    """Run the command line; the exit code says how it went."""
    # a first command compiles, which makes many small objects that stay: looked at less often it takes a tenth less
    gc.set_threshold(50_000)
    try:
        app()
    except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001
        # what a command raises is dealt with there: this is for failures before and after it
        sys.exit(explained(error))


if __name__ == "__main__":
    run()
