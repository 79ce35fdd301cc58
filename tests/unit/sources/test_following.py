"""Tables of Delta Lake and Iceberg are followed from where one stopped: each version once, whatever was done."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import holdstrue
from holdstrue.errors import ChangeError, DataError, HoldstrueError
from holdstrue.monitor.following import follow
from objects import Moto, set_environment

RULES = ["zip -> city", "not(t.zip = s.zip and t.pay > s.pay)"]


def rows(*cells: tuple[int, str | None, str | None, int | None]) -> pa.Table:
    names = ("id", "zip", "city", "pay")
    types = (pa.int64(), pa.string(), pa.string(), pa.int64())
    return pa.table({name: pa.array([cell[i] for cell in cells], types[i]) for i, name in enumerate(names)})


FIRST = rows((1, "a", "x", 1), (2, "a", "x", 2), (3, "b", "y", 3))


class Lake:
    """A table of a format, with what can be done to it."""

    source: str

    def append(self, table: pa.Table) -> None:
        raise NotImplementedError

    def delete(self, key: int) -> None:
        raise NotImplementedError

    def update(self, key: int, city: str) -> None:
        raise NotImplementedError

    def rewrite(self) -> None:
        """Other files, the same rows."""
        raise NotImplementedError


class Delta(Lake):
    """A table of Delta Lake."""

    def __init__(self, place: str, *, feed: bool, options: dict[str, str] | None = None) -> None:
        from deltalake import write_deltalake

        self.source, self.options = place, options
        conf = {"delta.enableChangeDataFeed": "true"} if feed else {}
        write_deltalake(place, FIRST, configuration=conf, storage_options=options)

    def _table(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(self.source, storage_options=self.options)

    def append(self, table: pa.Table) -> None:
        from deltalake import write_deltalake

        write_deltalake(self.source, table, mode="append", storage_options=self.options)

    def delete(self, key: int) -> None:
        self._table().delete(f"id = {key}")

    def update(self, key: int, city: str) -> None:
        self._table().update(updates={"city": f"'{city}'"}, predicate=f"id = {key}")

    def rewrite(self) -> None:
        self._table().optimize.compact()


class Iceberg(Lake):
    """A table of Iceberg."""

    def __init__(self, folder: Path, warehouse: str | None = None, **settings: str) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        uri = f"sqlite:///{folder / 'catalog.db'}"
        self.catalog = SqlCatalog("own", uri=uri, warehouse=warehouse or folder.as_uri(), **settings)
        self.catalog.create_namespace("n")
        self.table = self.catalog.create_table("n.t", schema=FIRST.schema)
        self.table.append(FIRST)
        self.source = str(self.table.location())

    def append(self, table: pa.Table) -> None:
        self.table.append(table)

    def delete(self, key: int) -> None:
        self.table.delete(f"id = {key}")

    def update(self, key: int, city: str) -> None:
        old = self.table.scan(f"id = {key}").to_arrow()
        self.table.overwrite(old.set_column(2, "city", pa.array([city])), f"id = {key}")

    def rewrite(self) -> None:
        self.table.overwrite(self.table.scan().to_arrow())


@pytest.fixture(params=["delta with a feed", "delta", "iceberg", "delta in s3", "iceberg in s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A table with three rows."""
    bucket, options = "", {}
    if request.param.endswith("s3"):
        from holdstrue.sources.lakehouse import file_io

        moto: Moto = request.getfixturevalue("moto")
        set_environment(monkeypatch, moto.url, tmp_path)
        bucket = f"s3://{moto.make_bucket()}"
        import os

        options = file_io(bucket, os.environ)
    made: dict[str, Callable[[], Lake]] = {
        "delta with a feed": lambda: Delta(str(tmp_path / "t"), feed=True),
        "delta": lambda: Delta(str(tmp_path / "t"), feed=False),
        "iceberg": lambda: Iceberg(tmp_path),
        "delta in s3": lambda: Delta(f"{bucket}/t", feed=True, options={"AWS_ALLOW_HTTP": "true"}),
        "iceberg in s3": lambda: Iceberg(tmp_path, bucket, **options),
    }
    return made[request.param]()


