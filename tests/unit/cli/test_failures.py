"""Bad usage, bad input and internal failures: exit codes, and who hears of them where."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdstrue.cli.output import Working
from unit.cli.runs import process, run, write

MAIN = [sys.executable, "-c", "from holdstrue.cli.main import run; run()"]


@pytest.mark.parametrize(
    "args",
    [
        ("check",), ("check", "x.csv", "--format", "xml"), ("check", "x.csv", "--limit", "-1"), ("nonsense",),
        ("apply",), ("violations", "s", "--format", "junit"), ("check", "x.csv", "--unknown"),
    ],
)  # fmt: skip
def test_bad_usage_is_2(args: tuple[str, ...]) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_errors_are_told_on_stderr_with_a_hint(people: Path, tmp_path: Path) -> None:
    cases = {
        ("check", people): "no rules are given",
        ("check", tmp_path / "people.cvs", "--rule", "key(id)"): "people.csv",
        ("check", people, "--rules", tmp_path / "none.yaml"): "no rule file",
        ("check", people, "--rules", tmp_path): "cannot read rule file",
        ("check", people, "--rule", "zip -> "): "^",
        ("check", people, "--rule", "zipp -> city"): "has no column 'zipp'",
        ("check", people, "--rule", "not(t.city > 3)"): "never hold together",
        ("check", people, "--rule", "key(id)", "--key", "nr"): "no key column 'nr'",
        ("check", people, "--rule", "key(id)", "--encoding", "utf-99"): "unknown encoding",
        ("check", tmp_path / "*.nope", "--rule", "key(id)"): "no file matches",
        ("violations", tmp_path / "nowhere"): "no state directory",
        ("status", tmp_path): "is not a state directory",
        ("rules", tmp_path / "none.yaml"): "no rule file",
    }
    for args, said in cases.items():
        result = run(*args)
        assert result.exit_code == 2, (args, result.output)
        assert result.stderr.startswith("error: "), args
        assert said in result.stderr, (args, result.stderr)
        assert result.stdout == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(people: Path) -> None:
    people.chmod(0)
    assert run("check", people, "--rule", "key(id)").exit_code == 2


def test_file_system_errors_are_bad_input(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(people))

    monkeypatch.setattr("holdstrue.monitor.check.check", refuse)
    result = run("check", people, "--rule", "key(id)")
    assert result.exit_code == 2
    assert result.stderr == f"error: {people}: Permission denied\n"


def test_internal_failures_are_3_with_a_way_to_the_traceback(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a fault\nover lines")

    monkeypatch.setattr("holdstrue.monitor.check.check", fail)
    monkeypatch.delenv("HOLDSTRUE_DEBUG", raising=False)
    result = run("check", people, "--rule", "key(id)")
    assert result.exit_code == 3
    assert result.stderr.startswith("internal error: ZeroDivisionError: a fault\n")
    assert "HOLDSTRUE_DEBUG=1" in result.stderr
    assert "Traceback" not in result.stderr
    monkeypatch.setenv("HOLDSTRUE_DEBUG", "1")
    assert "Traceback" in run("check", people, "--rule", "key(id)").stderr


def test_interruption_is_130(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("holdstrue.monitor.check.check", interrupt)
    result = run("check", people, "--rule", "key(id)")
    assert result.exit_code == 130
    assert result.stderr == "interrupted\n"


def test_real_processes(people: Path) -> None:
    clean = process("check", people, "--rule", "key(id)")
    assert (clean.returncode, clean.stderr) == (0, "")
    broken = process("check", people, "--rule", "zip -> city", "--format", "json")
    assert (broken.returncode, broken.stderr) == (1, "")
    bad = process("check", people, "--rule", "zip ->")
    assert (bad.returncode, bad.stdout) == (2, "")
    plain = process("check", people, "--rule", "zip -> city", PYTHONIOENCODING="ascii")
    assert plain.returncode == 1
    assert "\\u2717" in plain.stdout


def test_help_and_version_are_quick() -> None:
    heavy = ["numpy", "pyarrow", "numba", "yaml", "pandas"]
    code = (
        "import sys\nfrom holdstrue.cli.main import run\ntry:\n    run()\nexcept SystemExit:\n    pass\n"
        f"print(sorted(set(sys.modules) & set({heavy!r})))"
    )
    for option in ("--help", "--version"):
        result = subprocess.run(
            [sys.executable, "-c", code, option], capture_output=True, text=True, check=True, timeout=60)  # fmt: skip
        assert result.stdout.splitlines()[-1] == "[]"
    assert "holdstrue 0." in result.stdout


def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    many = write(tmp_path / "many.csv", "a\n" + "-1\n" * 20_000)
    command = [*MAIN, "check", str(many), "--rule", "not(t.a < 0)", "--format", "jsonl", "--limit", "20000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(60) == 1


def test_a_full_disk_is_told(people: Path) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [*MAIN, "check", str(people), "--rule", "zip -> city"], stdout=full, stderr=subprocess.PIPE, text=True,
            check=False, timeout=60)  # fmt: skip
    assert result.returncode == 2
    assert "No space left" in result.stderr


def test_ctrl_c_ends_with_one_line(people: Path) -> None:
    slow = (
        "import signal, sys, time\nimport holdstrue.monitor.check as c\n"
        # a suite that was started in the background has it ignored
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def check(*_, **__):\n    print('started', flush=True)\n    time.sleep(30)\n"
        "c.check = check\nfrom holdstrue.cli.main import run\nrun()"
    )
    command = [sys.executable, "-c", slow, "check", str(people), "--rule", "key(id)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "started\n"
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=60)[1] == "interrupted\n"
        assert running.returncode == 130


def test_progress_is_shown_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with Working("waiting", patience=0.0):
        time.sleep(0.05)
    assert capfd.readouterr() == ("", "")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        with Working("checking [it]", patience=0.01):
            time.sleep(0.6)
    assert b"checking [it]" in os.read(ours, 4096)
    os.close(ours)
    assert capfd.readouterr().out == ""


def test_colour_on_request(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in run("check", people, "--rule", "zip -> city").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in run("check", people, "--rule", "zip -> city").stdout


DBT = "version: 2\nmodels:\n  - name: people\n    columns: [{name: id, tests: [unique]}]\n"


TWO = "table: people\ntypes: {towns.zip: text}\nrules: ['people.city in towns.name']\n"


def test_what_was_meant_is_said(people: Path, tmp_path: Path) -> None:
    """Files of other tools given as rules, data files given as databases, a URL with one slash, both ways to accept."""
    dbt = write(tmp_path / "schema.yml", DBT)
    run("init", tmp_path / "state", "--rule", "key(id)", "--key", "id", "--data", people)
    accept = ("accept", tmp_path / "state", "--reason", "known")
    cases: dict[tuple[object, ...], str] = {
        ("check", people, "--rules", dbt): f"a file of dbt: holdstrue import-rules {dbt} > rules.yaml reads it",
        ("check", f"duckdb:{people}?table=t", "--rule", "key(id)"): f"give the file as it is, {people}",
        ("check", f"sqlite:{people}?table=t", "--rule", "key(id)"): f"give the file as it is, {people}",
        (
            "check",
            tmp_path / "state",
        ): f"told by: holdstrue violations {tmp_path / 'state'}",
        ("discover", tmp_path / "state"): "is a state, no data",
        ("check", people, "--rules", write(tmp_path / "two.yaml", TWO)): "name it with --table towns=PATH",
        ("check", "s4:/bucket/t.csv", "--rule", "key(id)"): "there is no file 's4:/bucket/t.csv'",
        ("check", "hdfs:/node/t.csv", "--rule", "key(id)"): "'hdfs://node/t.csv' is not on this machine",
        accept: f"or --all; holdstrue status {tmp_path / 'state'} names the rules",
        (*accept, "--all", "--rule", "key(id)"): "both --rule and --all are given",
        (*accept, "--rule", "key(nr)"): "the rules are key(id)",
    }
    for words, said in cases.items():
        result = run(*words)
        assert result.exit_code == 2, words
        assert said in result.stderr, (words, result.stderr)


def test_notes_beside_data_files_are_not_data(people: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    write(folder / "notes.txt", "what these files are\n")
    write(folder / "a.csv", people.read_text(encoding="utf-8"))
    assert run("check", folder, "--rule", "zip -> city", "--format", "json").exit_code == 1
    (folder / "a.csv").rename(folder / "a.txt")
    result = run("check", folder, "--rule", "zip -> city")
    assert result.exit_code == 2 and "notes.txt has no column 'zip'" in result.stderr
