"""`holdstrue rules`: read rules, bring them to normal form and print them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdstrue.cli.failures import CLEAN, guarded
from holdstrue.cli.options import OutputFile, RulesFormat, column_names
from holdstrue.cli.output import Output

if TYPE_CHECKING:
    from holdstrue.rules import Finding, Rule, RuleSet


@guarded
def rules(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A rule file; - for standard input.")],
    columns: Annotated[
        str | None,
        typer.Option(metavar="COLS", help="The table's columns in order, for JSON rules that speak of them by number."),
    ] = None,
    format: Annotated[RulesFormat, typer.Option("--format", "-f", help="Form of the output.")] = RulesFormat.text,  # noqa: A002
    output: OutputFile = None,
) -> int:
    """Read a rule file and print each rule in normal form with its fingerprint, then what is said twice.

    Rules that repeat others or follow from them are pointed out; the exit code is 0 all the same.
    """
    from holdstrue.cli.ruleset import rules_in
    from holdstrue.rules import dump_rules, normalise, review

    with Output(output, format) as out:
        ruleset = rules_in(file, lambda: column_names(columns, "--columns") or None)
        normal = replace(ruleset, rules=tuple(normalise(rule) for rule in ruleset))
        findings = review(ruleset)
        match format:
            case RulesFormat.yaml:
                out.write([dump_rules(normal), *(f"# {finding.kind}: {finding.message}\n" for finding in findings)])
            case RulesFormat.json:
                import json

                out.write([json.dumps(_content(ruleset, normal, findings), ensure_ascii=False, indent=2) + "\n"])
            case _:
                out.write(_lines(normal, findings, color=out.color))
    return CLEAN


def _content(ruleset: RuleSet, normal: RuleSet, findings: tuple[Finding, ...]) -> dict[str, Any]:
    from holdstrue.rules import condition_text, fingerprint

    return {
        "table": ruleset.table,
        "key": list(ruleset.key),
        "nulls": ruleset.nulls,
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
            for rule, plain in zip(ruleset, normal, strict=True)
        ],
        "findings": [
            {"rule": f.rule, "kind": f.kind, "others": list(f.others), "message": f.message} for f in findings
        ],
    }


def _tolerance(rule: Rule) -> dict[str, Any] | None:
    if rule.tolerance is None:
        return None
    count, share = rule.tolerance.count, rule.tolerance.share
    return {"count": count} if count is not None else {"share": float(share or 0)}


def _lines(normal: RuleSet, findings: tuple[Finding, ...], *, color: bool) -> Iterator[str]:
    from holdstrue.report.layout import Ink
    from holdstrue.rules import condition_text, fingerprint

    ink = Ink(color)
    for rule in normal:
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
    if any(rule.kind == "dc" for rule in normal):
        yield "\na denial constraint, not(...), lists what must never hold together\n"
    if findings:
        yield "\n"
    for finding in findings:
        yield f"{ink.paint('note', finding.kind)}: {finding.message}\n"
