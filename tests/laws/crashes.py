"""Work on a state that something stops at any moment, and what must hold of the state then.

A `Work` changes a state by a few batches (or makes it, or clears it up). `stages` are all the answers that the state
may give: before it, after each of its batches. Whatever happened, a state is at one of them; doing the work again
brings it to the last one, since batches have ids; then it goes on as any other.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, ClassVar
from unittest import mock

import pyarrow as pa

from holdstrue import Discovery, Monitor, discover
from holdstrue.discovery.inclusions.attributes import RowChanges
from holdstrue.discovery.inclusions.durable import DurableInclusions
from holdstrue.discovery.inclusions.unary import UnaryInclusions
from holdstrue.discovery.state import HISTORY as DISCOVERED
from holdstrue.errors import StateError
from holdstrue.fragments import Relation, Site
from holdstrue.monitor import one_piece
from holdstrue.shards import shard
from holdstrue.shards.facts import HISTORY
from holdstrue.state import files as state_files
from holdstrue.state import journal, segment
from holdstrue.state import runs as state_runs
from holdstrue.state.files import StateFiles
from holdstrue.state.journal import Journal, Kind, has_state
from holdstrue.state.manifest import files_of
from laws.test_detection import found
from places import Places

RULES = ["zip -> city", "key(code)", "not(t.zip = s.zip and t.size > s.size and t.cost < s.cost)", "not(t.size < 0)"]

Settings = Sequence[tuple[Any, str, Any]]
"""What is set to another value while a work is done: module, name, value."""

Told = Callable[[], None]
"""Called after each batch of a work that was applied."""


def rows(start: int, count: int, op: str = "insert", salt: int = 0) -> pa.Table:
    """Rows that break every rule now and then."""
    some = [(i, (i + salt) * 37 % 101) for i in range(start, start + count)]
    return pa.table(
        {
            "op": [op] * count,
            "id": [i for i, _ in some],
            "zip": [f"z{i % 7}" for i, _ in some],
            "city": [f"c{i % 7 if (i + salt) % 20 else 99}" for i, _ in some],
            "code": [i if (i + salt) % 15 else 0 for i, _ in some],
            "size": [at - (30 if at % 11 == 0 else 0) for _, at in some],
            "cost": [float(at if at % 5 else 50) for _, at in some],
        }
    )


BATCHES = {
    "a": rows(0, 60),
    "a2": rows(60, 40),
    "b": pa.concat_tables([rows(100, 30), rows(10, 15, "update", 3), rows(40, 5, "delete")]),
    "c": pa.concat_tables([rows(130, 8), rows(90, 8, "update", 5), rows(100, 3, "delete")]),
    "d": pa.concat_tables([rows(140, 10), rows(30, 5, "delete")]),
}
FIRST = ("a", "a2")


_NO_GRACE: Settings = [(state_files, "GRACE", -5.0), (state_files, "ENTRY_GRACE", -5.0)]
"""What is not needed goes at once, also where the clock of the store is ahead of ours."""


def patched(settings: Settings) -> contextlib.ExitStack:
    """While this is open, some things are set to other values."""
    stack = contextlib.ExitStack()
    for module, name, value in settings:
        stack.enter_context(mock.patch.object(module, name, value))
    return stack


class Work:
    """Batches b (and c) for a monitor in one piece that has a and a2, and what is set otherwise meanwhile."""

    kind: Kind = "monitor"

    def __init__(self, name: str, batches: Sequence[str] = ("b",), settings: Settings = (), *, local: bool = False):
        self.name = name
        self.batches = tuple(batches)
        self.local_only = local
        self._settings = settings

    def __repr__(self) -> str:
        return self.name

    def settings(self) -> contextlib.ExitStack:
        """While this is open, the work is done as its name says."""
        return patched(self._settings)

    def plain(self) -> Work:
        """The same batches, without ado."""
        found = copy.copy(self)
        found._settings = ()
        return found

    def prepare(self, place: str) -> None:
        """The state that the work starts from: of two checkpoints, so that there is something to clear up."""
        with mock.patch.object(state_runs, "CHECKPOINT_FROM", 0), Monitor.create(place, RULES, key="id") as monitor:
            for name in FIRST:
                monitor.apply(BATCHES[name], name)

    def run(self, place: str, held: list[Any], told: Told) -> list[bool]:
        """Do it; whether each batch was there before. What is open is put into `held`."""
        with self.settings():
            monitor = Monitor.open(place)
            held.append(monitor)
            there = []
            for name in self.batches:
                there.append(monitor.apply(BATCHES[name], name).duplicate)
                told()
            monitor.close()
            return there

    def again(self, held: Any, number: int) -> None:
        """Apply a batch to what was open when something went wrong with it."""
        with self.settings():
            held.apply(BATCHES[self.batches[number]], self.batches[number])

    def held_look(self, held: Any) -> Any:
        """What is open says this; to be compared with `stage_of`."""
        return everything(held)

    def stage_of(self, stage: Any) -> Any:
        """The part of a stage that what is open can say."""
        return stage

    def more(self, place: str) -> None:
        """The batch after it."""
        with Monitor.open(place) as monitor:
            assert not monitor.apply(BATCHES["d"], "d").duplicate

    def look(self, place: str) -> Any:
        """All there is to say of the state; None where there is none."""
        with Monitor.open(place, read_only=True) as monitor:
            return everything(monitor)

    def reached(self, place: str) -> tuple[int, bool]:
        """At which stage the state is, while somebody may have it open; and whether a part of it is further."""
        seen, stages = self.look(place), self.stages
        assert seen in stages, "the state is at none of its versions"
        return stages.index(seen), False

    @property
    def stages(self) -> list[Any]:
        """What the state may say, from before the work to after it."""
        return [_told((*FIRST, *self.batches[:done])) for done in range(len(self.batches) + 1)]

    @property
    def last(self) -> Any:
        """What it says after `more`."""
        return _told((*FIRST, *self.batches, "d"))

    def states(self, place: str) -> list[str]:
        """The places of all states that it consists of."""
        return [place]


def everything(monitor: Monitor) -> Any:
    """All there is to say of a monitor."""
    lines = [(line.batch, line.rule, line.added, line.removed, line.open) for line in monitor.history()]
    return found(monitor.violations()), monitor.counts(), monitor.rows, lines


@cache
def _told(batches: tuple[str, ...]) -> Any:
    memory = Monitor(RULES, key="id")
    for name in batches:
        memory.apply(BATCHES[name], name)
    return everything(memory)


class Creation(Work):
    """A monitor's state is made."""

    def prepare(self, place: str) -> None:
        """Nothing is there."""

    def run(self, place: str, held: list[Any], told: Told) -> list[bool]:
        """Make it, unless it is there."""
        if has_state(place):
            return [True]
        with self.settings():
            monitor = Monitor.create(place, RULES, key="id", data=BATCHES["a"].drop_columns(["op"]))
            held.append(monitor)
            told()
            monitor.close()
            return [False]

    def look(self, place: str) -> Any:
        """None where there is no state."""
        return super().look(place) if has_state(place) else None

    @property
    def stages(self) -> list[Any]:
        """Nothing, or all."""
        return [None, everything(self._memory())]

    @property
    def last(self) -> Any:
        """With one batch more."""
        memory = self._memory()
        memory.apply(BATCHES["d"].slice(0, 10), "d")
        return everything(memory)

    def more(self, place: str) -> None:
        """The batch after it: keys of d's deletes are there, too."""
        with Monitor.open(place) as monitor:
            monitor.apply(BATCHES["d"].slice(0, 10), "d")

    @staticmethod
    def _memory() -> Monitor:
        return Monitor(RULES, key="id", data=BATCHES["a"].drop_columns(["op"]))


