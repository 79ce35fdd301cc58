"""Faults on purpose: tasks that die, repeat or hang, drivers that are killed. Run as processes of their own.

`python -m spark.faulty SCENARIO ...` prints a line of JSON for every batch that came through.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

import holdstrue
from holdstrue.monitor.sharded import Sharded
from holdstrue.shards.homes import Homes, OneTask
from holdstrue.shards.lists import violation_of
from holdstrue.shards.routes import Routes
from holdstrue.shards.runner import Sizing
from holdstrue.shards.wire import Message
from holdstrue.spark.warm import warm
from holdstrue.state import files as state_files
from holdstrue.state import local, segment
from holdstrue.state.files import StateFiles
from holdstrue.state.journal import Journal, Written
from holdstrue.state.manifest import files_of
from holdstrue.state.object_url import is_object_url
from holdstrue.state.objects import ObjectStore
from holdstrue.state.store import RUNS
from laws.shards import Loops
from laws.worlds import applied
from spark.clusters import SOON
from translate import expected

Row = dict[str, Any]
Change = tuple[str, Row]

RULES = holdstrue.load_rules(
    [
        {"name": "fd", "rule": "zip -> city"},
        {"name": "pairs", "rule": "not(t.zip = s.zip and t.size < s.size and t.cost > s.cost)"},
        {"name": "anywhere", "rule": "not(t.size < s.size and t.cost > s.cost and t.code = 3)"},
        {"name": "across", "rule": "not(t.code = s.size and t.cost > s.cost)"},
        {"name": "row", "rule": "not(t.cost < 0)"},
    ]
)
SCHEMA = pa.schema(
    [
        ("op", pa.string()),
        ("id", pa.int64()),
        ("zip", pa.string()),
        ("city", pa.string()),
        ("size", pa.int64()),
        ("cost", pa.float64()),
        ("code", pa.int64()),
    ]
)
DDL = "op string, id long, zip string, city string, size long, cost double, code long"
CUT: dict[str, Any] = {"shards": 3, "blocks": 3, "tasks": 2}


# --- the same batches for everybody --------------------------------------------------------------


def batch(number: int) -> list[Change]:
    """Batch 0 fills the table, the others change it."""
    chosen = random.Random(number)
    present = sorted(table(number))
    new = [("insert", _image(chosen, 1000 * number + i)) for i in range(4 if number else 40)]
    if not number:
        return new
    changed = chosen.sample(present, 12)
    updates = [("update", _image(chosen, key)) for key in changed[:9]]
    return [*updates, *(("delete", _image(chosen, key)) for key in changed[9:]), *new]


def _image(chosen: random.Random, key: int) -> Row:
    size = chosen.randrange(30)
    cost = float(size if chosen.random() < 0.8 else chosen.randrange(-2, 30))
    zip_ = f"z{chosen.randrange(4)}"
    city = "Köln " + (zip_ if chosen.random() < 0.9 else "?")
    return {"id": key, "zip": zip_, "city": city, "size": size, "cost": cost, "code": chosen.randrange(9)}


def table(batches: int) -> dict[int, Row]:
    """The rows after so many batches."""
    rows: dict[int, Row] = {}
    for number in range(batches):
        rows = applied(rows, batch(number))
    return rows


def truth(batches: int) -> dict[str, set[tuple[Any, ...]]]:
    """The oracle's violations after so many batches."""
    rows = table(batches)
    return expected(RULES, list(rows.values()), list(rows))


def as_table(changes: Sequence[Change]) -> pa.Table:
    """A batch as Arrow rows."""
    return pa.Table.from_pylist([{"op": op} | image for op, image in changes], schema=SCHEMA)


def lost_files(path: str | os.PathLike[str]) -> list[str]:
    """Runs that no manifest names, those that hold nothing left out."""
    with StateFiles(path) as files:
        named = {RUNS + file.name for version in files.versions() for file in files_of(files.manifest(version))}
        there = files.store.list(RUNS)
    return sorted(one.name.removeprefix(RUNS) for one in there if one.size and one.name not in named)


def standing(path: str | os.PathLike[str]) -> list[list[Any]]:
    """The violations in a state, as one process reads it."""
    with holdstrue.Monitor.open(path, read_only=True) as one:
        return sorted([v.rule, v.t, v.s] for v in one.violations())


