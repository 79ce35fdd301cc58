"""What a check found as an event of OpenLineage: assertions and row counts as facets of the tables that were read."""

from __future__ import annotations

import datetime as dt
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdstrue import __version__
from holdstrue.detect.delta import RuleResult
from holdstrue.monitor.report import Findings

PRODUCER = f"https://pypi.org/project/holdstrue/{__version__}"
_SPEC = "https://openlineage.io/spec"
_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_ASSERTIONS = "facets/1-1-0/DataQualityAssertionsDatasetFacet.json#/$defs/DataQualityAssertionsDatasetFacet"
_METRICS = "facets/1-0-2/DataQualityMetricsInputDatasetFacet.json#/$defs/DataQualityMetricsInputDatasetFacet"


def lineage_event(report: Findings, main: str, places: Mapping[str, str], job: str, namespace: str) -> dict[str, Any]:
    """A run that is complete, with every table that was read as an input.

    Parameters
    ----------
    report
        What was found.
    main
        The table that rules without a table speak of.
    places
        By table where it was read from: a path, an address, or a state.
    job
        What the work is called, in this namespace of the lineage.
    """
    by_table: dict[str, list[RuleResult]] = {name: [] for name in report.rows}
    for result in report.results:
        by_table.setdefault(result.rule.own_table or main, []).append(result)
    return {
        "eventType": "COMPLETE",
        "eventTime": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
        "producer": PRODUCER,
        "schemaURL": _EVENT,
        "run": {"runId": str(uuid.uuid4())},
        "job": {"namespace": namespace, "name": job},
        "inputs": [
            {**_dataset(places.get(table, table)), "inputFacets": _facets(results, report.rows.get(table))}
            for table, results in by_table.items()
        ],
        "outputs": [],
    }


def _facets(results: list[RuleResult], rows: int | None) -> dict[str, Any]:
    found = {"dataQualityAssertions": _facet(_ASSERTIONS, assertions=[_assertion(result) for result in results])}
    if rows is not None:
        # columns are required there, and none were measured
        found["dataQualityMetrics"] = _facet(_METRICS, rowCount=rows, columnMetrics={})
    return found


def _facet(schema: str, **content: Any) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": f"{_SPEC}/{schema}", **content}


def _assertion(result: RuleResult) -> dict[str, Any]:
    rule = result.rule
    column = {"column": rule.columns[0]} if len(rule.columns) == 1 else {}
    return {
        "assertion": rule.name,
        "success": result.status != "violated",
        **column,
        "severity": rule.severity,
        "failures": result.counts.rows if result.measured is None else result.counts.open,
        "properties": {
            "kind": rule.kind,
            "rule": result.text,
            "status": result.status,
            "violations": result.counts.open,
            "groups": result.counts.groups,
            **({} if result.measured is None else {"measured": result.measured}),
        },
    }


def _dataset(place: str) -> dict[str, str]:
    """A table as OpenLineage names it: a store, and what it is called there; secrets stay out.

    >>> _dataset("s3://bucket/orders.parquet"), _dataset("/data/orders.csv")["namespace"]
    ({'namespace': 's3://bucket', 'name': 'orders.parquet'}, 'file')
    """
    scheme, mark, rest = place.partition("://")
    if mark and scheme != "file":
        host, _, path = rest.partition("?")[0].partition("/")
        return {"namespace": f"{scheme}://{host.rpartition('@')[2]}", "name": path or "/"}
    return {"namespace": "file", "name": str(Path(rest if mark else place).absolute())}


def namespace_of_jobs() -> str:
    """The namespace that OpenLineage's own clients would use."""
    return os.environ.get("OPENLINEAGE_NAMESPACE") or "default"
