"""`watch` in one process: folders, versions, snapshots and polled columns, each taken once and gone on with."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from database import Postgres
from fault_proxy import FaultProxy
from objects import Moto
from unit.cli.runs import PEOPLE, run, run_json, write

HEAD = "op,id,zip,city,state,salary,rate\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where change files arrive."""
    place = tmp_path / "in coming"
    place.mkdir()
    return place


def put(folder: Path, name: str, *lines: str, age: int = 10) -> Path:
    """A change file, so many seconds older than now."""
    file = write(folder / ".being-written", HEAD + "".join(f"{line}\n" for line in lines))
    stamp = int(time.time()) - age
    os.utime(file, (stamp, stamp))
    return file.rename(folder / name)


def watched(*args: object) -> list[dict[str, Any]]:
    """What `watch --once` says, as JSON."""
    result = run("watch", *args, "--once", "--format", "jsonl")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def refused(*args: object) -> str:
    """What a command that is refused says."""
    result = run("watch", *args, "--once")
    assert result.exit_code == 2, result.output
    return result.stderr


def test_files_are_taken_once_oldest_first(state: Path, folder: Path) -> None:
    put(folder, "b.csv", "insert,20,60601,Chicago,IL,1,1", age=100)
    put(folder, "a.csv", "update,20,60601,Ulm,IL,1,1", age=50)
    for name in (".hidden.csv", "_half.csv", "c.csv.tmp", "notes.md"):
        write(folder / name, "not to be read")
    assert [line["files"] for line in watched(state, folder)] == [["b.csv"], ["a.csv"]]
    assert watched(state, folder) == []
    put(folder, "a.csv", "update,20,60601,Chicago,IL,1,1")
    assert [line["files"] for line in watched(state, folder)] == [["a.csv"]]
    assert run_json("status", state)["batches"] == 4


def test_a_copied_folder_is_known(state: Path, folder: Path, tmp_path: Path) -> None:
    put(folder, "b.csv", "insert,20,60601,Chicago,IL,1,1")
    assert len(watched(state, folder)) == 1
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "b.csv").write_bytes((folder / "b.csv").read_bytes())
    assert watched(state, elsewhere) == []


def test_a_file_that_does_not_fit_stops_it_and_can_be_mended(state: Path, folder: Path) -> None:
    put(folder, "1.csv", "insert,20,60601,Chicago,IL,1,1", age=100)
    put(folder, "2.csv", "insert,1,60601,Chicago,IL,1,1", age=50)
    put(folder, "3.csv", "insert,21,60601,Chicago,IL,1,1", age=20)
    said = refused(state, folder)
    assert "2.csv" in said
    assert "--on-conflict upsert" in said
    assert run_json("status", state)["batches"] == 2
    put(folder, "2.csv", "update,1,60601,Chicago,IL,1,1", age=50)
    assert [line["files"] for line in watched(state, folder)] == [["2.csv"], ["3.csv"]]


