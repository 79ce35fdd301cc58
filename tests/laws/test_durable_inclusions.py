"""Laws of inclusions on disk: what is opened is what was left, through logs and checkpoints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue.discovery.inclusions.attributes import RowChanges
from holdstrue.discovery.inclusions.durable import DurableInclusions
from holdstrue.discovery.inclusions.unary import StructureKind, UnaryInclusions, ValueLayout
from holdstrue.errors import ChangeError, StateError
from holdstrue.state import journal
from holdstrue.state import runs as state_runs
from laws.inclusion_worlds import COLUMNS, as_pairs, as_tables, changes, compares, databases
from oracle_inclusions import unary
from places import Buckets, Folders


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), structure=st.sampled_from(["counters", "clusters"]))
def test_opened_as_left(folders: Folders, data: st.DataObject, structure: StructureKind) -> None:
    opened_as_left(folders.fresh(), data, structure)


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), structure=st.sampled_from(["counters", "clusters"]))
def test_opened_as_left_in_an_object_store(buckets: Buckets, data: st.DataObject, structure: StructureKind) -> None:
    opened_as_left(buckets.fresh(), data, structure)


def opened_as_left(place: str, data: st.DataObject, structure: StructureKind) -> None:
    database = data.draw(databases())
    core = UnaryInclusions.load(as_tables(database), ValueLayout(structure=structure, shards=2))
    DurableInclusions.create(place, core).close()
    for _ in range(data.draw(st.integers(1, 4))):
        with DurableInclusions.open(place) as kept:
            batch, after = data.draw(changes(database))
            kept.apply(batch)
            database = after
            if data.draw(st.booleans()):
                kept.checkpoint()
    with DurableInclusions.open(place, read_only=True) as kept:
        assert as_pairs(rule.body for rule in kept.core.rules()) == unary(database, COLUMNS, compares)
        fresh = UnaryInclusions.load(as_tables(database))
        assert np.array_equal(kept.core.structure.shared(), fresh.structure.shared())


def test_checkpoints_when_the_log_is_long(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_runs, "CHECKPOINT_FROM", 50)
    rows = [pa.table({"a": list(range(i, i + 20)), "b": list(range(20))}) for i in range(6)]
    with DurableInclusions.create(place, UnaryInclusions.load({"t": rows[0]})) as kept:
        runs = []
        for part in rows[1:]:
            kept.apply({"t": RowChanges(added=part)})
            runs.append(len(journal.manifest_of(place, "inclusions")["log"]))
        assert 0 < max(runs) < 3, "the log of five batches was not cut"
    with DurableInclusions.open(place) as kept:
        fresh = UnaryInclusions.load({"t": pa.concat_tables(rows)})
        assert np.array_equal(kept.core.structure.shared(), fresh.structure.shared())


def test_a_refused_batch_leaves_the_state(place: str) -> None:
    table = pa.table({"a": [1, 2]})
    with DurableInclusions.create(place, UnaryInclusions.load({"t": table})) as kept:
        with pytest.raises(ChangeError, match=r"t\.a"):
            kept.apply({"t": RowChanges(removed=pa.table({"a": [1, 3]}))})
        assert kept.core.structure.shared().tolist() == [[2]]
        kept.apply({"t": RowChanges(removed=pa.table({"a": [1]}))})
        assert kept.core.structure.shared().tolist() == [[1]]


def test_another_state_is_refused(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2]})
    with (
        DurableInclusions.create(tmp_path / "s", UnaryInclusions.load({"t": table})),
        pytest.raises(StateError, match="another process"),
    ):
        DurableInclusions.open(tmp_path / "s")
    with pytest.raises(StateError, match="exists"):
        DurableInclusions.create(tmp_path / "s", UnaryInclusions.load({"t": table}))
