"""The cache of objects: what is fetched once, what goes first, and that two processes do not harm each other."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fault_proxy import Delay, FaultProxy
from holdstrue.errors import StateError
from holdstrue.state.cache import ABANDONED, IN_USE, RECENT, Cache, folder_of, limit_of
from holdstrue.state.objects import ObjectStore
from holdstrue.state.store import Missing


@dataclass
class Kept:
    """Objects in memory that count how often they are fetched."""

    url: str = "s3://bucket/state"
    objects: dict[str, bytes] = field(default_factory=dict)
    fetched: Counter[str] = field(default_factory=Counter)

    @property
    def identity(self) -> str:
        return self.url

    def fetch(self, name: str, path: Path, size: int | None = None) -> None:
        self.fetched[name] += 1
        if name not in self.objects:
            raise Missing(name)
        path.write_bytes(self.objects[name])


def age(path: Path, seconds: float) -> None:
    """As if it was last used so long ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_a_file_is_fetched_once(tmp_path: Path) -> None:
    store, cache = Kept(objects={"runs/a": b"abc"}), Cache(tmp_path, 1000)
    path = cache.fetch(store, "runs/a", 3)
    assert path.read_bytes() == b"abc"
    assert cache.fetch(store, "runs/a", 3) == path
    assert Cache(tmp_path, 1000).fetch(store, "runs/a", 3) == path
    assert store.fetched == {"runs/a": 1}


def test_a_file_of_another_size_or_a_dropped_one_is_fetched_again(tmp_path: Path) -> None:
    store, cache = Kept(objects={"runs/a": b"abc"}), Cache(tmp_path, 1000)
    path = cache.fetch(store, "runs/a", 3)
    path.write_bytes(b"ab")
    assert cache.fetch(store, "runs/a", 3).read_bytes() == b"abc"
    path.write_bytes(b"xyz")
    assert cache.fetch(store, "runs/a", 3).read_bytes() == b"xyz"  # who reads it compares checksums
    cache.drop(store, "runs/a")
    cache.drop(store, "runs/a")
    assert cache.fetch(store, "runs/a", 3).read_bytes() == b"abc"
    assert store.fetched == {"runs/a": 3}


def test_stores_do_not_clash(tmp_path: Path) -> None:
    one, two = Kept("s3://one/state", {"runs/a": b"1"}), Kept("s3://two/state", {"runs/a": b"2"})
    cache = Cache(tmp_path, 1000)
    assert cache.fetch(one, "runs/a", 1).read_bytes() == b"1"
    assert cache.fetch(two, "runs/a", 1).read_bytes() == b"2"


def test_what_is_not_there_leaves_nothing(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1000)
    with pytest.raises(Missing):
        cache.fetch(Kept(), "runs/a", 1)
    assert list(cache._walk()) == []


def test_what_was_written_here_is_not_fetched(tmp_path: Path) -> None:
    store, cache = Kept(), Cache(tmp_path, 1000)
    part = cache.place(store, "runs/a")
    part.write_bytes(b"abc")
    assert part.parent == cache.keep(store, "runs/a", part).parent
    assert cache.fetch(store, "runs/a", 3).read_bytes() == b"abc"
    assert not part.exists() and not store.fetched


# --- what goes first ---------------------------------------------------------------------------


def filled(tmp_path: Path, limit: int, ages: dict[str, float], size: int = 100) -> tuple[Cache, dict[str, Path]]:
    """A cache with files that were used so many seconds ago."""
    store = Kept(objects={name: bytes(size) for name in ages})
    cache = Cache(tmp_path, limit=1 << 40)
    paths = {name: cache.fetch(store, name, size) for name in ages}
    for name, seconds in ages.items():
        age(paths[name], seconds)
    cache.limit = limit
    return cache, paths


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache, paths = filled(tmp_path, 250, {"a": 4000, "b": 3000, "c": 2000, "d": 1000})
    age(paths["a"], 500)  # used since
    assert cache.trim() == [paths["b"], paths["c"]]
    assert paths["a"].exists() and paths["d"].exists()
    assert cache.trim() == []


def test_using_a_file_makes_it_recent(tmp_path: Path) -> None:
    cache, paths = filled(tmp_path, 100, {"a": 4000, "b": 3000})
    cache.fetch(Kept(), "a", 100)
    assert cache.trim() == [paths["b"]]


