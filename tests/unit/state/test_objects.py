"""States' objects in S3: the verbs, what happens when answers are lost, and what errors say and do not say."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import socket
import subprocess
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fault_proxy import Answer, Cut, Delay, Drop, Fault, FaultProxy, Kill, Repeat
from holdstrue.errors import StateError
from holdstrue.state import object_client, objects
from holdstrue.state.object_client import PATIENCE, Patience
from holdstrue.state.objects import PART, RANGE, ObjectStore
from holdstrue.state.store import Listed, Missing, Taken, UnsureError
from objects import Moto

# --- the verbs ---------------------------------------------------------------------------------


def test_what_is_created_is_read_listed_and_deleted(s3: str) -> None:
    store = ObjectStore(s3)
    store.create("log/000000000001", b"first")
    store.create("log/000000000002", b"second")
    store.create("runs/a-1.arrow", b"")
    assert store.read("log/000000000001") == b"first"
    assert store.read("runs/a-1.arrow") == b""
    assert store.read_range("log/000000000002", 2, 3) == b"con"
    found = store.list("")
    assert [(one.name, one.size) for one in found] == [
        ("log/000000000001", 5),
        ("log/000000000002", 6),
        ("runs/a-1.arrow", 0),
    ]
    assert isinstance(found[0], Listed) and abs(time.time() - found[0].modified) < 3600
    store.delete(["log/000000000001", "log/never-there", "runs/a-1.arrow"])
    assert [one.name for one in store.list()] == ["log/000000000002"]
    store.delete([])


def test_an_object_is_created_once(s3: str) -> None:
    store = ObjectStore(s3)
    store.create("log/1", b"mine")
    with pytest.raises(Taken, match="log/1"):
        store.create("log/1", b"yours")
    # the same bytes are another's all the same
    with pytest.raises(Taken):
        ObjectStore(s3).create("log/1", b"mine")
    assert store.read("log/1") == b"mine"


@pytest.mark.parametrize(
    "data",
    [
        b"abcdef",
        bytearray(b"abcdef"),
        memoryview(b"xabcdefx")[1:-1],
        [b"abc", memoryview(b""), bytearray(b"def")],
        [],
        pa.py_buffer(b"abcdef"),
        np.frombuffer(b"abcdef", dtype=np.int16),
    ],
    ids=["bytes", "bytearray", "view", "several", "none", "arrow", "numpy"],
)
def test_any_buffers_are_taken(s3: str, data: objects.Buffer) -> None:
    store = ObjectStore(s3)
    store.create("log/1", data)
    assert store.read("log/1") in (b"abcdef", b"")


def test_what_is_not_there_is_missing(s3: str, tmp_path: Path) -> None:
    store = ObjectStore(s3)
    for ask in (
        lambda: store.read("log/1"),
        lambda: store.read_range("log/1", 0, 1),
        lambda: store.fetch("log/1", tmp_path / "file"),
        lambda: store.fetch("log/1", tmp_path / "file", 10),
    ):
        with pytest.raises(Missing, match="log/1"):
            ask()
    assert store.list("log/") == []


def test_a_range_ends_where_the_object_does(s3: str) -> None:
    store = ObjectStore(s3)
    store.create("log/1", b"abc")
    asked = {(0, 3): b"abc", (1, 3): b"bc", (3, 1): b"", (100, 1): b"", (5, 0): b""}
    assert {(start, size): store.read_range("log/1", start, size) for start, size in asked} == asked


def test_names_are_listed_by_prefix_in_order_and_from_one_on(s3: str, moto: Moto) -> None:
    store = ObjectStore(s3)
    names = [f"log/{number:012d}" for number in range(1, 25)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.create(name, b"x"), reversed(names)))
    store.create("logs/1", b"x")
    ObjectStore(f"{s3}-2").create("log/other", b"x")
    assert [one.name for one in store.list("log/")] == names
    assert [one.name for one in store.list("log/00000000002")] == names[19:]
    assert [one.name for one in store.list("log/", after=names[21])] == names[22:]
    assert [one.name for one in store.list("log")] == [*names, "logs/1"]


def test_all_pages_of_a_listing_are_read(s3: str, proxy: FaultProxy) -> None:
    store = ObjectStore(s3)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: store.create(f"log/{number:06d}", b""), range(1005)))
    proxy.plan()
    assert [one.name for one in store.list("log/")] == [f"log/{number:06d}" for number in range(1005)]
    assert len(proxy.requests) == 2
    store.delete([one.name for one in store.list("log/")])
    assert store.list() == []


@pytest.mark.parametrize("size", [0, 1, PART, PART + 1, RANGE, RANGE + 1])
def test_files_of_any_size_go_there_and_back(s3: str, tmp_path: Path, size: int) -> None:
    store = ObjectStore(s3)
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8).tobytes()
    (tmp_path / "sent").write_bytes(data)
    store.create_from("runs/a-1.arrow", tmp_path / "sent")
    store.fetch("runs/a-1.arrow", tmp_path / "back")
    store.fetch("runs/a-1.arrow", tmp_path / "known", size)
    assert (tmp_path / "back").read_bytes() == data
    assert (tmp_path / "known").read_bytes() == data
    assert store.read_range("runs/a-1.arrow", size // 2, size - size // 2) == data[size // 2 :]


def test_an_object_shorter_than_told_is_not_fetched(s3: str, tmp_path: Path) -> None:
    store = ObjectStore(s3)
    store.create("runs/a", b"abc")
    with pytest.raises(StateError, match="runs/a is damaged: it ends before byte 4"):
        store.fetch("runs/a", tmp_path / "file", 4)
    with pytest.raises(StateError, match="runs/a is damaged: it has 3 bytes instead of 1000000000000000000"):
        store.fetch("runs/a", tmp_path / "file", 10**18)


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "../a", "a/../b", ".", "a b", "a\n", "a%2fb", "a?b", "ü"])
def test_names_stay_below_the_folder(s3: str, name: str) -> None:
    store = ObjectStore(s3)
    for ask in (lambda: store.create(name, b""), lambda: store.read(name), lambda: store.delete([name])):
        with pytest.raises(StateError, match="is not a name of an object"):
            ask()


def test_of_many_that_create_one_name_one_wins(s3: str) -> None:
    def attempt(number: int) -> int | None:
        store = ObjectStore(s3)
        try:
            store.create(name, str(number).encode())
        except Taken:
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        for round_ in range(20):
            name = f"log/{round_:012d}"
            winners = [number for number in pool.map(attempt, range(8)) if number is not None]
            assert len(winners) == 1
            assert ObjectStore(s3).read(name) == str(winners[0]).encode()


# --- lost and repeated answers -----------------------------------------------------------------


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little patience, for servers that never recover."""
    for purpose, given in PATIENCE.items():
        monkeypatch.setitem(PATIENCE, purpose, Patience(2.0, 0.2, min(given.repeats, 1), 0.5))
    monkeypatch.setattr(objects, "UNTIL", 0.5)


