"""Laws of screens: rows that they let pass violate nothing, whatever came, went or was unknown before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdstrue import Monitor, load_rules
from holdstrue.index import blocks, order_screen, spine
from holdstrue.index.order_screen import OrderScreen
from holdstrue.kernels import order_screen as kernels
from holdstrue.kernels import sorting
from holdstrue.rules import RuleSet
from holdstrue.state import runs as state_runs
from laws.test_detection import assert_counts, found, nonempty
from translate import at_first, expected

COLUMNS = "abcd"
SCHEMA = pa.schema(dict.fromkeys(("id", "g", *COLUMNS), pa.int64()))


@pytest.fixture(params=[0, 3, 1 << 40], ids=["sorted at once", "sorted later", "never sorted"])
def asked(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Screens that pay at once, for a single rule too, and never rest; how many rows they let pass."""
    monkeypatch.setattr(order_screen, "LEAST_RULES", 1)
    monkeypatch.setattr(order_screen.ScreenPlan.of, "__defaults__", (1,))
    monkeypatch.setattr(order_screen, "PROBED", 1e9)
    monkeypatch.setattr(order_screen, "TRUSTED", -1.0)
    monkeypatch.setattr(spine, "SQUEEZED_FROM", 8)
    monkeypatch.setattr(blocks, "SORTED_AFTER", request.param)
    monkeypatch.setattr(blocks, "MOST_LATE", 20)
    passed = [0]
    suspects = OrderScreen.suspects

    def counted(screen: OrderScreen, first: int, new: Any, *others: Any) -> Any:
        answer = suspects(screen, first, new, *others)
        if answer is not None:
            passed[0] += sum(new.size - own.size for own in answer.values())
        return answer

    monkeypatch.setattr(OrderScreen, "suspects", counted)
    yield passed


def rules_of(rng: np.random.Generator) -> RuleSet:
    """Rules over pairs of columns that rise together or run against each other, some with more terms or conditions."""
    texts = []
    for _ in range(rng.integers(1, 8)):
        a, b, c = rng.permutation(list(COLUMNS))[:3]
        ops = [("<", ">"), ("<", "<"), (">", ">"), ("<=", ">"), ("<", ">=")][rng.choice(5, p=[0.5, 0.2, 0.1, 0.1, 0.1])]
        text = f"t.{a} {ops[0]} s.{a} and t.{b} {ops[1]} s.{b}"
        if rng.random() < 0.7:
            text = f"t.g = s.g and {text}"
        extra = ["", f" and t.{c} != s.{c}", f" and t.{c} < s.{c}", f" and t.{c} > 1", f" and t.{a} < s.{c}"]
        texts.append(f"not({text}{extra[rng.choice(5, p=[0.6, 0.1, 0.1, 0.1, 0.1])]})")
    return load_rules([f"r{i} := {text}" for i, text in enumerate(texts)])


def rows_of(rng: np.random.Generator, keys: Any, dirt: float) -> list[dict[str, Any]]:
    """Rows whose columns follow one hidden number: a, b and c rise with it, d falls; some are off or unknown."""
    rows = []
    for key in keys:
        hidden = int(rng.integers(0, 12))
        row: dict[str, Any] = {
            "id": int(key),
            "g": int(rng.integers(0, 2)),
            "a": hidden,
            "b": hidden // 2,
            "c": 3 * hidden,
            "d": -hidden,
        }
        for name in ("g", *COLUMNS):
            if rng.random() < dirt:
                row[name] = None if rng.random() < 0.5 else int(rng.integers(-5, 15))
        rows.append(row)
    return rows


