"""Pages of shards: every version says the same as if its entry listed all of them, whatever is done to the state."""

from __future__ import annotations

import errno
import math
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fault_calls import CallFault, Fail, FaultCalls, Interrupt, Torn
from holdstrue import Monitor
from holdstrue.errors import StateError
from holdstrue.monitor.sharded import Sharded
from holdstrue.shards.facts import HISTORY
from holdstrue.shards.runner import Sizing
from holdstrue.state import files as state_files
from holdstrue.state import journal as state_journal
from holdstrue.state import manifest as state_manifest
from holdstrue.state import pages
from holdstrue.state.files import StateFiles, UncommittedError
from holdstrue.state.journal import Journal, manifest_of
from holdstrue.state.runs import Runs
from holdstrue.state.store import RUNS
from holdstrue.state.verify import examine
from laws.shards import Loops

FROM, INLINE = 8, 3

Said = dict[str, Any]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages from eight shards on."""
    monkeypatch.setattr(pages, "PAGED_FROM", FROM)
    monkeypatch.setattr(pages, "INLINE_SHARDS", INLINE)


def shard(journal: Journal, numbers: set[int], before: Said) -> Said:
    """What is said of shards that a batch changed: one run more each, in a file that they share."""
    joint, found = journal.files.joint(journal.version + 1), {}
    for number in sorted(numbers):
        run = joint.add([pa.table({"id": [number]})])
        log = before.get(str(number), {}).get("log", [])
        found[str(number)] = {**Runs(log_rows=len(log) + 1).to_dict(), "log": [*log[-2:], run.to_dict()]}
    joint.close()
    return found


def commit(journal: Journal, shards: Said, batch: str) -> None:
    journal.commit(journal.write_batch([], 0, journal.line(batch), {"shards": shards}, whole=True))


def made(place: Path, count: int) -> Said:
    with Journal.create(place, "site") as journal:
        shards = shard(journal, set(range(count)), {})
        commit(journal, shards, "first")
    return shards


def shards_at(place: Path, version: int | None = None) -> Said:
    found: Said = manifest_of(place, "site", version)["shards"]
    return found


def page_files(place: Path) -> list[Path]:
    return sorted((place / "runs").glob("page-*"))


STEPS = st.one_of(
    st.tuples(st.just("change"), st.sets(st.integers(0, 29), min_size=1, max_size=30)),
    st.tuples(st.just("lay out"), st.integers(1, 30)),
    st.tuples(st.sampled_from(["vacuum", "nothing", "fail", "forget"]), st.just(0)),
)


@settings(max_examples=60, deadline=None)
@given(first=st.integers(1, 30), steps=st.lists(STEPS, max_size=25), keep=st.booleans())
def test_every_version_that_is_kept_says_what_it_said(first: int, steps: list[Any], keep: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "state")
        shards = made(place, first)
        said = {0: shards}
        if keep:
            with Journal.open(place, "site") as journal:
                journal.vacuum(keep=3600)
                said[journal.version] = shards
        for at, (what, how) in enumerate(steps):
            with Journal.open(place, "site") as journal:
                if what == "change":
                    own = {number for number in how if str(number) in shards}
                    shards = {**shards, **shard(journal, own, shards)}
                    commit(journal, shards, f"batch {at}")
                elif what == "lay out":
                    shards = shard(journal, set(range(how)), {})
                    commit(journal, shards, f"batch {at}")
                elif what == "vacuum":
                    journal.vacuum()
                elif what == "nothing":
                    commit(journal, shards, f"batch {at}")
                elif what == "forget":
                    pages._read.clear()
                else:
                    _fail(journal, shards, place)
                said[journal.version] = shards
            assert shards_at(place) == shards
            assert len(manifest_of(place, "site").get("pages", ())) <= math.log2(30 / INLINE) + 2
        with StateFiles(place) as files:
            kept = files.kept()
            assert kept[-1] == max(said) and (not keep or set(kept) >= said.keys() - {0})
            assert {version: files.manifest(version).get("shards", {}) for version in kept} == {
                version: said[version] for version in kept
            }
            assert not examine(files).problems
        with Journal.open(place, "site") as journal:
            journal.vacuum(keep=0)
        with StateFiles(place) as files:
            found = examine(files)
            assert not found.problems and not found.strays and shards_at(place) == shards


def _fail(journal: Journal, shards: Said, place: Path) -> None:
    """A batch that cannot be committed leaves nothing."""
    before = sorted(path.name for path in (place / "runs").iterdir())
    more = {**shards, **shard(journal, {int(number) for number in shards}, shards)}
    with FaultCalls(place) as calls:
        calls.plan({at: Fail(errno.ENOSPC) for at in range(1, 50)})
        with pytest.raises(UncommittedError):
            commit(journal, more, "lost")
    # runs of tasks go with the next vacuum where not even their names came to be known
    journal.vacuum()
    assert {path.name for path in page_files(place)} <= set(before)


@pytest.mark.parametrize("fault", [Fail(errno.ENOSPC), Fail(errno.EIO, after=True), Torn(errno.ENOSPC), Interrupt()])
def test_a_crash_leaves_one_version_or_the_other(tmp_path: Path, fault: CallFault) -> None:
    """At whatever call, while a page is written and pages are taken together."""
    at, lasts = 0, True
    while lasts:
        at += 1
        place = tmp_path / str(at)
        before = made(place, 20)
        with Journal.open(place, "site") as journal:
            after = {**before, **shard(journal, set(range(12)), before)}
            with FaultCalls(place) as calls, suppress(UncommittedError, StateError, KeyboardInterrupt):
                calls.plan({at: fault})
                commit(journal, after, "second")
            lasts = len(calls.made) >= at
        pages._read.clear()
        assert shards_at(place) in (before, after)
        with Journal.open(place, "site") as journal:
            last = {**shards_at(place), **shard(journal, {3}, before)}
            commit(journal, last, "third")
            journal.vacuum()
        with StateFiles(place) as files:
            found = examine(files)
        assert shards_at(place) == last and not found.problems and not found.strays
    assert at > 4


def test_a_batch_writes_what_it_changes(tmp_path: Path) -> None:
    shards = made(tmp_path / "state", 400)
    [first] = page_files(tmp_path / "state")
    sizes = []
    for at in range(12):
        log = sum(path.stat().st_size for path in (tmp_path / "state/log").iterdir())
        with Journal.open(tmp_path / "state", "site") as journal:
            shards = {**shards, **shard(journal, {at, at + 1}, shards)}
            commit(journal, shards, f"batch {at}")
        more = [path for path in page_files(tmp_path / "state") if path != first]
        log = sum(path.stat().st_size for path in (tmp_path / "state/log").iterdir()) - log
        sizes.append(log + max((path.stat().st_size for path in more), default=0))
    assert first in page_files(tmp_path / "state")
    assert max(sizes) < first.stat().st_size / 4


@pytest.mark.parametrize("how", ["cut", "changed", "missing", "of no shard"])
def test_a_damaged_page_is_told(tmp_path: Path, how: str) -> None:
    place = tmp_path / "state"
    made(place, 20)
    [page] = page_files(place)
    data = page.read_bytes()
    if how == "missing":
        page.unlink()
    elif how == "of no shard":
        with Journal.open(place, "site") as journal:
            header = dict(journal.facts) | {"shards": {}}
            named = journal.files.write_tables(
                "page", 1, [pages.listed({"1": {"base": {}, "log": [{"name": "../x"}]}})]
            )
            header["pages"] = [named.to_dict()]
            header = {key: value for key, value in header.items() if key not in ("since", "writer", "time", "format")}
            journal.files.commit(state_files.Draft(1, header))
        page = place / RUNS / named.name
    else:
        page.write_bytes(data[:-9] if how == "cut" else data[:-90] + b"x" + data[-89:])
    pages._read.clear()
    with pytest.raises(StateError, match=rf"{page.name} is damaged"):
        shards_at(place)
    with StateFiles(place) as files:
        assert [problem.name for problem in examine(files).problems] == [RUNS + page.name]


def test_states_of_the_format_before_are_read_and_go_on_in_the_present_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "state"
    with monkeypatch.context() as patch:
        for module in (state_files, state_journal, state_manifest):
            patch.setattr(module, "FORMAT", 4)
        patch.setattr(pages, "PAGED_FROM", 10**6)
        shards = made(place, 20)
        with Journal.open(place, "site") as journal:
            journal.commit(journal.write_batch([], 0, journal.line("second"), {"more": 1}))
    assert manifest_of(place, "site")["format"] == 4 and shards_at(place) == shards
    with Journal.open(place, "site") as journal:
        assert journal.seen("first") and journal.seen("second") and not journal.seen("third")
        assert journal.committed == 2
        journal.commit(journal.write_batch([], 0, journal.line("third"), {"more": 2}))
    now = manifest_of(place, "site")
    assert (now["format"], now["more"], now["committed"], len(now["pages"])) == (5, 2, 3, 1)
    assert shards_at(place) == shards
    with StateFiles(place) as files:
        assert not examine(files).problems
    # what a build of format 4 does with it
    with monkeypatch.context() as patch:
        patch.setattr(state_manifest, "FORMAT", 4)
        with pytest.raises(StateError, match="has format 5, this version reads up to 4") as told:
            manifest_of(place, "site")
        assert told.value.hint == "open it with a newer version of holdstrue"


def test_few_shards_have_no_pages(tmp_path: Path) -> None:
    made(tmp_path / "state", FROM - 1)
    assert "pages" not in manifest_of(tmp_path / "state", "site") and not page_files(tmp_path / "state")


def test_a_monitor_in_many_shards_answers_at_every_version_as_one_process_does(tmp_path: Path) -> None:
    rules, place = ["zip -> city", "not(t.pay > s.pay and t.tax < s.tax)"], tmp_path / "state"
    one = Monitor(rules, key="id")
    with Sharded(Loops(2), place, rules, key="id", sizing=Sizing(shards=6, blocks=1)) as many:
        with Journal.open(place, "monitor", HISTORY) as journal:
            journal.vacuum(keep=3600)
        told = {}
        for at in range(9):
            ids = range(at * 7, at * 7 + (30 if at == 0 else 3 if at % 3 else 9))
            batch = pa.table(
                {
                    "id": pa.array(ids, pa.int64()),
                    "zip": [f"Z{i % 11}" for i in ids],
                    "city": [f"City {i % 11 + (i % 17 == 3)}" for i in ids],
                    "pay": [i * 5 % 31 for i in ids],
                    "tax": [i * 5 % 31 + (i % 13 == 1) for i in ids],
                }
            )
            one.apply(batch, feed="append", on_conflict="ignore")
            many.apply([batch], feed="append", on_conflict="ignore")
            told[many.moment.version] = one.counts()
        assert len(manifest_of(place, "monitor").get("pages", ())) >= 1
    for version, counts in told.items():
        assert Sharded(Loops(3), place, at=version).counts() == counts
        with Monitor.open(place, at=version) as opened:
            assert opened.counts() == counts