def test_a_file_that_is_being_written_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often is looked, a file rests for two seconds before it is taken."""
    from holdstrue.sources.following.folder import ChangeFolder

    clock = [time.time()]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    file = write(tmp_path / "a.csv", "id\n1\n")
    start = clock[0] + 60
    os.utime(file, (start, start))  # by a clock that is ahead of ours
    folder = ChangeFolder(tmp_path)
    for _ in range(5):
        assert folder.complete() == ([], True)
        clock[0] += 0.3
    write(file, "id\n1\n2\n")
    os.utime(file, (start + 1, start + 1))
    for _ in range(5):
        assert folder.complete() == ([], True)
        clock[0] += 0.3
    clock[0] += 1.0
    [found], more = folder.complete()
    assert (found.path, more) == (file, False)
    assert folder.is_current(found)
    write(file, "id\n1\n2\n3\n")
    assert not folder.is_current(found)
    folder.done(found)
    os.utime(file, (1, 1))
    [again], _ = folder.complete()
    folder.done(again)
    assert folder.complete() == ([], False)


def test_a_new_file_is_taken_once_it_rests(state: Path, folder: Path) -> None:
    put(folder, "a.csv", "insert,20,60601,Chicago,IL,1,1", age=-30)
    assert [line["files"] for line in watched(state, folder)] == [["a.csv"]]


def test_a_snapshot_that_is_replaced(state: Path, people: Path) -> None:
    assert watched(state, people, "--snapshot") == []
    write(people, PEOPLE.replace("New York", "NYC") + "9,60601,Ulm,IL,1,1\n")
    [line] = watched(state, people, "--snapshot")
    assert line["counts"]["zips"] == {"added": 1, "removed": 2, "open": 1}
    assert watched(state, people, "--snapshot") == []
    assert run_json("status", state)["batches"] == 2


def database(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Any]:
    """A URL of the people with a time of change, and what runs statements there."""
    ddl = (
        "create table people (id int, zip text, city text, state text, salary int, rate int, seen timestamp);"
        "insert into people values (1, '10001', 'NYC', 'NY', 5000, 3, '2024-01-01 00:00:00');"
    )
    if kind == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        server.sql("drop table if exists people;" + ddl)
        return f"{server.address}?table=people", server.sql
    path = tmp_path / "people.db"
    if kind == "sqlite":

        def run_sqlite(statements: str) -> None:
            with sqlite3.connect(path) as connection:
                connection.executescript(statements)
            connection.close()

        run_sqlite(ddl)
        return f"sqlite:{path}?query=SELECT * FROM people", run_sqlite
    import duckdb

    def run_duckdb(statements: str) -> None:
        with duckdb.connect(str(path)) as connection:
            connection.execute(statements)

    run_duckdb(ddl)
    return f"duckdb:{path}?table=people", run_duckdb


@pytest.mark.parametrize("kind", ["postgresql", "sqlite", "duckdb"])
def test_a_column_is_polled(kind: str, request: pytest.FixtureRequest, tmp_path: Path, rules: Path) -> None:
    url, sql = database(kind, request, tmp_path)
    state = tmp_path / "state"
    assert run("init", state, "--rules", rules, "--data", url, "--type", "zip=text").exit_code == 0
    assert watched(state, url, "--by", "seen") == []
    sql("insert into people values (2, '10001', 'Ulm', 'NY', 1, 1, '2024-01-02 00:00:00')")
    [line] = watched(state, url, "--by", "seen")
    assert line["counts"]["zips"]["added"] == 1
    # of the same time as the last one, and one that changes; what was deleted is not seen
    sql(
        "insert into people values (3, '10001', 'Bonn', 'NY', 1, 1, '2024-01-02 00:00:00');"
        "update people set city = 'NYC', seen = '2024-01-03 00:00:00' where id = 2; delete from people where id = 1"
    )
    [line] = watched(state, url, "--by", "seen")
    assert line["counts"]["zips"] == {"added": 2, "removed": 1, "open": 2}
    assert watched(state, url, "--by", "seen") == []
    assert run_json("status", state)["tables"]["people"]["rows"] == 3
    [line] = watched(state, url, "--snapshot")
    assert run_json("status", state)["tables"]["people"]["rows"] == 2
    assert "has no column 'sen'" in refused(state, url, "--by", "sen")
    secret = url.replace("holdstrue@", "holdstrue:geheim@")
    assert "geheim" not in refused(state, secret, "--by", "sen")


def test_a_table_of_delta_lake(tmp_path: Path, people: Path, rules: Path) -> None:
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    from holdstrue.sources.read import read_table

    place, state = str(tmp_path / "lake"), tmp_path / "state"
    write_deltalake(place, read_table(people))
    assert run("init", state, "--rules", rules, "--data", place).exit_code == 0
    assert watched(state, place) == []
    DeltaTable(place).delete("id = 2")
    row = {"id": [7], "zip": [60601], "city": ["Ulm"], "state": ["IL"], "salary": [1], "rate": [1]}
    write_deltalake(place, pa.table(row), mode="append")
    lines = watched(state, place)
    assert [line["counts"]["zips"]["open"] for line in lines] == [0, 1]
    answer = run_json("apply", state, place, "--follow")
    assert answer["duplicate"]
    DeltaTable(place).delete("id = 7")
    assert run_json("apply", state, place, "--follow")["counts"]["zips"] == {"added": 0, "removed": 1, "open": 0}
    assert "--feed is not for the change log" in refused(state, place, "--feed", "ops")
    for args in (("--snapshot",), ("--feed", "ops"), ("--batch-id", "x")):
        assert "--follow applies the change log" in run("apply", state, place, "--follow", *args).stderr
    assert "--since is about tables" in run("apply", state, place, "--since", "1").stderr


def test_what_cannot_be_watched(tmp_path: Path, people: Path, state: Path) -> None:
    assert "there is no directory" in refused(state, tmp_path / "none")
    assert "does not say what changes" in refused(state, people)
    assert "there is no directory 'table:x'" in refused(state, "table:x")
    assert "standard input ends" in refused(state, "-")
    assert "no state" in refused(tmp_path / "none", tmp_path)
    assert "--since is about tables" in refused(state, tmp_path, "--since", "3")
    assert "--checkpoint is about Spark" in refused(state, tmp_path, "--checkpoint", "x")
    assert "two ways" in refused(state, people, "--by", "id", "--snapshot")
    assert "cannot be asked for some of its rows" in refused(state, people, "--by", "id")
    assert "--master is about Spark" in refused(state, tmp_path, "--master", "local[2]")
    assert "--feed is not for --snapshot" in refused(state, people, "--snapshot", "--feed", "ops")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_after_the_running_batch(state: Path, folder: Path, tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-c", "from holdstrue.cli.main import run; run()", "watch", str(state), str(folder)]
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        process = subprocess.Popen([*command, "--every", "100ms"], stdout=out, stderr=err)
    try:
        for file in (20, 21):
            put(folder, f"{file}.csv", f"insert,{file},60601,Chicago,IL,1,1")
            limit = time.monotonic() + 90
            while f"{file}.csv" not in (tmp_path / "out").read_text() and time.monotonic() < limit:
                assert process.poll() is None, (tmp_path / "err").read_text()
                time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
    assert [line.split()[1] for line in (tmp_path / "out").read_text().splitlines()] == ["20.csv:", "21.csv:"]
    assert (tmp_path / "err").read_text() == ""
    assert watched(state, folder) == []


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A state of two tables."""
    write(tmp_path / "orders.csv", "id,customer\n1,7\n2,8\n")
    write(tmp_path / "customers.csv", "id,name\n7,Ann\n")
    rule = ("--rule", "orders.customer in customers.id", "--table-key", "orders=id")
    tables = (f"--table=orders={tmp_path / 'orders.csv'}", f"--table=customers={tmp_path / 'customers.csv'}")
    assert run("init", tmp_path / "shop", *rule, *tables).exit_code == 0
    return tmp_path / "shop"