def same(monitor: holdstrue.Monitor, lake: Lake) -> None:
    """The monitor holds what the table holds, and finds in it what a check from scratch finds."""
    whole = holdstrue.check(lake.source, RULES, key="id")
    assert {rule: counts.open for rule, counts in monitor.counts().items()} == {
        result["name"]: result["pairs"] for result in whole.to_dict()["rules"]
    }
    assert monitor.apply(lake.source, "compared", snapshot=True).changed == {"insert": 0, "update": 0, "delete": 0}


def change(lake: Lake) -> None:
    """Everything that can be done to a table."""
    lake.append(rows((4, "b", "z", 9), (5, "c", "w", 1), (40, None, "y", None), (41, "b", None, 3)))
    lake.update(2, "other")
    lake.delete(1)
    lake.rewrite()
    lake.append(rows((1, "c", "v", 5)))


@pytest.mark.parametrize("one_batch", [True, False])
def test_a_table_is_followed_from_where_one_began(lake: Lake, tmp_path: Path, one_batch: bool) -> None:
    with holdstrue.Monitor.create(tmp_path / "state", RULES, "id", data=lake.source) as monitor:
        change(lake)
        steps = list(follow(monitor, lake.source, one_batch=one_batch))
        assert (len(steps) == 1) is one_batch
        assert not any(step.duplicate for step in steps)
        before = monitor.batches
        [again] = follow(monitor, lake.source)
        assert again.duplicate
        assert monitor.batches == before
        same(monitor, lake)


def test_it_goes_on_in_another_process_and_after_others(lake: Lake, tmp_path: Path) -> None:
    holdstrue.Monitor.create(tmp_path / "state", RULES, "id", data=lake.source).close()
    for number in range(3):
        lake.append(rows((10 + number, "a", "x", number)))
        with holdstrue.Monitor.open(tmp_path / "state") as monitor:
            [delta] = follow(monitor, lake.source)
            assert not delta.duplicate
            monitor.apply(rows((100 + number, "q", "x", number)), f"by hand {number}")
    with holdstrue.Monitor.open(tmp_path / "state") as monitor:
        assert [delta.duplicate for delta in follow(monitor, lake.source)] == [True]
        assert monitor.rows == {"data": 9}


def test_a_monitor_without_rows_begins_with_the_table(lake: Lake) -> None:
    with holdstrue.Monitor(RULES, "id") as monitor:
        [delta] = follow(monitor, lake.source)
        assert monitor.rows == {"data": 3}
        assert delta.batch.split(":")[0] in ("delta", "iceberg")
        lake.delete(2)
        list(follow(monitor, lake.source))
        same(monitor, lake)


def test_rows_of_an_unknown_version_are_not_guessed(lake: Lake) -> None:
    with holdstrue.Monitor(RULES, "id", data=FIRST) as monitor:
        lake.append(rows((4, "b", "z", 9)))
        with pytest.raises(DataError, match="is not known") as caught:
            list(follow(monitor, lake.source))
        assert "--since VERSION" in str(caught.value.hint)
        newest = follow_newest(lake)
        with pytest.raises(DataError, match="has no version '77'"):
            list(follow(monitor, lake.source, since="77"))
        [delta] = follow(monitor, lake.source, since=newest)
        assert delta.counts["zip -> city"].added == 1
        same(monitor, lake)


def follow_newest(lake: Lake) -> str:
    """The version that the table has."""
    from holdstrue.sources.following.versions import followed

    versions = followed(lake.source)
    assert versions is not None
    return versions.newest


def test_a_snapshot_is_gone_on_from(lake: Lake) -> None:
    with holdstrue.Monitor(RULES, "id", data=FIRST.slice(0, 1)) as monitor:
        assert monitor.apply(lake.source, snapshot=True).changed == {"insert": 2, "update": 0, "delete": 0}
        lake.update(3, "new")
        [delta] = follow(monitor, lake.source)
        assert not delta.duplicate
        same(monitor, lake)


