"""Where rows live when a table is sharded: home by key, and on every route by what must meet.

Shards are numbered: the homes first, then `shards` of each route, then the cells of hot places. A
place that would hold too many rows (a hot key; all rows, for a rule without equalities) is laid out
as a grid: rows fall into `blocks` by their key, and cell (i, j) holds blocks i and j. Every two
rows meet in some cell (the fragment-and-replicate scheme of theta joins), a row is in as many cells
as there are blocks, and no cell holds more than two blocks. Counts are put together by inclusion
and exclusion: those of the cells i < j count once, those of the cells (i, i), which all other cells
of i repeat, `2 - blocks` times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.data.coding import Coded, Domain, domain_of, encode, key_digest
from holdstrue.detect.resolve import OnConflict
from holdstrue.errors import DataError
from holdstrue.plan.checks import Check, MeasureCheck, PairCheck, ReferenceCheck, RowCheck, conditioned
from holdstrue.plan.compile import Plan, part_of
from holdstrue.rules.model import All, Comparison, Condition, Constant, Op
from holdstrue.shards.routing import Route, Side, routes_of
from holdstrue.typing import I32, U64, Mask

Digest = tuple[int, int]

HOME = -1
NOWHERE = -1
"""The place of a row that cannot violate on a route: NULL among the columns it is placed by."""

T_FLAG, S_FLAG = ":t", ":s"
"""Columns of rows that travel on a flagged route: the roles in which they came."""

_DIGEST = pa.binary(16)

MOST_SHARDS = 1 << 16
MOST_BLOCKS = 1 << 10
"""More than any table is spread over: numbers above these are no layout of ours."""


@dataclass(frozen=True)
class Spot:
    """What a shard number stands for."""

    route: int
    """The number of the route, HOME for homes."""
    hot: int = -1
    """Which hot place, -1 for an ordinary shard."""
    i: int = 0
    j: int = 0
    weight: int = 1
    """How often its counts count."""

    @property
    def crosses(self) -> bool:
        """Whether only pairs of different blocks are to be listed here."""
        return self.hot >= 0 and self.i != self.j


class Columns:
    """Columns of a table as content codes, each coded once."""

    def __init__(self, values: pa.Table) -> None:
        self.values = values
        self._coded: dict[tuple[str, Domain], Coded] = {}

    def coded(self, name: str, domain: Domain) -> Coded:
        """A column in its domain; by digests where that keeps order, since only equality matters to places."""
        if domain.kind == "label":
            domain = replace(domain, kind="digest")
        if (name, domain) not in self._coded:
            self._coded[name, domain] = encode(self.values.column(name), domain, name=name)
        return self._coded[name, domain]


@dataclass(frozen=True)
class Layout:
    """A plan, its routes, and how many shards, blocks and hot places they have."""

    plan: Plan
    keys: Mapping[str, tuple[str, ...]]
    shards: int
    blocks: int
    hot: tuple[tuple[Digest, ...], ...] = ()
    """By route the digests of hot places; a route without columns has one, its only place."""
    routes: tuple[Route, ...] = field(default=())

    @staticmethod
    def of(plan: Plan, keys: Mapping[str, tuple[str, ...]], shards: int, blocks: int) -> Layout:
        """The layout of a plan before anything is known of its data."""
        routes = routes_of(plan)
        # all rows are in one place on a route without columns
        upper, lower = plan.seed.start
        hot = tuple(() if route.t.columns else ((int(upper), int(lower)),) for route in routes)
        return Layout(plan, keys, shards, blocks, hot, routes)

    def with_hot(self, hot: Mapping[int, list[Digest]]) -> Layout:
        """The same with hot places on some routes."""
        places = (
            self.hot[i] if not route.t.columns else tuple(dict.fromkeys(hot.get(i, ())))
            for i, route in enumerate(self.routes)
        )
        return replace(self, hot=tuple(places))

    @staticmethod
    def restored(known: Mapping[str, Any], plan: Plan, keys: Mapping[str, tuple[str, ...]]) -> Layout:
        """Back from `to_dict`; without its hot places where the plan now has other routes.

        A ValueError where there cannot be such a layout.
        """
        for name, most in (("shards", MOST_SHARDS), ("blocks", MOST_BLOCKS)):
            if not 1 <= known[name] <= most:
                raise ValueError(f"{known[name]} {name}, not 1 to {most}")
        layout = Layout.of(plan, keys, known["shards"], known["blocks"])
        hot = {i: [(int(a), int(b)) for a, b in places] for i, places in enumerate(known["hot"])}
        if any(not 0 <= lane < 2**64 for places in hot.values() for digest in places for lane in digest):
            raise ValueError("a hot place has no digest")
        return layout.with_hot(hot) if known["routes"] == [str(r) for r in layout.routes] else layout

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data, beside the rules and types that the rest follows from."""
        return {
            "shards": self.shards,
            "blocks": self.blocks,
            "hot": [[[str(a), str(b)] for a, b in places] for places in self.hot],
            "routes": [str(route) for route in self.routes],
        }

    # --- numbers -------------------------------------------------------------------------------

    @cached_property
    def spots(self) -> tuple[Spot, ...]:
        """What each shard number stands for."""
        spots = [Spot(route) for route in range(HOME, len(self.routes)) for _ in range(self.shards)]
        for number, route in enumerate(self.routes):
            for hot in range(len(self.hot[number])):
                if route.kind == "reference":
                    spots += [Spot(number, hot, i, i) for i in range(self.blocks)]
                else:
                    spots += [
                        Spot(number, hot, i, j, 1 if i < j else 2 - self.blocks)
                        for i in range(self.blocks)
                        for j in range(i, self.blocks)
                    ]
        return tuple(spots)

    @cached_property
    def cells(self) -> dict[tuple[int, int], I32]:
        """By route and hot place: the shards in which each block is, a row a block."""
        found: dict[tuple[int, int], list[list[int]]] = {}
        for shard, spot in enumerate(self.spots):
            if spot.hot >= 0:
                rows = found.setdefault((spot.route, spot.hot), [[] for _ in range(self.blocks)])
                for block in {spot.i, spot.j}:
                    rows[block].append(shard)
        return {place: np.array(rows, dtype=np.int32) for place, rows in found.items()}

    @property
    def copies(self) -> tuple[int, ...]:
        """In how many shards a row is at most: at home, and on each route."""
        return (1, *(self.blocks if hot else 1 for hot in self.hot))

    # --- placing -------------------------------------------------------------------------------

    def home(self, table: str, columns: Columns) -> tuple[I32, I32, tuple[U64, U64]]:
        """Of each row its home, its block, and the digest of its key."""
        coded = []
        for name in self.keys[table]:
            domain = domain_of([columns.values.schema.field(name).type], ordered=False, seed=self.plan.seed)
            if domain is None:
                raise DataError(f"key column {name!r} holds values that do not compare", hint="choose a plain column")
            coded.append(columns.coded(name, domain))
        hi, lo, _ = key_digest(coded, columns.values.num_rows, self.plan.seed)
        return (hi % np.uint64(self.shards)).astype(np.int32), (lo % np.uint64(self.blocks)).astype(np.int32), (hi, lo)

    def place(self, route: int, side: Side, columns: Columns) -> I32:
        """Of each row its place on a route: a shard, NOWHERE, or -2 - h for hot place h."""
        hi, lo, usable = self.digest(route, side, columns)
        places = (hi % np.uint64(self.shards)).astype(np.int32) + np.int32(self.shards * (1 + route))
        for number, (upper, lower) in enumerate(self.hot[route]):
            places[(hi == np.uint64(upper)) & (lo == np.uint64(lower))] = -2 - number
        places[~usable] = NOWHERE
        return places

    def digest(self, route: int, side: Side, columns: Columns) -> tuple[U64, U64, Mask]:
        """Digests of what rows are placed by, and which rows have a place."""
        coded = [columns.coded(name, self.plan.domain(side.table, name)) for name in side.columns]
        nulls_equal = self.routes[route].nulls_equal
        return key_digest(coded, columns.values.num_rows, self.plan.seed, nulls_equal=nulls_equal)

    def spread(self, route: int, places: I32, blocks: I32, *, provides: bool) -> tuple[I32, I32]:
        """The shards of each row, as (row, shard): one for an ordinary place, several for a hot one."""
        plain = np.flatnonzero(places >= 0).astype(np.int32)
        rows, shards = [plain], [places[plain]]
        for hot in range(len(self.hot[route])):
            own = np.flatnonzero(places == -2 - hot).astype(np.int32)
            if not own.size:
                continue
            cells = self.cells[route, hot]
            if provides:
                cells = np.broadcast_to(cells.reshape(-1), (self.blocks, cells.size))
            rows.append(np.repeat(own, cells.shape[1]))
            shards.append(cells[blocks[own]].reshape(-1))
        return np.concatenate(rows), np.concatenate(shards)

    # --- what travels --------------------------------------------------------------------------

    @cached_property
    def home_plan(self) -> Plan:
        """The plan of the homes: whole rows by key, the checks of single rows, and parts of what is measured of all."""
        checks = [self.plan.checks[n] for n in self.home_checks]
        return part_of(self.plan, checks, self.plan.schemas)

    @cached_property
    def home_checks(self) -> tuple[int, ...]:
        """Numbers of the checks that run at home."""
        return tuple(n for n, check in enumerate(self.plan.checks) if isinstance(check, RowCheck | MeasureCheck))

    def travelling(self, route: int) -> dict[str, pa.Schema]:
        """By table the columns that go to the shards of a route: the key, and what its checks read, text as digests."""
        checks = [self.plan.checks[n] for n in self.routes[route].checks]
        found = {}
        for table in self.routes[route].tables:
            names = (*self.keys[table], *(name for check in checks for name in check.columns(table)))
            looked_at = {name for check in checks if check.table == table for name in conditioned(check)}
            fields = []
            for name in dict.fromkeys(names):
                kept = name in self.keys[table] or name in looked_at or not self._is_digested(route, table, name)
                fields.append(self.plan.schemas[table].field(name) if kept else pa.field(name, _DIGEST))
            if self.routes[route].flagged:
                fields += [pa.field(T_FLAG, pa.bool_()), pa.field(S_FLAG, pa.bool_())]
            found[table] = pa.schema(fields)
        return found

    def _is_digested(self, route: int, table: str, name: str) -> bool:
        known = self.plan.domains.get((table, name))
        if known is None or known[1].kind != "digest" or pa.types.is_null(self.plan.schemas[table].field(name).type):
            return False
        # columns that are compared with each other travel alike, so none of them may be a key that stays as it is
        number = known[0]
        cells = {cell for cell, (other, _) in self.plan.domains.items() if other == number}
        checks = [self.plan.checks[n] for n in self.routes[route].checks]
        return not any(
            column in self.keys[owner] or any(column in conditioned(c) for c in checks if c.table == owner)
            for owner, column in cells
        )

    def travel(self, route: int, table: str, columns: Columns) -> pa.Table:
        """Rows as they travel on a route, without flags."""
        values = columns.values
        arrays: list[Any] = []
        schema = pa.schema([f for f in self.travelling(route)[table] if f.name not in (T_FLAG, S_FLAG)])
        for column in schema:
            if column.type == _DIGEST:
                arrays.append(_digests(columns.coded(column.name, self.plan.domain(table, column.name))))
            else:
                arrays.append(values.column(column.name))
        return pa.table(arrays, schema=schema)

    def route_plan(self, route: int) -> Plan:
        """The plan of the shards of a route."""
        checks = [self.plan.checks[n] for n in self.routes[route].checks]
        if self.routes[route].flagged:
            checks = [_in_role(check) for check in checks]
        return part_of(self.plan, checks, self.travelling(route))