def test_a_further_table_is_watched(shop: Path, folder: Path) -> None:
    stamp = time.time() - 60
    file = write(folder / "new.csv", "id,name\n8,Bob\n")
    os.utime(file, (stamp, stamp))
    [line] = watched(shop, folder, "--table", "customers")
    assert [counts["open"] for counts in line["counts"].values()] == [0]
    assert watched(shop, folder, "--table", "customers") == []
    assert run_json("status", shop)["tables"]["customers"]["rows"] == 2
    assert "no rule speaks of table 'x'" in refused(shop, folder, "--table", "x")


def test_snapshots_of_several_tables_are_one_batch(shop: Path, tmp_path: Path) -> None:
    orders = write(tmp_path / "orders.csv", "id,customer\n1,7\n3,9\n")
    customers = write(tmp_path / "customers.csv", "id,name\n9,Cy\n")
    tables = (f"--table=orders={orders}", f"--table=customers={customers}")
    found = run_json("apply", shop, "--snapshot", *tables, code=1)
    assert found["changed"] == {"insert": 2, "update": 0, "delete": 2}
    assert [counts["open"] for counts in found["counts"].values()] == [1]


def test_a_watcher_that_is_killed_repeats_nothing(state: Path, folder: Path, tmp_path: Path) -> None:
    """Whatever moment it is killed at, the files are applied once in the end."""
    command = [sys.executable, "-c", "from holdstrue.cli.main import run; run()", "watch", str(state), str(folder)]
    for number in range(8):
        put(folder, f"{number}.csv", f"insert,{20 + number},60601,Chicago,IL,1,1", age=100 - number)
    for wanted in (1, 4):
        with (tmp_path / "out").open("w") as out:
            process = subprocess.Popen([*command, "--every", "100ms"], stdout=out, stderr=subprocess.STDOUT)
        limit = time.monotonic() + 90
        while (tmp_path / "out").read_text().count("csv") < min(wanted, 8) and time.monotonic() < limit:
            if run_json("status", state)["batches"] == 9:
                break
            assert process.poll() is None, (tmp_path / "out").read_text()
        process.kill()
        process.wait(timeout=60)
    watched(state, folder)
    standing = run_json("status", state)
    assert (standing["batches"], standing["tables"]["people"]["rows"]) == (9, 12)
    assert run("verify", state).exit_code == 0