class Vacuum(Work):
    """What nobody needs is removed."""

    def __init__(self, name: str, keep: float | None) -> None:
        super().__init__(name, (), _NO_GRACE)
        self._keep = keep

    def prepare(self, place: str) -> None:
        """Files of batches that were given up, beside those of old versions."""
        super().prepare(place)
        with Journal.open(place, "monitor") as kept:
            kept.write_batch([BATCHES["b"]], 50, kept.line("given up"), {}, apart=True)

    def run(self, place: str, held: list[Any], told: Told) -> list[bool]:
        """Clear up."""
        with self.settings(), Journal.open(place, "monitor", HISTORY) as kept:
            kept.vacuum(self._keep)
        return []


class Discovering(Work):
    """A discovery that is kept."""

    kind: Kind = "discovery"
    options: ClassVar[dict[str, Any]] = {"kinds": ("fd", "key"), "key": "id"}

    def prepare(self, place: str) -> None:
        """With the first two batches."""
        with discover(BATCHES["a"].drop_columns(["op"]), **self.options) as made:
            made.save(place)
            made.apply(BATCHES["a2"], batch_id="a2")

    def run(self, place: str, held: list[Any], told: Told) -> list[bool]:
        """Apply the batches."""
        with self.settings():
            kept = Discovery.open(place)
            held.append(kept)
            there = []
            for name in self.batches:
                there.append(kept.apply(BATCHES[name], batch_id=name).duplicate)
                told()
            kept.close()
            return there

    def again(self, held: Any, number: int) -> None:
        """To what is open."""
        with self.settings():
            held.apply(BATCHES[self.batches[number]], batch_id=self.batches[number])

    def held_look(self, held: Any) -> Any:
        """The rules it has."""
        return _rules_of(held)

    def stage_of(self, stage: Any) -> Any:
        """Without the ids of batches."""
        return stage[0]

    def more(self, place: str) -> None:
        """The batch after it."""
        with Discovery.open(place) as kept:
            assert not kept.apply(BATCHES["d"], batch_id="d").duplicate

    def look(self, place: str) -> Any:
        """Rules, measures, rows and batches."""
        with Journal.open(place, "discovery", DISCOVERED, read_only=True) as one:
            batches = one.history().column("batch").to_pylist()
        with Discovery.open(place, read_only=True) as kept:
            return _rules_of(kept), batches

    @property
    def stages(self) -> list[Any]:
        """As found from scratch."""
        return [self._stage(self.batches[:done]) for done in range(len(self.batches) + 1)]

    @property
    def last(self) -> Any:
        """With the batch after."""
        return self._stage((*self.batches, "d"))

    def _stage(self, batches: Sequence[str]) -> Any:
        memory = discover(BATCHES["a"].drop_columns(["op"]), **self.options)
        for name in ("a2", *batches):
            memory.apply(BATCHES[name], batch_id=name)
        return _rules_of(memory), ["a2", *batches]