FAULTS: list[Fault] = [
    Drop(),
    Drop(before=True),
    Repeat(),
    Answer(500),
    Answer(500, done=True),
    Answer(503),
    Answer(503, done=True),
    Answer(429),
    Answer(409),
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_does_not_show(s3: str, proxy: FaultProxy, tmp_path: Path, fault: Fault) -> None:
    store = ObjectStore(s3)
    verbs: dict[str, Callable[[], object]] = {
        "create": lambda: store.create("log/1", b"mine"),
        "read": lambda: store.read("log/1"),
        "read_range": lambda: store.read_range("log/1", 1, 2),
        "list": lambda: [one.name for one in store.list("log/")],
        "fetch": lambda: store.fetch("log/1", tmp_path / "file"),
        "delete": lambda: store.delete(["log/1"]),
    }
    answers = {}
    for verb, ask in verbs.items():
        if fault == Answer(409) and verb != "create":
            continue
        proxy.plan({1: fault})
        answers[verb] = ask()
        assert proxy.requests[0].fault == fault
    expected = {"create": None, "read": b"mine", "read_range": b"in", "list": ["log/1"], "fetch": None, "delete": None}
    assert answers == {verb: expected[verb] for verb in answers}
    if "delete" in answers:
        assert (tmp_path / "file").read_bytes() == b"mine"
        assert store.list() == []


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_does_not_hide_that_another_was_first(s3: str, moto: Moto, proxy: FaultProxy, fault: Fault) -> None:
    store = ObjectStore(s3)
    store.create("log/1", b"theirs")
    proxy.plan({1: fault})
    with pytest.raises(Taken):
        store.create("log/1", b"mine")
    assert store.read("log/1") == b"theirs"


def test_an_answer_that_comes_too_late_is_a_lost_one(
    s3: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for purpose, given in PATIENCE.items():
        monkeypatch.setitem(PATIENCE, purpose, Patience(1.0, 1.0, given.repeats, given.until))
    store = ObjectStore(s3)
    for ask, answer in (
        (lambda: store.create("log/1", b"mine"), None),
        (lambda: store.read("log/1"), b"mine"),
        (lambda: store.delete(["log/1"]), None),
    ):
        proxy.plan({1: Delay(2)})
        assert ask() == answer
        assert len(proxy.requests) >= 2
    assert store.list() == []


def test_every_request_of_an_upload_may_fail(
    s3: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(objects, "PART", 5 << 20)  # S3 takes no smaller ones
    store = ObjectStore(s3)
    data = os.urandom(objects.PART + 5)
    (tmp_path / "file").write_bytes(data)
    proxy.plan()
    store.create_from("runs/whole", tmp_path / "file")
    requests = proxy.seen
    assert requests == 4  # begin, two parts, end
    for fault in (Drop(), Repeat(), Answer(500, done=True)):
        for number in range(1, requests + 1):
            name = f"runs/{uuid.uuid4().hex}"
            proxy.plan({number: fault})
            store.create_from(name, tmp_path / "file")
            assert store.read(name) == data


def test_every_request_of_a_fetch_may_fail(
    s3: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(objects, "RANGE", 2_500_000)
    store = ObjectStore(s3)
    data = os.urandom(6_000_000)
    store.create("runs/a", data)
    for fault in (Drop(), Repeat(), Cut(), Answer(500)):
        for number in range(1, 5):
            proxy.plan({number: fault})
            store.fetch("runs/a", tmp_path / "back")
            assert (tmp_path / "back").read_bytes() == data
            assert proxy.seen >= 4  # its size, and three ranges


def test_what_is_cut_off_is_read_to_its_end(s3: str, proxy: FaultProxy) -> None:
    store = ObjectStore(s3)
    data = os.urandom(300_000)
    store.create("log/1", data)
    proxy.plan({1: Cut()})
    assert store.read("log/1") == data
    assert proxy.seen == 2
    proxy.plan({1: Cut()})
    assert store.read_range("log/1", 7, 200_000) == data[7:200_007]
    assert proxy.seen == 2


def test_obstore_repeats_a_conditional_put_and_reports_our_own_object(s3: str, proxy: FaultProxy) -> None:
    """Why `create` repeats by itself: should this fail one day, obstore has learned it."""
    import obstore
    from obstore.store import S3Store

    client = S3Store(s3.split("/")[2], client_options={"allow_http": True})
    proxy.plan({1: Drop()})
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        obstore.put(client, "log/1", b"mine", mode="create")
    assert [request.status for request in proxy.requests] == [200, 412]


def test_where_metadata_is_not_kept_bytes_tell_whose_it_is(
    s3: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ObjectStore(s3)
    store.create("log/2", b"theirs")
    monkeypatch.setattr(objects, "_WRITER", "content-language")  # as good as none: not kept among metadata
    proxy.plan({1: Drop()})
    store.create("log/1", b"mine")
    assert [str(request).split()[0] for request in proxy.requests][:2] == ["PUT", "PUT"]
    with pytest.raises(Taken):
        store.create("log/2", b"mine")


@pytest.mark.usefixtures("hurried")
def test_without_any_answer_it_is_said_that_nobody_knows(s3: str, proxy: FaultProxy) -> None:
    store = ObjectStore(s3)
    proxy.plan(dict.fromkeys(range(1, 100), Drop()))
    with pytest.raises(
        UnsureError, match=r"log/1.*the connection to .* broke; it may have been created nevertheless"
    ) as told:
        store.create("log/1", b"mine")
    assert told.value.hint == "check the network, or try again later"
    proxy.plan()
    assert store.read("log/1") == b"mine"


def test_a_refusal_after_a_lost_answer_is_no_certainty(s3: str, proxy: FaultProxy) -> None:
    store = ObjectStore(s3)
    proxy.plan({1: Drop(), 2: Answer(403)})
    with pytest.raises(UnsureError, match="access is denied"):
        store.create("log/1", b"mine")
    proxy.plan({1: Answer(403)})
    with pytest.raises(StateError, match="access is denied") as told:
        store.create("log/2", b"mine")
    assert not isinstance(told.value, UnsureError)


def test_an_object_that_cannot_be_looked_at_is_no_certainty(s3: str, proxy: FaultProxy) -> None:
    store = ObjectStore(s3)
    proxy.plan({1: Drop(), 3: Answer(403)})
    with pytest.raises(UnsureError):
        store.create("log/1", b"mine")
    assert [request.method for request in proxy.requests] == ["PUT", "PUT", "HEAD"]


@pytest.mark.parametrize("after", [False, True])
def test_a_process_is_killed_at_a_request(s3: str, proxy: FaultProxy, after: bool) -> None:
    program = "import sys; from holdstrue.state.objects import ObjectStore; s = ObjectStore(sys.argv[1])\n"
    program += "for n in range(1, 9): s.create(f'log/{n}', b'x')"
    with subprocess.Popen([sys.executable, "-c", program, s3]) as child:
        proxy.plan({3: Kill(lambda: child.pid, after=after)}, counting="PUT .*/log/")
        assert child.wait(timeout=60) == -9
    proxy.plan()
    assert len(ObjectStore(s3).list("log/")) == (3 if after else 2)


# --- errors ------------------------------------------------------------------------------------

SECRETS = ("AKIAPLANTED", "pl4nted/Secret+Key", "pl4ntedToken", "X-Amz-Signature", "list-type", "Signature=")


@contextmanager
def failing(*words: str) -> Iterator[None]:
    """An error of ours with these words; without any secret, in its message, its parts or its traceback."""
    with pytest.raises(StateError) as told:
        yield
    text = str(told.value)
    for word in words:
        assert re.search(word, text), text
    shown = "".join(traceback.format_exception(told.value)) + repr(told.value) + repr(told.value.__dict__)
    assert told.value.hint
    for secret in SECRETS:
        assert secret not in shown


@pytest.fixture
def planted(s3: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", SECRETS[0])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRETS[1])
    monkeypatch.setenv("AWS_SESSION_TOKEN", SECRETS[2])
    return s3


def everything(store: ObjectStore, folder: Path) -> Iterator[Callable[[], object]]:
    """All verbs."""
    (folder / "small").write_bytes(b"x")
    (folder / "large").write_bytes(bytes(PART + 1))
    yield lambda: store.create("log/1", b"x")
    yield lambda: store.create("log/1", bytes(objects.SMALL + 1))
    yield lambda: store.create_from("runs/1", folder / "small")
    yield lambda: store.create_from("runs/1", folder / "large")
    yield lambda: store.read("log/1")
    yield lambda: store.read_range("log/1", 0, 1)
    yield lambda: store.fetch("log/1", folder / "file")
    yield lambda: store.list("log/")
    yield lambda: store.delete(["log/1"])


@pytest.mark.usefixtures("planted")
def test_a_bucket_that_is_not_there_is_named(tmp_path: Path) -> None:
    for ask in everything(ObjectStore("s3://never-made/state"), tmp_path):
        with failing("s3://never-made/state", "there is no bucket 'never-made'", "make the bucket first"):
            ask()


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (403, "AccessDenied", ("access is denied", "need to read, write, list and delete")),
        (403, "SignatureDoesNotMatch", ("does not accept the credentials", "check them")),
        (403, "InvalidAccessKeyId", ("does not accept the credentials", "AWS_ACCESS_KEY_ID")),
        (400, "ExpiredToken", ("does not accept the credentials", "ExpiredToken")),
        (400, "AuthorizationHeaderMalformed", ("in another region", "AWS_REGION")),
        (501, "NotImplemented", ("lacks what states need", "conditional puts")),
        (418, "Teapot", ("refuses", "418 Teapot")),
    ],
)
@pytest.mark.usefixtures("hurried")
def test_what_a_server_refuses_is_told_in_words(
    planted: str, proxy: FaultProxy, tmp_path: Path, status: int, code: str, words: tuple[str, ...]
) -> None:
    store = ObjectStore(planted)
    body = f"<Error><Code>{code}</Code><AWSAccessKeyId>{SECRETS[0]}</AWSAccessKeyId>{SECRETS[1]}</Error>".encode()
    for ask in everything(store, tmp_path):
        proxy.plan(dict.fromkeys(range(1, 100), Answer(status, body=body)))
        with failing(planted, *words):
            ask()


@pytest.mark.usefixtures("hurried")
def test_a_server_that_fails_for_good_is_an_error(planted: str, proxy: FaultProxy, tmp_path: Path) -> None:
    store = ObjectStore(planted)
    for ask in everything(store, tmp_path):
        proxy.plan(dict.fromkeys(range(1, 100), Answer(503, body=b"<Error><Code>SlowDown</Code></Error>")))
        with failing(planted, "fails or is too busy", "503"):
            ask()


@pytest.mark.usefixtures("hurried")
def test_nobody_listening_is_an_error_soon(planted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://user:{SECRETS[2]}@127.0.0.1:{unused.getsockname()[1]}")
        for ask in everything(ObjectStore(planted), tmp_path):
            with failing(planted, r"http://127.0.0.1:\d+ cannot be reached", "AWS_ENDPOINT_URL"):
                ask()


@pytest.mark.usefixtures("hurried")
def test_a_server_that_never_answers_is_an_error(planted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(100)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        for ask in everything(ObjectStore(planted), tmp_path):
            with failing(planted, "does not answer"):
                ask()


def test_patience_ends_within_twenty_seconds() -> None:
    """Of the settings themselves: a server that never answers, or one that is not there, and no test that waits."""
    for purpose in ("read", "create"):
        given = PATIENCE[purpose]
        until = given.until if given.repeats else objects.UNTIL
        assert until + given.silence < 20 and until + object_client.CONNECT < 20
        assert given.request >= given.silence


def test_an_unknown_host_is_an_error(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower() in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://nowhere.invalid")
    with failing("http://nowhere.invalid cannot be reached"):
        ObjectStore(planted).read("log/1")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("s3://KEY:pl4nted@bucket/state", "holds credentials.*AWS_ACCESS_KEY_ID"),
        ("s3://KEY:pl4n/ted@bucket/pl4nted", "holds credentials"),
        ("s3a://pl4nted@bucket/state", "holds credentials"),
        ("s3:/KEY:pl4nted@bucket/state", "holds credentials"),
        ("gs://KEY:pl4nted@bucket/state", "holds credentials.*GOOGLE_APPLICATION_CREDENTIALS"),
        ("abfss://files:pl4nted@acme.dfs.core.windows.net/state", "holds credentials.*AZURE"),
        ("abfss://files@acme.example.com/pl4nted", "holds credentials.*dfs.core.windows.net"),
        ("az://files/state?sv=2024&sig=pl4nted", "holds a query.*environment"),
        ("az://files?sig=pl4nted", "names no bucket"),
        ("s3://bucket/state#pl4nted", "holds a query or a fragment"),
        ("https://KEY:pl4nted@host/bucket?X-Amz-Signature=pl4nted", "https: does not name an object store"),
    ],
)
def test_urls_with_secrets_are_refused_without_repeating_them(url: str, words: str) -> None:
    with pytest.raises(StateError) as told:
        ObjectStore(url)
    text = str(told.value)
    assert re.search(words, text, re.DOTALL), text
    assert "pl4n" not in text + repr(told.value.__context__)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("s3://bucket/a/../b", "part '..'"),
        ("s3://bucket/a//b", "part ''"),
        ("s3://bucket/a%2fb", "part 'a%2fb'"),
        ("s3:///state", "does not name"),
        ("s3://-/state", "names no bucket: '-'"),
        ("state", "'state' does not name an object store"),
        ("hdfs://host/state", "starts with hdfs: does not name an object store"),
    ],
)
def test_urls_that_name_no_folder_are_refused(url: str, words: str) -> None:
    with pytest.raises(StateError, match=words):
        ObjectStore(url)


@pytest.mark.parametrize(
    ("url", "shown", "parts"),
    [
        ("s3://bucket/state", "s3://bucket/state", ("s3", "bucket", "state", None)),
        ("S3A://my.bucket-1/a/b c/", "s3a://my.bucket-1/a/b c", ("s3", "my.bucket-1", "a/b c", None)),
        (Path("s3://bucket/state"), "s3://bucket/state", ("s3", "bucket", "state", None)),
        ("s3://bucket", "s3://bucket", ("s3", "bucket", "", None)),
        ("gs://bucket/state", "gs://bucket/state", ("gs", "bucket", "state", None)),
        ("gcs://bucket/state", "gcs://bucket/state", ("gs", "bucket", "state", None)),
        ("az://files/state", "az://files/state", ("az", "files", "state", None)),
        ("azure://files/state", "azure://files/state", ("az", "files", "state", None)),
        ("abfs://files/state", "abfs://files/state", ("az", "files", "state", None)),
        (
            "abfss://files@acme.dfs.core.windows.net/state",
            "abfss://files@acme.dfs.core.windows.net/state",
            ("az", "files", "state", "acme"),
        ),
    ],
)
def test_urls_that_are_read(url: str | Path, shown: str, parts: tuple[str, str, str, str | None]) -> None:
    store = ObjectStore(url)
    place = store._place
    assert store.url == shown
    assert (place.provider, place.bucket, place.prefix, place.account) == parts


def test_stores_at_two_addresses_are_two(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = ObjectStore(s3).identity
    assert here == ObjectStore(s3.replace("s3://", "s3a://")).identity
    assert here != ObjectStore(s3 + "2").identity
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert here != ObjectStore(s3).identity


def test_without_obstore_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(StateError, match=re.escape("pip install 'holdstrue[objects]'")):
        ObjectStore("s3://bucket/state")


# --- credentials -------------------------------------------------------------------------------


@pytest.fixture
def keyless(s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """An environment without keys, on a machine that gives none."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{unused.getsockname()[1]}/metadata")
    return s3


def test_without_credentials_it_is_said_where_they_belong(keyless: str) -> None:
    with failing(keyless, "no credentials", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        ObjectStore(keyless).list()


def test_profiles_are_read_by_boto3(
    keyless: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "secrets").write_text(f"[work]\naws_access_key_id = PROFILEKEY\naws_secret_access_key = {SECRETS[1]}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "secrets"))
    monkeypatch.setenv("AWS_PROFILE", "work")
    store = ObjectStore(keyless)
    store.create("log/1", b"x")
    assert store.read("log/1") == b"x"
    assert (
        "Credential=PROFILEKEY/"
        in {name.lower(): value for name, value in proxy.requests[0].headers.items()}["authorization"]
    )
    monkeypatch.setenv("AWS_PROFILE", "play")
    with failing("AWS profile 'play' cannot be read: ProfileNotFound"):
        ObjectStore(keyless).read("log/1")


def test_profiles_without_boto3_are_an_error(keyless: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.util import find_spec

    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "boto3" else find_spec(name))
    with failing("AWS_PROFILE.*boto3", "pip install boto3"):
        ObjectStore(keyless).read("log/1")


def test_a_bundle_that_is_not_there_is_named(s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "none.pem"))
    with failing("AWS_CA_BUNDLE", "none.pem"):
        ObjectStore(s3).read("log/1")


def test_a_store_travels_by_its_url(planted: str) -> None:
    store = ObjectStore(planted)
    store.create("log/1", b"x")
    packed = pickle.dumps(store)
    assert not any(secret.encode() in packed for secret in SECRETS)
    assert pickle.loads(packed).read("log/1") == b"x"
    assert repr(store) == f"ObjectStore({planted!r})"


# --- forks -------------------------------------------------------------------------------------


def _in_child(store: ObjectStore, depth: int) -> None:
    """Use a store of the parent's and one of our own, then once more one fork further down."""
    if store.read("log/1") != b"parent":
        raise AssertionError
    ObjectStore(store.url).create(f"log/child-{depth}", b"child")
    if depth:
        _forked(store, depth - 1)


def _forked(store: ObjectStore, depth: int) -> None:
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(store, depth))
    child.start()
    child.join(timeout=60)
    if child.exitcode is None:
        child.kill()
        child.join()
    assert child.exitcode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_store_works_in_forked_processes(s3: str) -> None:
    store = ObjectStore(s3)
    store.create("log/1", b"parent")
    for _ in range(3):
        _forked(store, 2)
        store.delete(["log/child-0", "log/child-1", "log/child-2"])
        assert store.read("log/1") == b"parent"
    # taken in a child is taken: its obstore has exceptions of its own
    store.create("log/child-0", b"parent")
    with pytest.raises(AssertionError):
        _forked(store, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_that_ends_by_itself_leaves_the_parents_connections(s3: str) -> None:
    program = """
import os, sys
from holdstrue.state.objects import ObjectStore
store = ObjectStore(sys.argv[1])
store.create("log/1", b"x")
for turn in range(10):
    child = os.fork()
    if child == 0:
        if turn % 2:
            store.read("log/1")
        del store
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert store.read("log/1") == b"x"
print("done")
"""
    ran = subprocess.run([sys.executable, "-c", program, s3], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done\n", "")
