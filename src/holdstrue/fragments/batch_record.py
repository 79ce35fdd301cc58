"""What a site writes down of a batch: enough to apply it again without any message, and to answer for it.

Tables: the entries with what every index was given; flags that other fragments' words set; what is known of owned
groups; messages that were sent; what was found.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.data.buffers import flags as bools
from holdstrue.data.buffers import numbers, plain
from holdstrue.fragments.channel import ROUND, SiteMessage, message_schema
from holdstrue.fragments.ids import Ids
from holdstrue.fragments.indexed_rows import ChangedKeys, IndexedRows, IndexInput, IndexStep, keys_by_cfd, keys_table
from holdstrue.fragments.owned_groups import DIRTY, OwnedStep
from holdstrue.fragments.site_batch import SiteBatch
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.index.arrays import Numbering, all_true
from holdstrue.typing import U64, Mask

_OUTBOX = message_schema(pa.large_binary())

_FLAGS = pa.schema([("cfd", pa.int32()), ("hi", pa.uint64()), ("lo", pa.uint64()), ("flag", pa.uint8())])

_OWNED = pa.schema(
    [
        ("bundle", pa.int32()), ("hi", pa.uint64()), ("lo", pa.uint64()),
        ("state", pa.large_binary()), ("value", pa.large_binary()), ("holders", pa.large_binary()),
    ]
)  # fmt: skip
_NOTHING = IndexInput((), (), {})

_TABLES: tuple[pa.Schema | None, ...] = (
    None,
    pa.schema([("hi", pa.uint64()), ("lo", pa.uint64()), ("now", pa.bool_()), ("was", pa.bool_())]),
    _FLAGS,
    _OWNED,
    _OUTBOX,
    pa.schema([(":cfd", pa.int32()), (":removed", pa.bool_())]),
)
"""The columns that the tables of a batch have at least; those of its rows are the site's."""


_SENT = {
    "ship": ("ids", "rows"),
    "announce": ("announce",),
    "reply": ("dirty", "ask"),
    "verdict": ("state",),
    "conclude": ("broken", "clean"),
}
"""By verb of a site the kinds of messages that it sends."""

ROUNDS = ("announce", "reply", "verdict", "conclude")
"""The rounds in which fragments agree; messages of a whole round are about its place here."""

REPEATED = frozenset(
    {
        *_SENT,
        "finish",
        "sent",
        "receive",
        "settle",
        "align",
        "compare",
        "prepare",
        "portions",
        "slices",
        "weigh",
        "start_over",
    }
)
"""Verbs that a site which has committed the batch answers from its record."""

BY_CHANGES, ANEW = 1, 2
"""How a batch was worked out, where it was committed."""