def _rules_of(kept: Discovery) -> Any:
    return kept.to_dict()["rows"], sorted((str(rule.table), rule.text) for rule in kept)


class Including(Work):
    """Inclusions that are kept; their batches have no ids, so that nothing is applied again."""

    kind: Kind = "inclusions"

    def prepare(self, place: str) -> None:
        """With one batch."""
        with DurableInclusions.create(place, UnaryInclusions.load({"t": _numbers(0)})) as kept:
            kept.apply({"t": RowChanges(added=_numbers(1))})

    def run(self, place: str, held: list[Any], told: Told) -> list[bool]:
        """One batch more, unless it is there."""
        with self.settings():
            kept = DurableInclusions.open(place)
            held.append(kept)
            there = _shared(kept) != _counted(0, 1)
            if not there:
                kept.apply({"t": RowChanges(added=_numbers(2))})
                told()
            kept.close()
            return [there]

    def again(self, held: Any, number: int) -> None:
        """To what is open."""
        with self.settings():
            held.apply({"t": RowChanges(added=_numbers(2))})

    def held_look(self, held: Any) -> Any:
        """The values that columns share."""
        return _shared(held)

    def more(self, place: str) -> None:
        """The batch after it."""
        with DurableInclusions.open(place) as kept:
            kept.apply({"t": RowChanges(added=_numbers(3))})

    def look(self, place: str) -> Any:
        """The values that columns share."""
        with DurableInclusions.open(place, read_only=True) as kept:
            return _shared(kept)

    @property
    def stages(self) -> list[Any]:
        """As loaded at once."""
        return [_counted(0, 1), _counted(0, 1, 2)]

    @property
    def last(self) -> Any:
        """With the batch after."""
        return _counted(0, 1, 2, 3)