def test_a_report_on_a_database_needs_rules(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("create table t as select 1 as id")
    result = run("report", f"sqlite:{tmp_path / 't.db'}?table=t")
    assert result.exit_code == 2
    assert "a report on data needs rules" in result.stderr


def test_a_folder_that_is_still_empty_is_waited_for(state: Path, folder: Path) -> None:
    assert watched(state, folder) == []
    (folder / "inner").mkdir()
    assert watched(state, folder) == []
    put(folder, "b.csv", "insert,20,60601,Chicago,IL,1,1")
    assert [line["files"] for line in watched(state, folder)] == [["b.csv"]]


def put_object(moto: Moto, url: str, *lines: str) -> None:
    """A change file in an object store."""
    body = (HEAD + "".join(f"{line}\n" for line in lines)).encode()
    assert moto.request("PUT", "/" + url.removeprefix("s3://"), body)[0] == 200


def test_a_folder_of_an_object_store(state: Path, moto: Moto, s3: str) -> None:
    bucket = "/".join(s3.split("/")[:3])
    folder = f"{bucket}/in coming"
    assert watched(state, folder) == []
    put_object(moto, f"{bucket}/in%20coming/b.csv", "insert,20,60601,Chicago,IL,1,1")
    put_object(moto, f"{bucket}/in%20coming/c[1].csv", "update,20,60601,Ulm,IL,1,1")
    for name in (".hidden.csv", "_half.csv", "c.csv.tmp", "notes.md", "deeper/d.csv"):
        put_object(moto, f"{bucket}/in%20coming/{name}", "not,to,be,read")
    put_object(moto, f"{bucket}/in%20coming-not/x.csv", "not,to,be,read")
    lines = watched(state, folder)
    assert [line["files"] for line in lines] == [["b.csv"], ["c[1].csv"]]
    assert [line["counts"]["zips"]["added"] for line in lines] == [0, 1]
    assert run_json("status", state)["tables"]["people"]["rows"] == 5
    assert watched(state, folder + "/") == []
    # an earlier name that comes late is new, and so is one that was replaced
    put_object(moto, f"{bucket}/in%20coming/a.csv", "update,20,60601,Chicago,IL,1,1")
    put_object(moto, f"{bucket}/in%20coming/b.csv", "insert,21,60601,Chicago,IL,1,1")
    assert [line["files"] for line in watched(state, folder)] == [["a.csv"], ["b.csv"]]
    put_object(moto, f"{bucket}/in%20coming/z.csv", "insert,21,60601,Ulm,IL,1,1")
    said = refused(state, folder)
    assert "row 1 of s3://" in said and "z.csv: insert of id=21, which exists already" in said
    assert run_json("status", state)["batches"] == 5
    assert "does not say what changes" in refused(state, f"{folder}/a.csv")
    assert "--since is about tables" in refused(state, folder, "--since", "3")
    assert "there is no bucket" in refused(state, "s3://no-such-bucket-here/folder")


def test_known_objects_are_not_fetched(state: Path, moto: Moto, s3: str, proxy: FaultProxy) -> None:
    bucket = "/".join(s3.split("/")[:3])
    put_object(moto, f"{bucket}/in/b.csv", "insert,20,60601,Chicago,IL,1,1")
    assert len(watched(state, f"{bucket}/in")) == 1
    proxy.plan()
    assert watched(state, f"{bucket}/in") == []
    assert [str(request) for request in proxy.requests if "b.csv" in request.path] == []


def polled(tmp_path: Path, rules: Path, declared: str, first: object) -> tuple[Path, str, Any]:
    """A state of a SQLite table with one row, its URL, and what adds a row with a value of the column `seen`."""
    path = tmp_path / "p.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(
        f"create table people (id int, zip text, city text, state text, salary int, rate int, seen {declared})"
    )

    def add(key: int, seen: object) -> None:
        connection.execute("insert into people values (?, '1', 'x', 'y', 1, 1, ?)", (key, seen))

    add(1, first)
    url = f"sqlite:{path}?table=people"
    assert run("init", tmp_path / "state", "--rules", rules, "--data", url).exit_code == 0
    return tmp_path / "state", url, add