@dataclass(frozen=True)
class BatchRecord:
    """One batch at one site."""

    batch: str
    fingerprint: str
    ids: Ids
    rows: pa.Table
    now: Mask
    was: Mask
    given: IndexInput
    flags: pa.Table
    owned: pa.Table
    outbox: tuple[SiteMessage, ...]
    found: Mapping[int, ChangedKeys]
    anew: str = ""
    """The fingerprint of all rows after the batch, where it started over."""
    contents: str = ""
    """One word for what the batch comes to at all sites, where whoever handed it out said so."""

    @staticmethod
    def of(
        batch: SiteBatch, indexed: IndexedRows, step: IndexStep, owned: Sequence[OwnedStep],
        found: Mapping[int, ChangedKeys],
    ) -> BatchRecord:  # fmt: skip
        """The record of a batch that is about to be committed."""
        return BatchRecord(
            batch.name,
            batch.fingerprint,
            batch.ids,
            batch.spec.kept(batch.rows),
            batch.now,
            batch.old >= 0,
            step.given,
            _flag_table(indexed, step),
            _owned_table(owned),
            tuple(batch.mail.outbox),
            found,
        )

    @staticmethod
    def of_load(
        batch: str, fingerprint: str, spec: SiteSpec, outbox: Sequence[SiteMessage], found: Mapping[int, ChangedKeys]
    ) -> BatchRecord:
        """The record of a first load, whose rows and indexes are written down beside it."""
        mask = np.zeros(0, dtype=np.bool_)
        given = IndexInput((), (), {cfd.number: mask for cfd in spec.own_cfds})
        rows = spec.schema.empty_table()
        named = BatchRecord.named(batch)
        return replace(named, fingerprint=fingerprint, rows=rows, given=given, outbox=tuple(outbox), found=found)

    @staticmethod
    def of_start(load: BatchRecord, anew: str, batch: SiteBatch) -> BatchRecord:
        """The record of a batch that starts over, out of that of the load of all rows."""
        mask = np.zeros(batch.size, dtype=np.bool_)
        return replace(
            load, fingerprint=batch.fingerprint, ids=batch.ids, rows=batch.spec.kept(batch.rows), now=batch.now,
            was=batch.old >= 0, given=replace(load.given, members=dict.fromkeys(load.given.members, mask)), anew=anew,
        )  # fmt: skip

    @staticmethod
    def named(batch: str) -> BatchRecord:
        """A batch of which nothing but its name is known."""
        none, nothing = Ids.zeros(0), np.zeros(0, dtype=np.bool_)
        flags, owned = _FLAGS.empty_table(), _OWNED.empty_table()
        return BatchRecord(batch, "", none, pa.table({}), nothing, nothing, _NOTHING, flags, owned, (), {})

    def repeat(self, spec: SiteSpec, verb: str, *args: Any) -> Any:
        """What the site answered when it did this for the batch: messages of a round or of a CFD, or what was found."""
        if verb in _SENT:
            if verb == "ship":
                return self._shipped(spec, *args)
            if not args or args[0] is None:
                at = ROUNDS.index(verb)
                return [message for message in self.outbox if message.kind == ROUND and message.about == at]
            about = args[0] + (args[1] * spec.bundle_count if len(args) > 1 else 0)
            return [message for message in self.outbox if message.kind in _SENT[verb] and message.about == about]
        if verb == "align":
            return self.fingerprint
        if verb in ("portions", "slices"):
            return 0 if verb == "portions" else []  # sites that lack the load say how many there are
        if verb == "weigh":
            return [0, 0, ANEW if self.anew else BY_CHANGES]
        if verb == "start_over":
            return self.anew
        if verb == "sent":
            return dict(Counter(message.target for message in self.outbox))
        return {number: keys for number, keys in self.found.items() if keys.size} if verb == "finish" else None

    def _shipped(self, spec: SiteSpec, level: int, portion: int = 0) -> list[SiteMessage]:
        own = {shipment.number for shipment in spec.shipments if shipment.level == level}
        return [
            message
            for message in self.outbox
            if message.kind in _SENT["ship"]
            and message.about // spec.shipment_count == portion
            and message.about % spec.shipment_count in own
        ]

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
        return replace(
            self, rows=self.rows.slice(0, 0), given=_NOTHING, flags=_FLAGS.empty_table(), owned=_OWNED.empty_table()
        )

    def released(self) -> BatchRecord:
        """What must stay once every site has the batch: its name."""
        none = Ids.zeros(0)
        return replace(self.answer(), ids=none, now=self.now[:0], was=self.was[:0], outbox=(), found={})

    def replay(self, indexed: IndexedRows) -> None:
        """Apply the batch to what was held before it; a ValueError says why it cannot be. Complexity: O(entries)."""
        known = Numbering()
        known.assign(self.ids.hi, self.ids.lo, all_true(self.ids.size))
        old = indexed.find(self.ids)
        if len(known) < self.ids.size or not np.array_equal(old >= 0, self.was):
            raise ValueError("it replaces rows that are not there")
        if (len(self.given.x), len(self.given.values)) != (len(indexed.left_sides), len(indexed.pairs)):
            raise ValueError("it has not the ids that the indexes need")
        step = indexed.stage(old, self.now, self.given)
        for number in np.unique(numbers(plain(self.flags.column("cfd")), np.int32)):
            own = self.flags.filter(pa.compute.equal(self.flags.column("cfd"), int(number)))
            left, pair, column = indexed.places[int(number)]
            groups = indexed.left_sides[left].find(_lanes(own))
            flags = numbers(plain(own.column("flag")), np.uint8)
            if (groups < 0).any() or (flags > 1).any():
                raise ValueError("it flags groups that are not there")
            indexed.pairs[pair].set_flags(groups, column, flags)
        for number, owned in indexed.owned.items():
            told = self.owned.filter(pa.compute.equal(self.owned.column("bundle"), number))
            if told.num_rows:
                cfds, words = len(owned.bundle.cfds), owned.bundle.words
                cells = _cells(told, "state", np.uint8, cfds), _cells(told, "value", np.uint64, cfds)
                if (cells[0] > DIRTY).any():
                    raise ValueError("it says of groups what cannot be said")
                owned.put(owned.number(_lanes(told)), *cells, _cells(told, "holders", np.uint64, words))
        indexed.commit(self.ids, self.rows, self.now, old, step)

    # --- as tables ------------------------------------------------------------------------------------

    def tables(self) -> list[pa.Table]:
        """For a run file: entries, ids given to indexes, flags, messages, what was found."""
        about = {"batch": self.batch, "fingerprint": self.fingerprint, "anew": self.anew, "contents": self.contents}
        given = {"hi": self.ids.hi, "lo": self.ids.lo, "now": self.now, "was": self.was}
        for number, ids in enumerate(self.given.x):
            given |= {f"hi{number}": ids.hi, f"lo{number}": ids.lo}
        given |= {f"value{number}": words for number, words in enumerate(self.given.values)}
        # CFDs that ask the same of rows share one mask: each is written once
        known: dict[int, int] = {}
        masks = {number: known.setdefault(id(mask), len(known)) for number, mask in self.given.members.items()}
        given |= {f"member{masks[number]}": mask for number, mask in self.given.members.items()}
        about["masks"] = json.dumps(masks)
        columns = {name: pa.array(values) for name, values in given.items()}
        messages = pa.Table.from_pylist([vars(message) for message in self.outbox], schema=_OUTBOX)
        return [
            self.rows.replace_schema_metadata(about),
            pa.table(columns),
            self.flags,
            self.owned,
            messages,
            keys_table(self.found),
        ]

    @staticmethod
    def read(tables: Sequence[pa.Table], spec: SiteSpec) -> BatchRecord:
        """Out of a run file; a ValueError says why that cannot be of this site."""
        if len(tables) != len(_TABLES):
            raise ValueError(f"it holds {len(tables)} tables of a batch instead of {len(_TABLES)}")
        rows, given, flags, owned, messages, listed = tables
        key = [spec.schema.field(name) for name in spec.key]
        for table, wanted in zip(tables, _TABLES, strict=True):
            names = {field.name: field.type for field in (wanted or spec.schema)}
            if not names.items() <= {field.name: field.type for field in table.schema}.items():
                raise ValueError(f"a table of its batch has no columns {', '.join(names)}")
        if any(column.null_count for table in (given, flags, owned, messages) for column in table.columns):
            raise ValueError("a number of its batch is unknown")
        about, masks = _about(rows)
        own = {cfd.number: cfd for cfd in spec.own_cfds}
        if not (masks.keys() == own.keys() and rows.num_rows == given.num_rows):
            raise ValueError("it tells of other rules, or of other rows, than it holds")
        if not {*owned.column("bundle").to_pylist()} <= {bundle.number for bundle in spec.bundles}:
            raise ValueError("it tells of groups of other rules")
        if not {*flags.column("cfd").to_pylist()} <= {number for number in own if not own[number].is_constant}:
            raise ValueError("it flags groups of other rules")
        if not {*listed.schema.names} <= {":cfd", ":removed", *(field.name for field in key)}:
            raise ValueError("it lists other columns than the key")
        # as many as the columns say: whoever takes the batch in compares them with the indexes
        lefts, pairs = (
            sum(name.startswith(start) and name[len(start) :].isdigit() for name in given.column_names)
            for start in ("hi", "value")
        )
        shared = {at: _bools(given, f"member{at}") for at in {*masks.values()}}
        indexes = IndexInput(
            tuple(_lanes(given, number) for number in range(lefts)),
            tuple(_words(given, f"value{number}") for number in range(pairs)),
            {number: shared[at] for number, at in masks.items()},
        )
        return BatchRecord(
            about["batch"],
            about["fingerprint"],
            _lanes(given),
            rows.replace_schema_metadata(None),
            _bools(given, "now"),
            _bools(given, "was"),
            indexes,
            flags,
            owned,
            tuple(SiteMessage(**row) for row in messages.to_pylist()),
            keys_by_cfd(listed),
            about["anew"],
            about["contents"],
        )