def _in_role(check: Check) -> Check:
    """The check, of rows in the roles in which they came."""
    as_t, as_s = (Comparison(flag, Op.EQ, Constant(True)) for flag in (T_FLAG, S_FLAG))
    if isinstance(check, PairCheck):
        return replace(check, t_member=_also(as_t, check.t_member), s_member=_also(as_s, check.s_member))
    if isinstance(check, ReferenceCheck):
        return replace(check, member=_also(as_t, check.member))
    raise TypeError(f"no roles in {check!r}")


def _also(flag: Condition, member: Condition | None) -> Condition:
    return flag if member is None else All((flag, member))


def _digests(coded: Coded) -> pa.Array:
    if coded.upper is None:
        raise TypeError("the codes of this column are its values")
    rows = coded.upper.size
    lanes = np.empty((rows, 2), dtype=np.uint64)
    lanes[:, 0], lanes[:, 1] = coded.upper, coded.codes.view(np.uint64)
    mask = None
    if coded.valid is not None:
        mask = pa.array(coded.valid).buffers()[1]
    return pa.Array.from_buffers(_DIGEST, rows, [mask, pa.py_buffer(lanes)])


@dataclass(frozen=True)
class Job:
    """One batch over a sharded state, or one check that keeps no state."""

    layout: Layout
    tasks: int
    limit: int
    """How many violations a check lists in a shard, added and removed each."""
    path: str = ""
    """The path or URL of the state; none for a check that keeps no state."""
    version: int = -1
    """The manifest that the batch starts from."""
    writer: str | None = None
    """The mark of that manifest, which tells it from those of other states that were at this place; None: not known."""
    on_conflict: OnConflict = "error"
    probing: bool = False
    """Whether a shard that gets too many rows is to say so instead of going on alone."""

    def task_of(self, shards: I32) -> I32:
        """The task that owns each shard."""
        return (shards % np.int32(self.tasks)).astype(np.int32)
