"""States in an object store on Spark: how often it is asked, what goes to tasks, and what is there anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

import holdstrue
from fault_proxy import Answer, Drop, Fault, FaultProxy, Repeat
from holdstrue.detect.delta import Delta
from holdstrue.errors import StateError
from holdstrue.spark import Monitor, discover, runner
from holdstrue.state.files import StateFiles
from holdstrue.state.objects import ObjectStore
from laws.test_detection import found, nonempty
from spark.conftest import MODE
from spark.frames import assert_step, frame, listed
from spark.test_cli import HEAD, SPARK, unordered
from translate import expected
from unit.cli.runs import run, run_json, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = holdstrue.load_rules(
    [
        {"name": "fd", "rule": "zip -> city"},
        {"name": "pairs", "rule": "not(t.zip = s.zip and t.size < s.size and t.cost > s.cost)"},
    ]
)
CUT: dict[str, Any] = {"shards": 3, "tasks": 2}
Row = dict[str, Any]


def row(key: int, **changed: Any) -> Row:
    return {"id": key, "zip": f"z{key % 5}", "city": f"c{key % 5}", "size": key, "cost": float(key)} | changed


class Table:
    """Rows, their changes, and the oracle's violations."""

    def __init__(self, count: int, **changed: Any) -> None:
        self.rows = {key: row(key, **changed) for key in range(count)}

    def frame(self, spark: SparkSession) -> Any:
        return frame(spark, pa.Table.from_pylist(list(self.rows.values())))

    def truth(self) -> dict[str, set[tuple[Any, ...]]]:
        return expected(RULES, list(self.rows.values()), list(self.rows))

    def step(self, monitor: Monitor, number: int, **how: Any) -> Delta:
        """Apply a batch of a few rows to a monitor, and hold what it says to the oracle's answer."""
        before = self.truth()
        # a row leaves its place, one stays where it is, and one is new
        changed = [row(number, zip="z9"), row(number + 1, city=f"Ulm {number}"), row(1000 + number, cost=-1.0)]
        ops = ["insert" if image["id"] not in self.rows else "update" for image in changed]
        self.rows |= {image["id"]: image for image in changed}
        rows = pa.Table.from_pylist([{"op": op} | image for op, image in zip(ops, changed)])
        delta = monitor.apply(frame(monitor.spark, rows), f"b{number}", limit=None, **how)
        assert_step(delta, before, self.truth())
        return delta


# --- requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("one_task", [False, True])
def test_a_small_batch_takes_few_requests(
    spark: SparkSession, bucket: str, to_stores: FaultProxy, *, one_task: bool
) -> None:
    table = Table(60)
    monitor = Monitor(spark, bucket, RULES, key="id", data=table.frame(spark), **CUT)
    for number in range(3):
        table.step(monitor, number, one_task=one_task)
    connections = 0
    for number in range(3, 8):
        to_stores.plan()
        table.step(monitor, number, one_task=one_task)
        asked = [str(request) for request in to_stores.requests]
        lists, entries = (sum(word in one for one in asked) for word in ("list-type", "GET /" + bucket[5:] + "/log/"))
        written = [one for one in asked if one.startswith("PUT")]
        stages = 3 if one_task else 4
        assert lists == 1, "the driver looks which version is the newest; tasks are told"
        assert entries <= 1 + stages, "the driver, and each task of each stage at most"
        assert len(written) <= 1 + stages, "a file a task and stage, and the entry"
        assert "log/" in written[-1]
        # the driver reads the lists of violations
        assert len(asked) <= 3 + 3 * stages, asked
        connections += to_stores.connections
    # a process that connected for each task anew would take thirty
    assert connections <= 6


def test_opening_and_reading_take_few_requests(spark: SparkSession, bucket: str, to_stores: FaultProxy) -> None:
    table = Table(60)
    monitor = Monitor(spark, bucket, RULES, key="id", data=table.frame(spark), **CUT)
    monitor.counts()
    to_stores.plan()
    again = Monitor(spark, bucket)
    assert [request.path.partition("list-type")[1] for request in to_stores.requests] == ["list-type"]
    to_stores.plan()
    assert again.counts() == monitor.counts()
    assert found(listed(again.violations())) == nonempty(table.truth())
    assert not [request for request in to_stores.requests if "/runs/" in request.path], "they are in the cache"


# --- faults on the way ---------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Drop(), Repeat(), Answer(500, done=True)], ids=["lost", "twice", "denied"])
def test_lost_and_repeated_answers_do_not_show(
    spark: SparkSession, bucket: str, to_stores: FaultProxy, fault: Fault
) -> None:
    """Of the first and the third file that tasks write, of the entry, and of what is read."""
    table = Table(60)
    monitor = Monitor(spark, bucket, RULES, key="id", data=table.frame(spark), **CUT)
    for number, which in enumerate(("PUT .*/runs/", "PUT .*/log/", "GET ")):
        to_stores.plan({1: fault, 3: fault}, counting=which)
        table.step(monitor, number)
        assert [request.fault for request in to_stores.requests if request.fault], "nothing went wrong"
    to_stores.plan()
    assert monitor.batches == 4
    assert found(listed(monitor.violations())) == nonempty(table.truth())
    assert [line.batch for line in monitor.history()][:: len(RULES)] == ["#1", "b0", "b1", "b2"]


