"""`holdstrue demo`: a small shop to try the commands on, and a walk through them."""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from holdstrue.cli.failures import CLEAN, VIOLATED, guarded
from holdstrue.cli.output import Output
from holdstrue.location import local_path


@guarded
def demo(
    context: typer.Context,
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="Where the shop is made; new or empty.")
    ] = "holdstrue-demo",
    data_only: Annotated[
        bool, typer.Option("--data-only", help="Only make the tables, rules and changes; run no command.")
    ] = False,
) -> int:
    """Make a small shop (three tables, rules, a week of changes with errors) and walk through the commands.

    Every command is shown before it runs, and works by hand as it is shown. Exit code 0.
    """
    from holdstrue.demo.walk import make_shop, steps

    place = Path(local_path(directory, "output"))
    shop, days = make_shop(place)
    with Output(None, "text") as out:
        bold, plain = ("\x1b[1m", "\x1b[0m") if out.color else ("", "")
        out.write(
            [
                f"a shop in {place}: {len(shop.customers):,} customers, {len(shop.products):,} products, "
                f"{len(shop.orders):,} orders, rules.yaml, and a week of changes\n",
            ]
        )
        if data_only:
            return CLEAN
        out.write([f"\n{bold}$ cd {shlex.quote(str(place))}{plain}\n"])
        for step in steps(days):
            out.write([f"\n# {step.words}\n{bold}$ {shlex.join(('holdstrue', *step.command))}{plain}\n"])
            with contextlib.chdir(place):
                code = context.find_root().command.main(
                    list(step.command), prog_name="holdstrue", standalone_mode=False
                )
            sys.stdout.flush()
            if code not in (CLEAN, VIOLATED):
                return int(code)
        out.write(
            [
                f"\n# Open {place / 'report.html'}; the state and all files stay in {place}.\n"
                f"# Live in a browser (needs holdstrue[serve]): holdstrue serve {shlex.quote(str(place / 'state'))}\n"
            ]
        )
    return CLEAN
