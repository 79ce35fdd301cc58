"""Rules as queries of a database: what lists the violations of each rule, and what counts them."""

from __future__ import annotations

from holdstrue.report.sql.dialect import DIALECTS, SqlDialect
from holdstrue.report.sql.export import Export, RuleQuery, to_sql

__all__ = ["DIALECTS", "Export", "RuleQuery", "SqlDialect", "to_sql"]
