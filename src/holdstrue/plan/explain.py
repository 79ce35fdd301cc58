"""A plan in words: what each rule becomes, which index serves it and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdstrue.index.protocol import index_type
from holdstrue.plan.checks import Check, GroupCheck, MeasureCheck, PairCheck, ReferenceCheck, RowCheck
from holdstrue.plan.compile import Plan
from holdstrue.plan.range import value_range
from holdstrue.rules.model import Condition, Rule
from holdstrue.rules.text import condition_text


def explain(plan: Plan, notes: Mapping[int, Sequence[str]] | None = None) -> str:
    """Plan and reasons as text; `notes` are what the running indexes say of each check."""
    lines = [f"table {name}: reads {_ranges(rules)}" for name, rules in _by_table(plan).items()]
    shared = _shared(plan)
    for number, rule in enumerate(plan.rules):
        lines += ["", f"{rule.name}" + (f"  [{rule.text}]" if rule.name != rule.text else "")]
        for at, check in enumerate(plan.checks):
            if check.rule == number:
                lines += [f"  {line}" for line in _describe(check, plan)]
                lines += [f"  {line}" for line in (notes or {}).get(at, ())]
                key = _equality(check)
                if key and len(shared[check.table, key]) > 1:
                    names = [
                        plan.rules.rules[other].name for other in sorted(shared[check.table, key]) if other != number
                    ]
                    lines.append(f"  shares its groups with {', '.join(dict.fromkeys(names))}")
    return "\n".join(lines)


def _by_table(plan: Plan) -> dict[str, list[Rule]]:
    """The rules by the table that they speak of, the main one first."""
    found: dict[str, list[Rule]] = {plan.main: []}
    for rule in plan.rules:
        found.setdefault(rule.own_table or plan.main, []).append(rule)
    return {name: rules for name, rules in found.items() if rules}


def _ranges(rules: Iterable[Rule]) -> str:
    parts = []
    for column, values in value_range(rules).items():
        shown = "" if values is None else f" (only {', '.join(repr(value) for value in sorted(values, key=str))})"
        parts.append(f"{column}{shown}")
    return ", ".join(parts)


def _equality(check: Check) -> tuple[str, ...]:
    """The columns that a check's rows are grouped by, each compared with itself."""
    return tuple(left for left, right in check.equal if left == right)


def _shared(plan: Plan) -> dict[tuple[str, tuple[str, ...]], set[int]]:
    users: dict[tuple[str, tuple[str, ...]], set[int]] = {}
    for check in plan.checks:
        key = _equality(check)
        if key:
            users.setdefault((check.table, key), set()).add(check.rule)
    return users


def _describe(check: Check, plan: Plan) -> list[str]:
    match check:
        case RowCheck(broken=broken):
            return [f"row check: one pass, rows with {condition_text(broken)}"]
        case GroupCheck(lhs=lhs, rhs=rhs):
            what = f"counts each {' | '.join(rhs)}" if rhs else "counts rows"
            lines = [f"group check: hash on ({', '.join(lhs)}), {what}; pairs are counted, never stored"]
            if check.member is not None:
                lines.append(f"only rows with {condition_text(check.member)}")
            return lines
        case ReferenceCheck():
            return [f"reference check: hash on {check.ref_table}({', '.join(check.ref_columns)}), counts per value"]
        case MeasureCheck(measures=measures):
            kept = ", ".join(f"{measure.text}{_only(measure.member)}" for measure in measures)
            return [f"measure check: keeps {kept}; old rows are counted out and new ones in"]
        case PairCheck(terms=terms):
            lines = [f"pair check through index {plan.index}", *index_type(plan.index).outline(terms)]
            members = (("t", check.t_member), ("s", check.s_member))
            lines += [f"{who} only with {condition_text(member)}" for who, member in members if member is not None]
            return lines


def _only(member: Condition | None) -> str:
    return "" if member is None else f" of rows with {condition_text(member)}"
