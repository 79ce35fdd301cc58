"""Order lines joined with all they refer to: 30 columns with keys, hierarchies, measures and a few blanks.

Row i depends on i alone, so any range of rows can be made by itself.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

I64 = NDArray[np.int64]

_SEED = np.uint64(0x9E3779B97F4A7C15)


def orders(rows: int, *, start: int = 0) -> pa.Table:
    """`rows` order lines from number `start` on; each order has one to five lines.

    Examples
    --------
    >>> orders(10).num_columns, orders(4, start=6).equals(orders(10).slice(6))
    (30, True)
    """
    i = np.arange(start, start + rows, dtype=np.int64)
    order, line = i // 3, i % 3 + 1
    customer = _draw(order, 1, 200_000)
    product = _draw(i, 2, 20_000)
    zip_code = _draw(customer, 3, 12_000)
    city = _draw(zip_code, 4, 3_000)
    state = _draw(city, 5, 50)
    store = _draw(order, 6, 400)
    supplier = _draw(product, 7, 900)
    category = _draw(product, 8, 60)
    day = order // 400
    quantity = 1 + _draw(i, 9, 20)
    price = (100 + _draw(product, 10, 90_000)) / 100
    discount = _draw(i, 11, 5) * 5
    amount = np.round(quantity * price * (100 - discount) / 100, 2)
    carrier = _draw(order, 12, 8)
    columns = {
        "order_id": pa.array(order),
        "line": pa.array(line),
        "order_day": pa.array(day.astype(np.int32), type=pa.int32()).cast(pa.date32()),
        "weekday": pa.array(day % 7),
        "status": _text("status", _draw(i, 13, 6)),
        "channel": _text("channel", _draw(order, 14, 4)),
        "customer_id": pa.array(customer),
        "customer": _text("customer", customer),
        "email": _text("mail", customer, some=_draw(customer, 15, 20) > 0),
        "segment": _text("segment", _draw(customer, 16, 5)),
        "zip": pa.array(zip_code + 10_000),
        "city": _text("city", city),
        "state": _text("state", state),
        "country": pa.array(["US"] * rows),
        "store_id": pa.array(store),
        "store_city": _text("city", _draw(store, 17, 200)),
        "manager": _text("manager", _draw(store, 18, 350)),
        "product_id": pa.array(product),
        "product": _text("product", product),
        "category": _text("category", category),
        "department": _text("department", _draw(category, 19, 9)),
        "supplier_id": pa.array(supplier),
        "supplier": _text("supplier", supplier),
        "price": pa.array(price),
        "quantity": pa.array(quantity),
        "discount": pa.array(discount),
        "amount": pa.array(amount),
        "carrier": _text("carrier", carrier),
        "tracking": _text("track", order * 8 + carrier, some=_draw(order, 20, 10) > 0),
        "returned": pa.array(_draw(i, 21, 40) == 0),
    }
    return pa.table(columns)


def _draw(numbers: I64, stream: int, below: int) -> I64:
    """A number below `below` for each number, the same every time."""
    shift = np.uint64(stream * int(_SEED) % 2**64)
    x = (numbers.astype(np.uint64) + shift) * np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(29)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(32)
    return (x % np.uint64(below)).astype(np.int64)


def _text(word: str, numbers: I64, some: NDArray[np.bool_] | None = None) -> pa.Array:
    distinct, places = np.unique(numbers, return_inverse=True)
    names = pa.array([f"{word} {number}" for number in distinct], type=pa.string())
    return names.take(pa.array(places, mask=None if some is None else ~some))
