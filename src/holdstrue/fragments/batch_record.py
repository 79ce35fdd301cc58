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


_TABLES: tuple[pa.Schema | None, ...] = (
    None,
    pa.schema([("hi", pa.uint64()), ("lo", pa.uint64()), ("now", pa.bool_()), ("was", pa.bool_())]),
    _FLAGS,
    _OUTBOX,
    pa.schema([(":cfd", pa.int32()), (":removed", pa.bool_())]),
)
"""The columns that the tables of a batch have at least; those of its rows are the site's."""


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
        """Apply the batch to what was held before it; a ValueError says why it cannot be. Complexity: O(entries)."""
        known = Numbering()
        known.assign(self.ids.hi, self.ids.lo, all_true(self.ids.size))
        old = indexed.rows.find(self.ids.hi, self.ids.lo)
        if len(known) < self.ids.size or not np.array_equal(old >= 0, self.was):
            raise ValueError("it replaces rows that are not there")
        cfds = indexed.spec.cfds
        steps = {number: indexed.stage(cfds[number], old, self.now, part) for number, part in self.given.items()}
        for number in np.unique(numbers(plain(self.flags.column("cfd")), np.int32)):
            own = self.flags.filter(pa.compute.equal(self.flags.column("cfd"), int(number)))
            index = indexed.index(int(number))
            groups, flags = index.find(_lanes(own)), numbers(plain(own.column("flag")), np.uint8)
            if (groups < 0).any() or (flags > 1).any():
                raise ValueError("it flags groups that are not there")
            index.set_flags(groups, flags)
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
    def read(tables: Sequence[pa.Table], spec: SiteSpec) -> BatchRecord:
        """Out of a run file; a ValueError says why that cannot be of this site."""
        if len(tables) != len(_TABLES):
            raise ValueError(f"it holds {len(tables)} tables of a batch instead of {len(_TABLES)}")
        rows, given, flags, messages, listed = tables
        key = [spec.schema.field(name) for name in spec.key]
        for table, wanted in zip(tables, _TABLES, strict=True):
            names = {field.name: field.type for field in (wanted or spec.schema)}
            if not names.items() <= {field.name: field.type for field in table.schema}.items():
                raise ValueError(f"a table of its batch has no columns {', '.join(names)}")
        if any(column.null_count for table in (given, flags, messages) for column in table.columns):
            raise ValueError("a number of its batch is unknown")
        about, sides = _about(rows)
        own = {cfd.number: cfd for cfd in spec.own_cfds}
        if not (sides.keys() == own.keys() and rows.num_rows == given.num_rows):
            raise ValueError("it tells of other rules, or of other rows, than it holds")
        if not {*flags.column("cfd").to_pylist()} <= {number for number in own if not own[number].is_constant}:
            raise ValueError("it flags groups of other rules")
        if not {*listed.schema.names} <= {":cfd", ":removed", *(field.name for field in key)}:
            raise ValueError("it lists other columns than the key")
        indexes = {
            number: IndexInput(_lanes(given, x), _lanes(given, b), _bools(given, f"member{number}"))
            for number, (x, b) in sides.items()
        }
        return BatchRecord(
            about["batch"],
            about["fingerprint"],
            _lanes(given),
            rows.replace_schema_metadata(None),
            _bools(given, "now"),
            _bools(given, "was"),
            indexes,
            flags,
            tuple(SiteMessage(**row) for row in messages.to_pylist()),
            keys_by_cfd(listed),
        )


def _about(rows: pa.Table) -> tuple[dict[str, str], dict[int, tuple[int, int]]]:
    """What a batch says of itself, and by CFD which ids are those of its left and right sides."""
    try:
        about = {name.decode(): value.decode() for name, value in (rows.schema.metadata or {}).items()}
        sides = {int(number): (int(x), int(b)) for number, (x, b) in json.loads(about["sides"]).items()}
        return {name: about[name] for name in ("batch", "fingerprint")}, sides
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"it does not say what its batch is: {error}") from error


def _column(table: pa.Table, name: str, type_: pa.DataType) -> pa.Array:
    at = table.schema.get_field_index(name)
    if at < 0 or table.schema.field(at).type != type_:
        raise ValueError(f"its batch has no column {name} of {type_}")
    return plain(table.column(at))


def _bools(table: pa.Table, name: str) -> Mask:
    return bools(_column(table, name, pa.bool_()))


def _lanes(table: pa.Table, at: str | int = "") -> Ids:
    return Ids(*(numbers(_column(table, f"{lane}{at}", pa.uint64()), np.uint64).copy() for lane in ("hi", "lo")))


def _flag_table(steps: Mapping[int, CFDStep]) -> pa.Table:
    parts = [_FLAGS.empty_table()]
    for number, step in ((number, part.step) for number, part in steps.items()):
        if step is not None and step.flagged.size:
            ids, flag = step.index.ids(step.flagged), step.index.flags(step.flagged)
            columns = (np.full(ids.size, number, np.int32), ids.hi, ids.lo, flag)
            parts.append(pa.table([pa.array(column) for column in columns], schema=_FLAGS))
    return pa.concat_tables(parts)
