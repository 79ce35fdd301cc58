"""`holdstrue watch`: keep a state directory current while changes arrive, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdstrue.cli.cluster import Cluster, require_columns_known
from holdstrue.cli.failures import CLEAN, guarded
from holdstrue.cli.options import (
    AsLine,
    Conf,
    FeedKind,
    FileOptions,
    Master,
    OnConflict,
    OpColumn,
    State,
    Units,
    duration,
    units_of,
)
from holdstrue.cli.output import Output
from holdstrue.cli.watching import Folder, Stop, Teller, follow, source_of
from holdstrue.errors import HoldstrueError
from holdstrue.location import local_path
from holdstrue.state.object_url import is_object_url
from holdstrue.state.store import fixed_place


@guarded
def watch(
    state: State,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A directory that change files are put into, or table:NAME for a table with a change log.",
        ),
    ],
    once: Annotated[bool, typer.Option("--once", help="Take what is there and end.")] = False,
    every: Annotated[str, typer.Option(metavar="TIME", help="How often to look for more: 500ms, 5s, 1m.")] = "5s",
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="The table that the changes are of, if not the main one.")
    ] = None,
    feed: FeedKind = "auto",
    op_column: OpColumn = None,
    unit: Units = None,
    on_conflict: OnConflict = "error",
    since: Annotated[
        str | None, typer.Option(metavar="VERSION", help="The first version of table:NAME whose changes are applied.")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Where it is kept what was taken; needed for a STATE at a URL, else streams/ in STATE."
        ),
    ] = None,
    format: AsLine = "text",  # noqa: A002
    master: Master = None,
    conf: Conf = None,
    reading: FileOptions = FileOptions(),
) -> int:
    """Apply changes as they arrive, each file as one batch, and say what every batch did.

    Files are taken once, the oldest first, then by name; a name that starts with . or _ or ends in .tmp is left
    alone, so write a file under such a name and rename it when it is complete. SIGINT (Ctrl-C) and SIGTERM end it
    after the running batch with exit code 0; the next start goes on from there. A file that does not fit ends it
    with exit code 2 and nothing of the file applied: mend or remove it and start again.
    """
    from holdstrue.cli.ruleset import require_tables
    from holdstrue.shards.facts import Facts
    from holdstrue.state.journal import facts_of

    wait = duration(every)
    cluster = Cluster.of(master, conf)
    if cluster.master.startswith("sc://"):
        raise HoldstrueError(
            "watch does not run through Spark Connect", hint="give the --master that the server itself runs on"
        )
    origin = source_of(source, since, reading.options() | units_of(unit))
    known = facts_of(state, "monitor", Facts.of)
    require_tables([] if table is None else [table], known.keys)
    if isinstance(origin, Folder):
        require_columns_known(known, [table or known.main])
    name = origin.name if table is None else f"{origin.name}-{table}"
    if checkpoint is None and is_object_url(state):
        raise HoldstrueError(
            f"what was taken for {state} is not kept there",
            hint="give --checkpoint a directory of this machine, and the same one at every start",
        )
    kept = Path(fixed_place(state)) / "streams" / name if checkpoint is None else Path(local_path(checkpoint, "output"))
    stop = Stop()
    with stop.on_signals():
        spark = cluster.session()
    # pyspark has put a handler of its own in place of ours
    with stop.on_signals():
        from holdstrue.spark import Monitor

        # Spark asks again at once while there is more, and after this time when there was nothing
        spark.conf.set("spark.sql.streaming.pollingDelay", f"{max(1, round(wait * 1000))}ms")
        if not stop:
            query = Monitor(spark, state).stream(
                origin.frame(spark),
                [Teller(Output(None, format), format, kept / "told", stop)],
                table=table,
                name=name,
                checkpoint=checkpoint,
                trigger={"availableNow": True} if once else None,
                limit=0,
                on_conflict=on_conflict,
                **origin.options(feed, op_column),
            )
            follow(query, stop)
    return CLEAN
