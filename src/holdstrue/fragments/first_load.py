"""All rows of a site go into new indexes portion by portion: those of its source at first, or those after a batch that
changes most of them.

Nothing is in the indexes before it, so nothing has to be remembered to take it back: whoever gives it up forgets them.
Rows are read and packed whole; ids, masks and messages exist for one portion at a time, and what fragments tell each
other of groups for one slice of the groups' ids at a time. All at once, ten sites with 2M rows and 50 CFDs took 3.6 GB
by columns and 4.4 by rows; so they take 1.4 and 1.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdstrue.errors import HoldstrueError
from holdstrue.fragments.bundles import Bundle
from holdstrue.fragments.channel import Mailbox, SiteMessage
from holdstrue.fragments.exchange import Exchange
from holdstrue.fragments.ids import Ids, in_order, key_ids
from holdstrue.fragments.indexed_rows import ChangedKeys, IndexedRows
from holdstrue.fragments.normal_cfds import NormalCFD
from holdstrue.fragments.packed_values import give_back, laid_out
from holdstrue.fragments.right_sides import RightSides
from holdstrue.fragments.site_batch import SiteBatch, fingerprint_of
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.index.arrays import Numbering, all_true, no_slots
from holdstrue.typing import I32, Mask

PORTION = 1 << 16
"""Rows that are shipped and counted together. Ten sites with 2M rows by rows take 1,544 MB at most with twice as many,
and 1,505 so."""
SLICE = 1 << 17
"""Cells (groups times CFDs) of a site that are told of together: some 4 MB at each site and as much at the owners."""


@dataclass(frozen=True)
class LoadedSides:
    """Groups that a first load brought, of which all is new; as a step of an exchange."""

    sides: RightSides
    touched: I32

    @property
    def telling(self) -> Sequence[bool]:
        """All CFDs may have something to tell."""
        return [True] * self.sides.cfds

    def tells(self, cfd: int) -> tuple[Mask, Mask, Mask]:
        """By group whether it must be told of, because it is new, because it lost a right side."""
        new = np.asarray(self.sides.number_of(self.touched, cfd) > 0)
        return new, new, np.zeros(new.size, dtype=np.bool_)

    def flag(self, cfd: int, groups: I32, value: int) -> None:
        """Set flags of groups; unknown ones are negative."""
        self.sides.set_flags(groups[groups >= 0], cfd, value)


class FirstLoad:
    """All rows of a site on their way into new indexes.

    Parameters
    ----------
    before
        What the site held until now, where a batch starts over; what is found are differences from it then.
    """

    VERBS = frozenset(
        {
            "align", "portions", "ship", "receive", "settle", "slices", "announce", "reply", "verdict", "conclude",
            "sent", "compare", "finish",
        }
    )  # fmt: skip
    """What a site lets it answer."""

    def __init__(self, spec: SiteSpec, batch: str, rows: pa.Table, before: IndexedRows | None = None) -> None:
        self.name, self._spec, self._before = batch, spec, before
        self._indexed = IndexedRows(spec)
        self._rows: pa.Table | None = rows
        self.size = rows.num_rows
        self.mail = Mailbox(spec.name, batch)
        self._batch: SiteBatch | None = None
        self._at = 0
        self._exchange: Exchange | None = None
        self.found: Mapping[int, ChangedKeys] = {}
        self.fingerprint = self._print()

    @property
    def indexed(self) -> IndexedRows:
        """What the site holds when it is done."""
        return self._indexed

    def _print(self) -> str:
        return fingerprint_of(self._ids(self._waiting()), all_true(self.size), np.zeros(self.size, dtype=np.bool_))

    def _waiting(self) -> pa.Table:
        if self._rows is None:
            raise HoldstrueError(f"site {self._spec.name!r} has begun to load", hint="load it again")
        return self._rows

    def _ids(self, rows: pa.Table) -> Ids:
        key = {name: laid_out(rows.column(name), self._spec.schema.field(name).type) for name in self._spec.key}
        return key_ids(pa.table(key), self._spec.key, self._spec.domains)

    def align(self) -> str:
        """Put the rows in the order of their ids, as sites do whose rows came in different orders."""
        rows = self._waiting()
        self._rows = rows.take(pa.array(in_order(self._ids(rows))))
        self.fingerprint = self._print()
        return self.fingerprint

    # --- portions of rows -----------------------------------------------------------------------------

    def portions(self) -> int:
        """Let the indexes have the values; in how many portions rows follow."""
        self._indexed.hold(self._waiting())
        return -(-self.size // PORTION)

    def ship(self, level: int, portion: int) -> list[SiteMessage]:
        """The messages of one round about one portion."""
        return self._portion(portion).ship(level)

    def _portion(self, at: int) -> SiteBatch:
        if self._batch is None:
            self._at = at
            rows = self._waiting().slice(at * PORTION, PORTION)
            now, old = all_true(rows.num_rows), no_slots(rows.num_rows)
            self._batch = SiteBatch(
                self._spec, self.name, self._ids(rows), rows, now, old, None, mail=self.mail, portion=at
            )
        return self._batch

    def receive(self, got: SiteMessage) -> None:
        """Take a message in."""
        self.mail.receive(got)

    def settle(self, portion: int) -> None:
        """Count one portion into the indexes that live here."""
        running = self._portion(portion)
        given = self._indexed.given(running)
        running.forget()
        self._indexed.take_in(running.ids, portion * PORTION, given)
        self._batch = None

    # --- slices of groups -----------------------------------------------------------------------------

    def slices(self) -> list[list[int]]:
        """By bundle in how many slices its groups are told of."""
        self._rows = None
        give_back()
        return [[bundle.number, 1 + self._groups(bundle) * len(bundle.cfds) // SLICE] for bundle in self._spec.bundles]

    def _groups(self, bundle: Bundle) -> int:
        return len(self._indexed.left_sides[self._indexed.places[bundle.cfds[0]].left])

    def announce(self, number: int, part: int, parts: int) -> list[SiteMessage]:
        """Tell owners about groups that may matter to other fragments: of one bundle, one slice of them."""
        self._end_exchange()
        for bundle in self._spec.bundles:
            if bundle.number == number:
                self._exchange = self._exchanging(bundle, part, parts)
        return self._round("announce")

    def _exchanging(self, bundle: Bundle, part: int, parts: int) -> Exchange:
        indexed = self._indexed
        here = bundle.sites.index(self._spec.name)
        groups = indexed.left_sides[indexed.places[bundle.cfds[0]].left].slice_of(part, parts)
        steps = [LoadedSides(indexed.grouped(indexed.places[cfd].pair), groups) for cfd in bundle.cfds]
        owned, about = indexed.owned[bundle.number], bundle.number + part * self._spec.bundle_count
        return Exchange(bundle, here, indexed, steps, owned, self.mail, about)

    def reply(self, number: int, part: int, parts: int) -> list[SiteMessage]:
        """As the owner of groups, answer what was announced."""
        return self._round("reply")

    def verdict(self, number: int, part: int, parts: int) -> list[SiteMessage]:
        """Say what is here of the groups that owners ask for."""
        return self._round("verdict")

    def conclude(self, number: int, part: int, parts: int) -> list[SiteMessage]:
        """As the owner of groups, decide what was asked for, and tell whom it concerns."""
        return self._round("conclude")

    def _round(self, verb: str) -> list[SiteMessage]:
        return [] if self._exchange is None else [*getattr(self._exchange, verb)()]

    def _end_exchange(self) -> None:
        if self._exchange is not None:
            self._exchange.finish()
            self._exchange = None

    # --- the end --------------------------------------------------------------------------------------

    def finish(self) -> Mapping[int, ChangedKeys]:
        """By CFD the keys of the rows that violate it, or that began and ceased to."""
        self._end_exchange()
        self._rows = None
        listed = ((cfd.number, self._changed(cfd)) for cfd in self._spec.own_cfds)
        self.found = {number: keys for number, keys in listed if keys.size}
        return self.found

    def _changed(self, cfd: NormalCFD) -> ChangedKeys:
        now = self._violating(self._indexed, cfd)
        if self._before is None:
            return ChangedKeys(now, now.slice(0, 0))
        was = self._violating(self._before, cfd)
        if not (now.num_rows and was.num_rows):
            return ChangedKeys(now, was)
        ids = [key_ids(rows, self._spec.key, self._spec.domains) for rows in (was, now)]
        known = Numbering()
        known.assign(ids[0].hi, ids[0].lo, all_true(was.num_rows))
        at = known.find(ids[1].hi, ids[1].lo, all_true(now.num_rows))
        ceased = np.ones(was.num_rows, dtype=np.bool_)
        ceased[at[at >= 0]] = False
        return ChangedKeys(now.filter(pa.array(at < 0)), was.filter(pa.array(ceased)))

    def _violating(self, indexed: IndexedRows, cfd: NormalCFD) -> pa.Table:
        return indexed.rows.take(indexed.violating(cfd), list(self._spec.key))

    def sent(self) -> dict[str, int]:
        """By target how many messages were sent."""
        return self.mail.sent()

    def compare(self, told: Mapping[str, int]) -> None:
        """Make sure that everything arrived that others say they sent."""
        self.mail.compare(told)
