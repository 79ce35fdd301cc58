"""A state that is shown: followed as others write it, and what to say while it cannot be read."""

from __future__ import annotations

import datetime as dt
import gc
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

from holdstrue.detect.delta import Batched, RuleResult, Violation
from holdstrue.discovery.discovery import Discovery
from holdstrue.errors import HoldstrueError, StateError
from holdstrue.monitor.accepting import accepting
from holdstrue.monitor.monitor import Monitor
from holdstrue.monitor.report import Report
from holdstrue.monitor.views import status_of
from holdstrue.report.discovered import discovered_dict
from holdstrue.report.overview import Overview
from holdstrue.rules.accepted import Acceptance, load_accepted
from holdstrue.state.files import StateFiles
from holdstrue.state.journal import READ_WITH, Kind
from holdstrue.state.moment import Given, Moment
from holdstrue.state.store import RUNS, Glance, fixed_place

LISTED = 50
"""Violations or groups of each rule that the page of a state lists; its list of violations has all, page by page."""
AGAIN = 30.0
"""Seconds after which a state that could not be read is tried again although nothing of it changed. Chosen."""

LASTING = ("ready", "empty", "damaged", "other kind", "discovery")
"""What stays so as long as the state's files are the same."""

Standing: TypeAlias = Literal[
    "opening", "ready", "empty", "missing", "vanished", "no state", "being created", "other kind", "damaged",
    "unreachable", "discovery",
]  # fmt: skip
"""How a state stands: `ready` and `empty` (no rows yet) can be asked, `discovery` can be shown."""


@dataclass(frozen=True)
class Said:
    """How a state stands, in words."""

    standing: Standing
    message: str = ""
    hint: str = ""


class OpenVersion:
    """A version of a state that was read whole and does not change, so that any number of threads may ask it.

    With entries of an accepted file violations that they name are counted apart and not listed.
    """

    def __init__(self, place: str, at: Given | None = None, accepted: Sequence[Acceptance] | None = None) -> None:
        self.place = place
        self.accepted = accepted
        self.monitor = Monitor.open(place, read_only=True, at=at)
        try:
            self.history: tuple[Batched, ...] = tuple(self.monitor.history())
        finally:
            # waits until every file was compared with its checksum; what was read stays in memory
            self.monitor.close()
        moment = self.monitor.moment
        if moment is None:
            raise RuntimeError("a state has a version")
        self.moment: Moment = moment
        self.facts = self.monitor.facts
        self._reports: dict[dt.date, Report | None] = {}
        self._making = threading.Lock()
        self._shown: tuple[dt.date, dict[str, Any]] | None = None

    @property
    def version(self) -> int:
        """Its number."""
        return self.moment.version

    @cached_property
    def ages(self) -> bool:
        """Whether rules are broken by the passing of time, so that no answer about them may be kept."""
        return any(check.timed for check in self.facts.measure_checks().values())

    @property
    def report(self) -> Report | None:
        """How its rows stand to the rules, as of today; None before there are any."""
        if self.ages:
            return self._reported()
        today = _today()
        if today not in self._reports:
            self._reports = {today: self._reported()}
        return self._reports[today]

    def _reported(self) -> Report | None:
        if not any(self.facts.rows.values()):
            return None
        return self._accepting(self.monitor.report(limit=0))

    def _accepting(self, report: Report) -> Report:
        return report if self.accepted is None else accepting(report, self.accepted, today=_today())

    def known(self, violation: Violation) -> bool:
        """Whether a violation is accepted."""
        return self.accepted is not None and self.report is not None and self.report.known(violation)

    @property
    def results(self) -> tuple[RuleResult, ...]:
        """The rules with their counts and status, also before there are rows."""
        if (self.facts.measures or self.accepted is not None) and (report := self.report) is not None:
            return report.results
        return self._results

    @cached_property
    def _results(self) -> tuple[RuleResult, ...]:
        facts = self.facts
        return tuple(
            RuleResult(
                rule,
                rule.text,
                facts.counts[rule.name],
                status_of(rule, facts.counts[rule.name], facts.rows.get(rule.own_table or facts.main, 0)),
            )
            for rule in facts.rules
        )

    def overview(self, title: str) -> dict[str, Any]:
        """What the page shows, made once."""
        with self._making:
            return self._overview(title)

    def _overview(self, title: str) -> dict[str, Any]:
        if self._shown is None or self.ages or self._shown[0] != _today():
            found = Overview.of_state(self.monitor, self.history, title, LISTED)
            if found.report is not None:
                found = replace(found, report=self._accepting(found.report))
            self._shown = _today(), found.to_dict()
        return self._shown[1]

    def tables(self) -> dict[str, Any]:
        """Tables by name: rows, key and the columns that are kept."""
        shard = self.monitor._here().shard
        kept = {} if shard is None else {name: table.rows.schema.names for name, table in shard.engine.tables.items()}
        return {
            name: {"rows": self.facts.rows.get(name, 0), "key": list(key), "columns": list(kept.get(name, key))}
            for name, key in self.facts.keys.items()
        }


