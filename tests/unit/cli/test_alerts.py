"""`--alert` and `--openlineage`: who is told what, and that nobody's absence hurts a batch."""

from __future__ import annotations

import http.server
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdstrue import HoldstrueError
from holdstrue.alerts import Alert, UndeliveredError, target_of
from holdstrue.alerts.delivery import LinesFile, Program, Webhook, file_or_web, without_secrets
from holdstrue.detect.delta import Delta, Step, Violation
from holdstrue.rules import parse_rule
from unit.cli.runs import PEOPLE, RULES, run, write


class Listener(http.server.ThreadingHTTPServer):
    """A web server that keeps what is posted to it, and answers as it is told to."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, dict[str, str], Any]] = []
        self.status, self.go_on = 200, threading.Event()
        self.go_on.set()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://user:secret@127.0.0.1:{self.server_address[1]}/services/T0/secret?token=secret"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Listener

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.go_on.wait(60)
        self.server.posts.append((self.path, dict(self.headers), json.loads(body)))
        self.send_response(self.server.status)
        if self.server.status in (301, 302, 307):
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: Any) -> None:
        """Nothing on standard error."""


@contextmanager
def listening() -> Iterator[Listener]:
    with Listener() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.go_on.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with listening() as running:
        yield running


@pytest.fixture
def state(tmp_path: Path) -> Path:
    people = write(tmp_path / "people.csv", PEOPLE)
    done = run("init", tmp_path / "state", "--rules", write(tmp_path / "r.yaml", RULES), "--data", people)
    assert done.exit_code == 0, done.output
    return tmp_path / "state"


BAD = "id,zip,city,state,salary,rate\n5,60601,Springfield <b>,IL,1,1\n"
WARNED = "id,zip,city,state,salary,rate\n6,1,X,NY,9000,1\n"
GOOD = "id,zip,city,state,salary,rate\n7,2,Y,WA,1,1\n"


def test_a_webhook_hears_of_new_violations(server: Listener, state: Path, tmp_path: Path) -> None:
    done = run("apply", state, write(tmp_path / "b.csv", BAD), "--batch-id", "monday", "--alert", server.url)
    assert done.exit_code == 1 and not done.stderr
    [(path, headers, message)] = server.posts
    assert path == "/services/T0/secret?token=secret" and headers["Content-Type"] == "application/json"
    assert headers["Authorization"] == "Basic dXNlcjpzZWNyZXQ="
    assert message["text"].startswith(f"{state}, batch monday: 1 new violation (0 resolved, ")
    assert "• zips (error): 1 new, 3 open" in message["text"]
    assert message["state"] == str(state) and message["batch"] == "monday" and message["severity"] == "error"
    assert message["rules"] == [{"name": "zips", "severity": "error", "added": 1, "removed": 0, "open": 3}]
    assert message["examples"] == [{"rule": "zips", "t": 4, "s": 5}]
    # the same batch again is no news
    run("apply", state, tmp_path / "b.csv", "--batch-id", "monday", "--alert", server.url)
    assert len(server.posts) == 1


def test_who_is_told_when(server: Listener, state: Path, tmp_path: Path) -> None:
    def told(text: str, *options: str) -> int:
        before = len(server.posts)
        done = run("apply", state, write(tmp_path / "c.csv", text), "--alert", server.url, *options)
        assert done.exit_code in (0, 1), done.output
        return len(server.posts) - before

    assert told(GOOD) == 0
    assert told(GOOD.replace("7,2", "8,3"), "--alert-on", "batch") == 1
    assert server.posts[-1][2]["severity"] is None
    assert told(WARNED) == 0
    assert told(WARNED.replace("6,1", "9,4").replace("9000", "9500"), "--alert-on", "any") == 1
    assert server.posts[-1][2]["severity"] == "warn"


def undelivered(done: Any) -> str:
    assert "warning: batch " in done.stderr and "is applied, but the alert did not arrive" in done.stderr
    assert "secret" not in done.output
    return str(done.stderr)


@pytest.mark.parametrize("status", [301, 307, 403, 500])
def test_an_answer_that_is_no_yes_is_said_and_changes_nothing(
    server: Listener, state: Path, tmp_path: Path, status: int
) -> None:
    server.status = status
    done = run("apply", state, write(tmp_path / "b.csv", BAD), "--alert", server.url)
    assert done.exit_code == 1, "as without the alert"
    assert f"it answered {status}" in undelivered(done)
    assert len(server.posts) == 1, "nothing is sent elsewhere"
    assert run("status", state).stdout.count("5 rows") == 1


def test_nobody_there_and_nobody_answering(server: Listener, state: Path, tmp_path: Path) -> None:
    with listening() as gone:
        address = gone.url
    done = run("apply", state, write(tmp_path / "b.csv", BAD), "--alert", address)
    assert done.exit_code == 1 and "127.0.0.1" in undelivered(done)
    server.go_on.clear()
    with pytest.raises(UndeliveredError, match=r"no answer within 0.2 s"):
        Webhook(server.url, patience=0.2).deliver({})


def test_a_command_reads_it(state: Path, tmp_path: Path) -> None:
    kept = tmp_path / "it came.json"
    script = f"import sys, pathlib; pathlib.Path({str(kept)!r}).write_text(sys.stdin.read()); print('chatter')"
    command = f'"{sys.executable}" -c "{script}"'
    done = run("apply", state, write(tmp_path / "b.csv", BAD), "--alert", command, "--format", "json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["counts"]["zips"]["added"] == 1, "what it prints is not mixed with the answer"
    assert json.loads(kept.read_text())["added"] == 1


@pytest.mark.parametrize(
    ("code", "said"),
    [("raise SystemExit('no luck')", "exit code 1: no luck"), ("import os; os.kill(os.getpid(), 9)", "-9")],
)
def test_a_command_that_fails_is_said(state: Path, tmp_path: Path, code: str, said: str) -> None:
    done = run("apply", state, write(tmp_path / "b.csv", BAD), "--alert", f'"{sys.executable}" -c "{code}"')
    assert done.exit_code == 1 and said in undelivered(done)


def test_a_command_that_does_not_end_is_ended() -> None:
    with pytest.raises(UndeliveredError, match=r"not done within 0.5 s"):
        Program((sys.executable, "-c", "import time; time.sleep(600)"), patience=0.5).deliver({})


@pytest.mark.parametrize(
    ("alert", "said"),
    [("no-such-program-anywhere x", "there is no program"), ("", "is empty"), ("'", "cannot be read"),
     ("ftp://user:secret@host/x", "no such kind of address"), ("http://", "cannot be used"),
     ("http://host:99999/", "cannot be used"), ("https://ho st/\n", "cannot be used")],
)  # fmt: skip
def test_a_wrong_target_is_refused_before_anything_is_done(state: Path, tmp_path: Path, alert: str, said: str) -> None:
    done = run("apply", state, write(tmp_path / "b.csv", BAD), "--alert", alert)
    assert done.exit_code == 2 and said in done.stderr and "secret" not in done.stderr
    assert "4 rows" in run("status", state).stdout
    wrong = run("apply", state, tmp_path / "b.csv", "--alert-on", "any")
    assert wrong.exit_code == 2 and "nobody is told" in wrong.stderr


def test_messages_hold_hostile_names_and_keys_harmlessly() -> None:
    rule = parse_rule("zip -> city", name="<!channel> a&b\n\x1b[31m")
    violations = tuple(Violation(rule.name, float("nan"), (i, None), pair=True) for i in range(9))
    delta = Delta("b", violations, (), {rule.name: Step(9, 0, 9)})
    alert = Alert(None, "s3://user:secret@bucket/x?secret=1", [rule])
    message = alert.message(delta)
    assert "&lt;!channel&gt; a&amp;b\\n\\x1b[31m (error)" in message["text"] and "secret" not in json.dumps(message)
    assert len(message["examples"]) == 5


def test_lines_are_json(tmp_path: Path) -> None:
    target = LinesFile(tmp_path / "x.jsonl")
    target.deliver({"a": [float("nan")], "b": (1, None)})
    target.deliver({"é": 1})
    assert [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()] == [
        {"a": ["nan"], "b": [1, None]}, {"é": 1}
    ]  # fmt: skip
    assert without_secrets("https://u:p@h:1/a/b?c#d") == "https://h:1/a/b"
    assert isinstance(target_of("HTTPS://h/x"), Webhook)


def check_event(event: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the specification demands of an event; its first input with its facets."""
    assert event["eventType"] == "COMPLETE" and set(event) >= {"eventTime", "producer", "schemaURL", "run", "job"}
    assert len(event["run"]["runId"]) == 36 and event["job"]["namespace"] == "default"
    for table in event["inputs"]:
        for facet in table["inputFacets"].values():
            assert facet["_producer"].startswith("https://") and "/spec/facets/1-" in facet["_schemaURL"]
        assert all(
            {"assertion", "success"} <= set(a) for a in table["inputFacets"]["dataQualityAssertions"]["assertions"]
        )
    return event["inputs"][0], event["inputs"][0]["inputFacets"]


