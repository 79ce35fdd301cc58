"""Options about Spark, and what `watch` refuses, before any Spark is started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import Result

from unit.cli.runs import run


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for pyspark here asks too early."""
    monkeypatch.setitem(sys.modules, "pyspark", None)


def refused(*args: object) -> Result:
    """A command that is refused as bad usage or bad input."""
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return result


@pytest.mark.parametrize("option", [("--master", "local[2]"), ("--conf", "spark.x=1")])
def test_options_of_spark_need_the_engine(tmp_path: Path, people: Path, rules: Path, option: tuple[str, str]) -> None:
    for command in (
        ("check", people, "--rules", rules),
        ("init", tmp_path / "s", "--rules", rules, "--data", people),
        ("apply", tmp_path / "s", people),
    ):
        assert f"{option[0]} is about Spark\nhint: add --engine spark" in refused(*command, *option).stderr
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("conf", ["", "x", "=1", "spark.x", "spark.=1", "executor.memory=4g", "spark. x=1"])
def test_a_setting_has_a_name_and_a_value(people: Path, conf: str) -> None:
    result = refused("check", people, "--rule", "key(id)", "--engine", "spark", "--conf", conf)
    assert "is not a setting of Spark\nhint: write --conf NAME=VALUE" in result.stderr


@pytest.mark.parametrize("master", ["", "foo", "local[x]", "local[]", "spark:host", "http://host"])
def test_a_master_is_a_place_where_spark_runs(people: Path, master: str) -> None:
    result = refused("check", people, "--rule", "key(id)", "--engine", "spark", "--master", master)
    assert "is no place where Spark runs" in result.stderr


def test_an_engine_is_known(people: Path) -> None:
    assert run("check", people, "--rule", "key(id)", "--engine", "flink").exit_code == 2


def test_mistakes_in_the_data_cost_no_start_of_spark(tmp_path: Path, people: Path, state: Path) -> None:
    on = ("--engine", "spark")
    assert "did you mean 'zip'" in refused("check", people, "--rule", "zipp -> city", *on).stderr
    assert "no key column 'x'" in refused("check", people, "--rule", "key(id)", "--key", "x", *on).stderr
    assert "there is no file" in refused("check", tmp_path / "none.csv", "--rule", "key(id)", *on).stderr
    assert "not an empty directory" in refused("init", state, "--rule", "key(id)", "--key", "id", *on).stderr
    assert "there is no file" in refused("apply", state, tmp_path / "none.csv", *on).stderr
    assert "no rule speaks of table 'x'" in refused("apply", state, "--table", f"x={people}", *on).stderr
    assert "hint: leave out --engine spark" in refused("apply", state, people, "--against", people, *on).stderr


def test_without_pyspark_the_way_to_it_is_told(people: Path) -> None:
    result = refused("check", people, "--rule", "key(id)", "--engine", "spark")
    assert "pyspark is not installed\nhint: pip install 'holdstrue[spark]'" in result.stderr


@pytest.mark.parametrize("every", ["", "5", "s", "5 days", "-1s", "0s", "1e3s", "nan", "99999h"])
def test_a_time_has_a_number_and_a_unit(tmp_path: Path, state: Path, every: str) -> None:
    result = refused("watch", state, tmp_path, "--every", every)
    assert "is not a time\nhint: for example --every 5s, 500ms, 1m or 2h" in result.stderr


def test_watch_refuses_what_it_cannot_watch(tmp_path: Path, people: Path, state: Path, rules: Path) -> None:
    on = ("--engine", "spark")
    assert "there is no directory" in refused("watch", state, tmp_path / "none", *on).stderr
    assert "there is no directory" in refused("watch", state, people, *on).stderr
    assert "there is no directory 'table:'" in refused("watch", state, "table:", *on).stderr
    assert "no state" in refused("watch", tmp_path / "none", tmp_path, *on).stderr
    assert "no rule speaks of table 'x'" in refused("watch", state, tmp_path, "--table", "x", *on).stderr
    assert "--since is about tables" in refused("watch", state, tmp_path, "--since", "3", *on).stderr
    assert "Spark Connect" in refused("watch", state, tmp_path, "--master", "sc://host", *on).stderr
    assert "--snapshot is for watching in one process" in refused("watch", state, tmp_path, "--snapshot", *on).stderr
    assert "--by is for watching in one process" in refused("watch", state, tmp_path, "--by", "id", *on).stderr
    assert run("init", tmp_path / "new", "--rules", rules).exit_code == 0
    assert "columns of table 'people' are not known yet" in refused("watch", tmp_path / "new", tmp_path, *on).stderr


def test_a_discovery_that_is_kept_is_followed_in_one_process(tmp_path: Path, people: Path) -> None:
    on = ("--engine", "spark")
    kept = tmp_path / "found"
    assert run("discover", people, "--kind", "key", "--key", "id", "--state", kept).exit_code == 0
    for asked in ((), ("--apply", people)):
        assert "hint: leave out --engine spark" in refused("discover", "--state", kept, *asked, *on).stderr
