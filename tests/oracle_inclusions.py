"""The meaning of inclusions between tables in plain Python; imports nothing of the package.

A database maps table names to lists of rows (dicts, None is NULL). An attribute is (table, columns).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, permutations, product
from typing import Any

Row = dict[str, Any]
Database = dict[str, list[Row]]
Attribute = tuple[str, tuple[str, ...]]
Pair = tuple[Attribute, Attribute]
EXACTLY = Fraction(0)


def tuples(database: Database, attribute: Attribute) -> list[tuple[Any, ...]]:
    """The tuples of values without NULL, one for each row that has one."""
    table, columns = attribute
    rows = [same(tuple(row[column] for column in columns)) for row in database[table]]
    return [row for row in rows if None not in row]


def same(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tuple with every NaN as one value, as NaN equals itself."""
    return tuple("not a number" if isinstance(value, float) and math.isnan(value) else value for value in row)


def missing(database: Database, left: Attribute, right: Attribute) -> tuple[int, int, int, int]:
    """Distinct tuples on the left, those that the right lacks, and the same for rows."""
    own, other = tuples(database, left), tuples(database, right)
    lost = [row for row in own if row not in other]
    return len(set(own)), len(set(lost)), len(own), len(lost)


def lacking(database: Database, left: Attribute, right: Attribute) -> set[tuple[Any, ...]]:
    """The tuples of the left side that the right side does not have."""
    return set(tuples(database, left)) - set(tuples(database, right))


def holds(
    database: Database, left: Attribute, right: Attribute, error: Fraction = EXACTLY, *, rows: bool = False
) -> bool:
    """The right side lacks no more than this share of the distinct tuples of the left (`rows`: of its rows)."""
    values, lost, rows_with, rows_lost = missing(database, left, right)
    return rows_lost <= error * rows_with if rows else lost <= error * values


def unary(
    database: Database,
    columns: dict[str, list[str]],
    comparable: Callable[[str, str, str, str], bool],
    error: Fraction = EXACTLY,
    *,
    rows: bool = False,
) -> set[Pair]:
    """All inclusions between two columns that compare."""
    attributes = [(table, (column,)) for table, names in columns.items() for column in names]
    return {
        (left, right)
        for left, right in permutations(attributes, 2)
        if comparable(left[0], left[1][0], right[0], right[1][0]) and holds(database, left, right, error, rows=rows)
    }


def nary(
    database: Database,
    columns: dict[str, list[str]],
    comparable: Callable[[str, str, str, str], bool],
    arity: int,
    error: Fraction = EXACTLY,
    *,
    rows: bool = False,
) -> set[Pair]:
    """Inclusions of tuples of two to `arity` columns, every part of which is an inclusion as well.

    The left side names distinct columns in the order of the table; the right side distinct ones in any
    order. Tuples of columns without values are left out, and so is what says that a column is in itself.
    """
    found: set[Pair] = set()
    known = {
        pair
        for pair in unary(database, columns, comparable, error, rows=rows)
        if tuples(database, pair[0]) and tuples(database, pair[1])
    }
    for size in range(2, arity + 1):
        level: set[Pair] = set()
        for one, other in product(columns, repeat=2):
            for left in combinations(columns[one], size):
                for right in permutations(columns[other], size):
                    pair = ((one, left), (other, right))
                    if parts(pair) <= known and tuples(database, pair[0]) and holds(database, *pair, error, rows=rows):
                        level.add(pair)
        found |= level
        known = level
    return found


def parts(pair: Pair) -> set[Pair]:
    """The pair without one of its columns, for each column."""
    (one, left), (other, right) = pair
    return {((one, left[:i] + left[i + 1 :]), (other, right[:i] + right[i + 1 :])) for i in range(len(left))}