def wanted(batches: int) -> list[list[Any]]:
    """The same as the oracle has it."""
    return sorted([rule, *(*violation, None)[:2]] for rule, some in truth(batches).items() for violation in some)


# --- faulty stages -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Faulty:
    """A stage whose first attempt goes wrong; a file tells it from later ones."""

    stage: Any
    fault: str
    mark: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The messages of the stage, if it lives."""
        came = list(batches)
        if self.fault == "twice":
            # what a copy of this task would have done: written everything and handed it to nobody
            list(self.stage(iter(came)))
            self.first()
        elif self.fault == "torn":
            with (
                mock.patch.object(local, "sync", self._torn),
                mock.patch.object(ObjectStore, "create_from", self._unheard()),
            ):
                yield from list(self.stage(iter(came)))
            return
        found = list(self.stage(iter(came)))
        if self.fault == "dies" and found and self.first():
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "hangs" and found and self.first():
            Path(self.mark).write_text(str(os.getsid(0)))
            time.sleep(600)
        yield from found

    def first(self) -> bool:
        """Whether nobody was here before."""
        try:
            os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True

    def _torn(self, path: Path) -> None:
        """Half of a file was written when the power failed."""
        if path.is_file() and self.first():
            os.truncate(path, path.stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    def _unheard(self) -> Callable[[ObjectStore, str, Path], None]:
        """A file is in the store when the power fails, and nobody ever hears of it."""
        create_from = ObjectStore.create_from

        def torn(store: ObjectStore, name: str, path: Path) -> None:
            create_from(store, name, path)
            if self.first():
                os.kill(os.getpid(), signal.SIGKILL)

        return torn


def with_fault(monitor: Any, stage: type, fault: str, mark: Path) -> None:
    """Let the monitor's next batch have a fault in one of its stages."""
    from holdstrue.spark.runner import SparkRunner

    class Runner(SparkRunner):
        def run(self, sources: Any, stages: Any, tasks: int) -> Iterator[Message]:
            def faulty(one: Any) -> Any:
                return Faulty(one, fault, str(mark)) if isinstance(one, stage) else one

            return super().run([(frame, faulty(s)) for frame, s in sources], [faulty(s) for s in stages], tasks)

    monitor._runner = Runner(monitor.spark)


FAULTS = [(stage, fault) for stage in (Homes, Routes, OneTask) for fault in ("torn", "dies", "twice")]


def attempt(monitor: Any, marks: str, number: int, stage: type, fault: str) -> None:
    """Apply a batch that meets a fault, apply it again, and say what came of it."""
    mark = Path(marks) / str(number)
    with_fault(monitor, stage, fault, mark)
    before = set(lost_files(monitor.path))
    changes = monitor.spark.createDataFrame(as_table(batch(number)))
    try:
        delta, failed = monitor.apply(changes, f"b{number}", limit=None, one_task=stage is OneTask), None
    except Exception as error:  # noqa: BLE001  Spark may give a job up, and then nothing of the batch must be there
        _require(standing(monitor.path) == wanted(number), "violations after a batch that failed")
        delta, failed = monitor.apply(changes, f"b{number}", limit=None), str(error)
    again = monitor.apply(changes, f"b{number}", limit=None)
    say(
        {
            "fault": f"{fault} in {stage.__name__}",
            "met": mark.exists(),
            "failed": failed,
            "added": sum(step.added for step in delta.counts.values()),
            "removed": sum(step.removed for step in delta.counts.values()),
            "again": again.duplicate,
            "lost": sorted(set(lost_files(monitor.path)) - before),
            "standing": standing(monitor.path),
        }
    )


def tasks(path: str, marks: str) -> None:
    """Every fault in every stage, in turn, where Spark tries tasks again."""
    from holdstrue.spark import Monitor, start

    spark = start("local[2,4]", {"spark.log.level": "OFF", "spark.driver.extraJavaOptions": SOON})
    first = spark.createDataFrame(as_table(batch(0)))
    monitor = Monitor(spark, path, RULES, key="id", **CUT)
    monitor.apply(first, "b0")
    for number, (stage, fault) in enumerate(FAULTS, start=1):
        attempt(monitor, marks, number, stage, fault)


