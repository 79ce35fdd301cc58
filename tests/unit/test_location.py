"""Paths, `file:` URLs and the URLs that are refused by name, for data, states, rules and outputs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import holdstrue
from holdstrue import location
from holdstrue.errors import DataError, HoldstrueError, RuleError, StateError
from holdstrue.location import What, local_path
from holdstrue.state.files import StateFiles
from holdstrue.state.store import fixed_place
from objects import environment
from unit.cli.runs import run, write

REMOTE = (
    "s3://bucket/x", "s3a://b/x", "https://example.org/t.csv", "http://h/t.csv", "gs://b/x", "abfss://c@a.dfs/x",
    "hdfs://n/x", "postgresql://h/db", "jdbc:postgresql://h/db", "mysql+pymysql://h/db", "unheard-of://x",
)  # fmt: skip


@pytest.mark.parametrize("url", REMOTE)
def test_a_url_is_refused_by_name(url: str) -> None:
    kinds: dict[What, type[HoldstrueError]] = {
        "data": DataError, "state": StateError, "rules": RuleError, "output": HoldstrueError
    }  # fmt: skip
    for what, kind in kinds.items():
        with pytest.raises(kind) as caught:
            local_path(url, what)
        assert url in caught.value.message
        assert caught.value.hint


def test_pathlib_takes_a_slash_away() -> None:
    with pytest.raises(StateError, match="s3://bucket/x"):
        local_path(Path("s3://bucket/x"), "state")


@pytest.mark.parametrize(("place", "said"), [("", "no place"), (" ", "no place"), ("s3a://", "names no bucket")])
def test_a_state_has_a_place(place: str, said: str) -> None:
    with pytest.raises(StateError, match=said):
        fixed_place(place)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(DataError) as caught:
        local_path("postgresql://me:secret@host/db")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("text", ["a:b/c.csv", "x.csv", "a:/b.csv", "./s3:/x", "C:/t.csv", "table:NAME", "-", "*.csv"])
def test_paths_stay_paths(text: str) -> None:
    assert local_path(text) == text


def test_dbfs_is_where_it_is_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(location, "DBFS", tmp_path / "none")
    assert location.is_elsewhere("dbfs:/a/state")
    with pytest.raises(StateError, match="dbfs:/") as told:
        local_path("dbfs:/a/state", "state")
    assert told.value.hint is not None and "not mounted" in told.value.hint
    monkeypatch.setattr(location, "DBFS", tmp_path)
    for url in ("dbfs:/a/state", "dbfs:///a/state"):
        assert local_path(url, "state") == f"{tmp_path}/a/state"
        assert not location.is_elsewhere(url)
        assert fixed_place(url) == f"{tmp_path}/a/state"


def test_file_urls(tmp_path: Path) -> None:
    file = write(tmp_path / "my #1 data.csv", "id,zip\n1,10\n2,10\n")
    for url in (file.as_uri(), f"file:{file}", f"file://localhost{file}"):
        assert holdstrue.check(url, "key(zip)").total == 1
    with pytest.raises(DataError, match="other"):
        local_path("file://other/x.csv")
    state = tmp_path / "state"
    holdstrue.Monitor.create(state.as_uri(), "key(zip)", key="id").close()
    assert StateFiles(state).manifest()["version"] == 0


def test_no_command_takes_a_url_for_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = write(tmp_path / "t.csv", "id,zip\n1,10\n")
    site = write(tmp_path / "sites.yaml", "key: id\nrules: [id -> zip]\nsites: [{name: S, source: 'hdfs://b/x.csv'}]\n")
    kept = write(
        tmp_path / "kept.yaml", "key: id\nrules: [id -> zip]\nstate: hdfs://b\nsites: [{name: S, source: t.csv}]\n"
    )
    rule = ("--rule", "key(zip)")
    for args in (
        ("check", "hdfs://b/x.csv", *rule), ("check", data, "--rules", "https://h/r.yaml"),
        ("check", data, "--rule", "a in b.c", "--table", "b=ftp://b/x"), ("check", data, *rule, "-o", "s3://b/out"),
        ("init", "hdfs://b/state", *rule, "--key", "id"), ("init", "state", *rule, "--key", "id", "--data", "sftp://h/t"),
        ("init", "hdfs://b/state", *rule, "--key", "id", "--engine", "spark"),
        ("apply", "hdfs://b/state", data), ("status", "dbfs:/b/state"), ("violations", "hdfs://b/state"),
        ("explain", "dbfs:/b/x.csv", *rule), ("discover", "mysql://h/t?a=b"), ("discover", data, "--state", "sftp://b/x"),
        ("discover", "a=hdfs://b/x.csv", "--kind", "ind"), ("watch", "hdfs://b/state", tmp_path),
        ("vacuum", "hdfs://b/state"), ("verify", "https://b/state"), ("status", "unheard-of://b/state"),
        ("fragments", "plan", site), ("fragments", "init", kept), ("fragments", "plan", "https://h/f.yaml"),
    ):  # fmt: skip
        result = run(*args)
        assert result.exit_code == 2, (args, result.output)
        assert "is not on this machine" in result.stderr, (args, result.stderr)
        assert "hint: " in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.yaml", "sites.yaml", "t.csv"]


STATES = (
    ("init", "{}", "--rule", "key(zip)", "--key", "id"), ("apply", "{}", "t.csv"), ("status", "{}"),
    ("violations", "{}"), ("discover", "t.csv", "--state", "{}"), ("discover", "--state", "{}"), ("watch", "{}", "."),
    ("vacuum", "{}"), ("verify", "{}"), ("fragments", "init", "kept.yaml"),
)  # fmt: skip


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data, on a machine without credentials and without a network."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write(tmp_path / "t.csv", "id,zip\n1,10\n")
    return tmp_path


@pytest.mark.parametrize("command", STATES, ids=lambda words: " ".join(words[:2]))
def test_a_state_at_a_url_that_cannot_be_reached(
    outside: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "s3://bucket/state"
    write(outside / "kept.yaml", f"key: id\nrules: [id -> zip]\nstate: {url}\nsites: [{{name: S, source: t.csv}}]\n")
    for name, value in environment("http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)
    result = run(*(word.replace("{}", url) for word in command))
    assert result.exit_code == 2, result.output
    assert "the store at http://127.0.0.1:9 cannot be reached" in result.stderr
    assert "hint: check the network, and AWS_ENDPOINT_URL" in result.stderr


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("az://container/state", "no account of Azure is named"),
        ("s3://key:secret@bucket/state", "holds credentials"),
        ("s3://bucket/state?X-Amz-Signature=secret", "holds a query"),
        ("gs://bucket/a%20b", "has a part"),
    ],
)
def test_a_state_at_a_url_that_cannot_be_right(outside: Path, url: str, said: str) -> None:
    for command in STATES[:-1]:
        result = run(*(word.replace("{}", url) for word in command))
        assert result.exit_code == 2, result.output
        assert said in result.stderr
        assert "secret" not in result.output


def test_a_name_with_a_typo(tmp_path: Path) -> None:
    data, rules = write(tmp_path / "people.csv", "id\n1\n"), write(tmp_path / "rules.yaml", "rules: [key(id)]\n")
    for args in (
        ("check", tmp_path / "poeple.csv", "--rules", rules),
        ("check", data, "--rules", tmp_path / "rule.yaml"),
    ):
        result = run(*args)
        assert result.exit_code == 2
        assert "did you mean" in result.stderr
    with pytest.raises(DataError, match=r"did you mean '.*people\.csv'"):
        holdstrue.check(tmp_path / "poeple.csv", "key(id)")
    with pytest.raises(RuleError, match=r"did you mean '.*rules\.yaml'"):
        holdstrue.check(data, str(tmp_path / "rulez.yaml"))