def _today() -> dt.date:
    """The day by which accepted violations are or are not expired."""
    return dt.datetime.now(dt.UTC).astimezone().date()


class OpenDiscovery:
    """A version of a discovery that was read: what its page shows."""

    def __init__(self, place: str) -> None:
        with StateFiles(place) as files:
            version: int = files.manifest()["version"]
        with Discovery.open(place, at=version) as found:
            moment = found.moment
            self.batches = found.batches
            self.history = tuple(found.history())
            self._discovered = discovered_dict(found)
        if moment is None:
            raise RuntimeError("a state has a version")
        self.moment: Moment = moment

    @property
    def rows(self) -> int:
        """Rows of all its tables."""
        return sum(self._discovered["tables"].values())

    @property
    def rules(self) -> int:
        """How many rules hold."""
        count: int = self._discovered["of_rules"]
        return count

    @property
    def last_batch(self) -> str | None:
        """The batch that came last, if any."""
        return self.history[-1]["batch"] if self.history else None

    def overview(self, title: str) -> dict[str, Any]:
        """What the page shows."""
        return Overview(title, None, moment=self.moment, discovered=self._discovered).to_dict()


class WatchedState:
    """A state by name. `look` is called by one thread at a time; whatever is read of it, by any.

    Parameters
    ----------
    name
        What it is called in addresses.
    given
        Its path or URL as it was given.
    """

    def __init__(self, name: str, given: str, accepted: str | None = None) -> None:
        self.accepted = accepted
        """A file of accepted violations, read again when it changes."""
        self.discovery: OpenDiscovery | None = None
        """The newest version of a discovery that was read, where the state is one."""
        self._entries: tuple[Acceptance, ...] | None = None
        self._stamp: tuple[int, int] | None = None
        self.name = name
        self.given = given
        self.place = fixed_place(given)
        self.said = Said("opening", f"{given} is being opened", "wait a moment: the page shows it when it was read")
        self.current: OpenVersion | None = None
        """The newest version that was read, where it can be asked."""
        self.trying = threading.Lock()
        """Held by the one who tries a row or a rule: that takes as long as reading the table, so one at a time."""
        self._seen: Glance | None = None
        self._tried = 0.0

    def look(self) -> bool:
        """Take in what is new; returns whether anything is. Complexity: O(log files), or that of opening the state."""
        before = self.said, self.current, self.discovery
        try:
            stamp = _stamp(self.accepted)
            with StateFiles(self.place) as files:
                seen = files.store.glance()
            settled = self.current is not None or time.monotonic() - self._tried < AGAIN
            settled = settled or self.discovery is not None
            same = seen == self._seen and stamp == self._stamp
            if same and settled and self.said.standing in LASTING:
                return False
            self._tried = time.monotonic()
            if self._is_discovery():
                self.discovery = OpenDiscovery(self.place)
                self.current = None
                self.said = Said("discovery", f"{self.given} is a discovery", "it has a page and an overview")
            else:
                self._open()
            self._seen, self._stamp = seen, stamp
        except (HoldstrueError, OSError) as error:
            self._troubled(error)
        changed = (self.said, self.current, self.discovery) != before
        if before[1] is not None and changed:
            del before
            # indexes refer to themselves, and a table is too large to wait until enough small objects came and went
            gc.collect()
        return changed

    def _is_discovery(self) -> bool:
        with StateFiles(self.place) as files:
            return files.any() and bool(files.manifest()["kind"] == "discovery")

    def _open(self) -> None:
        """Read a monitor; an accepted file that does not fit it is told, and then nothing counts as accepted."""
        self._entries, trouble = None, None
        if self.accepted is not None:
            try:
                self._entries = load_accepted(self.accepted)
            except HoldstrueError as error:
                trouble = error
        opened = OpenVersion(self.place, accepted=self._entries)
        try:
            _ = opened.report
        except HoldstrueError as error:
            if self._entries is None:
                raise
            trouble, self._entries = error, None
            opened = OpenVersion(self.place)
        self.current, self.discovery = opened, None
        self.said = Said("ready") if any(opened.facts.rows.values()) else self._empty(opened)
        if trouble is not None and self.said.standing == "ready":
            self.said = Said("ready", f"nothing counts as accepted: {trouble.message}", trouble.hint or "")

    def version(self, at: Given) -> OpenVersion:
        """Another version that is kept, with what is accepted now."""
        return OpenVersion(self.place, at, self._entries)

    def _empty(self, opened: OpenVersion) -> Said:
        rules = "rule" if len(opened.facts.rules) == 1 else "rules"
        return Said(
            "empty",
            f"{self.given} has {len(opened.facts.rules)} {rules} and no rows yet",
            f"give it some: holdstrue apply {self.given} FILE",
        )

    def _troubled(self, error: HoldstrueError | OSError) -> None:
        self.said = self._trouble(error)
        if self.said.standing == "unreachable" and (self.current is not None or self.discovery is not None):
            return  # what was read last is still true of its version, and the page says that it is not reached
        self.current = self.discovery = None
        try:
            with StateFiles(self.place) as files:
                self._seen = files.store.glance()
        except (HoldstrueError, OSError):
            self._seen = None

    def _trouble(self, error: HoldstrueError | OSError) -> Said:
        """What an error says of a state, told by what there is at its place rather than by its words."""
        message, hint = (
            (error.message, error.hint or "")
            if isinstance(error, HoldstrueError)
            else (str(error), "see that this process may read it")
        )
        if not isinstance(error, StateError):
            return Said("unreachable", message, f"{hint}; it is tried again")
        try:
            with StateFiles(self.place) as files:
                return self._told(files, message, hint)
        except (HoldstrueError, OSError):
            return Said("unreachable" if "://" in self.place else "damaged", message, hint)

    def _told(self, files: StateFiles, message: str, hint: str) -> Said:
        if not files.store.exists:
            had = self.current is not None or self.said.standing == "vanished"
            if had:
                return Said("vanished", f"{self.given} was there and is gone", "put it back; the page goes on with it")
            return Said("missing", message, hint)
        if not files.any():
            if files.store.list(RUNS) or Path(self.place, "lock").exists():
                return Said(
                    "being created",
                    f"{self.given} is being created: it holds no version yet",
                    "the page shows it with its first version; if nobody is creating it, run holdstrue init again",
                )
            return Said("no state", message, hint)
        with suppress(StateError):  # what is there and cannot be read is damaged
            kind: Kind = files.manifest()["kind"]
            if kind not in ("monitor", "discovery"):
                return Said("other kind", message, READ_WITH[kind].replace("STATE", self.given))
        return Said("damaged", message, hint)


