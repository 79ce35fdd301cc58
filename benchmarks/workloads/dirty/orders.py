"""Order lines of a web shop, in decimals and several currencies."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from workloads.dirty.dice import Dice
from workloads.dirty.kinds import (
    day_month_swapped,
    days_off,
    digits_turned,
    fixed,
    letter_for_digit,
    mapped,
    negative,
    spaces,
    times,
    typo,
    with_year,
    zeros_lost_after,
)
from workloads.dirty.planting import Kinds, Planted, Planting
from workloads.dirty.words import NOUNS, person

SCHEMA = pa.schema(
    [
        ("line_id", pa.int64()),
        ("order_id", pa.string()),
        ("ordered_at", pa.timestamp("s")),
        ("ship_date", pa.date32()),
        ("customer_id", pa.int64()),
        ("email", pa.string()),
        ("country", pa.string()),
        ("currency", pa.string()),
        ("sku", pa.string()),
        ("product", pa.string()),
        ("category", pa.string()),
        ("quantity", pa.int64()),
        ("unit_price", pa.decimal128(12, 2)),
        ("discount_pct", pa.int64()),
        ("line_total", pa.decimal128(14, 2)),
        ("status", pa.string()),
    ]
)
CURRENCY_VARIANTS = {"EUR": ["€", "Euro", "eur"], "USD": ["$", "US$"], "GBP": ["£", "GPB"]}
COUNTRY_VARIANTS = {"DE": ["GER", "Germany", "de"], "FR": ["FRA"], "GB": ["UK"], "US": ["USA"]}
CATEGORY_VARIANTS = {
    "Kitchen": ["kitchen", "Kichen"],
    "Office": ["Offce"],
    "Electronics": ["Elec.", "Electronic"],
    "Clothing": ["CLOTHING", "Clothes"],
}
STATUS_VARIANTS = {"delivered": ["Delivered", "deliverd", "open"], "shipped": ["sent"], "cancelled": ["canceled"]}
CURRENCIES = {
    "DE": "EUR",
    "FR": "EUR",
    "NL": "EUR",
    "GB": "GBP",
    "US": "USD",
    "CH": "CHF",
    "JP": "JPY",
    "SE": "SEK",
    "HR": "HRK",
    "NO": "NOK",
}
RATES = {"EUR": 1, "GBP": 0.88, "USD": 1.09, "CHF": 0.97, "JPY": 152, "SEK": 11.4, "HRK": 7.53, "NOK": 11.5}
PRODUCTS = {
    "T-Shirt": ("Clothing", 19),
    "Hoodie": ("Clothing", 45),
    "Mug": ("Kitchen", 11),
    "Kettle": ("Kitchen", 49),
    "Notebook": ("Office", 7),
    "Desk Lamp": ("Office", 39),
    "Backpack": ("Travel", 79),
    "Phone Case": ("Electronics", 16),
    "Headphones": ("Electronics", 129),
    "Espresso Machine": ("Kitchen", 1290),
    "E-Bike": ("Sports", 3490),
    "Gift Card": ("Gift Cards", 50),
}

COLORS = ["Black", "White", "Navy", "Grey", "Olive"]
CENT = Decimal("0.01")


class Product(NamedTuple):
    """What is sold; `rises` says whether its price rose midway."""

    sku: str
    label: str
    category: str
    euro: float
    rises: bool


class Customer(NamedTuple):
    """Who buys, some of them with a second address of e-mail."""

    number: int
    mail: str
    country: str
    second: str | None


def orders(seed: int) -> Planted:
    """Order lines of a web shop, in decimals and several currencies.

    Honest oddities: yen amounts a hundred times the others, bulk orders, products whose price
    rose midway, open orders without dates of dispatch, customers with a second address of
    e-mail, a country that changed its currency, very dear rare products, returns with negative
    totals and quantities, products that differ by one word or size.
    """
    dice = Dice(seed, 107)
    errors = Planting(dice, SCHEMA, _rows(dice))
    return errors.plant(dice.real(0.05, 0.09), _kinds(errors))


def _rows(dice: Dice) -> list[tuple[Any, ...]]:
    products = _products(dice)
    customers = [_customer(dice, number) for number in range(1200)]
    rows: list[tuple[Any, ...]] = []
    order = 20000
    when = dt.datetime(2022, 1, 3, 7, 30)
    while len(rows) < 4300:
        when += dt.timedelta(minutes=int(dice.lognormal(5.0, 1.0)) + 1, seconds=dice.whole(0, 59))
        order += 1
        customer = dice.skewed(customers, 0.3)
        mail = customer.second if customer.second and dice.chance(0.3) else customer.mail
        currency = CURRENCIES[customer.country]
        if customer.country == "HR" and when.year >= 2023:
            currency = "EUR"
        status = dice.weighted(["delivered", "shipped", "open", "cancelled", "returned"], [80, 6, 5, 5, 4])
        ship = None
        if status in ("delivered", "shipped", "returned"):
            ship = when.date() + dt.timedelta(days=min(40, int(dice.lognormal(0.6, 0.7))))
        about = f"SO-{order:07d}", when, ship, customer.number, mail, customer.country, currency
        for _ in range(dice.weighted([1, 2, 3, 6], [60, 25, 12, 3])):
            line = _line(dice, dice.skewed(products, 0.7), when, currency, returned=status == "returned")
            rows.append((len(rows) + 1, *about, *line, status))
    return rows[:4300]


def _products(dice: Dice) -> list[Product]:
    products: list[Product] = []
    for kind, (category, price) in PRODUCTS.items():
        for _ in range(2 if kind in ("E-Bike", "Gift Card", "Espresso Machine") else dice.whole(5, 14)):
            size = dice.pick(["S", "M", "L", "XL"] if category == "Clothing" else ["", "Mini", "Pro", "2.0"])
            label = f"{dice.pick(NOUNS)} {kind} {dice.pick(COLORS)} {size}".rstrip()
            sku = f"{category[:3].upper()}-{len(products) * 7 + 103:05d}"
            euro = round(price * dice.lognormal(0, 0.2)) + dice.pick([0.0, 0.49, 0.9, 0.99])
            products.append(Product(sku, label, category, euro, dice.chance(0.15)))
    return dice.shuffled(products)


def _customer(dice: Dice, at: int) -> Customer:
    name = ".".join(person(dice)[1:]).lower().replace(" ", "").replace("'", "")
    name = name.encode("ascii", "ignore").decode()
    domains = ["gmail.com", "yahoo.com", "gmx.de", "outlook.com", "web.de", "protonmail.com"]
    domain = dice.skewed(domains, 0.8)
    mail = f"{name}{dice.pick(['', '', str(dice.whole(1, 99))])}@{domain}"
    number = 100000 + at * 3 + dice.whole(0, 2)
    country = dice.skewed(list(CURRENCIES), 0.8)
    second = f"{name}@{dice.pick(['work.example', 'icloud.com'])}" if dice.chance(0.02) else None
    return Customer(number, mail, country, second)


def _line(dice: Dice, product: Product, when: dt.datetime, currency: str, returned: bool) -> tuple[Any, ...]:
    euro = product.euro
    if product.rises and when > dt.datetime(2022, 10, 1):
        euro *= 1.1
    price = Decimal(str(round(euro * RATES[currency], 0 if currency == "JPY" else 2))).quantize(CENT)
    quantity = dice.weighted([1, 2, 3, 4, 5, 10], [70, 16, 6, 3, 2, 2])
    card = product.category == "Gift Cards"
    if not card and product.euro < 60 and dice.chance(0.008):
        quantity = dice.pick([100, 144, 250, 500])
    percent = 0 if card else dice.weighted([0, 5, 10, 15, 20, 50], [70, 8, 12, 4, 5, 1])
    if returned:
        quantity = -quantity
    total = (price * quantity * (100 - percent) / 100).quantize(CENT)
    return product.sku, product.label, product.category, quantity, price, percent, total


def _mail_slip(dice: Dice, mail: str) -> str:
    slips = [mail.replace("@", ""), mail.replace("@", " at "), mail.replace(".com", ",com")]
    return dice.pick([*slips, mail[: mail.rindex(".")]])


def _other_year(dice: Dice, moment: dt.datetime) -> dt.datetime:
    return moment.replace(year=dice.pick([1970, 2002, moment.year + 1]), day=min(moment.day, 28))


def _other_price(dice: Dice, price: Decimal) -> Decimal:
    return (price * Decimal(str(round(dice.real(0.9, 1.1), 3)))).quantize(CENT)


def _no_discount(errors: Planting, row: int) -> Decimal:
    total: Decimal = errors.true["unit_price"][row] * errors.true["quantity"][row]
    return total.quantize(CENT)


def _kinds(errors: Planting) -> Kinds:
    dice, true = errors.dice, errors.true
    return [
        (2, errors.cell("unit_price", times(100, 0.01))),
        (1, errors.cell("unit_price", times(10, 0.1))),
        (1, errors.cell("unit_price", negative)),
        (1, errors.cell("unit_price", fixed(Decimal("0.00"), Decimal("9999.99")))),
        (1, errors.cell("unit_price", _other_price)),
        (2, errors.cell("line_total", times(100, 10, 0.1))),
        (1.5, errors.rowwise("line_total", lambda row: _no_discount(errors, row))),
        (1, errors.rowwise("line_total", lambda row: true["unit_price"][row])),
        (1.5, errors.cell("quantity", times(10, 100))),
        (1, errors.cell("quantity", fixed(0, 999, -1))),
        (1, errors.cell("discount_pct", fixed(110, -10, 500, 99))),
        (1, errors.other("discount_pct")),
        (
            2,
            errors.rowwise(
                "ship_date", lambda row: true["ordered_at"][row].date() - dt.timedelta(days=dice.whole(2, 90))
            ),
        ),
        (1.5, errors.cell("ship_date", day_month_swapped)),
        (1, errors.cell("ship_date", lambda dice, value: with_year(value, dice.pick([1900, 2032, 2202])))),
        (1, errors.blank("ship_date")),
        (1, errors.cell("ship_date", days_off(1, 2))),
        (1, errors.cell("ordered_at", _other_year)),
        (2, errors.other("currency")),
        (1, errors.cell("currency", mapped(CURRENCY_VARIANTS))),
        (1.5, errors.cell("country", mapped(COUNTRY_VARIANTS))),
        (1, errors.other("country")),
        (1, errors.cell("email", _mail_slip)),
        (1, errors.cell("email", typo)),
        (0.7, errors.blank("email")),
        (1, errors.cell("customer_id", digits_turned)),
        (1.5, errors.cell("sku", lambda dice, value: value.replace("-0", "-", 1))),
        (1, errors.cell("sku", letter_for_digit)),
        (1, errors.other("sku")),
        (2, errors.cell("product", typo)),
        (1, errors.cell("product", spaces)),
        (1, errors.other("category")),
        (1, errors.cell("category", mapped(CATEGORY_VARIANTS))),
        (1.5, errors.cell("status", mapped(STATUS_VARIANTS))),
        (1, errors.cell("order_id", zeros_lost_after("SO-"))),
        (0.5, errors.shift(["email", "country", "currency", "sku", "product", "category"])),
    ]