def _numbers(part: int) -> pa.Table:
    return pa.table({"a": list(range(part * 4, part * 4 + 9)), "b": list(range(part * 2, part * 2 + 9))})


def _shared(kept: Any) -> Any:
    return kept.core.structure.shared().tolist()


def _counted(*parts: int) -> Any:
    return UnaryInclusions.load({"t": pa.concat_tables([_numbers(part) for part in parts])}).structure.shared().tolist()


class Sites(Work):
    """A relation at two sites, each with a state of its own; what only one of them has is finished by the other."""

    kind: Kind = "site"

    def _opened(self, place: str | None) -> Relation:
        table = pa.concat_tables([BATCHES["a"], BATCHES["a2"]])
        states = [None if place is None else state for state in self.states(place or "")]
        return Relation(
            [
                Site("left", ("zip", "code"), source=table.select(["id", "zip", "code"]), state=states[0]),
                Site("right", ("city", "size"), source=table.select(["id", "city", "size"]), state=states[1]),
            ],
            ["zip -> city", "code -> size"],
            key="id",
        )

    def states(self, place: str) -> list[str]:
        """Of both sites."""
        return [f"{place}/left", f"{place}/right"]

    def prepare(self, place: str) -> None:
        """Both are loaded."""
        with self._opened(place) as relation:
            relation.load()

    def run(self, place: str, held: list[Any], told: Told) -> list[bool]:
        """Apply the batches."""
        with self.settings():
            relation = self._opened(place)
            held.append(relation)
            there = []
            for name in self.batches:
                there.append(relation.apply(BATCHES[name], name).repeated)
                told()
            relation.close()
            return there

    def held_look(self, held: Any) -> Any:
        """The violations it has."""
        return _violating(held)

    def reached(self, place: str) -> tuple[int, bool]:
        """Sites that are open cannot be opened: how many of the batches are at each."""
        at = []
        for state in self.states(place):
            with Journal.open(state, "site", read_only=True) as kept:
                at.append(sum(kept.seen(name) for name in self.batches))
        return min(at), max(at) > min(at)

    def more(self, place: str) -> None:
        """The batch after it."""
        with self._opened(place) as relation:
            assert not relation.apply(BATCHES["d"], "d").repeated

    def look(self, place: str) -> Any:
        """The violations; of a batch that one site lacks, those before it, which it says itself."""
        with self._opened(place) as relation:
            try:
                return _violating(relation)
            except StateError as error:
                assert "at some sites only" in error.message
                return self.stages[0]

    @property
    def stages(self) -> list[Any]:
        """As one loaded from scratch."""
        return [self._stage(self.batches[:done]) for done in range(len(self.batches) + 1)]

    @property
    def last(self) -> Any:
        """With the batch after."""
        return self._stage((*self.batches, "d"))

    def _stage(self, batches: Sequence[str]) -> Any:
        with self._opened(None) as relation:
            relation.load()
            for name in batches:
                relation.apply(BATCHES[name], name)
            return _violating(relation)


