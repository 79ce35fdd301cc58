"""`watch` bears faults that pass: it says them, waits, and goes on where it stopped; others end it with an error."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from database import Postgres
from fault_proxy import Answer, FaultProxy
from holdstrue.cli.process_watch import FIRST_PAUSE, LONGEST_PAUSE
from holdstrue.cli.watching import Stop
from holdstrue.errors import DataError
from holdstrue.sources.passing import may_pass
from unit.cli.runs import PEOPLE, run, run_json, write
from ways import web

MORE = PEOPLE + "9,60601,Ulm,IL,1,1\n"


class Script:
    """What happens while `watch` waits, one thing after the other; then it is asked to end."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.waits: list[float] = []
        self._steps: list[Callable[[], object]] = []
        script = self

        def wait(stop: Stop, seconds: float) -> None:
            script.waits.append(seconds)
            if script._steps:
                script._steps.pop(0)()
            else:
                stop._asked.set()

        patch.setattr(Stop, "wait", wait)

    def run(self, *args: object, steps: list[Callable[[], object]], code: int = 0) -> Any:
        """What `watch` printed, while these things happened."""
        self.waits, self._steps = [], list(steps)
        result = run("watch", *args, "--every", "7s")
        assert result.exit_code == code, result.output
        return result


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """The course of a test."""
    return Script(monkeypatch)


