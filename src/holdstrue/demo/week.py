"""A week of changes to the shop: every day has new orders, some days have errors, and some mend them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal

from holdstrue.demo.draw import Draws
from holdstrue.demo.shop import MONDAY, ORDERS, Row, Shop, customer, order, shipping

NEW_ORDERS = 60
"""Orders that come each day. Chosen, not tuned."""


@dataclass(frozen=True)
class Day:
    """Changes by table, each with the operation in `op`, and what happened in words."""

    name: str
    story: str
    changes: dict[str, list[Row]] = field(default_factory=dict)


STORIES = {
    "monday": "60 new orders, two new customers: nothing breaks.",
    "tuesday": "A clerk types a town wrong.",
    "wednesday": "An account is deleted; its orders are not.",
    "thursday": "A price list arrives with a wrong tax and a price below cost.",
    "friday": "Somebody makes shipping free for two heavy parcels, and an account is opened twice.",
    "saturday": "Tuesday's and Thursday's errors are mended.",
    "sunday": "The fees of Friday are mended, and the deleted account comes back.",
}
"""What each day brings, in the order of the week."""


def week(shop: Shop, draw: Draws) -> list[Day]:
    """Seven days on a shop without errors: what is mended gets its right values."""
    days = []
    customers = list(shop.customers)
    for number, (name, story) in enumerate(STORIES.items()):
        today = MONDAY + timedelta(days=number)
        first = ORDERS + 1 + number * NEW_ORDERS
        new = [order(first + i, today, customers, shop.products, draw) for i in range(NEW_ORDERS)]
        days.append(Day(name, story, {"orders": [{"op": "insert", **row} for row in new]}))
    monday, tuesday, wednesday, thursday, friday, saturday, sunday = (day.changes for day in days)

    count = len(shop.customers)
    monday["customers"] = [{"op": "insert", **customer(count + i, draw)} for i in (1, 2)]

    typed = next(row for row in shop.customers if row["town"] == "Hamburg")
    tuesday["customers"] = [{"op": "update", **typed, "town": "Hambrug"}]
    saturday["customers"] = [{"op": "update", **typed}]

    # the one who left has orders, and makes no new ones
    left = shop.customers[99]
    wednesday["customers"] = [{"op": "delete", **left}]
    sunday["customers"] = [{"op": "insert", **left}]
    for changes in (wednesday, thursday, friday, saturday):
        for row in changes["orders"]:
            if row["customer"] == left["id"]:
                stays = next(other for other in shop.customers if other["country"] == left["country"])
                row["customer"] = stays["id"]

    taxed, priced = shop.products[3], shop.products[20]
    thursday["products"] = [
        {"op": "update", **taxed, "tax": 7 if taxed["tax"] == 19 else 19},
        {"op": "update", **priced, "price": Decimal("0.99")},
    ]
    saturday["products"] = [{"op": "update", **taxed}, {"op": "update", **priced}]

    heavy = sorted(friday["orders"], key=lambda row: (-int(str(row["weight"])), str(row["id"])))[:2]
    for row in heavy:
        row["shipping"] = 0
    sunday["orders"] += [
        {**row, "op": "update", "shipping": shipping(str(row["country"]), int(str(row["weight"])))} for row in heavy
    ]
    twice = shop.customers[6]
    friday["customers"] = [{"op": "insert", **twice, "id": f"C{count + 3:04d}"}]
    return days
