"""Laws of threads: one monitor may be used by several, and each answer is that of one version.

HOLDSTRUE_THREAD_STEPS sets how many batches a writer applies.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest

import holdstrue
from holdstrue import HoldstrueError, Monitor, Report
from holdstrue.monitor import views
from holdstrue.monitor.sharded import Sharded
from holdstrue.shards.runner import Sizing
from laws import crowd
from laws.shards import Loops
from laws.test_shards import listed

STEPS = int(os.environ.get("HOLDSTRUE_THREAD_STEPS", "4"))
KINDS = ["memory", "state", "sharded"]
MOST_SECONDS = 600

T = TypeVar("T")


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists are made a few violations at a time, so that batches come in between."""
    monkeypatch.setattr(views, "NAMED_AT_ONCE", 16)


def monitor_of(kind: str, folder: Path) -> Monitor:
    first = crowd.table(crowd.FIRST)
    match kind:
        case "memory":
            return Monitor(crowd.RULES, key="id", data=first)
        case "state":
            return Monitor.create(folder / "state", crowd.RULES, key="id", data=first)
    made = Sharded(Loops(2), folder / "state", crowd.RULES, key="id", sizing=Sizing(shards=2, blocks=1))
    made.apply([first], limit=0)
    return made


def apply(monitor: Monitor, name: str) -> Any:
    rows = crowd.table(crowd.changes(name))
    return monitor.apply([rows] if isinstance(monitor, Sharded) else rows, name)


def violations(monitor: Monitor) -> Any:
    return listed(monitor) if isinstance(monitor, Sharded) else monitor.violations()


def together(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """Run all at once, a thread each, and raise what any of them raises."""
    start = threading.Barrier(len(jobs))

    def run(job: Callable[[], T]) -> T:
        start.wait()
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result(MOST_SECONDS) for future in [pool.submit(run, job) for job in jobs]]


def batches_of(monitor: Monitor) -> list[str]:
    """The ids of the batches in the order in which they were applied, without the first rows."""
    return list(dict.fromkeys(line.batch for line in monitor.history()))[1:]


@pytest.mark.parametrize(("writers", "readers"), [(1, 1), (2, 0), (4, 4)])
@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_is_of_one_version(tmp_path: Path, kind: str, writers: int, readers: int) -> None:
    monitor = monitor_of(kind, tmp_path)
    whole = kind != "sharded"
    reads = {what: read for what, read in crowd.READS.items() if whole or what in ("counts", "history", "rows")}
    if whole:
        reads["violations"] = lambda monitor: crowd.named(_slowly(monitor.violations()))
        reads["report"] = _late_report
    working = threading.Semaphore(0)

    def write(writer: int) -> list[tuple[str, Any]]:
        try:
            deltas = [(name, apply(monitor, name)) for name in crowd.names(writer, STEPS)]
        finally:
            working.release()
        return deltas

    def read(number: int) -> list[tuple[str, Any]]:
        seen = []
        for what in itertools.islice(itertools.cycle(reads), number, None):
            seen.append((what, reads[what](monitor)))
            if working._value == writers and len(seen) >= len(reads):
                return seen
        raise AssertionError("a cycle does not end")

    said = together([*(partial(write, n) for n in range(writers)), *(partial(read, n) for n in range(readers))])
    order = batches_of(monitor)
    assert sorted(order) == sorted(name for writer in range(writers) for name in crowd.names(writer, STEPS))
    known = list(crowd.versions(order))
    for seen in said[writers:]:
        crowd.assert_in_order(seen, known)
    for name, delta in itertools.chain.from_iterable(said[:writers]):
        after = known[1 + order.index(name)]["counts"]
        assert {rule: step.open for rule, step in delta.counts.items()} == {r: c.open for r, c in after.items()}
    crowd.assert_last(monitor.counts(), violations(monitor), order)
    monitor.close()
    if kind != "memory":
        with Monitor.open(tmp_path / "state", read_only=True) as again:
            crowd.assert_last(again.counts(), again.violations(), order)


def _slowly(items: Iterator[T]) -> Iterator[T]:
    for number, item in enumerate(items):
        if number % 16 == 0:
            time.sleep(0.001)
        yield item


def _late_report(monitor: Monitor) -> Any:
    report = monitor.report(limit=30)
    time.sleep(0.002)
    return report.to_dict()


