"""Tables too large for the oracle: batches equal from scratch, and the search equals plain counting level by level."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.dependencies.dependency_core import DependencyCore
from holdstrue.discovery.dependencies.limited_search import NO_LIMIT, within
from holdstrue.discovery.dependencies.ranking import body_of
from holdstrue.discovery.dependencies.validation import Partitions, Validator
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.work import Work
from holdstrue.rules.model import Body


def random_table(rng: np.random.Generator, rows: int, columns: int) -> pa.Table:
    """Columns of few and of many values, some made of others, some with holes."""
    made: list[np.ndarray] = []
    for number in range(columns):
        kind = rng.integers(0, 4)
        if kind == 0 and number > 1:
            one, other = rng.choice(number, 2, replace=False)
            made.append((made[one] * 7 + made[other]) % int(rng.integers(2, 50)))
        elif kind == 1 and number:
            made.append(made[rng.integers(0, number)] // int(rng.integers(2, 6)))
        else:
            made.append(rng.integers(0, int(rng.choice([2, 5, 30, 400, 5000])), rows))
    holes = [rng.random(rows) < rng.choice([0.0, 0.0, 0.02]) for _ in made]
    return pa.table({f"c{i}": pa.array(v, mask=h) for i, (v, h) in enumerate(zip(made, holes))})


def counted(core: DependencyCore) -> set[Body]:
    """The exact rules by counting what breaks every left side, shortest first."""
    many = len(core.names)
    validator = Validator(Partitions(core.codes), Work(threads=1))
    limits = np.zeros(2, dtype=np.int64)
    found, complete = within(validator, many, list(range(many + 1)), limits, many)
    assert complete
    return {body_of(one.target, one.line, core.names) for one in found if one.target < many or one.line.any()}


def check(seed: int, rows: int, columns: int, batches: int) -> None:
    rng = np.random.default_rng(seed)
    table = random_table(rng, rows, columns)
    options = DiscoveryOptions(nulls=("unknown", "equal")[seed % 2], threads=1 + seed % 3)
    start = rows // 2
    core = DependencyCore.load(table.slice(0, start), options)
    assert set(core.bodies()) == counted(core)
    slots, places = np.arange(start), np.arange(start)
    for number in range(batches):
        size = int(rng.choice([1, 20, rows // 10]))
        out = (
            rng.choice(slots.size, min(size, slots.size), replace=False) if number % 3 else np.empty(0, dtype=np.int64)
        )
        added = table.slice(start, size if number % 3 != 1 else 0)
        fresh = np.arange(core.codes.next_slot, core.codes.next_slot + added.num_rows)
        core.apply(slots[out].astype(np.int64), added)
        slots = np.concatenate((np.delete(slots, out), fresh))
        places = np.concatenate((np.delete(places, out), np.arange(start, start + added.num_rows)))
        start += added.num_rows
        again = DependencyCore.load(table.take(places), options)
        assert core.complete
        assert again.complete
        assert core.rules() == again.rules()
    assert set(core.bodies()) == counted(core)


@pytest.mark.parametrize("seed", range(6))
def test_batches_on_larger_tables(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdstrue.discovery.dependencies.agree_sets.MANY", 8)
    monkeypatch.setattr("holdstrue.discovery.dependencies.limited_search.SCOUTS", 50)
    check(seed, 1500, 6, 4)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_batches_on_larger_tables(seed: int) -> None:
    check(seed, 6000, 8, 9)


def check_limits(seed: int, rows: int, columns: int) -> None:
    """Left sides within a limit equal those that weighing every set of columns gives."""
    rng = np.random.default_rng(seed)
    few = {f"c{i}": rng.integers(0, rng.integers(2, 4), rows) for i in range(columns)}
    codes = Codes(pa.table(few).schema, "unknown")
    codes.append(codes.encode(pa.table(few), Work(threads=1)))
    validator = Validator(Partitions(codes), Work(threads=1))
    everything = np.arange(1 << columns, dtype=np.uint64).reshape(-1, 1)
    for share in (0.002, 0.02, 0.1):
        limits = np.array([int(share * rows * rows), NO_LIMIT] if seed % 2 else [NO_LIMIT, int(share * rows)])
        found, complete = within(validator, columns, list(range(columns + 1)), limits, columns)
        assert complete
        for target in range(columns + 1):
            sets = everything[(everything[:, 0] >> np.uint64(target)) & np.uint64(1) == 0]
            counts, _ = validator.weigh(sets, np.full(len(sets), target), np.full(2, NO_LIMIT))
            good = [int(line[0]) for line, count in zip(sets, counts) if (count[:2] <= limits).all()]
            minimal = {one for one in good if not any(other & ~one == 0 and other != one for other in good)}
            assert {int(one.line[0]) for one in found if one.target == target} == minimal


@pytest.mark.parametrize("seed", range(4))
def test_long_left_sides_within_limits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdstrue.discovery.dependencies.limited_search.ROUND", 4)
    monkeypatch.setattr("holdstrue.discovery.dependencies.limited_search.SCOUTS", 100 if seed > 1 else 1 << 15)
    check_limits(seed, 600, 7)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_long_left_sides_within_limits(seed: int) -> None:
    check_limits(seed, 3000, 10)


def test_columns_beyond_the_first_words() -> None:
    rng = np.random.default_rng(9)
    rows = 400
    values = {f"v{i}": rng.integers(0, 3 + 4 * i, rows) for i in range(6)}
    few = DependencyCore.load(pa.table(values))
    fillers = {f"f{i}": np.zeros(rows, dtype=np.int64) for i in range(140)}
    names = [*fillers]
    for place, name in zip((3, 70, 64, 131, 127, 145), values):
        names.insert(place, name)
    wide = pa.table({name: values.get(name, fillers.get(name)) for name in names})
    core = DependencyCore.load(wide)
    assert set(core.bodies()) - {body_of(core.names.index(f), np.zeros(3, np.uint64), core.names) for f in fillers} == {
        _ordered(body, core.names) for body in few.bodies()
    }
    grown = core.apply(np.array([0, 5]), wide.slice(7, 1))
    reduced = few.apply(np.array([0, 5]), pa.table(values).slice(7, 1))
    assert set(grown.born) == {_ordered(body, core.names) for body in reduced.born}
    assert len(core.bodies()) == 140 + len(few.bodies())


def _ordered(body: Body, names: tuple[str, ...]) -> Body:
    """The same rule with its columns in the order of the wide table."""
    from holdstrue.discovery.dependencies.ranking import columns_of

    left, right = columns_of(body)
    line = np.zeros(len(names) // 64 + 1, dtype=np.uint64)
    for name in left:
        at = names.index(name)
        line[at >> 6] |= np.uint64(1 << (at & 63))
    return body_of(len(names) if right is None else names.index(right), line, names)
