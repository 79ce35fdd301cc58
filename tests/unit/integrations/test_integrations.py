"""The files in `examples/integrations/`: run as they stand, with stand-ins for frameworks that are not installed."""

from __future__ import annotations

import http.client
import importlib.util
import json
import logging
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import duckdb
import jinja2
import pytest
import yaml

from holdstrue import Monitor
from unit.cli.runs import run, write

ROOT = Path(__file__).parents[3]
PLACE = ROOT / "examples" / "integrations"

ORDERS = "id,zip,city,total\n1,10,Bonn,5\n2,10,Bonn,7\n3,11,Kiel,1\n"
BROKEN = "id,zip,city,total\n4,10,Ulm,5\n"
RULES = """table: orders
key: id
rules:
- {name: city by zip, rule: zip -> city}
- {name: 'low: total', rule: not(t.total < 2), severity: warn}
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table and its rules, in which commands are run."""
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / "orders.csv", ORDERS)
    write(tmp_path / "rules.yaml", RULES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loaded(name: str) -> ModuleType:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", PLACE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def command(text: str, *files: str) -> subprocess.CompletedProcess[str]:
    """A line of a shell; `holdstrue` is the one of this checkout."""
    own = f"{shlex.quote(sys.executable)} -m holdstrue"
    script = f'set -e\nholdstrue() {{ {own} "$@"; }}\n{text} {shlex.join(files)}'
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=240)


def test_every_file_is_named_in_the_readme() -> None:
    said = (PLACE / "README.md").read_text()
    names = {path.name for path in PLACE.iterdir() if path.is_file() and path.name != "README.md"}
    assert names and all(f"`{name}`" in said for name in names)


def test_the_workflow(shop: Path) -> None:
    workflow = yaml.safe_load((PLACE / "github-action.yml").read_text())
    [step] = [step for step in workflow["jobs"]["check"]["steps"] if step.get("name") == "check"]
    done = command(step["run"])
    assert done.returncode == 0, done.stderr
    assert 'failures="0"' in (shop / "out" / "holdstrue.xml").read_text()
    with (shop / "data" / "orders.csv").open("a") as file:
        file.write(BROKEN.splitlines()[1] + "\n")
    done = command(step["run"])
    assert done.returncode == 1 and 'failures="1"' in (shop / "out" / "holdstrue.xml").read_text()


def test_the_hooks_of_pre_commit(shop: Path) -> None:
    config = yaml.safe_load((PLACE / "pre-commit-config.yaml").read_text())
    hooks = {hook["id"]: hook for repo in config["repos"] for hook in repo["hooks"]}
    assert command(hooks["holdstrue-rules"]["entry"], "rules.yaml").returncode == 0
    assert command(hooks["holdstrue-check"]["entry"], "data/orders.csv").returncode == 0
    write(shop / "data" / "orders 2.csv", BROKEN)
    both = command(hooks["holdstrue-check"]["entry"], "data/orders.csv", "data/orders 2.csv")
    assert both.returncode == 1 and "city by zip" in both.stdout
    # the hook that we ship is for all files of a repository, each a table of its own
    own = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    shipped = own["holdstrue-check"]["entry"] + " --rules rules.yaml"
    alone = command(shipped, "data/orders.csv", "data/orders 2.csv")
    assert alone.returncode == 0 and "data/orders 2.csv" in alone.stdout
    write(shop / "data" / "orders 3.csv", BROKEN + "5,10,Bonn,5\n")
    assert command(shipped, "data/orders.csv", "data/orders 3.csv", "data/orders 2.csv").returncode == 1
    write(shop / "more.yaml", (shop / "rules.yaml").read_text())
    several = command(hooks["holdstrue-rules"]["entry"], "rules.yaml", "more.yaml")
    assert several.returncode == 0 and "more.yaml" in several.stdout
    write(shop / "more.yaml", "rules: [zip ->]\n")
    assert command(hooks["holdstrue-rules"]["entry"], "rules.yaml", "more.yaml").returncode == 2
    write(shop / "rules.yaml", "rules: [zip ->]\n")
    assert command(hooks["holdstrue-rules"]["entry"], "rules.yaml").returncode == 2
    assert {name: hook["entry"].split()[1] for name, hook in own.items()} == {
        name: hook["entry"].split()[1] for name, hook in hooks.items()
    }