@pytest.mark.parametrize("threads", [2, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_many_threads_is_applied_once(tmp_path: Path, kind: str, threads: int) -> None:
    monitor = monitor_of(kind, tmp_path)
    order = crowd.names(0, 3)
    for name in order:
        deltas = together([partial(apply, monitor, name)] * threads)
        assert sorted(delta.duplicate for delta in deltas) == [False] + [True] * (threads - 1)
    assert batches_of(monitor) == order
    crowd.assert_last(monitor.counts(), violations(monitor), order)
    monitor.close()


class Waiting(dict[str, Any]):
    """Changes that a monitor begins to read and cannot read on before it is allowed to."""

    def __init__(self, name: str) -> None:
        super().__init__(data=crowd.table(crowd.changes(name)))
        self.begun, self.allowed = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[str]:
        self.begun.set()
        assert self.allowed.wait(MOST_SECONDS)
        return super().__iter__()


def test_closing_waits_for_a_batch(tmp_path: Path) -> None:
    monitor = monitor_of("state", tmp_path)
    slow = Waiting("0-0")
    with ThreadPoolExecutor(3) as pool:
        applying = pool.submit(monitor.apply, slow, "0-0")
        assert slow.begun.wait(MOST_SECONDS)
        closing, reading = pool.submit(monitor.close), pool.submit(monitor.counts)
        time.sleep(0.1)
        early = closing.done() or reading.done()
        slow.allowed.set()
        assert not early
        assert not applying.result(MOST_SECONDS).duplicate
        closing.result(MOST_SECONDS)
        assert reading.result(MOST_SECONDS) == monitor.counts()
    with pytest.raises(HoldstrueError, match="closed"):
        apply(monitor, "0-1")
    crowd.assert_last(monitor.counts(), monitor.violations(), ["0-0"])
    with Monitor.open(tmp_path / "state") as again:
        crowd.assert_last(again.counts(), again.violations(), ["0-0"])


def test_monitors_of_one_state_in_shards_wait_for_each_other(tmp_path: Path) -> None:
    """Not only the threads of one monitor: a stream has one of its own. Even making the state is done once."""

    def work(writer: int) -> None:
        own = Sharded(Loops(2), tmp_path / "state", crowd.RULES, key="id", sizing=Sizing(shards=2, blocks=1))
        own.apply([crowd.table(crowd.FIRST)], "first", limit=0)
        for name in crowd.names(writer, 2):
            apply(own, name)

    together([partial(work, n) for n in range(4)])
    monitor = Sharded(Loops(2), tmp_path / "state")
    crowd.assert_last(monitor.counts(), listed(monitor), batches_of(monitor))
    assert len(batches_of(monitor)) == 8


def test_one_report_is_read_by_many_threads() -> None:
    """Of a check too, where nobody changes anything: what is made when it is first read is made once."""
    rows = crowd.table([crowd.row(key) for key in range(200)])

    def read(report: Report) -> Any:
        return crowd.named(report), sorted(report.groups("zip -> city"), key=str)

    wanted = read(holdstrue.check(rows, crowd.RULES, key="id", limit=None))
    for _ in range(STEPS):
        report = holdstrue.check(rows, crowd.RULES, key="id", limit=None)
        assert together([partial(read, report)] * 8) == [wanted] * 8


def test_a_discovery_is_used_by_many_threads() -> None:
    first = pa.table({"id": range(40), "a": [i % 5 for i in range(40)], "b": [i % 5 // 2 for i in range(40)]})
    more = pa.table({"id": [1000, 1001, 1002], "a": [1, 1, 1], "b": [7, 8, 9]})
    found = holdstrue.discover(first, key="id", kinds=("fd", "key"))
    before, after = texts(found), texts(holdstrue.discover(pa.concat_tables([first, more]), kinds=("fd", "key")))
    assert before != after

    def write(writer: int) -> None:
        own = pa.array([1000 * (writer + 1) + at for at in range(3)])
        for _ in range(STEPS):
            found.apply(more.set_column(0, "id", own))
            found.apply(pa.table({"id": own, "op": ["delete"] * 3}))

    def read() -> None:
        for _ in range(5 * STEPS):
            # the rows of all writers say the same
            assert texts(found) in (before, after)
            found.near_misses(3)

    jobs: list[Callable[[], None]] = [partial(write, n) for n in range(4)]
    together([*jobs, *[read] * 4])
    assert texts(found) == before and found.counts() == {"data": 40}


def texts(found: holdstrue.Discovery) -> list[str]:
    return sorted(rule.text for rule in found if "id" not in rule.text)
