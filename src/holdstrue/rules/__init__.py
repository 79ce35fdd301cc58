"""Rules: what must hold, read from text or files, in normal form, compared with each other."""

from __future__ import annotations

from holdstrue.rules.condition import parse_condition
from holdstrue.rules.file import dump_rules, load_rules
from holdstrue.rules.fingerprint import fingerprint
from holdstrue.rules.implication import Finding, review
from holdstrue.rules.model import (
    CFD,
    DC,
    FD,
    All,
    Any,
    Body,
    Column,
    Comparison,
    Condition,
    Constant,
    Demand,
    Inclusion,
    IsNull,
    Key,
    Length,
    Matches,
    Measured,
    Not,
    NotNull,
    Op,
    Pattern,
    Predicate,
    Rule,
    RuleSet,
    Source,
    Tolerance,
    columns_of,
)
from holdstrue.rules.normal import normalise
from holdstrue.rules.parser import parse_rule
from holdstrue.rules.text import condition_text, predicate_text, text_of
from holdstrue.rules.weever import parse_weever

__all__ = [
    "CFD", "DC", "FD", "All", "Any", "Body", "Column", "Comparison", "Condition", "Constant", "Demand", "Finding",
    "Inclusion", "IsNull", "Key", "Length", "Matches", "Measured", "Not", "NotNull", "Op", "Pattern", "Predicate",
    "Rule", "RuleSet", "Source",
    "Tolerance", "columns_of", "condition_text", "dump_rules", "fingerprint", "load_rules", "normalise",
    "parse_condition", "parse_rule", "parse_weever", "predicate_text", "review", "text_of",
]  # fmt: skip