def test_openlineage_of_a_check(server: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENLINEAGE_NAMESPACE", raising=False)
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "secret-key")
    people, rules = write(tmp_path / "people.csv", PEOPLE), write(tmp_path / "r.yaml", RULES)
    kept = tmp_path / "events.jsonl"
    for target in (str(kept), server.url):
        assert run("check", people, "--rules", rules, "--openlineage", target).exit_code == 1
    [(_, headers, posted)] = server.posts
    assert headers["Authorization"] == "Bearer secret-key"
    table, facets = check_event(json.loads(kept.read_text()))
    assert check_event(posted)[1] == facets
    assert (table["namespace"], table["name"]) == ("file", str(people))
    assert facets["dataQualityMetrics"]["rowCount"] == 4
    by_name = {one["assertion"]: one for one in facets["dataQualityAssertions"]["assertions"]}
    assert by_name["zips"]["success"] is False and by_name["zips"]["failures"] == 3
    assert by_name["pay"]["severity"] == "warn" and "column" not in by_name["pay"]
    assert by_name["ids"]["success"] is True and by_name["ids"]["column"] == "id"
    server.status = 500
    lost = run("check", people, "--rules", rules, "--openlineage", server.url)
    assert lost.exit_code == 1 and "event did not arrive" in lost.stderr and "secret" not in lost.output
    wrong = run("check", people, "--rules", rules, "--openlineage", tmp_path / "no" / "where")
    assert wrong.exit_code == 2 and "is no file that can be written" in wrong.stderr