@pytest.mark.parametrize(
    ("declared", "values"),
    [
        ("text", ["9", "10", "100", "100.5"]),
        ("", [9, 10, "11", "100"]),
        ("integer", [9, 10, 100]),
        ("", [9.5, 10, 100.25]),
        ("timestamp", ["2024-01-01", "2024-01-01 09:00", "2024-01-01 09:00:00.5", "2024-01-02"]),
        ("text", ["2024-01-01T09:00:00Z", "2024-01-01T10:00:00Z", "2024-02-01T09:00:00Z"]),
        ("text", ["a9", "b1", "b11"]),
    ],
)
def test_a_column_is_compared_by_what_it_holds(
    tmp_path: Path, rules: Path, declared: str, values: list[object]
) -> None:
    """SQLite itself takes '9' for more than '10', and any text for more than any number."""
    state, url, add = polled(tmp_path, rules, declared, values[0])
    for key, value in enumerate(values[1:], 2):
        watched(state, url, "--by", "seen")
        add(key, value)
        assert len(watched(state, url, "--by", "seen")) == 1, value
        assert run_json("status", state)["tables"]["people"]["rows"] == key
    assert watched(state, url, "--by", "seen") == []


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (5, "2024-01-01", "5 (a number) and '2024-01-01' (a time)"),
        ("abc", 7, "(text)"),
        ("2024-01-01T09:00:00Z", "2024-01-01T09:00:00.5Z", "a time in UTC"),
        ("2024-01-01 09:00:00", "2024-01-01T08:00:00", "a time with T"),
        ("2024-01-01T09:00:00+02:00", "2024-01-01T08:30:00+01:00", "a time with an offset"),
        ("2024-01-02", "03.01.2024", "(text)"),
    ],
)
def test_a_column_of_which_nobody_knows_the_order(
    tmp_path: Path, rules: Path, first: object, second: object, said: str
) -> None:
    state, url, add = polled(tmp_path, rules, "", first)
    add(2, second)
    told = refused(state, url, "--by", "seen")
    assert said in told
    assert "which of them is larger" in told
    assert run_json("status", state)["batches"] == 1