def _stamp(path: str | None) -> tuple[int, int] | None:
    """What changes when a file is written."""
    if path is None:
        return None
    try:
        found = Path(path).stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def accepted_files(names: Sequence[str], given: Sequence[str]) -> dict[str, str]:
    """Files of accepted violations by the names of states; each can be read.

    >>> accepted_files(["orders"], [])
    {}
    """
    found: dict[str, str] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if len(names) == 1 and not (equals and name in names):
            name, path = names[0], text
        if name not in names or not path:
            raise HoldstrueError(
                f"--accepted {text} names no state that is served",
                hint=f"with several states write NAME=FILE, where NAME is one of {', '.join(names)}",
            )
        if name in found:
            raise HoldstrueError(f"{name} has two files of accepted violations", hint="give --accepted once for it")
        load_accepted(path)
        found[name] = path
    return found


def named(states: list[str], accepted: Mapping[str, str] | None = None) -> Mapping[str, WatchedState]:
    """States by names that are short, differ and need no quoting in an address; `accepted` are files by these names.

    >>> list(named(["/data/orders", "s3://bucket/orders/", "/data/Über uns"]))
    ['orders', 'orders-2', 'ber-uns']
    """
    found: dict[str, WatchedState] = {}
    for given in states:
        last = given.replace("\\", "/").rstrip("/").rpartition("/")[2]
        plain = "".join(c.lower() if c.isascii() and c.isalnum() else "-" for c in last).strip("-") or "state"
        name, number = plain, 1
        while name in found:
            number += 1
            name = f"{plain}-{number}"
        found[name] = WatchedState(name, given, (accepted or {}).get(name))
    return found
