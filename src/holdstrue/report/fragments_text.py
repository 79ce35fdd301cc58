"""What there is to say of a relation over sites, as text: its plan, what a batch did, what was shipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdstrue.fragments.apart_relation import KNOWN, ApartDelta
from holdstrue.fragments.channel import TrafficByPair, total
from holdstrue.fragments.relation_delta import RelationDelta, key_values
from holdstrue.fragments.shipping_plan import ShippingPlan

SHOWN = 10
"""Keys listed for a rule before the rest is counted."""


def plan_text(plan: ShippingPlan, _: object = None) -> Iterator[str]:
    """A plan as text, line by line."""
    yield from (f"{line}\n" for line in plan.lines())


_NOTHING = "no violation began or ceased\n"


def relation_delta_text(delta: RelationDelta, _: object = None) -> Iterator[str]:
    """A batch as text, line by line."""
    counts = delta.violations
    if delta.repeated:
        yield f"batch {delta.batch} was applied before; nothing was done\n"
        return
    rules = {**delta.added, **delta.removed}
    for rule in counts or rules:
        added, removed = delta.added.get(rule), delta.removed.get(rule)
        if added is None and removed is None and counts is None:
            continue
        now = "" if counts is None else f", {_violate(counts[rule])} it now"
        yield f"{rule}: +{_size(added):,} -{_size(removed):,}{now}\n"
        for sign, table in (("+", added), ("-", removed)):
            if table is not None:
                yield f"  {sign} {_listed(table)}\n"
    if not rules and counts is None:
        yield _NOTHING
    yield from shipments_text(delta.shipped)


def _violate(rows: int) -> str:
    return "1 row violates" if rows == 1 else f"{rows:,} rows violate"


def apart_delta_text(delta: ApartDelta, style: object = None) -> Iterator[str]:
    """A batch at sites that are apart, or all that violates rules, as text, line by line."""
    elsewhere = [(site, rule, *both) for site, rules in delta.elsewhere.items() for rule, both in rules.items()]
    if delta.batch != KNOWN:
        lines = [*relation_delta_text(delta, style)]
        shipped = [*shipments_text(delta.shipped)] if not delta.repeated else []
        told = lines[: len(lines) - len(shipped)]
        yield from told if not elsewhere or told != [_NOTHING] else ["no violation began or ceased here\n"]
        yield from (f"at {site}: {rule}: +{more:,} -{fewer:,}\n" for site, rule, more, fewer in elsewhere)
        yield from shipped
        return
    for rule, table in delta.added.items():
        yield f"{rule}: {table.num_rows:,} row{'s' * (table.num_rows != 1)} here\n  {_listed(table)}\n"
    yield from (f"{rule}: {more:,} row{'s' * (more != 1)} at {site}\n" for site, rule, more, _ in elsewhere)
    if not delta.added and not elsewhere:
        yield "no row violates a rule\n"


def shipments_text(tally: TrafficByPair) -> Iterator[str]:
    """The shipment table."""
    if not tally:
        yield "nothing was shipped\n"
        return
    rows = [("source", "target", "messages", "ids", "bytes")]
    for (source, target), t in (*sorted(tally.items()), (("all", ""), total(tally))):
        rows.append((source, target, f"{t.messages:,}", f"{t.ids:,}", f"{t.bytes:,}"))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    for row in rows:
        names = (row[i].ljust(widths[i]) for i in (0, 1))
        numbers = (row[i].rjust(widths[i]) for i in (2, 3, 4))
        yield "  ".join((*names, *numbers)).rstrip() + "\n"


def _size(table: Any) -> int:
    return 0 if table is None else int(table.num_rows)


def _listed(table: Any) -> str:
    shown = ", ".join(str(key) for key in key_values(table)[:SHOWN])
    more = table.num_rows - SHOWN
    return shown if more <= 0 else f"{shown} and {more:,} more"