def test_recent_files_stay_unless_there_is_twice_as_much(tmp_path: Path) -> None:
    cache, paths = filled(tmp_path, 100, {"a": RECENT - 60, "b": 1})
    assert cache.trim() == []
    cache.limit = 99
    assert cache.trim() == [paths["a"]]
    cache.limit = 10
    assert cache.trim() == []  # in use now, whatever there is
    age(paths["b"], IN_USE + 60)
    assert cache.trim() == [paths["b"]]


def test_a_fetch_keeps_the_bound(tmp_path: Path) -> None:
    store = Kept(objects={f"runs/{number:03d}": bytes(100) for number in range(100)})
    cache = Cache(tmp_path, 1000)
    for name in store.objects:
        age(cache.fetch(store, name, 100), RECENT + 1000 - len(store.fetched))
        assert sum(path.stat().st_size for path in cache._walk()) <= 1000 + 100
    assert {path.name for path in cache._walk()} >= {"099", "098", "097"}


def test_unfinished_files_go_when_they_are_old(tmp_path: Path) -> None:
    cache, _ = filled(tmp_path, 50, {"a": 10})
    fresh, old = cache.place(Kept(), "b"), cache.place(Kept(), "b")
    for path in (fresh, old):
        path.write_bytes(b"x")
    age(fresh, RECENT + 1000)
    age(old, ABANDONED + 1000)
    assert cache.trim() == [old]


def test_a_clock_that_was_set_back_keeps_no_file_forever(tmp_path: Path) -> None:
    cache, paths = filled(tmp_path, 50, {"a": -1_000_000})
    assert cache.trim() == [paths["a"]]


@pytest.mark.skipif(os.name != "posix", reason="a mapped file is not removed on Windows")
def test_a_mapped_file_may_go(tmp_path: Path) -> None:
    cache, paths = filled(tmp_path, 50, {"a": 4000})
    with paths["a"].open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert cache.trim() == [paths["a"]]
        assert mapped[:] == bytes(100)


def test_what_cannot_be_removed_is_skipped_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, paths = filled(tmp_path, 150, {"a": 4000, "b": 3000, "c": 2000})
    unlink = Path.unlink

    def as_on_windows(path: Path, missing_ok: bool = False) -> None:
        if path == paths["a"]:
            raise PermissionError(errno.EACCES, "it is in use")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", as_on_windows)
    assert cache.trim() == [paths["b"], paths["c"]]
    with pytest.raises(StateError, match=r"a cannot be removed from the cache: it is in use"):
        cache.drop(Kept(), "a")


# --- settings ----------------------------------------------------------------------------------


def test_the_environment_says_where_and_how_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDSTRUE_CACHE", str(tmp_path / "deep" / "cache"))
    monkeypatch.setenv("HOLDSTRUE_CACHE_BYTES", "12345")
    cache = Cache()
    assert (cache.folder, cache.limit) == (tmp_path / "deep" / "cache", 12345)
    cache.fetch(Kept(objects={"a": b"1"}), "a", 1)
    assert (tmp_path / "deep" / "cache").is_dir()


def test_each_system_has_its_folder() -> None:
    windows = folder_of({"LOCALAPPDATA": "C:/Users/ada/AppData/Local"}, "win32")
    assert windows.as_posix() == "C:/Users/ada/AppData/Local/holdstrue/Cache"
    assert folder_of({"XDG_CACHE_HOME": "/scratch", "HOME": "/home/ada"}, "linux") == Path("/scratch/holdstrue")
    for platform in ("linux", "darwin", "win32"):
        with pytest.raises(StateError, match="let HOLDSTRUE_CACHE name a folder"):
            folder_of({}, platform)


@pytest.mark.parametrize("told", ["10 GiB", "-1", "0", "1e9", "1_000", "١٢"])
def test_a_wrong_bound_is_an_error(told: str) -> None:
    with pytest.raises(StateError, match=r"(?s)HOLDSTRUE_CACHE_BYTES is .*a whole number above 0") as error:
        limit_of({"HOLDSTRUE_CACHE_BYTES": told})
    assert repr(told) in str(error.value)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match=r"(?s)the cache .*file/cache cannot be written: .*HOLDSTRUE_CACHE"):
        Cache(tmp_path / "file" / "cache").fetch(Kept(objects={"a": b"1"}), "a", 1)
    with pytest.raises(StateError, match="cannot be written"):
        Cache(tmp_path / "file" / "cache").place(Kept(), "a")


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    class Full(Kept):
        def fetch(self, name: str, path: Path, size: int | None = None) -> None:
            path.write_bytes(b"begun")
            raise OSError(errno.ENOSPC, "No space left on device")

    cache = Cache(tmp_path)
    with pytest.raises(StateError, match=r"(?s)No space left on device.*make room there"):
        cache.fetch(Full(), "a", 10)
    assert list(cache._walk()) == []


