"""Laws of inclusions of several columns: from scratch and after every batch as the oracle says."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue.discovery.inclusions.attributes import RowChanges
from holdstrue.discovery.inclusions.breaks import breaks
from holdstrue.discovery.inclusions.inclusion_core import InclusionCore
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.index.checked import Checked
from laws.inclusion_worlds import as_pairs
from oracle_inclusions import Database, missing, nary, unary

COLUMNS = {"one": ["a", "b", "c"], "two": ["d", "e", "f", "g"]}
SCHEMAS = {name: pa.schema([(column, pa.int64()) for column in columns]) for name, columns in COLUMNS.items()}

row = {
    name: st.fixed_dictionaries({c: st.sampled_from([0, 1, 1, 2, None]) for c in columns})
    for name, columns in COLUMNS.items()
}


def always(*_: str) -> bool:
    return True


def as_tables(database: Database) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist(rows, schema=SCHEMAS[name]) for name, rows in database.items()}


def truth(database: Database, search: DiscoveryOptions) -> set[Any]:
    error = Fraction(search.error)
    one = unary(database, COLUMNS, always, error, rows=search.measure == "rows")
    return one | nary(database, COLUMNS, always, search.arity, error, rows=search.measure == "rows")


def check(core: InclusionCore, database: Database, search: DiscoveryOptions) -> None:
    assert as_pairs(rule.body for rule in core.rules()) == truth(database, search)
    for rule in core.rules():
        [pair] = as_pairs([rule.body])
        values, lost, _, lost_rows = missing(database, *pair)
        assert (rule.values, rule.missing) == (values, lost)
        broken = breaks(rule.body, as_tables(database))
        assert (broken.missing, broken.rows, broken.values.num_rows) == (lost, lost_rows, lost)
        assert broken.slots.size == sum(broken.values.column("rows").to_pylist()) == lost_rows


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), error=st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1, 2)]), by_rows=st.booleans())
def test_every_batch(data: st.DataObject, error: Fraction, by_rows: bool) -> None:
    database: Database = {
        "one": data.draw(st.lists(row["one"], max_size=4)),
        "two": data.draw(st.lists(row["two"], min_size=3, max_size=9)),
    }
    search = DiscoveryOptions(kinds=("ind",), arity=3, error=error, measure="rows" if by_rows else "pairs")
    core = InclusionCore.load(as_tables(database), search)
    check(core, database, search)
    for _ in range(data.draw(st.integers(1, 3))):
        after = dict(database)
        batch = {}
        for name, rows in database.items():
            going = data.draw(st.sets(st.integers(0, len(rows) - 1), max_size=2)) if rows else set()
            coming = data.draw(st.lists(row[name], max_size=2))
            batch[name] = RowChanges(
                pa.Table.from_pylist([rows[i] for i in sorted(going)], schema=SCHEMAS[name]),
                pa.Table.from_pylist(coming, schema=SCHEMAS[name]),
            )
            after[name] = [r for i, r in enumerate(rows) if i not in going] + coming
        turnover = core.apply(batch, as_tables(after).__getitem__)
        old, new = truth(database, search), truth(after, search)
        assert as_pairs(died.body for died in turnover.died) == old - new
        assert as_pairs(turnover.born) == new - old
        database = after
        if data.draw(st.booleans()):
            core = InclusionCore.restore(SCHEMAS, core.options, Checked(core.snapshot()))
        check(core, database, search)
