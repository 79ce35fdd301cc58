"""Apache Airflow: one task applies a day's changes and fails when they add errors.

Tested: with a stand-in for Airflow's `BaseOperator` and `DAG`, since Airflow is not among holdstrue's dependencies;
`execute` is run as it stands. Written for Airflow 2.4 or newer, and 3.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from holdstrue import Monitor

try:
    from airflow.sdk import DAG, BaseOperator  # Airflow 3
except ImportError:
    from airflow import DAG
    from airflow.models import BaseOperator


class HoldstrueApply(BaseOperator):
    """Applies one batch to a state. A retry of the task is the same batch, which is applied once."""

    template_fields: Sequence[str] = ("state", "changes", "batch_id")

    def __init__(self, *, state: str, changes: str, batch_id: str = "{{ run_id }}", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.state, self.changes, self.batch_id = state, changes, batch_id

    def execute(self, context: Any) -> dict[str, Any]:
        """What the batch did, for the tasks after it; raises when it added violations of severity error."""
        with Monitor.open(self.state) as monitor:
            delta = monitor.apply(self.changes, batch_id=self.batch_id, limit=100)
            severe = {rule.name for rule in monitor.rules if rule.severity == "error"}
        broken = {name: step.added for name, step in delta.counts.items() if step.added and name in severe}
        self.log.info("batch %s: %s", delta.batch, delta)
        if broken:
            raise ValueError(f"batch {delta.batch} is applied and broke {broken}: holdstrue violations {self.state}")
        return delta.to_dict()


with DAG("orders", schedule="@daily", start_date=dt.datetime(2026, 1, 1), catchup=False) as dag:
    HoldstrueApply(
        task_id="watch_orders",
        state="s3://bucket/states/orders",
        changes="/data/orders/{{ ds }}.parquet",
        retries=2,
    )
