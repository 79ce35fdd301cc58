"""Which way a batch takes, as `explain` tells it, and that every way leaves the same counts behind."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from holdstrue import Monitor, check
from holdstrue.detect import costs
from holdstrue.detect.costs import FEW

ROWS = 3_000
MOST_LISTED = 50_000
"""Violations that are named one by one, which takes most of the time here."""
RULES = {
    "key": "key(a, b)",
    "FD": "zip -> city",
    "order": "not(t.state = s.state and t.salary > s.salary and t.tax < s.tax)",
    "two columns": "not(t.salary > s.tax and t.tax < s.salary and t.state != s.state)",
}

FEWER_ROWS, MORE_ROWS = 120, 8_000
UNEQUAL = "t.c != s.c and t.d != s.d and t.e != s.e"


def table(rows: np.ndarray, seed: int) -> pa.Table:
    """Rows of which some break each rule, with NULLs."""
    rng = np.random.default_rng(seed)
    salary = rng.integers(0, 5_000, rows.size)
    unknown = rng.random(rows.size) < 0.01
    return pa.table({
        "id": rows, "a": rows % 50, "b": pa.array(rng.integers(0, 400, rows.size), mask=unknown),
        "zip": rng.integers(0, 300, rows.size), "city": pa.array(rng.integers(0, 2, rows.size), mask=unknown),
        "state": pa.array(rng.integers(0, 5, rows.size), mask=unknown), "salary": salary,
        "tax": pa.array(salary // 10 + (rng.random(rows.size) < 0.01) * 7, mask=unknown),
    })  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("share", [0.001, FEW / ROWS, (FEW + 1) / ROWS, 0.4, 0.5, 0.51, 0.9, 1.0])
@pytest.mark.parametrize("limit", [0, 1_000])
def test_batches_of_all_sizes_one_after_the_other(rule: str, share: float, limit: int) -> None:
    """Updates, then deletes, then inserts of the same rows; the index is read only when there is need."""
    base, own = table(np.arange(ROWS), 1), np.random.default_rng(2).permutation(ROWS)[: max(1, round(ROWS * share))]
    monitor = Monitor(RULES[rule], key="id", data=base)
    living = {row["id"]: row for row in base.to_pylist()}
    batches = [("update", table(own, 3)), ("delete", table(own, 3).select(["id"])), ("insert", table(own, 4))]
    for op, rows in [*batches, ("update", table(own, 5))]:
        marked = rows.append_column("_op", pa.array([op] * own.size))
        [step] = monitor.apply(marked, limit=limit, op_column="_op", feed="ops").counts.values()
        for row in rows.to_pylist():
            living.pop(row["id"], None) if op == "delete" else living.update({row["id"]: row})
        after = pa.Table.from_pylist(list(living.values()), schema=base.schema)
        [result] = check(after, RULES[rule], limit=0).results
        [counts] = monitor.counts().values()
        assert (counts.open, counts.rows, counts.groups) == (
            result.counts.open,
            result.counts.rows,
            result.counts.groups,
        )
        assert step.open == result.counts.open
    # rows that come alone find partners in an index that was started over
    row = {**base.slice(7, 1).to_pylist()[0], "id": ROWS}
    [step] = monitor.apply(row).counts.values()
    [result] = check(pa.concat_tables([after, pa.Table.from_pylist([row], base.schema)]), RULES[rule], limit=0).results
    assert step.open == result.counts.open
    if result.counts.open < MOST_LISTED:
        assert sum(1 for _ in monitor.violations(limit=None)) == result.counts.open


@pytest.mark.parametrize(
    ("rule", "share", "told"),
    [
        ("key", 0.1, "the last batch counted 300 rows out and 300 in"),
        ("key", 1.0, "the last batch started over with 0 rows that stay and 3,000 new ones"),
        ("FD", 0.6, "the last batch started over with 1,200 rows that stay and 1,800 new ones"),
        ("order", 0.02, "the last batch probed the index: probing for about"),
        ("order", 1.0, "the last batch started over: sweeping all 3,000 rows"),
    ],
)
def test_explain_tells_the_way_and_its_estimate(rule: str, share: float, told: str) -> None:
    base, own = table(np.arange(ROWS), 1), np.arange(round(ROWS * share))
    clean = {"tax": base["salary"]} if rule == "order" else {}
    for name, column in clean.items():
        base = base.set_column(base.schema.get_field_index(name), name, column)
    monitor = Monitor(RULES[rule], key="id", data=base)
    rows = base.slice(0, own.size).append_column("_op", pa.array(["update"] * own.size))
    monitor.apply(rows, limit=0, op_column="_op", feed="ops")
    text = str(monitor.explain())
    assert told in text
    assert " ms" in text


@pytest.mark.parametrize("op", ["update", "insert"])
@pytest.mark.parametrize("staying", [0, 10])
def test_a_batch_that_is_nearly_the_whole_table_is_asked_what_it_finds_among_itself(op: str, staying: int) -> None:
    """The rows that stay are too few to tell; probing for such a batch would look at millions of pairs."""
    rng = np.random.default_rng(6)
    base, after = (
        pa.table(
            {"id": np.arange(MORE_ROWS)} | {name: rng.permutation(MORE_ROWS) for name in ("a", "b", "c", "d", "e")}
        )
        for _ in range(2)
    )
    # of sixteen sweeps each costs more than probing for a row that finds nothing
    rule = "not(t.a > s.a and t.b < s.b)" if op == "update" else f"not(t.a > s.a and t.b < s.b and {UNEQUAL})"
    monitor = Monitor(rule, key="id", data=base if op == "update" else base.slice(0, max(1, staying)))
    changes = after.slice(max(1, staying) if op == "insert" else staying)
    monitor.apply(changes.append_column("_op", pa.array([op] * len(changes))), limit=0, op_column="_op", feed="ops")
    text = str(monitor.explain())
    assert "the last batch started over" in text
    assert "about 0 candidates" not in text
    [result] = check(pa.concat_tables([base.slice(0, MORE_ROWS - len(changes)), changes]), rule, limit=0).results
    [counts] = monitor.counts().values()
    assert (counts.open, counts.rows) == (result.counts.open, result.counts.rows)


def test_updates_of_all_rows_under_four_inequalities_are_swept() -> None:
    """Pairs that violate before and after satisfy eight terms, which does not take 130 ns for each of cuts ** 6."""
    rng = np.random.default_rng(7)
    base, after = (
        pa.table({"id": np.arange(MORE_ROWS)} | {name: rng.permutation(MORE_ROWS) for name in "abcd"}) for _ in range(2)
    )
    rule = "not(t.a > s.a and t.b < s.b and t.c > s.c and t.d < s.d)"
    monitor = Monitor(rule, key="id", data=base)
    changes = after.append_column("_op", pa.array(["update"] * MORE_ROWS))
    [step] = monitor.apply(changes, limit=0, op_column="_op", feed="ops").counts.values()
    assert "the last batch started over" in str(monitor.explain())
    assert step.open == check(after, rule, limit=0).total


@pytest.mark.parametrize("unequal", [1, 2, 3, 4])
@pytest.mark.parametrize("more", ["", "t.e = s.e and ", "t.e < s.e and ", "t.e < s.f and t.f > s.e and "])
def test_updates_under_terms_that_differ_are_swept(unequal: int, more: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs that violate before and after are counted by sweeps of both images; those that came and went follow."""
    monkeypatch.setattr(costs, "CANDIDATE", 1e9)

    def drawn(seed: int) -> pa.Table:
        rng = np.random.default_rng(seed)
        unknown = rng.random(FEWER_ROWS) < 0.05
        cells = {name: pa.array(rng.integers(0, 4, FEWER_ROWS), mask=unknown) for name in "abcdef"}
        return pa.table({"id": np.arange(FEWER_ROWS)} | cells)

    base = drawn(8)
    rule = f"not({more}{' and '.join(f't.{name} != s.{name}' for name in 'abcd'[:unequal])})"
    monitor = Monitor(rule, key="id", data=base)
    before = {(v.t, v.s) for v in monitor.violations(limit=None)}
    # a fifth stays; the columns of the others change, or some of them do
    changes = drawn(9).set_column(1, "a", base["a"]).slice(FEWER_ROWS // 5)
    marked = changes.append_column("_op", pa.array(["update"] * len(changes)))
    [step] = monitor.apply(marked, limit=0, op_column="_op", feed="ops").counts.values()
    assert "the last batch started over" in str(monitor.explain())
    found = check(pa.concat_tables([base.slice(0, FEWER_ROWS // 5), changes]), rule, key="id", limit=None)
    after = {(v.t, v.s) for v in found.violations()}
    assert (step.added, step.removed, step.open) == (len(after - before), len(before - after), len(after))


def test_explain_tells_what_drives_and_forgets_the_batch_before() -> None:
    """Of three inequalities two drive, by what holds of pairs; a row that comes alone has one way, as has a preview."""
    base, more = table(np.arange(ROWS), 1), table(np.arange(ROWS, ROWS + 200), 3)
    rules = {"three": "not(t.salary < s.salary and t.a < s.a and t.tax > s.tax)", "FD": RULES["FD"]}
    monitor = Monitor([{"name": name, "rule": rule} for name, rule in rules.items()], key="id", data=base)
    monitor.apply(more, limit=0)
    text = str(monitor.explain())
    assert "search two of t.salary < s.salary, t.a < s.a, t.tax > s.tax, those that the fewest pairs satisfy" in text
    assert "driven by t.salary < s.salary and t.tax > s.tax; of pairs drawn satisfy: " in text
    assert text.count("the last batch") == 2
    row = {**base.slice(3, 1).to_pylist()[0], "id": -1}
    assert monitor.preview(row).counts
    assert str(monitor.explain()) == text
    monitor.apply(row)
    assert "the last batch" not in str(monitor.explain())
