"""InclusionCore of several columns at the edges: exponentially many, a deadline, rows that are not there."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from holdstrue.discovery.inclusions.attributes import RowChanges
from holdstrue.discovery.inclusions.inclusion_core import InclusionCore
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.work import Work
from holdstrue.errors import ChangeError
from holdstrue.index.checked import Checked


def test_three_hundred_alike_columns_end() -> None:
    table = pa.table({f"c{i}": pa.array([7] * 5) for i in range(300)})
    core = InclusionCore.load({"t": table}, DiscoveryOptions(arity=4), most=300)
    assert not core.complete
    assert len(core.rules()) > 300 * 299


def test_the_deadline_ends_the_search_with_what_was_found() -> None:
    table = pa.table({"a": [1, 2], "b": [1, 2], "c": [1, 2]})
    core = InclusionCore.load({"t": table}, DiscoveryOptions(arity=3), Work.lasting(60))
    assert core.complete and {len(rule.body.columns) for rule in core.rules()} == {1, 2, 3}
    late = InclusionCore.load({"t": table}, DiscoveryOptions(arity=3), Work.lasting(-1))
    assert not late.complete and late.rules() == ()
    restored = InclusionCore.restore(
        late.unary.schemas, DiscoveryOptions(arity=3, seed=late.options.seed), Checked(late.snapshot())
    )
    assert not restored.complete and restored.rules() == ()


def test_a_search_that_ended_early_is_restored_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"a": [1, 2], "b": [1, 2], "c": [1, 2]})
    ticks = iter([0.0] * 8 + [9.0] * 100)
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks))
    core = InclusionCore.load({"t": table}, DiscoveryOptions(arity=3), Work(5.0))
    assert not core.complete and {len(rule.body.columns) for rule in core.rules()} == {1}
    restored = InclusionCore.restore(
        core.unary.schemas, DiscoveryOptions(arity=3, seed=core.options.seed), Checked(core.snapshot())
    )
    assert restored.rules() == core.rules() and not restored.complete
    restored.apply({"t": RowChanges(removed=table.slice(0, 1))}, lambda _: table.slice(1))
    assert {rule.values for rule in restored.rules()} == {1}


def test_progress_reaches_one() -> None:
    said: list[float] = []
    table = pa.table({"a": [1, 2], "b": [1, 2], "c": [1, 2]})
    InclusionCore.load({"t": table}, DiscoveryOptions(arity=3), Work(progress=lambda share, _: said.append(share)))
    assert said == sorted(said) and said[-1] == 1.0


def test_rows_that_are_not_there_change_nothing() -> None:
    table = pa.table({"a": [1, 2], "b": [1, 2]})
    other = pa.table({"c": [1, 2], "d": [1, 2]})
    core = InclusionCore.load({"t": table, "u": other}, DiscoveryOptions(arity=2))
    before = core.rules()
    with pytest.raises(ChangeError, match="never occur together"):
        core.apply({"t": RowChanges(removed=pa.table({"a": [1], "b": [2]}))}, lambda _: table)
    assert core.rules() == before
    with pytest.raises(ChangeError, match="after the batch"):
        core.apply({"t": RowChanges(removed=table)})


def test_stale_columns_are_counted_anew() -> None:
    """Candidates come and go with every batch; what is counted stays in proportion to what is asked."""
    names = [f"c{i}" for i in range(8)]
    table = pa.table({name: [1, 2, 3] for name in names})
    breaking = pa.table({name: [10 + i] for i, name in enumerate(names)})
    core = InclusionCore.load({"t": table}, DiscoveryOptions(arity=2))
    first = core.rules()
    for _ in range(2):
        both = {"t": pa.concat_tables([table, breaking])}
        core.apply({"t": RowChanges(added=breaking)}, both.__getitem__)
        assert core.rules() == ()
        core.apply({"t": RowChanges(removed=breaking)}, lambda _: table)
        assert core.rules() == first
