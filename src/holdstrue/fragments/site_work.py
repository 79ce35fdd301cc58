"""The work of one site: rows of its own in, messages of ids out, violations of its own kept.

A site is reached by few verbs, with data that could come from another machine: `begin`, then rounds of `ship`
and `receive`, `settle`, the rounds with other fragments, `prepare`, and `commit` or `abort`. Nothing of a batch
is visible before its commit. A site that has committed a batch answers the same verbs for it again from what it
recorded, so that a batch that other sites missed can be applied once more (two-step commit).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.errors import DataError, HoldstrueError
from holdstrue.fragments.batch_record import BatchRecord
from holdstrue.fragments.channel import SiteMessage
from holdstrue.fragments.coordinator import coordinator_of, own_side, pairs, sides_of, violating_groups
from holdstrue.fragments.exchange import Exchange, SharedFlags, group_ids, group_ids_of, posted, states_of
from holdstrue.fragments.ids import Ids, key_ids
from holdstrue.fragments.indexed_rows import CFDStep, ChangedKeys, IndexedRows, IndexInput
from holdstrue.fragments.normal_cfds import NormalCFD, condition_columns
from holdstrue.fragments.site_batch import SiteBatch, in_order
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.fragments.site_state import SiteState
from holdstrue.plan.filter import holds
from holdstrue.rules.text import condition_text
from holdstrue.typing import I32, Mask


class SiteWork:
    """A site of a relation.

    Parameters
    ----------
    read
        Gives the site's own rows, when it is first loaded and when everything is checked from scratch.
    state
        Where its state is kept; None for memory only.
    """

    def __init__(
        self, spec: SiteSpec, read: Callable[[], pa.Table] | None = None, state: SiteState | None = None
    ) -> None:
        self.spec = spec
        self._read = read
        self._state = state
        self.indexed = IndexedRows(spec)
        self._batch: SiteBatch | None = None
        self._staged: list[tuple[NormalCFD, CFDStep]] = []
        self._exchanges: dict[int, Exchange] = {}
        self._flags: dict[int, SharedFlags] = {}
        self._found: dict[int, ChangedKeys] = {}
        self._last: BatchRecord | None = None
        self._again = False
        self._prepared: Any = None
        self._seen: set[str] = set()
        self._next: BatchRecord | None = None
        if state is not None:
            self._last = state.restore(self.indexed)

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
        return {"rows": self.indexed.rows.living, "bytes": self.indexed.size_bytes()}

    # --- one batch --------------------------------------------------------------------------------------

    def presence(self, batch: str, keys: pa.Table) -> Mask:
        """Which keys are those of rows here, before the batch."""
        ids = key_ids(keys, self.spec.key, dict(self.spec.domains))
        if self._last is not None and batch == self._last.batch:
            return self._last.presence(ids)
        return self.indexed.rows.find(ids.hi, ids.lo) >= 0

    def begin(self, batch: str, rows: pa.Table | None = None, now: Mask | None = None) -> tuple[bytes, bool]:
        """Start a batch: rows by key with new images where `now`; without rows, load the site's own source.

        Returns a fingerprint of the entries, equal at all sites of the fragment, and whether the batch was
        committed here before, so that the rest is answered from the record.
        """
        self.abort()  # of a batch that was given up while this site could not be reached
        if self._last is not None and batch == self._last.batch:
            self._again = True
            return self._last.fingerprint, True
        if rows is None:
            rows = self._own_rows()
        if now is None:
            now = np.ones(rows.num_rows, dtype=np.bool_)
        ids = key_ids(rows, self.spec.key, dict(self.spec.domains))
        order = in_order(ids)
        ids, now = ids.take(order), now[order]
        self._refuse_repeats(ids, rows, order)
        old = self.indexed.rows.find(ids.hi, ids.lo)
        # what is neither here nor comes here belongs to other fragments
        own = now | (old >= 0)
        kept = order[own]
        rows, ids, now, old = rows.take(pa.array(kept)), ids.take(own), now[own], old[own]
        images = None if self.spec.recall else self._old_images(rows, old)
        self._batch = SiteBatch(self.spec, batch, ids, rows, now, old, images)
        return self._batch.fingerprint(), False

    def _own_rows(self) -> pa.Table:
        if self._read is None:
            raise HoldstrueError(f"site {self.spec.name!r} has no source to load", hint="give it one: source=...")
        if self.indexed.rows.living:
            raise HoldstrueError(f"site {self.spec.name!r} is loaded already", hint="apply changes instead")
        return self.own_rows()

    def current_rows(self) -> pa.Table:
        """The rows held, or those of the source when nothing is loaded yet."""
        if self._last is None and self._read is not None:
            return self.own_rows()
        return self.indexed.rows.take(self.indexed.rows.living_slots())

    def own_rows(self) -> pa.Table:
        """The rows of the site's source, checked against its key and its filter."""
        if self._read is None:
            raise HoldstrueError(f"site {self.spec.name!r} has no source", hint="give it one: source=...")
        rows = self._read()
        for name in self.spec.key:
            if rows.column(name).null_count:
                raise DataError(
                    f"the source of site {self.spec.name!r} has rows without {name!r}",
                    hint="every row needs its whole key",
                )
        self._refuse_foreign(rows)
        return rows

    def _refuse_repeats(self, ids: Ids, rows: pa.Table, order: I32) -> None:
        same = (ids.lo[1:] == ids.lo[:-1]) & (ids.hi[1:] == ids.hi[:-1])
        if same.any():
            at = int(order[int(np.flatnonzero(same)[0])])
            key = {name: rows.column(name)[at].as_py() for name in self.spec.key}
            raise DataError(
                f"site {self.spec.name!r} got two rows with the key {key}", hint="the key must tell rows apart"
            )

    def _refuse_foreign(self, rows: pa.Table) -> None:
        """Rows of the source that the fragment's filter does not select, as far as the site can tell."""
        wanted = (*(() if self.spec.where is None else (self.spec.where,)), *self.spec.elsewhere)
        for number, where in enumerate(wanted):
            if not set(condition_columns(where)) <= set(rows.column_names):
                continue
            held = holds(where, lambda name: rows.column(name).combine_chunks(), rows.num_rows)
            wrong = np.flatnonzero(held if number else ~held)
            if wrong.size:
                key = {name: rows.column(name)[int(wrong[0])].as_py() for name in self.spec.key}
                raise DataError(
                    f"row {key} of site {self.spec.name!r} is "
                    + (f"in the fragment {condition_text(where)!r} too" if number else "not in its fragment"),
                    hint="of all filters (where), only the site's own must hold for the rows of its source",
                )

    def _old_images(self, rows: pa.Table, old: I32) -> pa.Table:
        """By entry its old image; the new one stands in where there is none."""
        gone = old >= 0
        stored = self.indexed.rows.take(old[gone])
        place = np.where(gone, np.cumsum(gone) - 1, stored.num_rows + np.arange(old.size))
        both = pa.concat_tables([stored, rows.select(stored.column_names).cast(stored.schema)])
        return both.take(pa.array(place))

    def _running(self) -> SiteBatch:
        if self._batch is None:
            raise HoldstrueError(f"no batch is under way at site {self.spec.name!r}", hint="begin one first")
        return self._batch

    def ship(self, level: int) -> list[SiteMessage]:
        """The messages of one round inside the fragment."""
        if self._again:
            return self._recorded(level, "ids", "rows")
        return self._running().ship(level)

    def receive(self, got: SiteMessage) -> None:
        """Take a message in."""
        if not self._again:
            self._running().mail.receive(got)

    def settle(self, loading: bool = False) -> None:
        """Count the entries into the indexes that live here."""
        if self._again:
            return
        running = self._running()
        for cfd in self.spec.own_cfds:
            x, b, member = running.arrived(cfd)
            self.indexed.recheck(cfd, running, x, b, member)
            first = slice(0, running.size)
            arrived = IndexInput(Ids(x.hi[first], x.lo[first]), Ids(b.hi[first], b.lo[first]), member[first])
            staged = self.indexed.stage(cfd, running.old, running.now, arrived)
            self._staged.append((cfd, staged))
            peers = dict(self.spec.peers(cfd))
            if staged.step is not None and peers:
                index = self.indexed.index(cfd)
                self._flags[cfd.number] = SharedFlags(index)
                if not loading:
                    own = self._flags[cfd.number]
                    self._exchanges[cfd.number] = Exchange(cfd, self.spec.fragment, peers, index, staged.step, own)

    def announce(self) -> list[SiteMessage]:
        """Tell other fragments about groups that may have changed for them."""
        if self._again:
            return self._recorded(0, "announce")
        parts = [(site, "announce", a) for exchange in self._exchanges.values() for site, a in exchange.announced()]
        return posted(self._running().mail, parts)

    def reply(self) -> list[SiteMessage]:
        """Answer what other fragments announced."""
        if self._again:
            return self._recorded(0, "conflict", "state")
        mail = self._running().mail
        heard = states_of(mail.of("announce"), self._fragments)
        return posted(mail, [p for n, exchange in self._exchanges.items() for p in exchange.reply(heard.get(n, ()))])

    def verdict(self) -> list[SiteMessage]:
        """Decide what was announced here, and tell who cannot know."""
        if self._again:
            return self._recorded(0, "clean")
        mail = self._running().mail
        conflicts, heard = group_ids_of(mail.of("conflict")), states_of(mail.of("state"), self._fragments)
        nothing = Ids.zeros(0)
        parts = [
            part
            for n, exchange in self._exchanges.items()
            for part in exchange.verdict(conflicts.get(n, nothing), heard.get(n, ()))
        ]
        return posted(mail, parts)

    def gather(self, number: int, every_row: bool = False) -> list[SiteMessage]:
        """At a first load, in place of the rounds above: what is here of a CFD, to the site that judges it."""
        if self._again:
            return self._recorded(0, "pairs", about=number)
        staged, judge = self._shared(number)
        if staged is None or judge == self.spec.name:
            return []
        cfd = self.spec.cfds[number]
        side = own_side(self.spec, self.indexed.index(cfd), staged, every_row=every_row)
        return [self._running().mail.send(judge, "pairs", pairs(cfd, side), number)] if side[1].size else []

    def judge(self, number: int, every_row: bool = False) -> list[SiteMessage]:
        """Compare what came for a CFD; tell every fragment which of its groups violate."""
        if self._again:
            return self._recorded(0, "dirty", about=number)
        staged, judge = self._shared(number)
        if staged is None or judge != self.spec.name:
            return []
        cfd, mail = self.spec.cfds[number], self._running().mail
        own = own_side(self.spec, self.indexed.index(cfd), staged, every_row=every_row)
        dirty = violating_groups([own, *sides_of(mail.take("pairs"), cfd)])
        self._flag(number, dirty.pop(self.spec.name))
        return [mail.send(site, "dirty", group_ids(cfd, x), number) for site, x in dirty.items() if x.size]

    def take_verdicts(self, number: int) -> None:
        """Note which groups of a CFD were judged to violate."""
        if not self._again:
            for x in group_ids_of(self._running().mail.take("dirty")).values():
                self._flag(number, x)

    def _shared(self, number: int) -> tuple[CFDStep | None, str]:
        """A CFD's step, if its index is here and fragments must agree on it, and who judges it."""
        judge = coordinator_of(self.spec, self.spec.cfds[number])
        if judge is None:
            return None, ""
        return next((staged for cfd, staged in self._staged if cfd.number == number), None), judge

    def _flag(self, number: int, x: Ids) -> None:
        self._flags[number].set(self.indexed.index(self.spec.cfds[number]).find(x), 1)

    @property
    def _fragments(self) -> dict[str, int]:
        return {h.site: i for i, part in enumerate(self.spec.plan.fragments) for h in part.homes}

    def _recorded(self, level: int, *kinds: str, about: int | None = None) -> list[SiteMessage]:
        if self._last is None:
            return []
        if about is not None:
            return [m for m in self._last.outbox if m.kind in kinds and m.about == about]
        levels = {s.number: s.level for s in self.spec.shipments}
        planned = ("ids", "rows")
        at = ((levels[m.about] if m.kind in planned else 0, m) for m in self._last.outbox if m.kind in kinds)
        return [m for own, m in at if own == level]

    def finish(self) -> dict[int, tuple[pa.Table, pa.Table]]:
        """By CFD the keys of rows that began and ceased to violate it; the site's own share of the delta."""
        if not self._again:
            running = self._running()
            clean = group_ids_of(running.mail.of("clean"))
            for number, exchange in self._exchanges.items():
                exchange.finish(clean.get(number, Ids.zeros(0)))
            for cfd, staged in self._staged:
                self._found[cfd.number] = self.indexed.found(cfd, running, staged, self._flags.get(cfd.number))
        found = self._found if not self._again or self._last is None else self._last.found
        return {n: (f.added, f.removed) for n, f in found.items() if f.added.num_rows or f.removed.num_rows}

    # --- two-step commit ----------------------------------------------------------------------------------

    def sent(self) -> dict[str, int]:
        """By target how many messages this batch sent."""
        if self._again and self._last is not None:
            return self._last.sent()
        return self._running().mail.sent()

    def compare(self, told: Mapping[str, int]) -> None:
        """Make sure that everything arrived that others say they sent."""
        if not self._again:
            self._running().mail.compare(told)

    def prepare(self) -> None:
        """Write the batch down; it does not count yet."""
        if self._again:
            return
        running = self._running()
        record = BatchRecord.of(running, self._staged, self._flags, self._found)
        if self._state is not None:
            self._prepared = self._state.prepare(record)
        self._next = record

    def commit(self) -> None:
        """Make the batch count."""
        if not self._again:
            running = self._running()
            if self._state is not None:
                self._state.commit(self._prepared)
            self.indexed.commit(running.ids, running.rows, running.now, running.old, self._staged)
            self._last = None if self._next is None else self._next.answer()
            self._next = None
            if self._state is not None:
                self._state.tidy(self.indexed)
            else:
                self._seen.add(running.name)
        self._clear()

    def abort(self) -> None:
        """Forget the batch under way."""
        if not self._again:
            for flags in self._flags.values():
                flags.abort()
            self.indexed.abort(self._staged)
        self._clear()

    def _clear(self) -> None:
        self._batch, self._again, self._prepared = None, False, None
        self._staged, self._exchanges, self._flags, self._found = [], {}, {}, {}

    # --- what violates ------------------------------------------------------------------------------------

    def violations(self) -> dict[int, pa.Table]:
        """By CFD the keys of the rows that violate it, as far as its index is here."""
        key = list(self.spec.key)
        slots = {cfd.number: self.indexed.violating(cfd) for cfd in self.spec.own_cfds}
        return {number: self.indexed.rows.take(some, key) for number, some in slots.items() if some.size}

    def violates(self, number: int, keys: pa.Table) -> Mask:
        """Which rows violate a CFD whose index is here."""
        ids = key_ids(keys, self.spec.key, dict(self.spec.domains))
        return self.indexed.violates(self.spec.cfds[number], ids)

    def classes(self, number: int, keys: pa.Table) -> list[tuple[bytes, bytes] | None]:
        """For rows, by key, the ids of their class under a CFD: of X and B together."""
        ids = key_ids(keys, self.spec.key, dict(self.spec.domains))
        slots = self.indexed.rows.find(ids.hi, ids.lo)
        found, member = self.indexed.index(self.spec.cfds[number]).kind_ids(np.maximum(slots, 0))
        return [
            (int(h).to_bytes(8), int(lo).to_bytes(8)) if s >= 0 and m else None
            for s, h, lo, m in zip(slots, found.hi, found.lo, member, strict=True)
        ]

    def close(self) -> None:
        """Let go of the state directory."""
        if self._state is not None:
            self._state.close()
