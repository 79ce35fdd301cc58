"""Laws of unary inclusions: from scratch and after every batch as the oracle says, with counters and with clusters."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue.discovery.inclusions.attributes import RowChanges
from holdstrue.discovery.inclusions.contents import contents_of
from holdstrue.discovery.inclusions.counted_values import COMPACT_FROM, Values
from holdstrue.discovery.inclusions.counters import filled, shifted
from holdstrue.discovery.inclusions.net_changes import NetChanges, distinct
from holdstrue.discovery.inclusions.unary import StructureKind, UnaryInclusions, ValueLayout
from holdstrue.discovery.options import Proportion
from holdstrue.index.checked import Checked
from laws.inclusion_worlds import COLUMNS, SCHEMAS, as_pairs, as_tables, changes, compares, databases
from oracle_inclusions import Database, missing, unary

STRUCTURES: list[StructureKind] = ["counters", "clusters"]
relaxed = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def found(core: UnaryInclusions, error: Proportion = 0, *, rows: bool = False) -> set[object]:
    return set(as_pairs(rule.body for rule in core.rules(error, "rows" if rows else "pairs")))


def check(core: UnaryInclusions, database: Database) -> None:
    """Rules, degrees and rows as the oracle counts them."""
    assert found(core) == unary(database, COLUMNS, compares)
    for error in ("0.5", "0.3", "0.07", "1/3", "2/3"):
        for by in (False, True):
            assert found(core, error, rows=by) == unary(database, COLUMNS, compares, Fraction(error), rows=by)
    rows = core.structure.shared_rows()
    for rule in core.rules(1.0):
        [pair] = as_pairs([rule.body])
        values, lost, total, lost_rows = missing(database, *pair)
        assert (rule.values, rule.missing) == (values, lost), pair
        left, right = (core.numbers[type(core.attributes[0])(*side)] for side in pair)
        assert (rows[left, left], rows[left, left] - rows[left, right]) == (total, lost_rows), pair


@relaxed
@given(data=st.data(), structure=st.sampled_from(STRUCTURES), shards=st.sampled_from([1, 2, 8]))
def test_every_batch(data: st.DataObject, structure: StructureKind, shards: int) -> None:
    database = data.draw(databases())
    options = ValueLayout(structure=structure, shards=shards)
    core = UnaryInclusions.load(as_tables(database), options)
    check(core, database)
    for _ in range(data.draw(st.integers(1, 4))):
        batch, after = data.draw(changes(database))
        turnover = core.apply(batch)
        old, new = unary(database, COLUMNS, compares), unary(after, COLUMNS, compares)
        assert as_pairs(died.body for died in turnover.died) == old - new
        assert as_pairs(turnover.born) == new - old
        check(core, after)
        database = after
        if data.draw(st.booleans()):
            core = UnaryInclusions.restore(SCHEMAS, options, Checked(core.snapshot()))
    fresh = UnaryInclusions.load(as_tables(database), options)
    assert np.array_equal(fresh.structure.shared(), core.structure.shared())
    assert fresh.structure.distinct_values() == core.structure.distinct_values()


@relaxed
@given(data=st.data())
def test_shards_alone_add_up(data: st.DataObject) -> None:
    """As tasks of their own, each with its part of the columns and then of the batch, sent as a table."""
    database = data.draw(databases())
    batch, after = data.draw(changes(database))
    core = UnaryInclusions.load(as_tables(database), ValueLayout(shards=4))
    size = len(core.attributes)
    tables = as_tables(database)
    columns = [
        distinct(number, contents_of(tables[one.table].column(one.columns[0]), "types", core.layout.seed)).split(4)
        for one, number in core.numbers.items()
    ]
    total = np.zeros((size, size), dtype=np.int64)
    for i, part in enumerate(core.tally(batch).split(4)):
        values = Values(size)
        left, right, change = filled(values, [column[i] for column in columns], size)
        total[left, right] += change
        left, right, change = shifted(values, NetChanges.of(part.to_table(), size), size)
        total[left, right] += change
    fresh = UnaryInclusions.load(as_tables(after), ValueLayout(shards=4))
    assert np.array_equal(total, fresh.structure.shared())


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("seed", range(3))
def test_many_values_come_and_go(structure: StructureKind, seed: int) -> None:
    """Enough values that tables grow, chains are freed and used again, and shards forget vanished values."""
    rng = np.random.default_rng(seed)
    m = 70

    def some(rows: int, top: int) -> pa.Table:
        return pa.table({f"c{i}": rng.integers(0, top // (1 + i % 7), rows) for i in range(m)})

    parts = [some(300, 10_000) for _ in range(4)] + [some(300, 40)]
    core = UnaryInclusions.load({"t": parts[0]}, ValueLayout(structure=structure, shards=2))
    alive = [parts[0]]
    for part in [*parts[1:], *parts]:
        core.apply({"t": RowChanges(alive.pop(0) if len(alive) > 1 else None, part)})
        alive.append(part)
    for part in alive[:-1]:
        core.apply({"t": RowChanges(removed=part)})
    fresh = UnaryInclusions.load({"t": alive[-1]}, ValueLayout(structure=structure, shards=2))
    assert np.array_equal(core.structure.shared(), fresh.structure.shared())
    assert np.array_equal(core.held(), fresh.held())
    assert all(len(values) < COMPACT_FROM for values in core.structure.shards)