def cluster(path: str, marks: str, url: str, speculation: str) -> None:
    """A task that hangs after it has written everything: copied by Spark, or lost with its machine."""
    from holdstrue.spark import Monitor, start

    eager = {"spark.speculation": "true", "spark.speculation.quantile": "0.5", "spark.speculation.multiplier": "1.1"}
    conf = {"spark.sql.shuffle.partitions": "2", "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
    conf |= {"spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"], "spark.log.level": "OFF"}
    conf |= {"spark.driver.extraJavaOptions": SOON, "spark.executor.extraJavaOptions": SOON}
    spark = start(url, conf | (eager if speculation == "copied" else {}))
    monitor = Monitor(spark, path, RULES, key="id", **CUT)
    if not monitor.batches:
        monitor.apply(spark.createDataFrame(as_table(batch(0))), "b0")
    for stage in (Homes, Routes) if speculation == "copied" else (Routes,):
        attempt(monitor, marks, monitor.batches, stage, "hangs")


def apart(path: str, url: str, host: str, go: str) -> None:
    """A driver and workers that share nothing but the store; after three batches it waits for another worker."""
    from holdstrue.spark import Monitor, start

    conf = {"spark.sql.shuffle.partitions": "2", "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
    conf |= {"spark.driver.host": host, "spark.driver.bindAddress": host, "spark.log.level": "OFF"}
    conf |= {"spark.driver.extraJavaOptions": SOON, "spark.executor.extraJavaOptions": SOON}
    spark = start(url, conf)
    monitor = Monitor(spark, path, RULES, key="id", **CUT)
    for number in range(5):
        if number == 3:
            while not Path(go).exists() or _executors(spark) != 2:
                time.sleep(0.1)
        monitor.apply(spark.createDataFrame(as_table(batch(number))), f"b{number}", limit=None)
        found = [violation_of(row) for row in monitor.violations().toArrow().to_pylist()]
        told = sorted([v.rule, v.t, v.s] for v in found)
        counts = {rule: known.open for rule, known in monitor.counts().items()}
        say({"batch": number, "told": told, "counts": counts, "standing": standing(path)})
    spark.stop()


HASTY = {
    # what is lost is noticed within seconds, as it would be within minutes elsewhere
    "spark.network.timeout": "15s", "spark.network.timeoutInterval": "5s",
    "spark.executor.heartbeatInterval": "2s", "spark.rpc.askTimeout": "15s",
    "spark.shuffle.io.maxRetries": "1", "spark.shuffle.io.retryWait": "1s", "spark.rpc.numRetries": "1",
    "spark.task.maxFailures": "12", "spark.stage.maxConsecutiveAttempts": "12",
    "spark.excludeOnFailure.enabled": "false",
    "spark.speculation": "true", "spark.speculation.quantile": "0.5", "spark.speculation.multiplier": "1.5",
    "spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1", "spark.dynamicAllocation.maxExecutors": "3",
    "spark.dynamicAllocation.executorIdleTimeout": "4s",
}  # fmt: skip


def harmed(path: str, url: str, host: str, batches: str) -> None:
    """Batches, each told before and after, among hosts that others do harm to; one that fails is applied again."""
    from holdstrue.spark import Monitor, start

    conf = {"spark.sql.shuffle.partitions": "2", "spark.driver.host": host, "spark.driver.bindAddress": host}
    conf |= {"spark.log.level": "OFF", "spark.driver.extraJavaOptions": SOON, "spark.executor.extraJavaOptions": SOON}
    spark = start(url, conf | HASTY)
    monitor = Monitor(spark, path, RULES, key="id", **CUT)
    for number in range(int(batches)):
        say({"starts": number})
        tries, duplicate = 0, None
        while duplicate is None:
            tries += 1
            try:
                made = monitor.apply(spark.createDataFrame(as_table(batch(number))), f"b{number}", limit=None)
                duplicate = made.duplicate
            except Exception as error:  # what a job that lost its hosts raises is Spark's
                if tries == 6:
                    raise
                say({"failed": number, "by": str(error)[:300]})
                time.sleep(2)
        say({"batch": number, "duplicate": duplicate, "tries": tries})
    say({"standing": standing(path)})
    spark.stop()


def _executors(spark: Any) -> int:
    """How many there are beside the driver."""
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


# --- drivers that are killed ---------------------------------------------------------------------


def stream(path: str, source: str, kept: str, called: str, when: str, batches: str) -> None:
    """A stream whose driver is killed just before, or just after, it commits batch number `batches`, or by others."""
    from holdstrue.spark import Monitor, start
    from holdstrue.spark.sinks import AppliedBatch

    def hear(done: AppliedBatch) -> None:
        with Path(called).open("a") as lines:
            lines.write(done.delta.batch + "\n")

    commit = Journal.commit

    def killed(journal: Journal, written: Written) -> None:
        last = written.facts["batches"] == int(batches) + 1 and when != "by others"
        if last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        commit(journal, written)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)

    monitor = Monitor(start("local[2]", {"spark.driver.extraJavaOptions": SOON}), path, RULES, key="id", **CUT)
    with mock.patch.object(Journal, "commit", killed):
        files = monitor.spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).json(source)
        monitor.stream(files, [hear], checkpoint=kept, trigger={"availableNow": True}).awaitTermination()