@pytest.mark.skipif(os.name != "posix", reason="of owners and modes")
def test_the_files_are_the_users_own(tmp_path: Path) -> None:
    store, cache = Kept(objects={"a": b"1"}), Cache(tmp_path)
    cache.fetch(store, "a", 1)
    assert (tmp_path / "objects").stat().st_mode & 0o777 == 0o700
    (tmp_path / "objects").chmod(0o755)
    cache.drop(store, "a")
    cache.fetch(store, "a", 1)
    assert (tmp_path / "objects").stat().st_mode & 0o777 == 0o700
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "objects").symlink_to(tmp_path / "objects")
    with pytest.raises(StateError, match="not a folder of this user's own"):
        Cache(tmp_path / "other").fetch(store, "b", 1)


# --- many at once ------------------------------------------------------------------------------


def test_threads_fetch_a_file_once(tmp_path: Path) -> None:
    barrier = threading.Barrier(8)
    store = Kept(objects={"a": bytes(1000)})

    def fetch(_: int) -> bytes:
        cache = Cache(tmp_path)
        barrier.wait()
        return cache.fetch(store, "a", 1000).read_bytes()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(fetch, range(8))) == {bytes(1000)}
    assert store.fetched["a"] == 1 or os.name == "nt"


_FETCH = """
import sys
from holdstrue.state.cache import Cache
from holdstrue.state.objects import ObjectStore
store, cache = ObjectStore(sys.argv[1]), Cache()
for turn in range(int(sys.argv[2])):
    for number in range(6):
        path = cache.fetch(store, f"runs/{number}", 1000 + number)
        data = path.read_bytes()
        assert data == bytes([number]) * (1000 + number), (number, len(data))
        if turn % 3 == number % 3:
            cache.drop(store, f"runs/{number}")
            cache.trim()
print("right")
"""


def _run(count: int, program: str, *arguments: str) -> list[str]:
    """What so many processes that run it at once print."""
    command = [sys.executable, "-c", program, *arguments]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    return [process.communicate(timeout=60)[0] for process in started]


def test_two_processes_fetch_a_file_once(s3: str, proxy: FaultProxy) -> None:
    store = ObjectStore(s3)
    for number in range(6):
        store.create(f"runs/{number}", bytes([number]) * (1000 + number))
    # the first to come is slow, so that the other meets it
    proxy.plan({1: Delay(1.5)}, counting="GET .*/runs/")
    program = _FETCH.replace("if turn % 3 == number % 3", "if False")
    assert _run(2, program, s3, "1") == ["right\n"] * 2
    assert proxy.seen == 6


def test_processes_that_drop_and_trim_do_not_harm_each_other(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDSTRUE_CACHE_BYTES", "2000")
    store = ObjectStore(s3)
    for number in range(6):
        store.create(f"runs/{number}", bytes([number]) * (1000 + number))
    program = _FETCH.replace("        data = path.read_bytes()", "        data = read(path)").replace(
        "store, cache",
        # another process may drop what this one was told of: it asks again
        """def read(path):
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return read(cache.fetch(store, f"runs/{path.name}", 1000 + int(path.name)))
store, cache""",
        1,
    )
    assert _run(3, program, s3, "12") == ["right\n"] * 3


def test_a_run_is_written_here_sent_and_found_by_others(s3: str, proxy: FaultProxy, tmp_path: Path) -> None:
    store, cache = ObjectStore(s3), Cache()
    part = cache.place(store, "runs/a-1.arrow")
    part.write_bytes(b"rows" * 1000)
    path = cache.keep(store, "runs/a-1.arrow", part)
    store.create_from("runs/a-1.arrow", path)
    proxy.plan()
    assert cache.fetch(store, "runs/a-1.arrow", 4000) == path
    assert proxy.requests == []
    elsewhere = Cache(tmp_path / "elsewhere").fetch(store, "runs/a-1.arrow", 4000)
    assert elsewhere.read_bytes() == b"rows" * 1000
    assert [request.method for request in proxy.requests] == ["GET"]
