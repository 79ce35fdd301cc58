"""Tables of integers for the oracle of dependencies, and rules as it writes them."""

from __future__ import annotations

import pyarrow as pa

from holdstrue.rules.model import DC, FD, Body, Column, Key
from oracle_dependencies import Dependency, Row

NAMES = "abcdef"


def table_of(rows: list[Row], columns: int) -> pa.Table:
    """Rows as a table of integers."""
    return pa.table({NAMES[c]: pa.array([row[c] for row in rows], type=pa.int64()) for c in range(columns)})


def meaning(body: Body, columns: int) -> Dependency:
    """A rule as the oracle writes it."""
    match body:
        case Key(names):
            return frozenset(map(NAMES.index, names)), columns
        case FD(lhs, (rhs,)):
            return frozenset(map(NAMES.index, lhs)), NAMES.index(rhs)
        case DC((predicate,)) if isinstance(predicate.right, Column):
            return frozenset(), NAMES.index(predicate.left.name)
    raise AssertionError(body)
