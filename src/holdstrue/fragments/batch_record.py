"""What a site writes down of a batch: enough to apply it again without any message, and to answer for it.

Tables: the entries with what every index was given; flags that other fragments' words set; messages that were
sent; what was found.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import flags as bools
from holdstrue.data.buffers import numbers
from holdstrue.fragments.channel import SiteMessage
from holdstrue.fragments.exchange import SharedFlags
from holdstrue.fragments.ids import Ids
from holdstrue.fragments.indexed_rows import CFDStep, ChangedKeys, IndexedRows, IndexInput
from holdstrue.fragments.normal_cfds import NormalCFD
from holdstrue.fragments.site_batch import SiteBatch
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.index.numbering import Numbering
from holdstrue.typing import Mask

_OUTBOX = pa.schema(
    [
        ("source", pa.string()),
        ("target", pa.string()),
        ("batch", pa.string()),
        ("number", pa.int64()),
        ("kind", pa.string()),
        ("about", pa.int64()),
        ("entries", pa.int64()),
        ("body", pa.large_binary()),
        ("checksum", pa.binary()),
    ]
)
CFD = "atom"
"""How the number of a CFD is called in the files of a state."""

_FLAGS = pa.schema([(CFD, pa.int32()), ("hi", pa.uint64()), ("lo", pa.uint64()), ("flag", pa.uint8())])


@dataclass(frozen=True)
class BatchRecord:
    """One batch at one site."""

    batch: str
    fingerprint: bytes
    ids: Ids
    rows: pa.Table
    now: Mask
    was: Mask
    arrived: Mapping[int, IndexInput]
    flags: pa.Table
    outbox: tuple[SiteMessage, ...]
    found: Mapping[int, ChangedKeys]

    @staticmethod
    def of(
        batch: SiteBatch,
        staged: Sequence[tuple[NormalCFD, CFDStep]],
        flags: Mapping[int, SharedFlags],
        found: Mapping[int, ChangedKeys],
    ) -> BatchRecord:
        """The record of a batch that is about to be committed."""
        kept = batch.rows.select(batch.spec.schema.names)
        return BatchRecord(
            batch.name,
            batch.fingerprint(),
            batch.ids,
            kept if kept.schema.equals(batch.spec.schema) else kept.cast(batch.spec.schema),
            batch.now,
            batch.old >= 0,
            {cfd.number: part.arrived for cfd, part in staged},
            _flag_table(flags),
            tuple(batch.mail.outbox),
            dict(found),
        )

    def presence(self, ids: Ids) -> Mask:
        """Which rows, by their ids, were here before the batch."""
        known = Numbering()
        known.assign(self.ids.hi, self.ids.lo, np.ones(self.ids.size, dtype=np.bool_))
        at = known.find(ids.hi, ids.lo, np.ones(ids.size, dtype=np.bool_))
        found = np.zeros(ids.size, dtype=np.bool_)
        found[at >= 0] = self.was[at[at >= 0]]
        return found

    def sent(self) -> dict[str, int]:
        """By target how many messages were sent."""
        found: dict[str, int] = {}
        for message in self.outbox:
            found[message.target] = found.get(message.target, 0) + 1
        return found

    def answer(self) -> BatchRecord:
        """What must stay in memory to answer for the batch again: not its rows, nor what indexes were given."""
        return replace(self, rows=self.rows.slice(0, 0), arrived={}, flags=_FLAGS.empty_table())

    def replay(self, indexed: IndexedRows) -> None:
        """Apply the batch to what was held before it. Complexity: O(entries)."""
        old = indexed.rows.find(self.ids.hi, self.ids.lo)
        cfds = {cfd.number: cfd for cfd in indexed.spec.own_cfds}
        staged = [(cfds[n], indexed.stage(cfds[n], old, self.now, part)) for n, part in self.arrived.items()]
        for number in np.unique(numbers(_one(self.flags, CFD), np.int32)):
            own = self.flags.filter(pa.compute.equal(self.flags.column(CFD), int(number)))
            x = Ids(numbers(_one(own, "hi"), np.uint64).copy(), numbers(_one(own, "lo"), np.uint64).copy())
            index = indexed.index(cfds[int(number)])
            index.set_flags(index.find(x), numbers(_one(own, "flag"), np.uint8))
        indexed.commit(self.ids, self.rows, self.now, old, staged)

    # --- as tables ------------------------------------------------------------------------------------

    def tables(self) -> list[pa.Table]:
        """For a run file: entries, ids given to indexes, flags, messages, what was found."""
        about = {"batch": self.batch, "fingerprint": self.fingerprint.hex()}
        given: dict[str, pa.Array] = {
            "hi": pa.array(self.ids.hi),
            "lo": pa.array(self.ids.lo),
            "now": pa.array(self.now),
            "was": pa.array(self.was),
        }
        # CFDs often share a left side or a right side: each is written once
        known: dict[tuple[int, int], int] = {}
        sides: dict[str, list[int]] = {}
        for number, part in self.arrived.items():
            given[f"member{number}"] = pa.array(part.member)
            own = []
            for ids in (part.x, part.b):
                at = known.setdefault((ids.hi.ctypes.data, ids.lo.ctypes.data), len(known))
                own.append(at)
                if f"hi{at}" not in given:
                    given[f"hi{at}"], given[f"lo{at}"] = pa.array(ids.hi), pa.array(ids.lo)
            sides[str(number)] = own
        about["sides"] = json.dumps(sides)
        messages = pa.Table.from_pylist([vars(message) for message in self.outbox], schema=_OUTBOX)
        parts = [
            table.append_column(CFD, pa.array([number] * table.num_rows, pa.int32())).append_column(
                "added", pa.array([added] * table.num_rows, pa.bool_())
            )
            for number, found in self.found.items()
            for table, added in ((found.added, True), (found.removed, False))
        ]
        listed = pa.concat_tables(parts) if parts else pa.table({CFD: pa.array([], pa.int32())})
        return [self.rows.replace_schema_metadata(about), pa.table(given), self.flags, messages, listed]

    @staticmethod
    def read(tables: Sequence[pa.Table], spec: SiteSpec) -> BatchRecord:
        """Out of a run file."""
        rows, given, flags, messages, listed = tables
        about = {name.decode(): value.decode() for name, value in rows.schema.metadata.items()}

        def lanes(at: str | int) -> Ids:
            return Ids(*(numbers(_one(given, f"{lane}{at}"), np.uint64).copy() for lane in ("hi", "lo")))

        sides: dict[str, tuple[int, int]] = json.loads(about["sides"])
        arrived = {
            int(number): IndexInput(lanes(x), lanes(b), bools(_one(given, f"member{number}")))
            for number, (x, b) in sides.items()
        }
        key = list(spec.key)
        found = {
            cfd.number: ChangedKeys(*(_listed(listed, cfd.number, added, key) for added in (True, False)))
            for cfd in spec.own_cfds
        }
        return BatchRecord(
            about["batch"],
            bytes.fromhex(about["fingerprint"]),
            lanes(""),
            rows.replace_schema_metadata(None),
            bools(_one(given, "now")),
            bools(_one(given, "was")),
            arrived,
            flags,
            tuple(SiteMessage(**row) for row in messages.to_pylist()),
            found,
        )


def _listed(listed: pa.Table, cfd: int, added: bool, key: list[str]) -> pa.Table:
    if "added" not in listed.column_names:
        return pa.table({name: pa.array([]) for name in key})
    same = pa.compute.equal(listed.column(CFD), cfd)
    return listed.filter(pa.compute.and_(same, pa.compute.equal(listed.column("added"), added))).select(key)


def _one(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _flag_table(flags: Mapping[int, SharedFlags]) -> pa.Table:
    parts = []
    for number, own in flags.items():
        ids, flag = own.state()
        columns = [pa.array(np.full(ids.size, number, np.int32)), pa.array(ids.hi), pa.array(ids.lo), pa.array(flag)]
        parts.append(pa.table(columns, schema=_FLAGS))
    return pa.concat_tables(parts) if parts else _FLAGS.empty_table()