def everywhere(place: str) -> None:
    """Kill a batch at each moment, without Spark: one process does all tasks.

    Moments are those at which a file has just been written, and after each request that changes a store: what is
    there does not differ before and after the others.
    """
    # kernels are loaded once, before the forks, as in Spark's daemon
    warm()
    _child(partial(_applied, f"{place}/base", 0))
    moment = 0
    while True:
        path = f"{place}/state{moment}"
        _child(partial(_copied, f"{place}/base", path))
        ended = _child(partial(_applied, path, 1, moment))
        if _child(partial(_mended, path)):
            raise AssertionError(f"not as it should be after moment {moment}")
        say({"moment": moment, "killed": ended == -signal.SIGKILL})
        if not ended:
            return
        if ended != -signal.SIGKILL:
            raise AssertionError(f"ended with {ended} at moment {moment}")
        moment += 1


def _copied(base: str, path: str) -> None:
    if not is_object_url(base):
        shutil.copytree(base, path)
        return
    source, target = ObjectStore(base), ObjectStore(path)
    for listed in source.list():
        target.create(listed.name, source.read(listed.name))


def _applied(path: str, number: int, kill_at: int = -1) -> None:
    sync, requests, times = segment.sync, ObjectStore._requests, iter(range(1 << 30))

    def moment() -> None:
        if next(times) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(place: Path) -> None:
        moment()
        sync(place)

    @contextmanager
    def between(store: ObjectStore, purpose: str, *asked: Any) -> Iterator[Any]:
        with requests(store, purpose, *asked) as found:  # type: ignore[arg-type]
            yield found
        if purpose != "read":
            moment()

    with (
        mock.patch.object(local, "sync", counted),
        mock.patch.object(segment, "sync", counted),
        mock.patch.object(ObjectStore, "_requests", between),
    ):
        sharded = Sharded(Loops(), path, RULES, key="id", sizing=Sizing(**CUT))
        sharded.apply([as_table(batch(number))], f"b{number}", limit=None)


def _mended(path: str) -> None:
    """The batch is in or not; then it comes again, and nothing of what was lost is left."""
    batches = StateFiles(path).manifest()["batches"]
    _require(standing(path) == wanted(batches), f"violations of {batches} batches")
    _applied(path, 1)
    _require(standing(path) == wanted(2), "violations after the batch came again")
    _require(StateFiles(path).manifest()["batches"] == 2, "batches")
    with mock.patch.object(state_files, "GRACE", 0.0), Journal.open(path, "monitor") as journal:
        journal.vacuum()
    _require(not lost_files(path), f"left over: {lost_files(path)}")
    _applied(path, 2)
    _require(standing(path) == wanted(3), "violations after the next batch")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)


def _child(work: Callable[[], None]) -> int:
    """Do some work in a forked process; its exit code, negative for a signal."""
    pid = os.fork()
    if not pid:
        try:
            work()
        except BaseException:  # noqa: BLE001  the parent must not go on twice
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def say(line: dict[str, Any]) -> None:
    """Tell the test."""
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    # workers look the stages up where they can find them
    from spark import faulty

    getattr(faulty, sys.argv[1])(*sys.argv[2:])