def test_a_table_that_was_taken_back(tmp_path: Path) -> None:
    lake = Iceberg(tmp_path)
    first = lake.table.current_snapshot().snapshot_id
    with holdstrue.Monitor(RULES, "id", data=lake.source) as monitor:
        lake.append(rows((4, "b", "z", 9)))
        list(follow(monitor, lake.source))
        lake.table.manage_snapshots().rollback_to_snapshot(first).commit()
        with pytest.raises(DataError, match="does not follow from") as caught:
            list(follow(monitor, lake.source))
        assert "--snapshot" in str(caught.value.hint)
        assert monitor.apply(lake.source, snapshot=True).changed == {"insert": 0, "update": 0, "delete": 1}
        assert [delta.duplicate for delta in follow(monitor, lake.source)] == [True]
        lake.append(rows((5, "b", "z", 9)))
        assert [delta.duplicate for delta in follow(monitor, lake.source)] == [False]
        same(monitor, lake)


def test_snapshots_that_were_expired(tmp_path: Path) -> None:
    lake = Iceberg(tmp_path)
    first = lake.table.current_snapshot().snapshot_id
    with holdstrue.Monitor(RULES, "id", data=lake.source) as monitor:
        lake.append(rows((4, "b", "z", 9)))
        lake.table.maintenance.expire_snapshots().by_id(first).commit()
        with pytest.raises(DataError, match=f"version {first} of .* is no longer among its versions") as caught:
            list(follow(monitor, lake.source))
        assert "were expired" in str(caught.value.hint) and "rolled back" not in str(caught.value)
        assert monitor.apply(lake.source, snapshot=True).changed == {"insert": 1, "update": 0, "delete": 0}
        assert [delta.duplicate for delta in follow(monitor, lake.source)] == [True]


def test_a_key_that_several_rows_of_the_table_have(lake: Lake) -> None:
    """It is the table that does not fit, not the state."""
    with holdstrue.Monitor(RULES, "id", data=lake.source) as monitor:
        lake.append(rows((2, "b", "z", 9)))
        with pytest.raises(ChangeError, match=r"2 rows of .* have the key id=2; nothing was applied") as caught:
            list(follow(monitor, lake.source))
        assert "remove the others from the table" in str(caught.value.hint) and "--snapshot" not in str(caught.value)
        assert monitor.batches == 1
        lake.delete(2)
        # a change feed tells of both rows, although they are gone
        with suppress(ChangeError):
            list(follow(monitor, lake.source))
        monitor.apply(lake.source, snapshot=True)
        same(monitor, lake)


