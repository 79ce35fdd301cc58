"""`holdstrue watch`: keep a state current while changes arrive, in one process or on Spark."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from holdstrue.cli.alerting import AlertOptions
from holdstrue.cli.cluster import SparkOptions, require_columns_known
from holdstrue.cli.failures import CLEAN, guarded
from holdstrue.cli.options import (
    AsLine,
    FeedKind,
    FileOptions,
    OnConflict,
    OpColumn,
    SequenceBy,
    State,
    Units,
    duration,
    sequences_of,
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
            help="A directory that change files are put into; a table of Delta Lake or Iceberg (a directory, a URL, "
            "iceberg:CATALOG.DB.TABLE); with --by or --snapshot whatever check reads; on Spark also table:NAME.",
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
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Ask a database for rows from the largest value of this column on, like updated_at; no deletes.",
        ),
    ] = None,
    snapshot: Annotated[
        bool, typer.Option("--snapshot", help="SOURCE holds all rows: compare it with the state at every look.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION", help="At the first start: the first version (or value of --by) that is applied."
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="On Spark, where it is kept what was taken; needed for a STATE at a URL, else streams/ in STATE.",
        ),
    ] = None,
    sequence_by: SequenceBy = None,
    on_bad_batch: Annotated[
        Literal["stop", "skip", "quarantine"],
        typer.Option(
            "--on-bad-batch",
            help="A batch that does not fit: end with exit code 2, pass over it, or also keep it in --dead-letters.",
        ),
    ] = "stop",
    dead_letters: Annotated[
        str | None,
        typer.Option(
            "--dead-letters",
            metavar="DIR",
            help="Where quarantined batches are kept with the reason: the file itself, on Spark a parquet table.",
        ),
    ] = None,
    format: AsLine = "text",  # noqa: A002
    alerts: AlertOptions = AlertOptions(),
    place: SparkOptions = SparkOptions(),
    reading: FileOptions = FileOptions(),
) -> int:
    """Apply changes as they arrive, each file or version as one batch, and say what every batch did.

    Files are taken once, the oldest first, then by name; a name that starts with . or _ or ends in .tmp is left
    alone, so write a file under such a name and rename it when it is complete (in one process a file is also left
    until its size and time rest). SIGINT (Ctrl-C) and SIGTERM end it after the running batch with exit code 0; the
    next start goes on from there. A file that does not fit ends it with exit code 2 and nothing of the file applied:
    mend or remove it and start again, or say what is to become of such files with --on-bad-batch.
    """
    from holdstrue.cli.ruleset import require_tables
    from holdstrue.shards.facts import Facts
    from holdstrue.state.journal import facts_of

    wait = duration(every)
    told = alerts.target()
    cluster = place.cluster()
    known = facts_of(state, "monitor", Facts.of)
    require_tables([] if table is None else [table], known.keys)
    own = table or known.main
    ordered = sequences_of(sequence_by, own)
    if ordered.keys() - {own}:
        raise HoldstrueError(
            f"--sequence-by names table {next(iter(ordered.keys() - {own}))!r}, and the changes are of {own!r}",
            hint="give --table NAME, or the column alone",
        )
    if (dead_letters is not None) and on_bad_batch != "quarantine":
        raise HoldstrueError(
            "--dead-letters is for --on-bad-batch quarantine", hint="give both, or leave --dead-letters out"
        )
    if cluster is None:
        from holdstrue.cli.bad_files import BadFiles
        from holdstrue.cli.process_watch import watch_here, watched

        if checkpoint is not None:
            raise HoldstrueError("--checkpoint is about Spark", hint="in one process the state says what was taken")
        given = {"feed": feed, "op_column": op_column, "on_conflict": on_conflict, **units_of(unit)}
        given |= {"sequence_by": ordered} if ordered else {}
        bad = BadFiles.of(on_bad_batch, dead_letters)
        read = reading.options()
        find = partial(watched, source, since=since, by=by, snapshot=snapshot, read=read, feed=given, bad=bad)
        out = Output(None, format)
        alert = None if told is None else alerts.made(told, state, known.rules)
        watch_here(state, find, table=table, once=once, every=wait, out=out, form=format, stop=Stop(), alert=alert)
        return CLEAN
    if by is not None or snapshot:
        option = "--snapshot" if snapshot else "--by"
        raise HoldstrueError(f"{option} is for watching in one process", hint="leave out --engine spark")
    if cluster.master.startswith("sc://"):
        raise HoldstrueError(
            "watch does not run through Spark Connect", hint="give the --master that the server itself runs on"
        )
    origin = source_of(source, since, reading.options() | units_of(unit))
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
        from holdstrue.alerts.alert import EXAMPLES
        from holdstrue.spark import Monitor

        # Spark asks again at once while there is more, and after this time when there was nothing
        spark.conf.set("spark.sql.streaming.pollingDelay", f"{max(1, round(wait * 1000))}ms")
        if not stop:
            query = Monitor(spark, state).stream(
                origin.frame(spark),
                [Teller(Output(None, format), format, kept / "told", stop, alerts.made(told, state, known.rules))],
                table=table,
                name=name,
                checkpoint=checkpoint,
                trigger={"availableNow": True} if once else None,
                limit=0 if told is None else EXAMPLES * len(known.rules),
                on_conflict=on_conflict,
                sequence_by=ordered.get(own),
                on_bad_batch=on_bad_batch,
                dead_letters=dead_letters,
                **origin.options(feed, op_column),
            )
            follow(query, stop)
    return CLEAN
