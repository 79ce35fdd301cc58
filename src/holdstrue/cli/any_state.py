"""A state of any kind: monitors, discoveries, inclusions and sites keep the same journal."""

from __future__ import annotations

from holdstrue.discovery.discovery import Discovery
from holdstrue.discovery.state import HISTORY as DISCOVERED
from holdstrue.monitor.format_1 import is_format_1
from holdstrue.monitor.monitor import Monitor
from holdstrue.report.upkeep import Vacuumed
from holdstrue.shards.facts import HISTORY as MONITORED
from holdstrue.state.files import StateFiles
from holdstrue.state.history import Lines
from holdstrue.state.journal import BATCHES, Journal, Kind
from holdstrue.state.store import LOG, RUNS

HISTORIES: dict[Kind, Lines] = {
    "monitor": MONITORED,
    "discovery": DISCOVERED,
    "inclusions": BATCHES,
    "site": BATCHES,
}
"""What each kind remembers of its batches."""


def open_journal(path: str, *, read_only: bool = False) -> Journal:
    """The journal of a state, whatever it is of."""
    with StateFiles(path) as files:
        kind: Kind = files.manifest()["kind"]
    return Journal.open(path, kind, HISTORIES[kind], read_only=read_only)


def _renew(path: str) -> None:
    """Bring a state of format 1, of which only rows are of use, to the present one."""
    with StateFiles(path) as files:
        manifest = files.manifest()
    if is_format_1(manifest) and manifest["kind"] == "monitor":
        with Monitor.open(path) as monitor, monitor._here() as piece:
            piece.renew()
    elif is_format_1(manifest):
        with Discovery.open(path) as found:
            found.renew()


def vacuum(path: str, keep: float | None = None) -> Vacuumed:
    """Remove what no version needs that is kept, and from now on keep versions so many seconds, where that is given."""
    _renew(path)
    with open_journal(path) as journal:
        removed = journal.vacuum(keep)
        files = journal.files
        first = next(iter(files.kept()), journal.version)
        # a file of the log shrinks when all its entries are gone
        counted = [gone for gone in removed if files.store.shared or not gone.name.startswith(LOG)]
        return Vacuumed(
            path=path,
            kind=journal.kind,
            files=sum(gone.name.startswith(RUNS) for gone in removed),
            versions=sum(not gone.name.startswith(RUNS) for gone in removed),
            bytes=sum(gone.size for gone in counted),
            keep=journal.facts.get("keep", 0),
            first=first,
            last=journal.version,
            since=files.made(first),
        )
