"""What a journal remembers of its batches: ids and history stay bounded, and right."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdstrue.shards.facts import HISTORY
from holdstrue.state import history, ids
from holdstrue.state.files import StateFiles
from holdstrue.state.history import Lines, history_files, write_history
from holdstrue.state.ids import BatchIds
from holdstrue.state.manifest import RunFile


@pytest.fixture
def files(tmp_path: Path) -> StateFiles:
    found = StateFiles(tmp_path / "s")
    found.lock()
    return found


def test_ids_are_exact_for_as_many_as_are_kept(files: StateFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "FILE_IDS", 10)
    monkeypatch.setattr(ids, "MOST_FILES", 3)
    base: dict[str, RunFile] = {}
    for checkpoint in range(20):
        known = BatchIds(files, base, [])
        batches = [f"b{checkpoint}-{i}" for i in range(4)]
        assert not any(batch in known for batch in batches)
        known.add(batches[:2])
        assert batches[0] in known and batches[2] not in known
        base = known.write(checkpoint, batches[2:])
    assert len(base) <= 4
    again = BatchIds(files, base, ["recent", "#7"])
    kept = [c for c in range(20) if all(f"b{c}-{i}" in again for i in range(4))]
    assert kept == list(range(kept[0], 20)) and len(kept) >= 7
    assert "b0-0" not in again, "the oldest file is gone"
    assert "recent" in again
    assert "#7" not in again, "numbers that we gave are not remembered"


def lines(first: int, count: int) -> pa.Table:
    rows = [
        {"batch": f"b{i}", "time": f"t{i:06}", "rule": rule, "added": i, "removed": 1, "open": i * 10 + at}
        for i in range(first, first + count)
        for at, rule in enumerate(("r", "s"))
    ]
    return pa.Table.from_pylist(rows, schema=HISTORY.schema)


def test_history_is_joined_when_it_grows_and_its_sums_stay(files: StateFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "FILE_BYTES", 2000)
    base: dict[str, RunFile] = {}
    total = 0
    for checkpoint in range(150):
        base = write_history(files, checkpoint, base, lines(total, 20), HISTORY)
        total += 20
    table = pa.concat_tables([part for file in history_files(base) for part in files.read_tables(file)])
    assert len(base) < 40
    assert table.num_rows < 2 * total / 2, "old lines were joined"
    for at, rule in enumerate(("r", "s")):
        own = table.filter(pa.compute.field("rule") == rule)
        assert pa.compute.sum(own.column("added")).as_py() == sum(range(total))
        assert pa.compute.sum(own.column("removed")).as_py() == total
        opened = own.column("open").to_pylist()
        assert opened[-1] == (total - 1) * 10 + at
        assert opened == sorted(opened), "oldest first"
    names = table.column("batch").to_pylist()
    assert names[0].startswith("b0 .. b") and names[-1] == f"b{total - 1}"


def test_lines_of_sixteen_batches_become_those_of_one() -> None:
    joined = HISTORY.joined(lines(0, 40)).to_pylist()
    assert [line["batch"] for line in joined[::2]] == ["b0 .. b15", "b16 .. b31", "b32 .. b39"]
    assert joined[0] == {
        "batch": "b0 .. b15", "time": "t000015", "rule": "r", "added": sum(range(16)), "removed": 16, "open": 150,
    }  # fmt: skip
    again = HISTORY.joined(pa.Table.from_pylist(joined, schema=HISTORY.schema)).to_pylist()
    assert [line["batch"] for line in again] == ["b0 .. b39", "b0 .. b39"]
    only = Lines(pa.schema({"batch": pa.string()}))
    assert only.joined(pa.table({"batch": ["a", "b"]})).to_pylist() == [{"batch": "a .. b"}]