class Operator:
    """What of Airflow's `BaseOperator` the example uses."""

    def __init__(self, *, task_id: str, retries: int = 0) -> None:
        self.task_id, self.retries, self.log = task_id, retries, logging.getLogger("airflow")


class Dag:
    """What of Airflow's `DAG` the example uses."""

    def __init__(self, name: str, **given: Any) -> None:
        self.name, self.given = name, given

    def __enter__(self) -> Dag:
        return self

    def __exit__(self, *_: Any) -> None:
        return None


def test_the_operator_of_airflow(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sdk = SimpleNamespace(DAG=Dag, BaseOperator=Operator)
    monkeypatch.setitem(sys.modules, "airflow", SimpleNamespace(sdk=sdk))
    monkeypatch.setitem(sys.modules, "airflow.sdk", sdk)
    module = loaded("airflow_dag")
    assert module.dag.name == "orders"
    assert run("init", "state", "--rules", "rules.yaml", "--data", "data/orders.csv").exit_code == 0
    fine = write(shop / "fine.csv", BROKEN.replace("Ulm", "Bonn"))
    task = module.HoldstrueApply(task_id="t", state="state", changes=str(fine), batch_id="monday")
    assert task.execute({})["counts"]["city by zip"]["added"] == 0
    assert task.execute({})["duplicate"], "a retry is the same batch"
    bad = write(shop / "bad.csv", BROKEN.replace("4,", "5,"))
    with pytest.raises(ValueError, match=r"batch tuesday is applied and broke \{'city by zip': 3\}"):
        module.HoldstrueApply(task_id="t", state="state", changes=str(bad), batch_id="tuesday").execute({})
    with Monitor.open("state", read_only=True) as monitor:
        assert monitor.rows == {"orders": 5}


@dataclass
class Result:
    """What of Dagster's `AssetCheckResult` the example uses."""

    check_name: str
    asset_key: str
    passed: bool
    severity: str
    metadata: dict[str, Any] = field(default_factory=dict)


def test_the_checks_of_dagster(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs: list[Any] = []

    def multi_asset_check(specs: list[Any], _kept: list[Any] = specs) -> Any:
        _kept.extend(specs)
        return lambda function: function

    stand_in = SimpleNamespace(
        AssetCheckResult=Result,
        AssetCheckSeverity=SimpleNamespace(ERROR="ERROR", WARN="WARN"),
        AssetCheckSpec=SimpleNamespace,
        Definitions=SimpleNamespace,
        multi_asset_check=multi_asset_check,
    )
    monkeypatch.setitem(sys.modules, "dagster", stand_in)
    monkeypatch.setenv("TABLE", "data/orders.csv")
    module = loaded("dagster_checks")
    results = list(module.orders_keep_their_rules())
    assert [spec.name for spec in specs] == [result.check_name for result in results] == ["city_by_zip", "low__total"]
    assert [(result.passed, result.severity) for result in results] == [(True, "ERROR"), (False, "WARN")]
    assert results[1].metadata["violations"] == 1 and results[1].metadata["examples"] == "[3]"


class Raised(Exception):  # noqa: N818
    """What dbt's `exceptions.raise_compiler_error` raises here."""


def rendered(text: str, database: Any, schema: str) -> list[str]:
    """What the macro says when dbt calls it; statements are asked of DuckDB."""
    said: list[str] = []

    def run_query(sql: str) -> Any:
        rows = database.execute(sql).fetchall()
        return SimpleNamespace(columns=[SimpleNamespace(values=lambda: [row[0] for row in rows])])

    def fail(message: str) -> None:
        raise Raised(message)

    environment = jinja2.Environment(extensions=["jinja2.ext.do"], autoescape=False)
    hook = yaml.safe_load((PLACE / "dbt_project.yml").read_text())["on-run-end"][0]
    environment.from_string(text + hook).render(
        execute=True, run_query=run_query, target=SimpleNamespace(schema=schema),
        log=lambda message, info: said.append(message), exceptions=SimpleNamespace(raise_compiler_error=fail),
    )  # fmt: skip
    return said


SCHEMA_YML = """
models:
- name: orders
  columns:
  - {name: id, tests: [unique, not_null]}
  - name: city
    tests:
    - accepted_values: {values: [Bonn, Kiel, "{{ it's }} %} {# \\\\U", "日"]}
"""


def test_the_hook_of_dbt(shop: Path) -> None:
    write(shop / "schema.yml", SCHEMA_YML)
    done = subprocess.run(
        [sys.executable, str(PLACE / "dbt_macro.py"), "schema.yml", "duckdb"],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    with duckdb.connect() as database:
        database.execute('create schema "dev run"')
        database.execute("create table \"dev run\".orders as select * from read_csv('data/orders.csv')")
        database.execute("insert into \"dev run\".orders values (9, 1, '日', 1), (8, 1, '{{ it''s }} %} {# \\U', 1)")
        said = rendered(done.stdout, database, "dev run")
        assert said == [f"holdstrue: 0 violations of orders.{name}" for name in
                        ("id: unique", "id: not_null", "city: accepted_values")]  # fmt: skip
        database.execute("insert into \"dev run\".orders values (9, 1, 'Rom', 1)")
        with pytest.raises(Raised, match=r"violated: orders.id: unique, orders.city: accepted_values"):
            rendered(done.stdout, database, "dev run")
    ours = subprocess.run(
        [sys.executable, str(PLACE / "dbt_macro.py"), "rules.yaml", "duckdb"],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    with duckdb.connect() as database:
        database.execute("create table orders as select * from read_csv('data/orders.csv')")
        assert rendered(ours.stdout, database, "main")[1] == "holdstrue: 1 violations of low: total", "a warning"


def test_the_jobs_name_the_file_and_options_that_it_has() -> None:
    script = (PLACE / "spark_job.py").read_text()
    job = json.loads((PLACE / "databricks_job.json").read_text())
    [task] = job["tasks"]
    [step] = json.loads((PLACE / "emr_step.json").read_text())
    for arguments in (
        task["spark_python_task"]["parameters"],
        step["Args"][step["Args"].index("s3://bucket/spark_job.py") :],
    ):
        options = [word for word in arguments if word.startswith("--")]
        assert options and all(f'add_argument("{option}")' in script for option in options)


@contextmanager
def serving(app: Any) -> Iterator[Callable[..., tuple[int, Any]]]:
    """The service on a free port of this machine; what posts to it, and gets status and answer."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until = time.monotonic() + 60
        while not server.started:
            assert thread.is_alive() and time.monotonic() < until, "the service did not start"
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]

        def post(content: Any, *, raw: bool = False) -> tuple[int, Any]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("POST", "/orders", content if raw else json.dumps(content))
            response = connection.getresponse()
            answer = json.loads(response.read())
            connection.close()
            return response.status, answer

        yield post
    finally:
        server.should_exit = True
        thread.join()


needs_preview = pytest.mark.skipif(not hasattr(Monitor, "preview"), reason="Monitor.preview is not there yet")


@needs_preview
def test_the_web_service_asks_before_it_writes(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("init", "state", "--rules", "rules.yaml", "--data", "data/orders.csv").exit_code == 0
    monkeypatch.setenv("STATE", "state")
    with serving(loaded("web_app").app) as post:
        status, answer = post({"id": 4, "zip": 10, "city": "Ulm", "total": 9})
        assert status == 409
        pairs = answer["rules"]["city by zip"]
        assert {(pair["t"], pair["s"]) for pair in pairs} == {(1, 4), (2, 4)}
        warned = {"id": 4, "zip": 10, "city": "Bonn", "total": 0}
        assert post(warned)[0] == 201, "a warning does not keep a row out"
        status, answer = post(warned)
        assert status == 422 and "4" in answer["error"]
        assert post("{", raw=True)[0] == 400
        assert post([1])[0] == 400
    with Monitor.open("state", read_only=True) as monitor:
        assert monitor.rows == {"orders": 4}