def test_where_polling_begins(tmp_path: Path, rules: Path) -> None:
    state, url, add = polled(tmp_path, rules, "", 1)
    add(2, 9)
    add(3, 10)
    assert "holds numbers, and 'x' is none" in refused(state, url, "--by", "seen", "--since", "x")
    assert len(watched(state, url, "--by", "seen", "--since", "10")) == 1
    assert run_json("status", state)["tables"]["people"]["rows"] == 2


def test_files_that_do_not_fit_are_passed_over_or_kept(state: Path, folder: Path, tmp_path: Path) -> None:
    put(folder, "1.csv", "insert,1,60601,Chicago,IL,1,1", age=100)
    put(folder, "2.csv", "insert,21,60601,Chicago,IL,1,1", age=50)
    (folder / "0.csv").write_bytes(b"\xff\xfe\x00broken")
    os.utime(folder / "0.csv", (1, 1))
    letters = tmp_path / "letters"
    lines = watched(state, folder, "--on-bad-batch", "quarantine", "--dead-letters", letters)
    assert [line["files"] for line in lines] == [["0.csv"], ["1.csv"], ["2.csv"]]
    reasons = [json.loads(file.read_text()) for file in letters.glob("*/reason.json")]
    assert {reason["file"] for reason in reasons} == {"0.csv", "1.csv"}
    assert any("exists already" in reason["reason"] for reason in reasons)
    assert {file.read_bytes() for file in letters.glob("*/*.csv")} == {
        (folder / name).read_bytes() for name in ("0.csv", "1.csv")
    }
    assert watched(state, folder) == [], "what was decided stays"
    put(folder, "1.csv", "insert,1,60601,Ulm,IL,1,1")
    assert len(watched(state, folder, "--on-bad-batch", "skip")) == 1
    assert run_json("status", state)["batches"] == 5
    assert run_json("status", state)["tables"]["people"]["rows"] == 5
    assert "--dead-letters DIR" in refused(state, folder, "--on-bad-batch", "quarantine")
    assert "is for --on-bad-batch quarantine" in refused(state, folder, "--dead-letters", letters)
    assert "--on-bad-batch is not for --snapshot" in refused(state, folder, "--snapshot", "--on-bad-batch", "skip")
    assert "--sequence-by is not for --snapshot" in refused(state, folder, "--snapshot", "--sequence-by", "salary")


def test_older_changes_lose(tmp_path: Path, folder: Path, rules: Path) -> None:
    people = write(tmp_path / "people.csv", PEOPLE)
    made = tmp_path / "made"
    assert run("init", made, "--rules", rules, "--data", people, "--sequence-by", "salary").exit_code == 0
    put(folder, "1.csv", "update,1,10001,old,NY,4999,3", "delete,2,,,,6001,", age=100)
    put(folder, "2.csv", "insert,2,10001,older,NY,6000,2", "update,3,10001,NYC,NY,7001,5", age=50)
    lines = watched(made, folder, "--sequence-by", "salary")
    assert len(lines) == 2
    assert run_json("status", made)["tables"] == {"people": {"rows": 3, "key": ["id"]}}
    assert run("verify", made).exit_code == 0
    assert {row["rule"] for row in run_json("violations", made)["violations"]} == set()
    assert "ordered by 'salary', not by 'rate'" in refused(made, put(folder, "3.csv").parent, "--sequence-by", "rate")
    assert "names table 'other'" in refused(made, folder, "--sequence-by", "other=rate")
    late = run("init", tmp_path / "s", "--rules", rules, "--sequence-by", "other=rate")
    assert late.exit_code == 2 and "other" in late.stderr