def _about(rows: pa.Table) -> tuple[dict[str, str], dict[int, int]]:
    """What a batch says of itself, and by CFD which mask says what rows it looks at."""
    try:
        about = {name.decode(): value.decode() for name, value in (rows.schema.metadata or {}).items()}
        masks = {int(number): int(at) for number, at in json.loads(about["masks"]).items()}
        said = {"batch": about["batch"], "fingerprint": about["fingerprint"]}
        # records of before lack the others
        return said | {name: about.get(name, "") for name in ("anew", "contents")}, masks
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"it does not say what its batch is: {error}") from error


def _column(table: pa.Table, name: str, type_: pa.DataType) -> pa.Array:
    at = table.schema.get_field_index(name)
    if at < 0 or table.schema.field(at).type != type_:
        raise ValueError(f"its batch has no column {name} of {type_}")
    return plain(table.column(at))


def _bools(table: pa.Table, name: str) -> Mask:
    return bools(_column(table, name, pa.bool_()))


def _words(table: pa.Table, name: str) -> U64:
    return numbers(_column(table, name, pa.uint64()), np.uint64).copy()


def _lanes(table: pa.Table, at: str | int = "") -> Ids:
    return Ids(_words(table, f"hi{at}"), _words(table, f"lo{at}"))


def _flag_table(indexed: IndexedRows, step: IndexStep) -> pa.Table:
    parts = [_FLAGS.empty_table()]
    for number, (left, pair, column) in indexed.places.items():
        groups = step.pairs[pair].flagged(column)
        if groups.size:
            ids, flag = indexed.left_sides[left].ids(groups), indexed.pairs[pair].flags(groups, column)
            columns = (np.full(ids.size, number, np.int32), ids.hi, ids.lo, flag)
            parts.append(pa.table([pa.array(values) for values in columns], schema=_FLAGS))
    return pa.concat_tables(parts)