def test_a_store_that_fails_fails_the_batch(spark: SparkSession, bucket: str, to_stores: FaultProxy) -> None:
    table = Table(30)
    monitor = Monitor(spark, bucket, RULES, key="id", data=table.frame(spark), **CUT)
    to_stores.plan({number: Answer(403) for number in range(1, 100)}, counting="PUT .*/runs/")
    with pytest.raises(StateError, match=r"cannot create runs/joint-.* access is denied"):
        monitor.apply(table.frame(spark), on_conflict="upsert")
    to_stores.plan()
    assert monitor.batches == 1
    table.step(monitor, 0)


# --- secrets -------------------------------------------------------------------------------------


def test_only_the_url_goes_to_tasks(spark: SparkSession, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of the driver are not in what is sent to tasks, nor in anything that the state holds."""
    planted = "PLANTED-KEY-0123456789", "planted/secret/9876543210", "planted-token-55555"
    for name, value in zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"), planted):
        monkeypatch.setenv(name, value)
    sent: list[bytes] = []
    plain = runner.sendable

    def kept(stage: Any) -> Any:
        made = plain(stage)
        sent.append(cloudpickle.dumps(made))
        return made

    monkeypatch.setattr(runner, "sendable", kept)
    table = Table(20)
    monitor = Monitor(spark, bucket, RULES, key="id", data=table.frame(spark), **CUT)
    table.step(monitor, 0)
    monitor.rebalance(shards=2)
    assert len(sent) >= 6 and all(bucket.encode() in one for one in sent)
    store = ObjectStore(bucket)
    held = [store.read(one.name) for one in store.list()]
    assert len(held) > 8
    for secret in planted:
        assert not any(secret.encode() in data for data in (*sent, *held)), secret


# --- another state at the same place -------------------------------------------------------------


def test_a_state_made_anew_at_its_url(spark: SparkSession, bucket: str) -> None:
    """Workers hold shards of the first one open, and caches its files; none of it is taken for the second one's."""
    first, second = Table(40), Table(40, city="Ulm")
    monitor = Monitor(spark, bucket, RULES, key="id", data=first.frame(spark), **CUT)
    first.step(monitor, 0)
    with StateFiles(bucket) as files:
        numbers = files.manifest()["shards"].keys()
        files.erase()
    with pytest.raises(StateError, match="holds no version"):
        Monitor(spark, bucket)
    again = Monitor(spark, bucket, RULES, key="id", data=second.frame(spark), **CUT)
    assert len(StateFiles(bucket).manifest()["shards"].keys() & numbers) >= 3, "shards of the same numbers"
    assert found(listed(again.violations())) == nonempty(second.truth())
    second.step(again, 1)
    assert again.batches == 2
    assert found(listed(again.violations())) == nonempty(second.truth())


# --- discovery and the command line --------------------------------------------------------------


def test_a_discovery_is_kept_at_a_url(spark: SparkSession, bucket: str) -> None:
    table = pa.table({"id": [1, 2, 3, 4], "a": [1, 1, 2, 2], "b": [5, 5, 6, 6], "c": [1, 2, 3, 4]})
    found_here = discover(frame(spark, table, 2), ("fd", "key"), key="id", state=bucket)
    rules = [str(rule.body) for rule in found_here.rules]
    found_here.close()
    with holdstrue.Discovery.open(bucket) as kept:
        assert [str(rule.body) for rule in kept.rules] == rules != []


@pytest.mark.skipif(MODE != "local", reason="the commands make a session of their own")
@pytest.mark.usefixtures("session_of_commands")
def test_commands_take_urls(bucket: str, tmp_path: Path, people: Path, rules: Path) -> None:
    made = run_json("init", bucket, "--rules", rules, "--data", people, *SPARK)
    one = run_json("init", tmp_path / "state", "--rules", rules, "--data", people)
    assert {"path": bucket, "version": 1} | {n: one[n] for n in one if n not in ("path", "version")} == made
    assert run("init", bucket, "--rules", rules, "--data", people, *SPARK).exit_code == 2
    changes = write(tmp_path / "changes.csv", HEAD + "insert,7,60601,Chikago,IL,1,1\ndelete,2,,,,,\n")
    said = [
        run_json("apply", state, changes, "--batch-id", "monday", *how, code=1)
        for state, how in ((bucket, SPARK), (tmp_path / "state", ()))
    ]
    assert unordered(said[0]) == unordered(said[1])
    # a process without Spark reads it, too
    listed_ = [run_json("violations", state) for state in (bucket, tmp_path / "state")]
    assert unordered(listed_[0]) == unordered(listed_[1])
    folder = tmp_path / "coming"
    folder.mkdir()
    write(folder / "more.csv", HEAD + "insert,8,60601,Chicago,IL,1,1\n")
    refused = run("watch", bucket, folder, "--once", *SPARK)
    assert refused.exit_code == 2 and "--checkpoint" in refused.stderr
    for batches in (1, 0):
        watched = run("watch", bucket, folder, "--once", "--checkpoint", tmp_path / "kept", "--format", "jsonl", *SPARK)
        assert watched.exit_code == 0, watched.output
        assert [json.loads(line)["files"] for line in watched.stdout.splitlines()] == [["more.csv"]] * batches
    assert run_json("status", bucket)["batches"] == 3
