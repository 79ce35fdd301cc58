"""Laws of sites in parts: stages that hand each other messages find the oracle's violations after every batch."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue.fragments import Relation
from holdstrue.fragments.part_pool import POOL
from holdstrue.fragments.parted_relation import PartedRelation
from holdstrue.shards.wire import Message, send
from laws import worlds
from laws.shards import Loops
from laws.test_fragments import differences, draw_rules, draw_sites, keys, loaded_from, truth

# every batch writes a state: fewer examples in the suite, all of them in the soak
EXAMPLES = 10 if settings().max_examples <= 100 else settings().max_examples
SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=EXAMPLES)


class Elsewhere(Loops):
    """Every task of every stage runs in a worker of its own, which has nothing open."""

    def run(self, sources: Any, stages: Sequence[Any], tasks: int) -> Any:
        return super().run(sources, [_Empty(stage) for stage in stages], tasks)


@dataclass(frozen=True)
class _Empty:
    stage: Any

    def __call__(self, batches: Any) -> Any:
        POOL.empty()
        return self.stage(batches)


class InLoops(PartedRelation):
    """Stages run in plain loops, sources are tables."""

    def _frame_of(self, messages: Sequence[Message]) -> Any:
        return [pa.Table.from_batches(send(messages))]


@pytest.mark.parametrize("shape", ["vertical", "horizontal", "mixed"])
@SETTINGS
@given(data=st.data())
def test_violations_are_the_oracles(shape: str, data: st.DataObject) -> None:
    rules, sites = draw_rules(data), draw_sites(data, shape)
    rows = {i: data.draw(worlds.row(i)) for i in range(data.draw(st.integers(0, 6)))}
    # without a number of tasks one does all rounds of a small batch
    parts, tasks = data.draw(st.integers(1, 3)), data.draw(st.one_of(st.none(), st.integers(1, 4)))
    with tempfile.TemporaryDirectory() as folder:
        placed = [replace(site, state=f"{folder}/{site.name}") for site in loaded_from(sites, rows)]
        framed = [replace(site, source=[site.source.slice(0, 2), site.source.slice(2)]) for site in placed]
        schemas = {site.name: site.source.schema for site in placed}

        runner = data.draw(st.sampled_from([Loops, Elsewhere]))()

        def opened() -> InLoops:
            return InLoops(runner, framed, rules, "id", parts=parts, tasks=tasks, schema=schemas)

        relation = opened()
        assert keys(relation.check().added) == truth(rules, rows)
        before = keys(relation.load().added)
        assert before == truth(rules, rows) == keys(relation.violations())
        for number in range(data.draw(st.integers(1, 4))):
            match data.draw(st.sampled_from(["go on", "elsewhere", "again"])):
                case "elsewhere":
                    POOL.empty()  # another worker, which has nothing open
                case "again":
                    relation.close()
                    relation = opened()
                case _:
                    pass
            batch = data.draw(worlds.changes(set(rows)))
            delta = relation.apply(worlds.as_table(batch), str(number), op_column="_op", feed="ops")
            rows = worlds.applied(rows, batch)
            after = truth(rules, rows)
            assert keys(delta.added) == differences(after, before)
            assert keys(delta.removed) == differences(before, after)
            assert keys(relation.violations()) == after
            assert keys(relation.check().added) == after
            assert relation.apply(worlds.as_table(batch), str(number), op_column="_op", feed="ops").repeated
            before = after
        relation.close()
        if parts == 1:
            # what stages wrote is opened in one process
            with Relation(placed, rules, key="id") as plain:
                assert keys(plain.violations()) == before
