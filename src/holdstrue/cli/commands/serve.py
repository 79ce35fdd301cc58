"""`holdstrue serve`: states shown live to a browser and to programs."""

from __future__ import annotations

from typing import Annotated

import typer

from holdstrue.cli.failures import CLEAN, guarded, tell
from holdstrue.cli.options import duration


@guarded
def serve(
    states: Annotated[
        list[str],
        typer.Argument(metavar="STATE", help="States: directories, or URLs such as s3://BUCKET/FOLDER."),
    ],
    accepted: Annotated[
        list[str] | None,
        typer.Option(
            "--accepted",
            metavar="[NAME=]FILE",
            help="What `holdstrue accept` wrote: such violations are counted apart. With several states, of which one.",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Where to listen. Others than this machine need the token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="0 for any that is free.")] = 8765,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="HOLDSTRUE_TOKEN",
            metavar="TOKEN",
            help="What readers must know; made and printed where others can connect and none is given.",
        ),
    ] = None,
    every: Annotated[
        str, typer.Option(metavar="SPAN", help="Between two looks for new versions: 500ms, 2s, 1m.")
    ] = "2s",
) -> int:
    """Show states live: what is open, over time, rows, versions; with a JSON API and figures for Prometheus.

    Nothing is ever changed, and writers go on beside it. Ends with Ctrl-C, exit code 0.
    """
    from holdstrue.serve.server import LiveServer

    server = LiveServer(
        states, accepted=accepted or (), host=host, port=port, token=token, every=duration(every), tell=tell
    )
    for name, state in server.states.items():
        typer.echo(f"{state.given} at {server.url}states/{name}")
    typer.echo(f"open {server.address} (Ctrl-C ends)")
    server.run()
    return CLEAN
