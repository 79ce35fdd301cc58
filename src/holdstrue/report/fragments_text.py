"""What there is to say of a relation over sites: its plan, what a batch did, what was shipped; as text and as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdstrue.fragments.channel import TrafficByPair, total
from holdstrue.fragments.relation_delta import RelationDelta, key_values, shipment_rows
from holdstrue.fragments.shipping_plan import ShippingPlan

SHOWN = 10
"""Keys listed for a rule before the rest is counted."""


def plan_data(plan: ShippingPlan) -> dict[str, Any]:
    """A plan as plain data with names, for JSON."""
    return {
        "ids": plan.ids,
        "fragments": [
            {
                "fragment": part.fragment,
                "how": part.how,
                "ids": part.ids,
                "indexes": [
                    {
                        "cfd": plan.names[home.cfd],
                        "site": home.site,
                        "agrees_with": [site for _, site in plan.peers(number, home.cfd)],
                    }
                    for home in part.homes
                ],
                "shipments": [
                    {
                        "source": s.source,
                        "target": s.target,
                        "attributes": [*s.attrs],
                        "round": s.level + 1,
                        "cfds": [plan.names[cfd] for cfd in s.cfds],
                    }
                    for s in part.shipments
                ],
            }
            for number, part in enumerate(plan.fragments)
        ],
    }


def relation_delta_text(delta: RelationDelta, counts: Mapping[str, int] | None = None) -> Iterator[str]:
    """A batch as text, line by line."""
    if delta.repeated:
        yield f"batch {delta.batch} was applied before; nothing was done\n"
        return
    rules = {**delta.added, **delta.removed}
    for rule in counts or rules:
        added, removed = delta.added.get(rule), delta.removed.get(rule)
        if added is None and removed is None and counts is None:
            continue
        now = "" if counts is None else f", {counts[rule]:,} rows violate it now"
        yield f"{rule}: +{_size(added):,} -{_size(removed):,}{now}\n"
        for sign, table in (("+", added), ("-", removed)):
            if table is not None:
                yield f"  {sign} {_listed(table)}\n"
    if not rules and counts is None:
        yield "no violation began or ceased\n"
    yield from shipments_text(delta.shipped)


def shipments_text(tally: TrafficByPair) -> Iterator[str]:
    """The shipment table."""
    if not tally:
        yield "nothing was shipped\n"
        return
    rows = [("source", "target", "messages", "ids", "bytes")]
    rows += [
        (r["source"], r["target"], f"{r['messages']:,}", f"{r['ids']:,}", f"{r['bytes']:,}")
        for r in shipment_rows(tally)
    ]
    everything = total(tally)
    rows.append(("all", "", f"{everything.messages:,}", f"{everything.ids:,}", f"{everything.bytes:,}"))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    for row in rows:
        names = (row[i].ljust(widths[i]) for i in (0, 1))
        numbers = (row[i].rjust(widths[i]) for i in (2, 3, 4))
        yield "  ".join((*names, *numbers)).rstrip() + "\n"


def relation_delta_data(delta: RelationDelta, counts: Mapping[str, int]) -> dict[str, Any]:
    """A batch as plain data, for JSON."""
    return {**delta.to_dict(), "violations": dict(counts)}


def _size(table: Any) -> int:
    return 0 if table is None else int(table.num_rows)


def _listed(table: Any) -> str:
    shown = ", ".join(str(key) for key in key_values(table)[:SHOWN])
    more = table.num_rows - SHOWN
    return shown if more <= 0 else f"{shown} and {more:,} more"
