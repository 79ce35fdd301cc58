"""A plan in words: what each rule becomes, which index serves it and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdstrue.plan.checks import Check, GroupCheck, PairCheck, PairTerm, ReferenceCheck, RowCheck
from holdstrue.plan.compile import Plan
from holdstrue.plan.range import value_range
from holdstrue.rules.model import Op
from holdstrue.rules.text import condition_text


def explain(plan: Plan, notes: Mapping[int, Sequence[str]] | None = None) -> str:
    """Plan and reasons as text; `notes` are what the running indexes say of each check."""
    lines = [f"table {plan.main}: reads {_ranges(plan)}"]
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


def _ranges(plan: Plan) -> str:
    parts = []
    for column, values in value_range(rule for rule in plan.rules).items():
        shown = "" if values is None else f" (only {', '.join(repr(value) for value in sorted(values, key=str))})"
        parts.append(f"{column}{shown}")
    return ", ".join(parts)


def _equality(check: Check) -> tuple[str, ...] | None:
    if isinstance(check, GroupCheck):
        return check.lhs
    if isinstance(check, PairCheck):
        return tuple(sorted({term.left for term in check.terms if term.op is Op.EQ and term.left == term.right}))
    return None


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
        case PairCheck(terms=terms):
            return _describe_pair(check, terms, plan)


def _describe_pair(check: PairCheck, terms: tuple[PairTerm, ...], plan: Plan) -> list[str]:
    equal = [term for term in terms if term.op is Op.EQ]
    ordered = [term for term in terms if term.op.is_order]
    unequal = [term for term in terms if term.op is Op.NE]
    lines = [f"pair check through index {plan.index}"]
    if plan.index == "blocks":
        steps = [f"hash on {_and(equal)}" if equal else "no equality: one group of all rows"]
        drive = ordered[:2] or unequal[:1]
        if drive:
            steps.append(f"search {_and(drive)}")
        rest = [term for term in (*ordered[2:], *unequal) if term not in drive]
        if rest:
            steps.append(f"then test {_and(rest)}")
        lines.append("; ".join(steps))
        many = len(ordered) > 2
        lines.append(
            "from scratch: pairs are found through the index"
            if many
            else "from scratch: sort and sweep, counted without listing"
        )
    for who, member in (("t", check.t_member), ("s", check.s_member)):
        if member is not None:
            lines.append(f"{who} only with {condition_text(member)}")
    return lines


def _and(terms: list[PairTerm]) -> str:
    return " and ".join(f"t.{term.left} {term.op} s.{term.right}" for term in terms)
