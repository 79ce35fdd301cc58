"""The rows that rules are discovered in, by slot: found by their key, or by all their values where they have none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.data.changes import DELETE, INSERT, OP_NAMES, Changes, Origin, Places
from holdstrue.data.coding import domain_of, encode, key_digest
from holdstrue.data.seed import PROCESS, Seed
from holdstrue.detect.engine import Engine, Incoming
from holdstrue.detect.resolve import OnConflict, resolve
from holdstrue.errors import ChangeError, DataError
from holdstrue.plan.compile import compile_rules
from holdstrue.rules.model import Body, Rule, RuleSet
from holdstrue.typing import I32, I64

Keys = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class SlotChanges:
    """What a batch does to one table: which slots go, what they held, and the rows that come."""

    removed: I64
    old: pa.Table
    added: pa.Table


class Held:
    """The rows of some tables; a slot is never reused."""

    def __init__(self, schemas: Mapping[str, pa.Schema], keys: Keys, seed: Seed) -> None:
        self.keys = {name: tuple(keys.get(name, ())) for name in schemas}
        nothing = compile_rules(RuleSet(()), next(iter(schemas)), schemas, seed=seed)
        # an engine without rules is a store of rows, with the files and the log of one
        self.engine = Engine(nothing, schemas, keyed=[name for name, key in self.keys.items() if key])
        self._known: dict[str, Counter[str]] | None = None

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """The columns of each table."""
        return {name: table.rows.schema for name, table in self.engine.tables.items()}

    def searched(self, columns: Sequence[str]) -> dict[str, pa.Schema]:
        """By table the columns that rules may speak of, as a schema: these, or all where none are named."""
        return {
            name: pa.schema([field for field in schema if not columns or field.name in columns])
            for name, schema in self.schemas.items()
        }

    def shown(self, table: str) -> str | None:
        """The name of a table as rules carry it: none where there is only one."""
        return None if len(self.keys) == 1 else table

    def load(self, tables: Mapping[str, pa.Table]) -> None:
        """Take in first rows, whose keys must tell them apart."""
        first = {
            name: Changes(
                table, np.full(len(table), INSERT, dtype=np.uint8), Places((Origin(f"table {name!r}", len(table)),))
            )
            for name, table in tables.items()
        }
        try:
            incoming = {name: self.resolve(name, changes, "error") for name, changes in first.items()}
        except ChangeError as error:
            if "exists already" not in error.message:
                raise
            said = error.message.replace("; nothing was applied", "").replace("insert of ", "")
            raise ChangeError(said, hint="a key must tell the rows apart: name other columns, or none") from error
        self.apply(incoming)

    def resolve(self, name: str, changes: Changes, on_conflict: OnConflict) -> Incoming:
        """Which rows go and which come; nothing is changed yet.

        Complexity: O(changes); O(table) for deletes in a table without a key.
        """
        key = self.keys[name]
        rows = self.engine.tables[name].rows
        if key:
            return resolve(changes, rows, key, lambda table: self.engine.key_digest(name, table, key), on_conflict)
        return self._by_value(name, changes)

    def _by_value(self, name: str, changes: Changes) -> Incoming:
        """Rows without a key: an insert adds a row, a delete takes away one that is equal in all columns."""
        wrong = np.flatnonzero((changes.ops != INSERT) & (changes.ops != DELETE))
        if wrong.size:
            row = int(wrong[0])
            raise ChangeError(
                f"{changes.place(row)}: an {OP_NAMES[changes.ops[row]]} of a table without a key",
                hint="name the key when the rules are discovered: key='id', or --key id",
            )
        rows = self.engine.tables[name].rows
        given = set(changes.rows.column_names)
        missing = [column for column in rows.schema.names if column not in given]
        if missing:
            raise ChangeError(
                f"the changes have no column {missing[0]!r}",
                hint=f"rows without a key are told by all columns: {', '.join(rows.schema.names)}",
            )
        table = changes.rows.select(rows.schema.names).cast(rows.schema)
        coming, going = np.flatnonzero(changes.ops == INSERT), np.flatnonzero(changes.ops == DELETE)
        values = table.take(pa.array(coming))
        if not going.size:
            return Incoming(values, np.empty(0, dtype=np.int32), np.full(coming.size, -1, dtype=np.int32))
        living = rows.living_slots()
        stay, slots = _matched(table, going, changes, rows.take(living), living, coming)
        return Incoming(values.take(pa.array(stay)), np.sort(slots), np.full(stay.size, -1, dtype=np.int32))

    def apply(self, incoming: Mapping[str, Incoming]) -> dict[str, SlotChanges]:
        """Take in a resolved batch."""
        tables = self.engine.tables
        batches = {
            name: SlotChanges(part.old.astype(np.int64), tables[name].rows.take(part.old), part.values)
            for name, part in incoming.items()
        }
        self.engine.apply(incoming, 0)
        if self._known is not None:
            for name, batch in batches.items():
                self._known[name].update(_known(batch.added))
                self._known[name].subtract(_known(batch.old))
        return batches

    def speaks_of_values(self, table: str, body: Body) -> bool:
        """Whether every column of a rule has a value: of a column of NULLs anything would hold."""
        if self._known is None:
            self._known = {name: _known(self.table(name)[0]) for name in self.keys}
        return all(self._known[table][column] > 0 for column in Rule(body, "").columns)

    def again(self, incoming: Mapping[str, Incoming]) -> dict[str, SlotChanges]:
        """Take in a batch as a run holds it."""
        whole = {
            name: self.engine.with_keys(name, part, self.keys[name]) if self.keys[name] else part
            for name, part in incoming.items()
        }
        return self.apply(whole)

    def named(self, table: str, slots: Sequence[int]) -> tuple[Any, ...]:
        """Rows as people know them: by key, or by number in the order of arrival."""
        key = self.keys[table]
        if not key:
            return tuple(int(slot) for slot in slots)
        rows = self.engine.tables[table].rows
        columns = [rows.values_of(np.array(slots, dtype=np.int64), column) for column in key]
        return tuple(columns[0]) if len(columns) == 1 else tuple(zip(*columns, strict=True))

    def table(self, name: str) -> tuple[pa.Table, I64]:
        """The living rows and their slots."""
        rows = self.engine.tables[name].rows
        slots = rows.living_slots()
        return rows.take(slots), slots.astype(np.int64)

    def living(self, name: str) -> I64:
        """The slots of the living rows, in the order of `table`."""
        return self.engine.tables[name].rows.living_slots().astype(np.int64)

    def counts(self) -> dict[str, int]:
        """How many rows each table has."""
        return {name: table.rows.living for name, table in self.engine.tables.items()}


def _matched(
    table: pa.Table, going: I64, changes: Changes, kept: pa.Table, living: I32, coming: I64
) -> tuple[I64, I32]:
    """Which of the rows that come stay, and the slots that the deletes take away.

    A delete takes the oldest equal row, one that comes in the same batch last.
    """
    wanted = _digests(table)
    there = _digests(kept)
    pool: dict[bytes, list[int]] = {}
    asked = {wanted[row] for row in going.tolist()}
    for at in range(len(there) - 1, -1, -1):
        if there[at] in asked:
            pool.setdefault(there[at], []).append(int(living[at]))
    new: dict[bytes, list[int]] = {}
    came = dict(zip(coming.tolist(), range(coming.size), strict=True))
    gone: set[int] = set()
    slots = []
    for row in range(table.num_rows):
        if row in came:
            new.setdefault(wanted[row], []).append(came[row])
        elif pool.get(wanted[row]):
            slots.append(pool[wanted[row]].pop())
        elif new.get(wanted[row]):
            gone.add(new[wanted[row]].pop())
        else:
            raise ChangeError(
                f"{changes.place(row)}: no such row to delete",
                hint="a row without a key is deleted by giving all its values",
            )
    stay = np.array([at for at in range(coming.size) if at not in gone], dtype=np.int64)
    return stay, np.array(slots, dtype=np.int32)


def _digests(table: pa.Table) -> list[bytes]:
    """16 bytes a row that equal rows share, NULLs being equal."""
    coded = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        domain = domain_of([column.type], ordered=False, seed=PROCESS)
        if domain is None:
            raise DataError(f"column {name!r} holds values that do not compare", hint="leave the column out")
        coded.append(encode(column, domain, name=name))
    hi, lo, _ = key_digest(coded, table.num_rows, PROCESS, nulls_equal=True)
    data = np.column_stack((hi, lo)).tobytes()
    return [data[at : at + 16] for at in range(0, len(data), 16)]


def _known(table: pa.Table) -> Counter[str]:
    """By column the number of values that are not NULL."""
    return Counter({name: len(c) - c.null_count for name, c in zip(table.column_names, table.columns, strict=True)})