def test_openlineage_of_a_batch(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENLINEAGE_NAMESPACE", raising=False)
    kept = tmp_path / "events.jsonl"
    for _ in range(2):
        batch = write(tmp_path / "b.csv", BAD)
        run("apply", state, batch, "--batch-id", "one", "--openlineage", kept)
    table, facets = check_event(json.loads(kept.read_text()))
    assert table["name"] == f"{state}/people" and facets["dataQualityMetrics"]["rowCount"] == 5


def test_where_events_go() -> None:
    with pytest.raises(HoldstrueError, match="no such kind of address"):
        file_or_web("kafka://user:pass@host", "--openlineage")


def test_a_watch_in_one_process_tells_too(server: Listener, state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "incoming"
    folder.mkdir()
    for name, text, age in (("a.csv", BAD, 50), ("b.csv", GOOD, 40)):
        file = write(folder / name, text)
        stamp = file.stat().st_mtime - age
        os.utime(file, (stamp, stamp))
    done = run("watch", state, folder, "--once", "--alert", server.url)
    assert done.exit_code == 0, done.output
    [(_, _, message)] = server.posts
    assert message["added"] == 1 and message["examples"] == [{"rule": "zips", "t": 4, "s": 5}]
    server.status = 500
    write(folder / "c.csv", BAD.replace("5,60601,Spring", "15,60601,Winter"))
    os.utime(folder / "c.csv", (stamp, stamp))
    lost = run("watch", state, folder, "--once", "--alert", server.url)
    assert lost.exit_code == 0 and "did not arrive" in lost.stderr and "secret" not in lost.output


def test_several_are_told(state: Path, tmp_path: Path, server: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is out of reach keeps none of the others from the message."""
    file = tmp_path / "alert.json"
    told = ("--alert", "https://127.0.0.1:9/x", "--alert", f"tee '{file}'", "--alert", server.url)
    done = run("apply", state, write(tmp_path / "b.csv", BAD), "--batch-id", "monday", *told)
    assert done.exit_code == 1
    assert json.loads(file.read_text())["batch"] == "monday"
    assert len(server.posts) == 1
    assert done.stderr.count("did not arrive") == 1
    assert "127.0.0.1:9" in done.stderr
    wrong = run("apply", state, tmp_path / "b.csv", "--alert", server.url, "--alert", "no-such-program")
    assert wrong.exit_code == 2
    file.unlink()
    monkeypatch.setenv("HOLDSTRUE_ALERT", f"tee '{file}'\n{server.url}\n")
    assert run("apply", state, write(tmp_path / "w.csv", WARNED), "--alert-on", "batch").exit_code in (0, 1)
    assert file.exists()
    assert len(server.posts) == 2
