"""The work of one site: rows of its own in, messages of ids out, violations of its own kept.

A site is reached by few verbs, with data that could come from another machine: `begin`, then rounds of `ship`
and `receive`, `settle`, the rounds with other fragments, `prepare`, and `commit` or `abort`. Nothing of a batch
is visible before its commit. A site that has committed a batch answers the same verbs for it again from what it
recorded, so that a batch that other sites missed can be applied once more (two-step commit).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.data.distinct import unpacked
from holdstrue.errors import HoldstrueError, StateError
from holdstrue.fragments.batch_keeper import BatchKeeper
from holdstrue.fragments.batch_record import REPEATED, ROUNDS, BatchRecord
from holdstrue.fragments.channel import SiteMessage
from holdstrue.fragments.exchange import Exchange, coordinator_of, own_side, pairs, violating_groups
from holdstrue.fragments.first_load import FirstLoad
from holdstrue.fragments.ids import Ids, in_order, key_ids
from holdstrue.fragments.indexed_rows import ChangedKeys, IndexedRows, IndexStep, Place
from holdstrue.fragments.own_rows import own_rows, refuse_repeats
from holdstrue.fragments.packed_values import give_back, packed
from holdstrue.fragments.site_batch import SiteBatch
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.index.arrays import all_true
from holdstrue.kernels.hashing import repeats
from holdstrue.state.files import OvertakenError, UncommittedError
from holdstrue.typing import I32, Mask


class SiteWork:
    """A site of a relation; `ask` is the one way to it.

    Parameters
    ----------
    read
        Gives the site's own rows, when it is first loaded and when everything is checked from scratch.
    state
        Where its state is kept; None for memory only.
    """

    def __init__(
        self, spec: SiteSpec, read: Callable[[], pa.Table] | None = None, state: BatchKeeper | None = None
    ) -> None:
        self.spec = spec
        self._read = read
        self._state = state
        self._indexed = IndexedRows(spec)
        self._last = None if state is None else state.restore(self._indexed)
        self._seen: set[str] = set()
        self._check: SiteWork | None = None
        self._alone = False
        self._behind = False
        """Whether the state may have a batch that memory does not have."""
        self._clear()

    def _clear(self) -> None:
        self._batch: SiteBatch | None = None
        self._repeated: BatchRecord | None = None
        self._step: IndexStep | None = None
        self._exchanges: dict[int, Exchange] = {}
        self._found: dict[int, ChangedKeys] = {}
        self._record: BatchRecord | None = None
        self._prepared: Any = None
        self._load: FirstLoad | None = None
        self._contents = ""
        self._over = False
        """Whether the batch that is answered again from its record is known to have started over."""

    def ask(self, verb: str, *args: Any) -> Any:
        """Let the site do something: for a batch, or for a check from scratch that is open beside it."""
        if self._behind and verb not in ("abort", "close"):
            raise StateError(
                f"site {self.spec.name!r} does not know whether its state has the last batch",
                hint="open the relation (start the sites) again, and apply the batch again",
            )
        if self._check is not None and verb != "close_check":
            return self._check.ask(verb, *args)
        if self._repeated is not None and verb in REPEATED:
            self._over |= verb == "start_over"
            again = "start_over" if verb == "align" and self._over else verb
            return self._repeated.repeat(self.spec, again, *args)
        if self._load is not None and verb in FirstLoad.VERBS:
            return getattr(self._load, verb)(*args)
        return getattr(self, verb)(*args)

    def open_check(self, spec: SiteSpec) -> None:
        """Start to check everything from scratch (batVer, batHor); nothing of it is kept."""
        self._check = SiteWork(spec, self._current_rows)
        self._check._alone = True  # fragments are compared at one of them, not through owners
        self._check.begin("check")

    def close_check(self) -> None:
        """Forget the check."""
        self._check = None

    def last(self) -> str | None:
        """The last batch that was committed here."""
        return None if self._last is None else self._last.batch

    def count(self) -> int:
        """How many batches were committed here."""
        return len(self._seen) if self._state is None else self._state.count

    def done(self, batch: str) -> bool:
        """Whether a batch was committed here."""
        return batch == self.last() or batch in self._seen or (self._state is not None and self._state.seen(batch))

    def size(self) -> dict[str, int]:
        """Rows held, and bytes beside their values."""
        return {"rows": self._indexed.rows.living, "bytes": self._indexed.size_bytes()}

    # --- work as stages (`part_stages.py`) ----------------------------------------------------------------

    @property
    def held(self) -> int:
        """How many rows are held, those that the batch under way brings or removes counted too."""
        return self._indexed.rows.living + (0 if self._batch is None else self._batch.size)

    def held_bytes(self) -> int:
        """Memory of all that is held: indexes, values, and those of the batch under way, as they came and as staged."""
        under_way = 0 if self._batch is None else 3 * self._batch.rows.nbytes
        return self._indexed.size_bytes() + self._indexed.rows.value_bytes() + under_way

    @property
    def repeated(self) -> bool:
        """Whether the batch under way was committed here before."""
        return self._repeated is not None

    @property
    def fingerprint(self) -> str:
        """That of the entries of the batch under way."""
        return self._running().fingerprint if self._repeated is None else self._repeated.fingerprint

    @property
    def entries(self) -> int:
        """How many entries the batch under way has."""
        return self._running().size

    def found(self) -> Mapping[int, ChangedKeys]:
        """What the last batch did, by CFD."""
        return {} if self._last is None else self._last.found

    def follow(self, replay: Callable[[IndexedRows], BatchRecord]) -> None:
        """Take in a batch that was committed elsewhere."""
        self._last = replay(self._indexed).answer()

    def remember(self, read: Callable[[], BatchRecord]) -> None:
        """Know all of the last batch again, where only its name is known."""
        if self._last is not None and not self._last.fingerprint:
            self._last = read().answer()

    def read_from(self, read: Callable[[], pa.Table]) -> None:
        """Where the site's own rows are read."""
        self._read = read

    def current_rows(self) -> pa.Table | None:
        """The rows held; None where nothing was loaded."""
        return None if self._last is None else self._current_rows()

    def got(self) -> dict[str, int]:
        """By source how many messages came in this batch."""
        return self._running().mail.got()

    def tally(self) -> dict[str, tuple[int, int, int]]:
        """By target the messages, ids and bytes that this batch sent."""
        sent = self._running().mail.outbox if self._repeated is None else self._repeated.outbox
        found: dict[str, tuple[int, int, int]] = {}
        for one in sent:
            messages, ids, size = found.get(one.target, (0, 0, 0))
            found[one.target] = messages + 1, ids + one.entries, size + one.size
        return found

    # --- one batch --------------------------------------------------------------------------------------

    def presence(self, batch: str, keys: pa.Table) -> Mask:
        """Which keys are those of rows here, before the batch."""
        ids = self.key_ids(keys)
        if self._last is not None and batch == self._last.batch:
            return self._last.presence(ids)
        return self._indexed.find(ids) >= 0

    def begin(self, batch: str, rows: pa.Table | None = None, now: Mask | None = None, contents: str = "") -> str:
        """Start a batch: rows by key with new images where `now`; without rows, load the site's own source.

        `contents` is one word for what the batch comes to at all sites, where whoever hands it out knows that.

        Returns a fingerprint of the entries, equal at all sites of the fragment. For a batch that was committed
        here before, it and everything that follows are answered from the record.
        """
        self.abort()  # of a batch that was given up while this site could not be reached
        if self._last is not None and batch == self._last.batch:
            if contents and self._last.contents not in ("", contents):
                raise StateError(
                    f"batch {batch!r} was committed at site {self.spec.name!r} with other changes",
                    hint="apply it as it was, which finishes it; then these changes under an id of their own",
                )
            self._repeated = self._last
            return self._last.fingerprint
        self._contents = contents
        if rows is None:
            if self._indexed.rows.living:
                raise HoldstrueError(f"site {self.spec.name!r} is loaded already", hint="apply changes instead")
            rows = unpacked(self._own_rows())
        if now is None:
            now = all_true(rows.num_rows)
        ids = self.key_ids(rows)
        if repeats(ids.lo):
            refuse_repeats(self.spec, ids, rows)
        old = self._indexed.find(ids)
        # what is neither here nor comes here belongs to other fragments
        own = now | (old >= 0)
        if not own.all():
            rows, ids, now, old = rows.filter(pa.array(own)), ids.take(own), now[own], old[own]
        return self._start(batch, ids, rows, now, old)

    def begin_load(self, batch: str) -> str:
        """Start to load the site's own source, portion by portion; otherwise as `begin` without rows."""
        self.abort()
        if self._last is not None and batch == self._last.batch:
            self._repeated = self._last
            return self._last.fingerprint
        if self._indexed.rows.living:
            raise HoldstrueError(f"site {self.spec.name!r} is loaded already", hint="apply changes instead")
        rows = self._own_rows()
        ids = self.key_ids(rows)
        if repeats(ids.lo):
            refuse_repeats(self.spec, ids, rows)
        del ids
        rows = packed(self.spec.kept_packed(rows))
        self._load = FirstLoad(self.spec, batch, rows)
        give_back()  # what was read takes three times as much as what is kept
        return self._load.fingerprint

    def weigh(self) -> list[int]:
        """How many images of rows the batch under way brings and removes, how many rows there are after it, and how it
        was worked out where it is committed."""
        come, go = int(np.count_nonzero(self._running().now)), int(np.count_nonzero(self._running().old >= 0))
        return [come + go, self._indexed.rows.living + come - go, 0]

    def start_over(self) -> str:
        """Put all rows after the batch into new indexes instead of counting changes in; otherwise as `begin_load`."""
        running, held = self._running(), self._indexed.rows
        stay = held.living_slots()
        if (running.old >= 0).any():
            stay = stay[~np.isin(stay, running.old)]
        come = self.spec.kept(running.rows.filter(pa.array(running.now)))
        rows = pa.concat_tables([held.take(stay), come], promote_options="permissive")
        self._load = FirstLoad(self.spec, running.name, packed(self.spec.kept_packed(rows)), self._indexed)
        running.forget()
        return self._load.fingerprint

    def align(self) -> str:
        """Put the entries in the order of their ids, as sites do whose rows came in different orders."""
        running = self._running()
        order = in_order(running.ids)
        rows = running.rows.take(pa.array(order))
        return self._start(running.name, running.ids.take(order), rows, running.now[order], running.old[order])

    def _start(self, batch: str, ids: Ids, rows: pa.Table, now: Mask, old: I32) -> str:
        gone = old[old >= 0]
        images = None if self.spec.recall or not gone.size else self._indexed.rows.take(gone)
        self._batch = SiteBatch(self.spec, batch, ids, rows, now, old, images)
        return self._batch.fingerprint

    def key_ids(self, rows: pa.Table) -> Ids:
        """The ids of rows, by their key."""
        return key_ids(rows, self.spec.key, self.spec.domains)

    def _current_rows(self) -> pa.Table:
        """The rows held, or those of the source when nothing is loaded yet."""
        if self._last is None and self._read is not None:
            return unpacked(self._own_rows())
        return self._indexed.rows.take(self._indexed.rows.living_slots())

    def _own_rows(self) -> pa.Table:
        if self._read is None:
            raise HoldstrueError(f"site {self.spec.name!r} has no source to load", hint="give it one: source=...")
        return own_rows(self.spec, self._read())

    def _running(self) -> SiteBatch:
        if self._batch is None:
            raise HoldstrueError(f"no batch is under way at site {self.spec.name!r}", hint="begin one first")
        return self._batch

    def ship(self, level: int) -> list[SiteMessage]:
        """The messages of one round inside the fragment."""
        return self._running().ship(level)

    def receive(self, got: SiteMessage) -> None:
        """Take a message in."""
        self._running().mail.receive(got)

    def settle(self) -> None:
        """Count the entries into the indexes that live here, when all that was shipped is there."""
        running = self._running()
        given = self._indexed.given(running)
        running.forget()
        self._indexed.recheck(running, given)
        if running.images > running.size:
            given = given.take(slice(0, running.size))
        self._step = self._indexed.stage(running.old, running.now, given)
        for bundle in () if self._alone else self.spec.bundles:
            here = bundle.sites.index(self.spec.name)
            owned = self._indexed.owned[bundle.number]
            steps = [self._step.pairs[self._indexed.places[cfd].pair] for cfd in bundle.cfds]
            exchange = Exchange(bundle, here, self._indexed, steps, owned, running.mail, bundle.number)
            self._exchanges[bundle.number] = exchange

    def announce(self, number: int | None = None) -> list[SiteMessage]:
        """Tell owners about groups that may have changed for other fragments: of one bundle, or of all."""
        return self._round("announce", number)

    def reply(self, number: int | None = None) -> list[SiteMessage]:
        """As the owner of groups, answer what was announced."""
        return self._round("reply", number)

    def verdict(self, number: int | None = None) -> list[SiteMessage]:
        """Say what is here of the groups that owners ask for."""
        return self._round("verdict", number)

    def conclude(self, number: int | None = None) -> list[SiteMessage]:
        """As the owner of groups, decide what was asked for, and tell whom it concerns."""
        return self._round("conclude", number)

    def _round(self, verb: str, number: int | None) -> list[SiteMessage]:
        self._staged()
        chosen = self._chosen(number)
        if number is not None:
            return [sent for one in chosen for sent in getattr(one, verb)()]
        # what each costs is mostly that it is a message: all bundles tell a site what they have to in one
        with self._running().mail.joining(ROUNDS.index(verb)) as joined:
            for one in chosen:
                list(getattr(one, verb)())
        return joined

    def _chosen(self, number: int | None) -> list[Exchange]:
        if number is None:
            return [*self._exchanges.values()]
        return [self._exchanges[number]] if number in self._exchanges else []

    def gather(self, number: int) -> list[SiteMessage]:
        """When everything is checked, in place of the rounds above: all rows of a CFD, to the site that judges it."""
        place, site = self._indexed.places.get(number), coordinator_of(self.spec, number)
        if place is None or site is None or site == self.spec.name:
            return []
        side = own_side(self.spec.name, place, self._staged(), number)
        return [self._running().mail.send(site, "pairs", pairs(side), number)] if side[1].size else []

    def judge(self, number: int) -> list[SiteMessage]:
        """Compare what came for a CFD; tell every fragment which of its groups violate."""
        place = self._indexed.places.get(number)
        if place is None or coordinator_of(self.spec, number) != self.spec.name:
            return []
        mail = self._running().mail
        sides = [own_side(self.spec.name, place, self._staged(), number)]
        for got in mail.take("pairs", number):
            arrays = got.arrays()
            sides.append((got.source, Ids(arrays["hi"], arrays["lo"]), arrays["words"]))
        dirty = violating_groups(sides)
        self._flag(place, dirty.pop(self.spec.name))
        return [mail.send(site, "violating", {"hi": x.hi, "lo": x.lo}, number) for site, x in dirty.items() if x.size]

    def take_verdicts(self, number: int) -> None:
        """Note which groups of a CFD were judged to violate."""
        for got in self._running().mail.take("violating", number):
            arrays = got.arrays()
            self._flag(self._indexed.places[number], Ids(arrays["hi"], arrays["lo"]))

    def _flag(self, place: Place, x: Ids) -> None:
        groups = self._indexed.left_sides[place.left].find(x)
        self._staged().pairs[place.pair].flag(place.column, groups, 1)

    def _staged(self) -> IndexStep:
        """What the batch does to the indexes, worked out when somebody first asks."""
        if self._step is None:
            self.settle()
        if self._step is None:
            raise HoldstrueError(f"no batch is counted at site {self.spec.name!r}", hint="let it settle first")
        return self._step

    def finish(self) -> dict[int, ChangedKeys]:
        """By CFD the keys of rows that began and ceased to violate it; the site's own share of the delta."""
        staged = self._staged()
        for exchange in self._exchanges.values():
            exchange.finish()
        self._found = self._indexed.changed(self._running(), staged)
        return {number: keys for number, keys in self._found.items() if keys.size}

    # --- two-step commit ----------------------------------------------------------------------------------

    def sent(self) -> dict[str, int]:
        """By target how many messages this batch sent."""
        return self._running().mail.sent()

    def compare(self, told: Mapping[str, int]) -> None:
        """Make sure that everything arrived that others say they sent."""
        self._running().mail.compare(told)

    def prepare(self, told: Mapping[str, int] | None = None) -> None:
        """Write the batch down, when all that others say they sent has come; it does not count yet."""
        if self._load is not None:
            load = self._load
            if told is not None:
                load.compare(told)
            record = BatchRecord.of_load(load.name, load.fingerprint, self.spec, load.mail.outbox, load.found)
            if self._batch is not None:
                record = BatchRecord.of_start(record, load.fingerprint, self._batch)
            self._record = record = replace(record, contents=self._contents)
            if self._state is not None:
                self._prepared = self._state.prepare_load(record, load.indexed)
            return
        if told is not None:
            self.compare(told)
        owned = [step for one in self._exchanges.values() if (step := one.changed()) is not None]
        record = BatchRecord.of(self._running(), self._indexed, self._staged(), owned, self._found)
        self._record = replace(record, contents=self._contents)
        if self._state is not None:
            self._prepared = self._state.prepare(self._record)

    def commit(self) -> None:
        """Make the batch count."""
        fresh = self._repeated is None
        if fresh:
            name = self._running().name if self._load is None else self._load.name
            if self._state is not None:
                self._behind = True
                try:
                    self._state.commit(self._prepared)
                except UncommittedError as error:
                    self._behind = isinstance(error, OvertakenError)
                    raise
            if self._load is None:
                running = self._running()
                self._indexed.commit(running.ids, running.rows, running.now, running.old, self._staged())
            else:
                self._indexed = self._load.indexed
            self._last = None if self._record is None else self._record.answer()
            self._behind = False
            if self._state is None:
                self._seen.add(name)
        loaded = self._load is not None
        self._clear()
        if loaded:
            give_back()
        elif fresh and self._state is not None:
            self._state.tidy(self._indexed)

    def release(self, batch: str) -> None:
        """Every site has committed a batch, so that nobody will ask for what was sent and found again."""
        if self._last is not None and self._last.batch == batch:
            self._last = self._last.released()

    def abort(self) -> None:
        """Forget the batch under way."""
        if self._step is not None:
            for exchange in self._exchanges.values():
                exchange.abort()
            self._step.abort()
        self._clear()

    # --- what violates ------------------------------------------------------------------------------------

    def violations(self) -> dict[int, pa.Table]:
        """By CFD the keys of the rows that violate it, as far as its index is here."""
        key = list(self.spec.key)
        slots = {cfd.number: self._indexed.violating(cfd) for cfd in self.spec.own_cfds}
        return {number: self._indexed.rows.take(some, key) for number, some in slots.items() if some.size}

    def violates(self, number: int, keys: pa.Table) -> Mask:
        """Which rows violate a CFD whose index is here."""
        return self._indexed.violates(self.spec.cfds[number], self.key_ids(keys))

    def classes(self, number: int, keys: pa.Table) -> list[tuple[bytes, bytes, bytes] | None]:
        """For rows, by key, what their class under a CFD is told by: the id of X and the word of B."""
        return self._indexed.classes(number, self.key_ids(keys))

    def close(self) -> None:
        """Let go of the state directory."""
        if self._state is not None:
            self._state.close()