def _owned_table(steps: Sequence[OwnedStep]) -> pa.Table:
    """What is known of owned groups after the batch."""
    parts = [_OWNED.empty_table()]
    for step in steps:
        owned, groups = step.owned, step.groups
        ids = owned.ids(groups)
        lanes = [np.full(ids.size, owned.bundle.number, np.int32), ids.hi, ids.lo]
        cells = [_binary(array[groups]) for array in (owned.state, owned.value, owned.holders)]
        parts.append(pa.table([*map(pa.array, lanes), *cells], schema=_OWNED))
    return pa.concat_tables(parts)


def _binary(cells: NDArray[Any]) -> pa.Array:
    """By group the bytes of its cells."""
    width = cells.shape[1] * cells.itemsize
    offsets = np.arange(cells.shape[0] + 1, dtype=np.int64) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(cells))]
    return pa.Array.from_buffers(pa.large_binary(), cells.shape[0], buffers)


def _cells(table: pa.Table, name: str, dtype: type[np.generic], columns: int) -> NDArray[Any]:
    """Back from `_binary`."""
    joined = b"".join(table.column(name).to_pylist())
    width = columns * np.dtype(dtype).itemsize
    if {*pa.compute.unique(pa.compute.binary_length(table.column(name))).to_pylist()} - {width}:
        raise ValueError(f"what it says of owned groups ({name}) has another size")
    return np.frombuffer(joined, dtype=dtype).reshape(table.num_rows, columns).copy()
