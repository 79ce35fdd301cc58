"""A smoke run of the durable benchmark at its quick sizes: every part answers, and its answers are right."""

from __future__ import annotations

from pathlib import Path

import pytest

import durable
from competitors.one_row import COMPETITORS
from durability.one_row import calls
from durability.part import Goal, Part, Place, beside
from turns import Turns

CHECKED = [name for name in COMPETITORS if "checked" in name or "holdstrue" in name]


def test_competitors_agree_on_what_each_row_breaks(tmp_path: Path) -> None:
    answers = []
    for at, name in enumerate(CHECKED):
        with Turns(name, tmp_path / str(at), 3_000, 60) as turn:
            turn.ready()
            turn.play(25)
            turn.play(35)
            figures = turn.figures()
        assert len(figures["wall_ms"]) == 60
        assert figures["broken"] > 0
        answers.append(figures["answer"])
    assert len(answers) == 5
    assert len({*answers}) == 1


def test_a_competitor_that_ends_early_is_named(tmp_path: Path) -> None:
    with Turns("nobody", tmp_path / "nobody", 10, 1) as turn, pytest.raises(RuntimeError, match="nobody ended with 1"):
        turn.ready()


def test_calls_are_counted_between_the_marks() -> None:
    trace = """\
7 fsync(3) = 0
7 access("/no-such-place/mark-begin", F_OK) = -1 ENOENT (No such file or directory)
7 openat(AT_FDCWD, "runs/a", O_WRONLY|O_CREAT, 0666) = 4
7 openat(AT_FDCWD, "runs/a", O_RDONLY) = 5
7 pwrite64(4, "x", 1, 0) = 1
8 fdatasync(4 <unfinished ...>
7 write(1, "done\\n", 5) = 5
8 <... fdatasync resumed>) = 0
7 linkat(AT_FDCWD, "a", AT_FDCWD, "b", 0) = 0
7 unlink("a") = 0
7 access("/no-such-place/mark-end", F_OK) = -1 ENOENT (No such file or directory)
7 fsync(3) = 0
"""
    assert calls(trace) == ["created", "writes", "syncs", "named", "removed"]


# of parts that take half a minute each one stands for all: the benchmark says itself when an answer is wrong
@pytest.mark.parametrize("name", ["stall", *(pytest.param(one, marks=pytest.mark.soak) for one in ("open", "long"))])
def test_parts_give_right_answers(tmp_path: Path, name: str) -> None:
    part = durable.PARTS[name]
    records = part.measure(Place(tmp_path, quick=True, timeout=120.0))
    assert not [record["failure"] for record in records if "failure" in record]
    assert records[-1]["agrees"]
    assert part.goals(records)
    assert all(table.rows for table in part.tables({"after": records}))


def toy(ms: float, answer: int) -> Part:
    """A part that takes no time."""
    return Part(
        "toy",
        lambda place: [{"what": "a", "wall_ms": ms, "answer": answer, "agrees": True, "place": str(place.folder)}],
        lambda by_tree: [beside("toy", by_tree, {"what": "what"}, {"wall_ms": "ms"})],
        lambda records: [Goal("ms", records[0]["wall_ms"], "at most 1.3 times before")],
    )


def test_trees_lie_beside_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "RESULTS", tmp_path)
    asked = ["--into", "figures", "--folder", str(tmp_path)]
    for tree, ms in (("before", 2.0), ("after", 5.0)):
        monkeypatch.setattr(durable, "PARTS", {"toy": toy(ms, 7)})
        assert durable.main([*asked, "--tree", tree]) == 0
    written = (tmp_path / "figures.md").read_text()
    assert "| a    | before | 2.00 |\n| a    | after  | 5.00 |" in written
    assert "| ms     | 2.00   | 5.00  | 2.50           | at most 1.3 times before |" in written
    assert str(tmp_path) not in (tmp_path / "figures.json").read_text()


def test_trees_that_answer_differently_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "RESULTS", tmp_path)
    monkeypatch.setattr(durable, "PARTS", {"toy": toy(2.0, 7)})
    assert durable.main(["--into", "figures", "--tree", "before"]) == 0
    monkeypatch.setattr(durable, "PARTS", {"toy": toy(2.0, 8)})
    assert durable.main(["--into", "figures", "--tree", "after"]) == 1
