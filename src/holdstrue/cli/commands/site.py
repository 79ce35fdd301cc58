"""`holdstrue site`: one site of a relation as a process of its own, and what people ask of it."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdstrue.cli.failures import CLEAN, VIOLATED, guarded
from holdstrue.cli.options import FeedKind, FileOptions, FormatOf, OpColumn, OutputFile
from holdstrue.cli.output import Output, Working
from holdstrue.errors import HoldstrueError
from holdstrue.report.forms import parts

if TYPE_CHECKING:
    from holdstrue.fragments.apart_relation import ApartDelta
    from holdstrue.fragments.declaration import Declaration
    from holdstrue.fragments.flight import Credentials

File = Annotated[str, typer.Argument(metavar="FILE", help="YAML that declares sites, rules and key; the same at all.")]
Name = Annotated[str, typer.Option("--name", metavar="SITE", help="Which of the sites.")]
BatchId = Annotated[str | None, typer.Option(metavar="ID", help="Names the batch, the same at all sites.")]
AsDelta = Annotated[str, FormatOf("ApartDelta", "How to print the answer.")]

site = typer.Typer(
    name="site",
    no_args_is_help=True,
    help="One site of a split relation as a process of its own: its rows never leave it (FILE: key, rules, sites).",
)


@dataclass(frozen=True)
class Shown:
    """What is shown to a site, and asked of others."""

    token: Annotated[
        str | None,
        typer.Option(envvar="HOLDSTRUE_TOKEN", metavar="TOKEN", help="What all sites, and who asks them, must know."),
    ] = None
    certificate: Annotated[str | None, typer.Option(metavar="PEM", help="For mutual TLS: shown to the others.")] = None
    key: Annotated[str | None, typer.Option(metavar="PEM", help="Its private key.")] = None
    authority: Annotated[
        str | None, typer.Option(metavar="PEM", help="Who must have signed the certificates of the others.")
    ] = None

    def credentials(self) -> Credentials:
        """As sites use them."""
        from holdstrue.fragments.flight import Credentials

        return Credentials(self.token, self.certificate, self.key, self.authority)


@site.command()
@guarded
def serve(
    file: File,
    name: Name,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where to listen; by default the address in the file.")
    ] = None,
    shown: Shown = Shown(),
) -> int:
    """Run one site over its own source and state, until Ctrl-C.

    On others' reach (not 127.0.0.1) it asks for the token, or for certificates.
    """
    from holdstrue.fragments.flight import served
    from holdstrue.fragments.site_service import SiteService

    declared = _declared(file, name)
    address = listen or declared.addresses.get(name)
    if address is None:
        raise HoldstrueError(
            f"{file}: site {name!r} has no address", hint="address: 127.0.0.1:7001 in the file, or --listen"
        )
    server, service, wires = served(
        lambda carry: SiteService(declared, name, carry), declared.addresses, address, shown.credentials()
    )
    typer.echo(f"site {name} listens on {address} (Ctrl-C ends)")
    try:
        server.serve()
    finally:
        service.close()
        wires.close()
    return CLEAN


@site.command()
@guarded
def load(
    file: File,
    name: Name,
    shown: Shown = Shown(),
    format: AsDelta = "text",  # noqa: A002
    output: OutputFile = None,
) -> int:
    """Have every site load its own source; say what violates the rules. Exit codes as for `site apply`."""
    with Output(output, format) as out:
        with Working("loading all sites"):
            delta = _acted(_declared(file, name), name, shown, {"verb": "load"})
        out.write(parts(delta, format))
    return _code(_declared(file, name), delta)


@site.command()
@guarded
def offer(
    file: File,
    changes: Annotated[list[str], typer.Argument(metavar="CHANGES", help="The site's own part of a batch.")],
    name: Name,
    batch_id: BatchId = None,
    feed: FeedKind = "auto",
    op_column: OpColumn = None,
    reading: FileOptions = FileOptions(),
    shown: Shown = Shown(),
) -> int:
    """Give a site its own part of a batch, which it keeps until some site is told to apply the batch."""
    if batch_id is None:
        raise HoldstrueError(
            "what is offered needs the id of its batch", hint="--batch-id monday, the same at all sites"
        )
    options: dict[str, Any] = {"feed": feed, "op_column": op_column, **reading.options()}
    if _offered(_declared(file, name), name, shown, changes, batch_id, options):
        typer.echo(f"batch {batch_id} was applied before; what is offered now is not kept")
    else:
        typer.echo(f"site {name} keeps its part of batch {batch_id} until a site is told to apply it")
    return CLEAN


@site.command()
@guarded
def apply(
    file: File,
    name: Name,
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[CHANGES]", help="The site's own part of the batch.")
    ] = None,
    batch_id: BatchId = None,
    feed: FeedKind = "auto",
    op_column: OpColumn = None,
    format: AsDelta = "text",  # noqa: A002
    output: OutputFile = None,
    reading: FileOptions = FileOptions(),
    shown: Shown = Shown(),
) -> int:
    """Apply a batch everywhere or nowhere: what is given here, and what other sites were offered under the same id.

    Exit code 1: the batch added violations of a rule of severity error, here or elsewhere; 0: it added none.
    """
    declared = _declared(file, name)
    if batch_id is None and not changes:
        raise HoldstrueError("there is nothing to apply", hint="name CHANGES of this site, or a --batch-id, or both")
    batch = uuid.uuid4().hex if batch_id is None else batch_id
    with Output(output, format) as out:
        with Working(f"applying batch {batch}"):
            if changes:
                options: dict[str, Any] = {"feed": feed, "op_column": op_column, **reading.options()}
                _offered(declared, name, shown, changes, batch, options)
            delta = _acted(declared, name, shown, {"verb": "apply", "batch": batch, "once": batch_id is None})
        out.write(parts(delta, format))
    return _code(declared, delta)


@site.command()
@guarded
def violations(
    file: File,
    name: Name,
    shown: Shown = Shown(),
    format: AsDelta = "text",  # noqa: A002
    output: OutputFile = None,
) -> int:
    """Say which rows that the site knows violate which rules, and how many there are elsewhere."""
    with Output(output, format) as out:
        delta = _acted(_declared(file, name), name, shown, {"verb": "violations of all"})
        out.write(parts(delta, format))
    return _code(_declared(file, name), delta)


@site.command()
@guarded
def status(file: File, name: Name, shown: Shown = Shown()) -> int:
    """Say what a site holds, its last batch, and what it was offered."""
    from holdstrue.fragments.remote_host import answer_of

    told = answer_of(*_called(_declared(file, name), name, shown, {"verb": "status"}))
    for field, value in told.items():
        typer.echo(f"{field}: {', '.join(value) if isinstance(value, list) else value}")
    return CLEAN


def _declared(file: str, name: str) -> Declaration:
    from holdstrue.fragments.declaration import load_declaration

    # what fails is said by this command; gRPC's own log would come before it, unless somebody asks for that
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    declared = load_declaration(file)
    if name not in {one.name for one in declared.sites}:
        known = ", ".join(one.name for one in declared.sites)
        raise HoldstrueError(f"{file}: no site is called {name!r}", hint=f"the sites are {known}")
    return declared


def _called(
    declared: Declaration, name: str, shown: Shown, head: dict[str, Any], body: bytes = b""
) -> tuple[dict[str, Any], bytes]:
    from holdstrue.fragments.flight import Wires
    from holdstrue.fragments.frames import framed
    from holdstrue.fragments.remote_host import called

    # what a person asks for takes as long as it takes, and is asked for once
    wires = Wires(declared.addresses, shown.credentials(), timeout=24 * 3600.0)
    try:
        return called(wires.carry, name, framed(head | {"site": name}, body), 0.0)
    finally:
        wires.close()


def _acted(declared: Declaration, name: str, shown: Shown, head: dict[str, Any]) -> ApartDelta:
    import pyarrow as pa

    from holdstrue.fragments.apart_relation import ApartDelta

    found, body = _called(declared, name, shown, head)
    return ApartDelta.of(found, pa.ipc.open_stream(pa.BufferReader(body)).read_all())


def _offered(
    declared: Declaration, name: str, shown: Shown, changes: list[str], batch: str, options: dict[str, Any]
) -> bool:
    """Offer changes to a site; whether their batch was applied before, so that they were not kept."""
    import pyarrow as pa

    from holdstrue.data.changes import INSERT
    from holdstrue.fragments.remote_host import answer_of
    from holdstrue.shards.wire import pack
    from holdstrue.sources.feeds import read_changes
    from holdstrue.sources.feeds.batches import refuse_slips

    read = read_changes(changes, key=declared.key, **options)
    if options["feed"] == "auto" and options["op_column"] is None and (read.ops == INSERT).all():
        refuse_slips(read, declared.columns)
    table = read.rows.append_column(":op", pa.array(read.ops))
    head = {"verb": "offer", "batch": batch}
    told = answer_of(*_called(declared, name, shown, head, pack(table).to_pybytes()))
    return bool(told["repeated"])


def _code(declared: Declaration, delta: ApartDelta) -> int:
    severe = {rule.name for rule in declared.rules if rule.severity == "error"}
    added = {*delta.added} | {rule for rules in delta.elsewhere.values() for rule, (more, _) in rules.items() if more}
    return CLEAN if severe.isdisjoint(added) else VIOLATED