def _violating(relation: Relation) -> Any:
    return {rule: sorted(table.column("id").to_pylist()) for rule, table in relation.violations().items()}


_CHECKPOINT: Settings = [(state_runs, "CHECKPOINT_FROM", 0)]
_APART: Settings = [(journal, "INLINE_BYTES", 0)]
_BESIDE: Settings = [(one_piece, "BESIDE_FROM", 0), *_CHECKPOINT]
_COMPACTION: Settings = [*_BESIDE, (shard, "COMPACT_FROM", -1_000_000), (one_piece, "LAST_RESORT", 1 << 40)]
_SEGMENTS: Settings = [(segment, "SEGMENT_ENTRIES", 1)]
_AHEAD: Settings = [(segment, "ROOM_AFTER", 0), (segment, "ROOM_BYTES", 20_000)]

WORKS = {
    work.name: work
    for work in (
        Work("step"),
        Work("run", settings=_APART),
        Work("checkpoint", settings=_CHECKPOINT),
        Work("segments", ("b", "c"), [*_SEGMENTS, *_CHECKPOINT], local=True),
        Work("ahead", ("b", "c"), _AHEAD, local=True),
        Work("beside", ("b", "c"), _BESIDE),
        Work("compaction", ("b", "c"), _COMPACTION),
        Creation("creation"),
        Vacuum("vacuum", None),
        Vacuum("vacuum keep", 3600.0),
        Discovering("discovery"),
        Discovering("discovery checkpoint", settings=_CHECKPOINT),
        Including("inclusions"),
        Including("inclusions checkpoint", settings=_CHECKPOINT),
        Sites("sites"),
        Sites(
            "sites checkpoint",
            settings=[(state_runs, "CHECKPOINT_FROM", -1), (state_runs, "CHECKPOINT_SHARE", 1 << 30)],
        ),
    )
}


def assert_settled(work: Work, places: Places, place: str, done: int) -> int:
    """Nothing is lost, nothing is doubled, and the state goes on; returns at which stage the work was stopped.

    Parameters
    ----------
    done
        Batches of which somebody was told that they are applied.
    """
    stages = work.stages
    assert work.look(place) in stages, "the state is at none of its versions"
    at, _ = work.reached(place)
    assert at >= done, f"{done} batches were applied, the state has {at}"
    there = work.plain().run(place, [], lambda: None)
    if work.kind != "site":  # of which one may have a batch and the other not
        assert there == [number < at for number in range(len(there))], (
            "a batch is in and not known, or known and not in"
        )
    assert work.look(place) == stages[-1]
    work.more(place)
    assert work.look(place) == work.last
    for state in work.states(place):
        assert_tidy(work.kind, places, state)
    assert work.look(place) == work.last
    return at


def assert_tidy(kind: Kind, places: Places, place: str) -> None:
    """After clearing up, what is there is what the versions that are kept need, and these have no gaps."""
    with patched(_NO_GRACE), Journal.open(place, kind) as kept:
        kept.vacuum(0)
        kept.vacuum()
    with StateFiles(place) as files:
        newest = files.manifest()
        versions = range(newest["since"], newest["version"] + 1)
        named = {file.name for version in versions for file in files_of(files.manifest(version))}
    named = {name if name.startswith("log/") else f"runs/{name}" for name in named}
    wanted = named | {f"log/{version:012d}" for version in versions}
    objects = set(places.objects(place))
    if places.kind == "local":
        # many entries to a file, and a lock
        wanted = {name for name in wanted if not name.startswith("log/")} | {"lock"}
        objects = {name for name in objects if not name.startswith("log/")}
    assert objects == wanted


@contextlib.contextmanager
def quiet_close(held: Sequence[Any]) -> Iterator[None]:
    """Afterwards, let go of what is open, whatever it says."""
    try:
        yield
    finally:
        for one in held:
            with contextlib.suppress(Exception):
                one.close()
