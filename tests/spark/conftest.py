"""One Spark session and one database server for all tests of this folder.

`HOLDSTRUE_SPARK` says where the session runs: `local` (two cores of this process's own Java),
`connect` (a Spark Connect server) or `standalone` (a master and two workers of one core each).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from database import JAR, Postgres
from fault_proxy import FaultProxy
from holdstrue.spark import small
from holdstrue.spark.session import start
from objects import Moto, environment
from spark.clusters import SOON, connect_server, standalone
from spark.scenarios import scenario
from unit.cli.runs import PEOPLE, RULES, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["scenario"]

MODE = os.environ.get("HOLDSTRUE_SPARK", "local")


@pytest.fixture(scope="session")
def to_stores() -> Iterator[FaultProxy]:
    """Where the tasks of the session look for S3; there is no server behind it before a test asks for one."""
    with FaultProxy(0) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def spark(to_stores: FaultProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of all Spark tests."""
    jars = {"spark.jars": str(JAR)} if JAR.is_file() else {}
    # nothing that grows with a table goes through the driver
    jars |= {"spark.driver.maxResultSize": "4m"}
    # workers are started once, and with them what they know of stores
    own = environment(to_stores.url) | {"HOLDSTRUE_CACHE": str(tmp_path_factory.mktemp("cache of workers"))}
    jars |= {f"spark.executorEnv.{name}": value for name, value in own.items()}
    soon = {"spark.driver.extraJavaOptions": SOON, "spark.executor.extraJavaOptions": SOON}
    if MODE == "local":
        session = start("local[2]", jars | soon)
        yield session
        session.stop()
    elif MODE == "connect":
        with connect_server(conf=jars, env=own) as server:
            session = start(server.url)
            yield session
            session.stop()
    elif MODE == "standalone":
        # two cores here too, and no test before both workers are there
        few = {"spark.sql.shuffle.partitions": "2", "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
        with standalone(workers=2) as cluster:
            session = start(cluster.url, jars | soon | few)
            yield session
            session.stop()
    else:
        raise pytest.UsageError(f"HOLDSTRUE_SPARK is {MODE!r}; it can be local, connect or standalone")


@pytest.fixture
def bucket(
    spark: SparkSession, moto: Moto, s3: str, to_stores: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A URL for a state in a fresh bucket, to which driver and tasks come through `to_stores`."""
    to_stores.target = moto.port
    to_stores.plan()
    monkeypatch.setenv("AWS_ENDPOINT_URL", to_stores.url)
    yield s3
    to_stores.plan()


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new state can be made: in a directory, and in an object store."""
    return str(tmp_path / "state") if request.param == "local" else str(request.getfixturevalue("bucket"))


@pytest.fixture(scope="session", name="postgres")
def postgres_for_java(postgres: Postgres) -> Postgres:
    """The database of all tests; the test is skipped where there is no driver for Java."""
    if not JAR.is_file():
        pytest.skip(f"no JDBC driver at {JAR} (Debian: libpostgresql-jdbc-java)")
    return postgres


@pytest.fixture
def session_of_commands(spark: SparkSession) -> Iterator[None]:
    """The session of all tests, which the commands find and use; its settings are left as they were."""
    yield
    spark.conf.unset("spark.sql.streaming.pollingDelay")


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return write(tmp_path / "people.csv", PEOPLE)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    return write(tmp_path / "rules.yaml", RULES)


@pytest.fixture
def by_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """No table is so small that it is fetched: what is tested are checks by Catalyst and by stages."""
    monkeypatch.setattr(small, "reach_for", lambda _: small.Reach(-1, 0))


@pytest.fixture
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Queries of ten rows that are run once: compiling them would take longer than all else."""
    chosen = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
    }
    before = {name: str(spark.conf.get(name)) for name in chosen}
    for name, value in chosen.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)