def test_what_cannot_be_followed(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,zip,city,pay\n1,a,x,1\n")
    with holdstrue.Monitor(RULES, "id") as monitor, pytest.raises(HoldstrueError, match="only tables of Delta Lake"):
        list(follow(monitor, str(tmp_path / "t.csv")))


def test_a_log_whose_files_are_gone(tmp_path: Path) -> None:
    lake = Delta(str(tmp_path / "t"), feed=False)
    with holdstrue.Monitor(RULES, "id", data=lake.source) as monitor:
        lake.append(rows((4, "b", "z", 9)))
        lake.delete(4)
        lake._table().vacuum(0, dry_run=False, enforce_retention_duration=False)
        # what came and went in between is not needed
        assert [delta.duplicate for delta in follow(monitor, lake.source)] == [False]
        lake.delete(1)
        lake._table().vacuum(0, dry_run=False, enforce_retention_duration=False)
        with pytest.raises(DataError, match="cannot be read") as caught:
            list(follow(monitor, lake.source))
        assert "--snapshot" in str(caught.value.hint)
        assert monitor.batches == 2


@pytest.fixture(params=[True, False], ids=["with a feed", "without"])
def delta(request: pytest.FixtureRequest, tmp_path: Path) -> Delta:
    """A table of Delta Lake in which something happened."""
    lake = Delta(str(tmp_path / "t"), feed=request.param)
    lake.append(rows((4, "b", "z", 9)))
    return lake


@pytest.mark.parametrize("one_batch", [True, False])
def test_a_restored_table_is_followed(delta: Delta, one_batch: bool) -> None:
    with holdstrue.Monitor(RULES, "id", data=delta.source) as monitor:
        delta.update(2, "other")
        list(follow(monitor, delta.source, one_batch=one_batch))
        delta.delete(1)
        delta._table().restore(0)
        delta.append(rows((7, "c", "w", 1)))
        deltas = list(follow(monitor, delta.source, one_batch=one_batch))
        assert len(deltas) == (1 if one_batch else 3)
        same(monitor, delta)


@pytest.mark.parametrize("one_batch", [True, False])
def test_a_feed_that_is_switched_off_and_on(tmp_path: Path, one_batch: bool) -> None:
    lake = Delta(str(tmp_path / "t"), feed=True)
    with holdstrue.Monitor(RULES, "id", data=lake.source) as monitor:
        for switch in ("false", "true"):
            lake.append(rows((10 if switch == "false" else 20, "b", "z", 9)))
            lake._table().alter.set_table_properties({"delta.enableChangeDataFeed": switch})
            lake.update(2, f"other {switch}")
            lake.delete(1 if switch == "false" else 10)
            notes = [note for delta in follow(monitor, lake.source, one_batch=one_batch) for note in delta.notes]
            assert any("rows of the files that came and went are compared" in note for note in notes)
        assert [delta.duplicate for delta in follow(monitor, lake.source)] == [True]
        lake.update(3, "told by the feed again")
        [last] = follow(monitor, lake.source)
        assert last.notes == ()
        same(monitor, lake)


def test_rows_that_come_and_go_and_come_are_there(delta: Delta) -> None:
    with holdstrue.Monitor(RULES, "id", data=delta.source) as monitor:
        for _ in range(2):
            delta.append(rows((50, "a", "x", 1)))
            delta.delete(50)
        delta.append(rows((50, "a", "x", 1)))
        list(follow(monitor, delta.source))
        same(monitor, delta)


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_table_that_is_put_back_from_a_backup(delta: Delta, tmp_path: Path, by_hand: bool) -> None:
    import shutil

    backup = tmp_path / "backup"
    shutil.copytree(delta.source, backup)
    with holdstrue.Monitor.create(tmp_path / "state", RULES, "id", data=delta.source) as monitor:
        delta.append(rows((5, "b", "z", 9)))
        list(follow(monitor, delta.source))
        if by_hand:
            monitor.apply(rows((100, "q", "x", 1)), "by hand")
        for more in ((6,), (7, 8)):
            shutil.rmtree(delta.source)
            shutil.copytree(backup, delta.source)
            for key in more:  # the numbers of before, and beyond them
                delta.append(rows((key, "b", "z", 9)))
            with pytest.raises(DataError, match="is not the one that was applied") as caught:
                list(follow(monitor, delta.source))
            assert f"holdstrue apply {tmp_path / 'state'} {delta.source} --snapshot" in str(caught.value.hint)
        changed = monitor.apply(delta.source, snapshot=True).changed
        assert changed is not None and changed["delete"] == 1 + by_hand
        delta.append(rows((9, "b", "z", 9)))
        assert [step.duplicate for step in follow(monitor, delta.source)] == [False]
        same(monitor, delta)
        shutil.rmtree(delta.source)
        shutil.copytree(backup, delta.source)
        with pytest.raises(DataError, match="does not follow from 4"):
            list(follow(monitor, delta.source))


def test_ids_of_before_name_numbers_alone(delta: Delta) -> None:
    number, table = int(follow_newest(delta)), delta._table()
    with holdstrue.Monitor(RULES, "id") as monitor:
        monitor.apply(delta.source, f"delta:{table.metadata().id}:{number}", feed="append")
        delta.delete(4)
        assert [step.duplicate for step in follow(monitor, delta.source)] == [False]
        same(monitor, delta)


def test_a_state_that_does_not_hold_the_version(delta: Delta, tmp_path: Path) -> None:
    """What to do is said in a way that is allowed: conflicts of a log are not bent."""
    from unit.cli.runs import run

    with holdstrue.Monitor.create(tmp_path / "state", RULES, "id", data=delta.source) as monitor:
        monitor.apply(rows((60, "a", "x", 1)), "by hand")
    delta.append(rows((60, "b", "other", 2)))
    for command in (("apply", tmp_path / "state", delta.source, "--follow"),
                    ("watch", tmp_path / "state", delta.source, "--once")):  # fmt: skip
        result = run(*command)
        assert result.exit_code == 2
        assert "insert of id=60, which exists already" in result.stderr
        assert "conflict" not in result.stderr
        assert f"holdstrue apply {tmp_path / 'state'} {delta.source} --snapshot" in result.stderr
        assert result.stderr.count("--snapshot") == 1
