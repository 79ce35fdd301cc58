"""Rules in normal form with their fingerprints, and what is said twice among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from holdstrue.report.sql.export import Export, sql_text
from holdstrue.report.typeset import Style
from holdstrue.rules import Finding, Rule, RuleSet, condition_text, dump_rules, fingerprint, normalise, review


@dataclass(frozen=True)
class RulesReview:
    """Rules as they were written, in normal form, and what there is to say about them."""

    ruleset: RuleSet
    normal: RuleSet
    findings: tuple[Finding, ...]
    export: Export = field(default_factory=Export)
    """How they become SQL."""

    @staticmethod
    def of(ruleset: RuleSet) -> RulesReview:
        """The rules, looked through."""
        normal = replace(ruleset, rules=tuple(normalise(rule) for rule in ruleset))
        return RulesReview(ruleset, normal, review(ruleset))

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "table": self.ruleset.table,
            "key": list(self.ruleset.key),
            "nulls": self.ruleset.nulls,
            "rules": [
                {
                    "name": rule.name,
                    "kind": rule.kind,
                    "text": rule.text,
                    "normal": plain.text,
                    "fingerprint": fingerprint(rule),
                    "severity": rule.severity,
                    "where": None if rule.where is None else condition_text(rule.where),
                    "tolerance": _tolerance(rule),
                    "description": rule.description,
                }
                for rule, plain in zip(self.ruleset, self.normal, strict=True)
            ],
            "findings": [
                {"rule": f.rule, "kind": f.kind, "others": list(f.others), "message": f.message} for f in self.findings
            ],
        }


def review_yaml(answer: RulesReview, _: Style) -> Iterator[str]:
    """The rules in normal form as a rule file; what there is to say stands at its end."""
    yield dump_rules(answer.normal)
    yield from (f"# {finding.kind}: {finding.message}\n" for finding in answer.findings)


def review_sql(answer: RulesReview, _: Style) -> Iterator[str]:
    """The rules as they were written, as queries of a database."""
    yield from sql_text(answer.ruleset, answer.export)


def review_text(answer: RulesReview, style: Style) -> Iterator[str]:
    """Each rule with its kind and fingerprint, then what there is to say."""
    ink = style.ink
    for rule in answer.normal:
        yield f"{ink.paint('strong', rule.name)}\n"
        facts = [rule.kind, fingerprint(rule)]
        if rule.severity != "error":
            facts.append(rule.severity)
        if rule.tolerance is not None:
            tolerance = rule.tolerance
            facts.append(
                f"tolerates {tolerance.count:,} rows"
                if tolerance.count is not None
                else f"tolerates {100 * float(tolerance.share or 0):g}% of the rows"
            )
        yield f"  {rule.text}\n"
        if rule.where is not None:
            yield f"  where {condition_text(rule.where)}\n"
        yield f"  {ink.paint('faint', ', '.join(facts))}\n"
    if any(rule.kind == "dc" for rule in answer.normal):
        yield "\na denial constraint, not(...), lists what must never hold together\n"
    if answer.findings:
        yield "\n"
    for finding in answer.findings:
        yield f"{ink.paint('note', finding.kind)}: {finding.message}\n"


def _tolerance(rule: Rule) -> dict[str, Any] | None:
    if rule.tolerance is None:
        return None
    count, share = rule.tolerance.count, rule.tolerance.share
    return {"count": count} if count is not None else {"share": float(share or 0)}
