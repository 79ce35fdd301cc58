"""The job file of `examples/integrations/`, run on the session of the tests."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdstrue import Monitor
from spark.conftest import MODE
from unit.cli.runs import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = Path(__file__).parents[2] / "examples" / "integrations" / "spark_job.py"

pytestmark = pytest.mark.skipif(MODE != "local", reason="the job takes the session of its process")


def test_the_job(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(JOB))["main"]
    rules = write(tmp_path / "rules.yaml", "key: id\nrules: [{name: zips, rule: zip -> city}]\n")
    orders = pa.table({"id": [1, 2], "zip": ["1", "1"], "city": ["Bonn", "Ulm"]})
    pq.write_table(orders, tmp_path / "orders.parquet")
    pq.write_table(orders.slice(0, 1), tmp_path / "fine.parquet")
    assert main(["--table", str(tmp_path / "orders.parquet"), "--rules", str(rules), "--key", "id"]) == 1
    assert main(["--table", str(tmp_path / "fine.parquet"), "--rules", str(rules)]) == 0
    assert "violated           1  zips" in capsys.readouterr().out
    Monitor.create(tmp_path / "state", rules, key="id", data=orders.slice(0, 1)).close()
    pq.write_table(orders.slice(1), tmp_path / "monday.parquet")
    batch = ["--state", str(tmp_path / "state"), "--changes", str(tmp_path / "monday.parquet"), "--batch", "monday"]
    assert main(batch) == 1
    assert main(batch) == 0, "applied before"
    assert "+1 new, -0 resolved, 1 open" in capsys.readouterr().out