@pytest.mark.parametrize("dirt", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("seed", range(12))
def test_under_changes(
    seed: int, dirt: float, asked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in states, which are opened again with or without a checkpoint while rows wait for the index."""
    rng = np.random.default_rng(seed)
    rules = rules_of(rng)
    kept = seed % 3 > 0
    monkeypatch.setattr(state_runs, "CHECKPOINT_FROM", 0 if seed % 3 == 1 else 1 << 30)
    monitor = Monitor.create(tmp_path / "state", rules, key="id") if kept else Monitor(rules, key="id")
    rows: dict[int, dict[str, Any]] = {}
    truth = at_first(rules)
    for turn in range(7):
        known = rng.permutation(list(rows))[: rng.integers(0, 5)] if rows else np.array([], dtype=int)
        gone, changed = known[:2].tolist(), known[2:].tolist()
        come = range(100 * turn, 100 * turn + int(rng.integers(1, 9)))
        if kept and turn in (2, 4, 5):
            monitor.close()
            monitor = Monitor.open(tmp_path / "state")
        batch = [{**rows[key], "op": "delete"} for key in gone]
        batch += [{**row, "op": "update"} for row in rows_of(rng, changed, dirt)]
        batch += [{**row, "op": "insert"} for row in rows_of(rng, come, dirt)]
        if turn % 3 == 2:
            for change in batch:
                monitor.apply(
                    pa.Table.from_pylist([change], SCHEMA.append(pa.field("op", pa.string()))),
                    op_column="op",
                    feed="ops",
                )
            delta = None
        else:
            changes = pa.Table.from_pylist(batch, SCHEMA.append(pa.field("op", pa.string())))
            delta = monitor.apply(changes, op_column="op", feed="ops", limit=None)
        for key in gone:
            del rows[key]
        rows |= {
            change["id"]: {k: v for k, v in change.items() if k != "op"} for change in batch if change["op"] != "delete"
        }
        after = expected(rules, list(rows.values()), list(rows))
        if delta is not None:
            assert found(delta.added) == nonempty({rule: after[rule] - truth[rule] for rule in after})
            assert found(delta.removed) == nonempty({rule: truth[rule] - after[rule] for rule in after})
            assert_counts(monitor.counts(), after)
        if turn == 5:
            assert found(monitor.violations()) == nonempty(after)
        truth = after
    monitor.close()


@pytest.mark.parametrize("seed", range(6))
def test_rows_of_one_pivot(seed: int, asked: list[int]) -> None:
    """The column that most rules compare has few values, among which the others are in order, or not."""
    texts = [f"not(t.{x} < s.{x} and t.{y} > s.{y})" for x, y in ("ab", "ac", "bc")]
    rules, rng = load_rules([f"r{i} := {text}" for i, text in enumerate(texts)]), np.random.default_rng(seed)
    monitor, rows = Monitor(rules, key="id"), []
    for start in range(0, 40, 4):
        for key in range(start, start + 4):
            hidden = int(rng.integers(0, 40))
            odd = int(rng.random() < 0.2)
            rows.append({"id": key, "g": 0, "a": hidden // 20, "b": hidden, "c": hidden + odd * 3, "d": None})
        monitor.apply(pa.Table.from_pylist(rows[start:], SCHEMA))
        assert_counts(monitor.counts(), expected(rules, rows, [row["id"] for row in rows]))


def test_clean_rows_pass(asked: list[int]) -> None:
    """Of rows in order every one is let through, and the rules' own indexes are not asked."""
    rules = load_rules(["not(t.g = s.g and t.a < s.a and t.b > s.b)", "not(t.g = s.g and t.a < s.a and t.d < s.d)",
                        "not(t.g = s.g and t.b < s.b and t.d < s.d)"])  # fmt: skip
    monitor = Monitor(rules, key="id")
    rng = np.random.default_rng(1)
    for start in range(0, 300, 30):
        monitor.apply(pa.Table.from_pylist(rows_of(rng, range(start, start + 30), 0.0), SCHEMA))
    assert asked[0] == 3 * 270
    [step] = [c for name, c in monitor.apply({"id": 999, "g": 0, "a": 5, "b": 0, "c": 0, "d": 0}).counts.items()][:1]
    assert step.added > 0


def test_a_large_table_is_taken_in_beside_the_work(asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then every row is searched for; the answers are those without a screen."""
    texts = ["not(t.g = s.g and t.a < s.a and t.b > s.b)", "not(t.g = s.g and t.a < s.a and t.c > s.c)"]
    monkeypatch.setattr(order_screen, "PROBED", 700.0)
    answers = []
    for least in (1, 99):
        monkeypatch.setattr(order_screen.ScreenPlan.of, "__defaults__", (least,))
        monkeypatch.setattr(order_screen, "BESIDE_FROM", 64)
        rng = np.random.default_rng(5)
        monitor = Monitor(texts, key="id")
        monitor.apply(pa.Table.from_pylist(rows_of(rng, range(200), 0.01), SCHEMA))
        monitor.apply(rows_of(rng, [200], 0.0)[0])  # the index takes all rows in
        told = []
        for turn in range(20):
            rows = rows_of(rng, range(300 + 10 * turn, 310 + 10 * turn), 0.02)
            told.append(monitor.apply(pa.Table.from_pylist(rows, SCHEMA)).counts)
        answers.append((told, monitor.counts()))
    assert answers[0] == answers[1]
    assert asked[0] > 0


TURNED = ["not(t.g = s.g and t.a < s.a and t.b > s.b)", "not(t.g = s.g and t.b < s.b and t.c > s.c)"]
"""Two rules that meet in column b, which becomes the pivot."""


def in_order(keys: range, *, known: bool = True) -> pa.Table:
    """Rows whose columns rise together, b perhaps unknown."""
    rows = [{"id": key, "g": 0, "a": key, "b": key if known else None, "c": key, "d": None} for key in keys]
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.mark.parametrize("first", ["none has a pivot", "all with a pivot go"])
def test_runs_without_rows(first: str, asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows that a run is sorted of beside the work none may be left, while rows without a pivot stay."""
    monkeypatch.setattr(OrderScreen, "_beside", lambda *_: 1)
    monkeypatch.setattr(spine, "BESIDE_FROM", 16)
    monitor = Monitor(TURNED, key="id")
    monitor.apply(in_order(range(100), known=False))
    if first == "all with a pivot go":
        for keys in (range(100, 200), range(200, 203)):
            monitor.apply(in_order(keys))
        for keys in (range(100, 160), range(160, 203)):
            ops = pa.array(["delete"] * len(keys))
            monitor.apply(pa.table({"id": list(keys), "op": ops}), op_column="op", feed="ops")
    for keys in (range(300, 310), range(310, 350)):
        assert not any(step.open for step in monitor.apply(in_order(keys)).counts.values())
    odd = [{"id": 999, "g": 0, "a": 305, "b": 330, "c": 320, "d": None}, {"id": 1000, "g": 1, "a": 0, "b": 0, "c": 0}]
    counts = [step.added for step in monitor.apply(pa.Table.from_pylist(odd, SCHEMA)).counts.values()]
    assert counts == [sum(305 < key < 330 for key in range(300, 350)), sum(320 < key < 330 for key in range(300, 350))]


def test_rows_forgotten_while_they_are_sorted(asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that sorts rows reads what was known of them also when the screen has let go of it meanwhile."""
    monkeypatch.setattr(OrderScreen, "_beside", lambda *_: 1000)
    go, done, covered = threading.Event(), threading.Event(), []
    argsort, frontiers = sorting.argsort, kernels.frontiers

    def waiting(*columns: Any) -> Any:
        if threading.current_thread().name == "holdstrue-merge":
            assert go.wait(30)
        return argsort(*columns)

    def looked_at(slots: Any, starts: Any, codes: Any, columns: Any, flips: Any, known: Any, *out: Any) -> None:
        covered.append(int(slots.max()) < known.size)
        frontiers(slots, starts, codes, columns, flips, known, *out)
        if threading.current_thread().name == "holdstrue-merge":
            done.set()

    monkeypatch.setattr(order_screen, "argsort", waiting)
    monkeypatch.setattr(kernels, "frontiers", looked_at)
    monitor = Monitor(TURNED, key="id")
    monitor.apply(in_order(range(100)))
    monitor.apply(in_order(range(100, 101)))  # a row alone: the index takes all rows in
    monitor.apply(in_order(range(101, 111)))
    ops = pa.array(["delete"] * 100)
    monitor.apply(pa.table({"id": list(range(100)), "op": ops}), op_column="op", feed="ops")  # starts over
    go.set()
    assert done.wait(30)
    assert covered and all(covered)
