"""Laws of rules that take a batch together: the oracle's violations, and the same counters as one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue import Monitor, load_rules
from holdstrue.detect import many_rules
from holdstrue.detect.engine import Engine
from holdstrue.detect.many_rules import GroupProgram
from holdstrue.kernels import jit
from laws import worlds
from laws.test_detection import assert_counts, found, nonempty
from translate import at_first, expected

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=40)
RULES = [
    "key(a, c)", "a -> b", "a -> c", "c -> e", "a, f -> d", "a -> b, c",
    "[a = 1, f] -> c", "[f = true, c] -> [a = 2]", "not(t.a = s.i and t.b > s.b)", "not(t.a = s.a and t.d < s.d)",
]  # fmt: skip


@pytest.fixture(autouse=True)
def together(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Batches of any size go this way, and before each the arrays lie where the kernels are told."""
    group = GroupProgram.group

    def checked(program: GroupProgram, *batch: Any) -> None:
        program.check()
        group(program, *batch)

    monkeypatch.setattr(jit.BUDGET, "left", 0)
    monkeypatch.setattr(GroupProgram, "group", checked)
    yield


@SETTINGS
@given(data=st.data())
def test_under_changes(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.sampled_from(RULES), min_size=1, max_size=6, unique=True))
    rules = load_rules([f"r{i} := {text}" for i, text in enumerate(texts)])
    monitor = Monitor(rules, key="id")
    rows: dict[int, worlds.Row] = {}
    truth = at_first(rules)
    for _ in range(data.draw(st.integers(2, 5))):
        batch = data.draw(worlds.changes(set(rows)))
        delta = monitor.apply(worlds.as_table(batch), limit=None, op_column="_op", feed="ops")
        rows = worlds.applied(rows, batch)
        after = expected(rules, list(rows.values()), list(rows))
        assert found(delta.added) == nonempty({rule: after[rule] - truth[rule] for rule in after})
        assert found(delta.removed) == nonempty({rule: truth[rule] - after[rule] for rule in after})
        assert found(monitor.violations()) == nonempty(after)
        assert_counts(monitor.counts(), after)
        truth = after


def _rows(rng: np.random.Generator, keys: Any) -> pa.Table:
    size = len(keys)
    a = rng.integers(0, 400, size)
    unknown = rng.random(size) < 0.05
    text = pa.array([f"v{n % 17}" for n in a.tolist()], mask=rng.random(size) < 0.05)
    return pa.table({
        "id": keys, "a": pa.array(a, mask=unknown), "b": a % 7 + (rng.random(size) < 0.01), "c": text,
        "d": rng.integers(0, 3, size),
    })  # fmt: skip


@pytest.mark.parametrize("part", [100, 1 << 15])
@pytest.mark.parametrize("nulls", ["unknown", "equal"])
def test_as_one_by_one(nulls: Any, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of several parts, with NULLs, of inserts, updates and deletes; single rows between them."""
    monkeypatch.setattr(many_rules, "FIRST_PART", part)
    texts = ("key(a, d)", "a -> b", "a -> c", "a, d -> b", "c -> d", "b -> a, c")
    rules = replace(load_rules(list(texts)), nulls=nulls)
    answers = []
    for alone in (False, True):
        if alone:
            monkeypatch.setattr(Engine, "_together", lambda *_: None)
        rng = np.random.default_rng(7)
        monitor = Monitor(rules, key="id", data=_rows(rng, np.arange(700)))
        told: list[Any] = []
        for turn in range(6):
            old, new = rng.permutation(700)[:600], np.arange(700 + 900 * turn, 1600 + 900 * turn)
            batch = _rows(rng, np.concatenate((old, new)))
            ops = ["upsert"] * 600 + ["insert"] * 900
            if turn % 2:
                ops[:300] = ["delete"] * 300
            delta = monitor.apply(batch.append_column("op", pa.array(ops)), feed="ops", op_column="op", limit=50)
            told += [delta.counts, len(delta.added), len(delta.removed)]
            told.append(monitor.apply(_rows(rng, [100_000 + turn]).to_pylist()[0]).counts)
            if turn % 2:
                monitor.apply(_rows(rng, old[:300]), limit=0)
        answers.append((told, monitor.counts()))
    assert answers[0] == answers[1]
    assert any(step.added and step.removed for counts in answers[0][0][::4] for step in counts.values())
