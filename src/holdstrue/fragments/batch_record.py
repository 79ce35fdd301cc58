"""What a site writes down of a batch: enough to apply it again without any message, and to answer for it.

Tables: the entries with what every index was given; flags that other fragments' words set; messages that were
sent; what was found.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import flags as bools
from holdstrue.data.buffers import numbers, plain
from holdstrue.fragments.channel import SiteMessage, message_schema
from holdstrue.fragments.ids import Ids
from holdstrue.fragments.indexed_rows import CFDStep, ChangedKeys, IndexedRows, IndexInput, keys_by_cfd, keys_table
from holdstrue.fragments.site_batch import SiteBatch
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.index.arrays import Numbering, all_true
from holdstrue.typing import Mask

_OUTBOX = message_schema(pa.large_binary())

_FLAGS = pa.schema([("cfd", pa.int32()), ("hi", pa.uint64()), ("lo", pa.uint64()), ("flag", pa.uint8())])


_SENT = {
    "ship": ("ids", "rows"),
    "announce": ("announce",),
    "reply": ("conflict", "state"),
    "verdict": ("clean",),
    "gather": ("pairs",),
    "judge": ("dirty",),
}
"""By verb of a site the kinds of messages that it sends."""

REPEATED = frozenset({*_SENT, "finish", "sent", "receive", "settle", "take_verdicts", "compare", "prepare"})
"""Verbs that a site which has committed the batch answers from its record."""


@dataclass(frozen=True)
class BatchRecord:
    """One batch at one site."""

    batch: str
    fingerprint: str
    ids: Ids
    rows: pa.Table
    now: Mask
    was: Mask
    given: Mapping[int, IndexInput]
    flags: pa.Table
    outbox: tuple[SiteMessage, ...]
    found: Mapping[int, ChangedKeys]

    @staticmethod
    def of(batch: SiteBatch, steps: Mapping[int, CFDStep], found: Mapping[int, ChangedKeys]) -> BatchRecord:
        """The record of a batch that is about to be committed."""
        return BatchRecord(
            batch.name,
            batch.fingerprint(),
            batch.ids,
            batch.spec.kept(batch.rows),
            batch.now,
            batch.old >= 0,
            {number: part.given for number, part in steps.items()},
            _flag_table(steps),
            tuple(batch.mail.outbox),
            found,
        )

    def repeat(self, spec: SiteSpec, verb: str, *args: Any) -> Any:
        """What the site answered when it did this for the batch: messages of a round or of a CFD, or what was found."""
        if verb in _SENT:
            levels = {shipment.number: shipment.level for shipment in spec.shipments}
            sent = [message for message in self.outbox if message.kind in _SENT[verb]]
            place = args[0] if args else 0
            return [m for m in sent if (levels[m.about] if verb == "ship" else m.about) == place]
        if verb == "sent":
            return dict(Counter(message.target for message in self.outbox))
        return {number: keys for number, keys in self.found.items() if keys.size} if verb == "finish" else None

    def presence(self, ids: Ids) -> Mask:
        """Which rows, by their ids, were here before the batch."""
        known = Numbering()
        known.assign(self.ids.hi, self.ids.lo, all_true(self.ids.size))
        at = known.find(ids.hi, ids.lo, all_true(ids.size))
        found = np.zeros(ids.size, dtype=np.bool_)
        found[at >= 0] = self.was[at[at >= 0]]
        return found

    def answer(self) -> BatchRecord:
        """What must stay in memory to answer for the batch again: not its rows, nor what indexes were given."""
        return replace(self, rows=self.rows.slice(0, 0), given={}, flags=_FLAGS.empty_table())

    def replay(self, indexed: IndexedRows) -> None:
        """Apply the batch to what was held before it. Complexity: O(entries)."""
        old = indexed.rows.find(self.ids.hi, self.ids.lo)
        cfds = indexed.spec.cfds
        steps = {number: indexed.stage(cfds[number], old, self.now, part) for number, part in self.given.items()}
        for number in np.unique(numbers(plain(self.flags.column("cfd")), np.int32)):
            own = self.flags.filter(pa.compute.equal(self.flags.column("cfd"), int(number)))
            index = indexed.index(int(number))
            index.set_flags(index.find(_lanes(own)), numbers(plain(own.column("flag")), np.uint8))
        indexed.commit(self.ids, self.rows, self.now, old, steps)

    # --- as tables ------------------------------------------------------------------------------------

    def tables(self) -> list[pa.Table]:
        """For a run file: entries, ids given to indexes, flags, messages, what was found."""
        about = {"batch": self.batch, "fingerprint": self.fingerprint}
        given = {"hi": self.ids.hi, "lo": self.ids.lo, "now": self.now, "was": self.was}
        # CFDs often share a left side or a right side: each is written once
        known: dict[tuple[int, int], int] = {}
        sides: dict[str, list[int]] = {}
        for number, part in self.given.items():
            given[f"member{number}"] = part.member
            own = []
            for ids in (part.x, part.b):
                at = known.setdefault((ids.hi.ctypes.data, ids.lo.ctypes.data), len(known))
                own.append(at)
                given |= {f"hi{at}": ids.hi, f"lo{at}": ids.lo}
            sides[str(number)] = own
        about["sides"] = json.dumps(sides)
        columns = {name: pa.array(values) for name, values in given.items()}
        messages = pa.Table.from_pylist([vars(message) for message in self.outbox], schema=_OUTBOX)
        return [
            self.rows.replace_schema_metadata(about),
            pa.table(columns),
            self.flags,
            messages,
            keys_table(self.found),
        ]

    @staticmethod
    def read(tables: Sequence[pa.Table]) -> BatchRecord:
        """Out of a run file."""
        rows, given, flags, messages, listed = tables
        about = {name.decode(): value.decode() for name, value in rows.schema.metadata.items()}
        sides: dict[str, tuple[int, int]] = json.loads(about["sides"])
        indexes = {
            int(number): IndexInput(_lanes(given, x), _lanes(given, b), bools(plain(given.column(f"member{number}"))))
            for number, (x, b) in sides.items()
        }
        return BatchRecord(
            about["batch"],
            about["fingerprint"],
            _lanes(given),
            rows.replace_schema_metadata(None),
            bools(plain(given.column("now"))),
            bools(plain(given.column("was"))),
            indexes,
            flags,
            tuple(SiteMessage(**row) for row in messages.to_pylist()),
            keys_by_cfd(listed),
        )


def _lanes(table: pa.Table, at: str | int = "") -> Ids:
    return Ids(*(numbers(plain(table.column(f"{lane}{at}")), np.uint64).copy() for lane in ("hi", "lo")))


def _flag_table(steps: Mapping[int, CFDStep]) -> pa.Table:
    parts = [_FLAGS.empty_table()]
    for number, step in ((number, part.step) for number, part in steps.items()):
        if step is not None and step.flagged.size:
            ids, flag = step.index.ids(step.flagged), step.index.flags(step.flagged)
            columns = (np.full(ids.size, number, np.int32), ids.hi, ids.lo, flag)
            parts.append(pa.table([pa.array(column) for column in columns], schema=_FLAGS))
    return pa.concat_tables(parts)
