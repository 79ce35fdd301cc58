"""Dagster: every rule of a rule file is an asset check of its own, with the first violations as metadata.

Tested: with a stand-in for Dagster's `multi_asset_check` and its results, since Dagster is not among holdstrue's
dependencies; the function that checks is run as it stands.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from dagster import AssetCheckResult, AssetCheckSeverity, AssetCheckSpec, Definitions, multi_asset_check

import holdstrue

RULES = holdstrue.load_rules(os.environ.get("RULES", "rules.yaml"))
TABLE = os.environ.get("TABLE", "data/orders.parquet")


def check_name(rule: holdstrue.Rule) -> str:
    """Dagster's names are letters, digits and underscores."""
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in rule.name)


@multi_asset_check(specs=[AssetCheckSpec(name=check_name(rule), asset="orders") for rule in RULES])
def orders_keep_their_rules() -> Iterator[AssetCheckResult]:
    """One scan for all rules."""
    report = holdstrue.check(TABLE, RULES)
    for result in report.results:
        yield AssetCheckResult(
            check_name=check_name(result.rule),
            asset_key="orders",
            passed=result.status != "violated",
            severity=AssetCheckSeverity.ERROR if result.rule.severity == "error" else AssetCheckSeverity.WARN,
            metadata={
                "rule": result.text,
                "violations": result.counts.open,
                "rows": result.counts.rows,
                "examples": str([(v.t, v.s) if v.pair else v.t for v in report.violations(result.rule.name, limit=5)]),
            },
        )


defs = Definitions(asset_checks=[orders_keep_their_rules])