def cut_short(handler: Any) -> None:
    """Half of what was promised."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(2 * len(PEOPLE)))
    handler.end_headers()
    handler.wfile.write(PEOPLE.encode())


def test_a_web_server_that_fails_for_a_while(state: Path, script: Script) -> None:
    answers: dict[str, Any] = {"/people.csv": (200, {}, PEOPLE.encode())}

    def become(answer: Any) -> Callable[[], object]:
        return lambda: answers.update({"/people.csv": answer})

    def reset(handler: Any) -> None:
        handler.connection.shutdown(socket.SHUT_RDWR)

    bad = [become((503, {}, b"")), become(cut_short), become(reset), become((429, {}, b""))]
    with web(answers) as address:
        found = script.run(state, f"{address}/people.csv", "--snapshot", steps=[*bad, become((200, {}, MORE.encode()))])
        assert script.waits == [7, 1, 2, 4, 8, 7]
        assert "answers 503" in found.stderr
        assert "was cut short" in found.stderr
        assert "trying again in 8 s" in found.stderr
        assert found.stderr.count("it answers again") == 1
        assert "+1 new" in found.stdout
        ended = script.run(state, f"{address}/people.csv", "--snapshot", steps=[become((404, {}, b""))], code=2)
        assert "answers 404" in ended.stderr
        assert script.waits == [7]
        again = run("watch", state, f"{address}/people.csv", "--snapshot", "--once")
        assert again.exit_code == 2
    ended = script.run(state, f"{address}/people.csv", "--snapshot", steps=[lambda: None] * 8)
    assert script.waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert "Connection refused" in ended.stderr
    assert (FIRST_PAUSE, LONGEST_PAUSE) == (1, 60)
    assert run_json("status", state)["batches"] == 2


def test_a_locked_database(state: Path, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdstrue.sources.databases.sqlite_file.BUSY", 0.01)
    other = sqlite3.connect(tmp_path / "p.db", isolation_level=None)
    other.executescript(
        "create table p (id integer, zip integer, city text, state text, salary integer, rate integer, seen integer);"
        "insert into p values (1, 10001, 'NYC', 'NY', 5000, 3, 1)"
    )

    def lock() -> None:
        other.execute("begin exclusive")
        other.execute("insert into p values (8, 60601, 'Ulm', 'IL', 1, 1, 2)")

    found = script.run(
        state, f"sqlite:{tmp_path / 'p.db'}?table=p", "--by", "seen",
        steps=[lock, lambda: None, lambda: other.execute("commit")],
    )  # fmt: skip
    assert script.waits == [7, 1, 2, 7]
    assert "database is locked" in found.stderr
    assert "+1 new" in found.stdout
    other.execute("drop table p")
    ended = script.run(state, f"sqlite:{tmp_path / 'p.db'}?table=p", "--by", "seen", steps=[], code=2)
    assert "has no table 'p'" in ended.stderr
    other.close()


class Forwarder:
    """A port that leads to another one, and that can be closed and opened again."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._sockets: list[socket.socket] = []
        self.port = 0
        self.open()

    def open(self) -> None:
        """Lead there, from now on."""
        listening = socket.create_server(("127.0.0.1", self.port))
        self.port = listening.getsockname()[1]
        self._sockets = [listening]
        threading.Thread(target=self._accept, args=[listening, self._sockets], daemon=True).start()

    def close(self) -> None:
        """Cut off who is connected, and refuse who comes."""
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self, listening: socket.socket, made: list[socket.socket]) -> None:
        with contextlib.suppress(OSError):
            while True:
                pair = listening.accept()[0], socket.create_connection(("127.0.0.1", self._target))
                made.extend(pair)
                for one, two in (pair, pair[::-1]):
                    threading.Thread(target=self._carry, args=[one, two], daemon=True).start()

    def _carry(self, one: socket.socket, two: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                two.sendall(data)
            two.shutdown(socket.SHUT_RDWR)


def test_a_database_server_that_is_gone_for_a_while(state: Path, script: Script, postgres: Postgres) -> None:
    postgres.sql(
        "drop table if exists p; create table p as select 1 as id, 10001 as zip, 'NYC' as city, 'NY' as state,"
        "5000 as salary, 3 as rate, timestamp '2024-01-01' as seen"
    )
    between = Forwarder(postgres.port)
    url = f"postgresql://{postgres.user}@127.0.0.1:{between.port}/postgres?table=p"

    def back() -> None:
        postgres.sql("insert into p values (8, 60601, 'Ulm', 'IL', 1, 1, '2024-01-02')")
        between.open()

    try:
        found = script.run(state, url, "--by", "seen", steps=[between.close, back])
        assert script.waits == [7, 1, 7]
        assert "cannot connect to" in found.stderr
        assert "+1 new" in found.stdout
        for wrong, said in (
            (url.replace("table=p", "table=none"), "has no table"),
            (url.replace("/postgres?", "/nowhere?"), "does not exist"),
            (url.replace("table=p", "query=SELEC 1"), "syntax error"),
        ):
            assert said in script.run(state, wrong, "--by", "seen", steps=[], code=2).stderr
    finally:
        between.close()


def test_a_connection_that_breaks_while_rows_are_read(postgres: Postgres) -> None:
    from holdstrue.sources.databases.postgresql import opened

    postgres.sql("drop table if exists one; create table one as select 1 as id")
    between = Forwarder(postgres.port)
    try:
        table = opened(f"postgresql://{postgres.user}@127.0.0.1:{between.port}/postgres?table=one", None)
        between.close()
        with pytest.raises(DataError) as caught:
            table.read()
        assert may_pass(caught.value)
    finally:
        between.close()


@pytest.mark.parametrize("done", [False, True])
def test_a_state_whose_store_fails(
    s3: str, proxy: FaultProxy, people: Path, rules: Path, tmp_path: Path, script: Script,
    monkeypatch: pytest.MonkeyPatch, done: bool,
) -> None:  # fmt: skip
    """Whether the lost request was done or not, the file is applied once."""
    monkeypatch.setattr("holdstrue.state.objects.ATTEMPTS", 1)
    assert run("init", s3, "--rules", rules, "--data", people).exit_code == 0
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a.csv", "op,id,zip,city,state,salary,rate\ninsert,8,60601,Ulm,IL,1,1\n")
    monkeypatch.setattr("holdstrue.sources.following.folder.SETTLED", 0.0)
    proxy.plan({1: Answer(503, done=done)}, counting="PUT .*log/")
    found = script.run(s3, tmp_path / "in", steps=[lambda: None])
    assert "cannot create log/" in found.stderr
    assert script.waits == [1, 7]
    status = run_json("status", s3)
    assert (status["batches"], status["tables"]["people"]["rows"]) == (2, 5)


def test_what_passes_and_what_lasts() -> None:
    import ssl

    def led(cause: BaseException) -> DataError:
        error = DataError("cannot be read")
        error.__context__ = cause
        return error

    passing = [
        ConnectionResetError("x"),
        TimeoutError("x"),
        OSError(113, "No route to host"),
        OSError("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 7, Couldn't connect to server"),
        socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
    ]
    lasting = [
        ValueError("connection refused"),
        PermissionError(13, "Permission denied"),
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        ssl.SSLCertVerificationError("self-signed"),
        sqlite3.OperationalError("no such table: t"),
        OSError("AWS Error ACCESS_DENIED during GetObject operation"),
    ]
    assert [may_pass(led(error)) for error in passing] == [True] * len(passing)
    assert [may_pass(led(error)) for error in lasting] == [False] * len(lasting)
    assert not may_pass(DataError("a cell that is no number"))
