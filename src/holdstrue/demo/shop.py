"""The shop's tables as they should be, then with the errors that somebody typed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import TypeAlias

from holdstrue.demo.draw import Draws

Row: TypeAlias = dict[str, object]

SEED = 7
CUSTOMERS, PRODUCTS, ORDERS = 400, 60, 3000
FIRST_ORDER = 10_001
"""The first order's number: no weight or fee looks like one."""
MONDAY = date(2026, 3, 2)
"""The first day of the week of changes; the orders of the tables are of the hundred days before."""

TOWNS = {
    "DE": ("Hamburg", "Bonn", "Kiel", "Ulm", "Jena"),
    "FR": ("Lyon", "Nantes", "Lille", "Metz"),
    "DK": ("Aarhus", "Odense", "Aalborg"),
    "PL": ("Gdynia", "Lublin", "Torun"),
}
CURRENCY = {"DE": "EUR", "FR": "EUR", "DK": "DKK", "PL": "PLN"}
TAX = {"books": 7, "food": 7, "tools": 19, "toys": 19, "garden": 19}
FIRST = ("Ada", "Ben", "Cleo", "Dov", "Edda", "Finn", "Gro", "Hal", "Ida", "Jan", "Kim", "Lea", "Mia", "Nils", "Ole")
LAST = (
    "Adler",
    "Berg",
    "Costa",
    "Dahl",
    "Ek",
    "Falk",
    "Gray",
    "Holm",
    "Iver",
    "Jung",
    "Koch",
    "Lund",
    "Marek",
    "Novak",
)
THINGS = ("lamp", "atlas", "kite", "spade", "honey", "drill", "novel", "tea", "puzzle", "rake", "bread", "plane")
QUALITY = ("plain", "fine", "grand", "small", "large")

RULES = """\
table: orders
key: id
types:
  customers.zip: text            # 01234 is not the number 1234
rules:
- name: customers are known
  rule: orders.customer in customers.id
- name: products are known
  rule: orders.product in products.id
- name: shipped after ordered
  rule: not(t.shipped < t.ordered)
- name: heavier is not cheaper to ship
  rule: not(t.country = s.country and t.weight > s.weight and t.shipping < s.shipping)
- name: a country has one currency
  rule: country -> currency
- name: a zip code lies in one town
  rule: country, zip -> town
  table: customers
- name: one account for an e-mail address
  rule: key(email)
  table: customers
- name: tax by category
  rule: "[category] -> [tax] with ('books' || 7), ('food' || 7), ('tools' || 19), ('toys' || 19), ('garden' || 19)"
  table: products
- name: sold above cost
  rule: not(t.price < t.cost)
  table: products
  severity: warn
"""


@dataclass(frozen=True)
class Shop:
    """The three tables; the key of each is `id`."""

    customers: list[Row]
    products: list[Row]
    orders: list[Row]


def clean_shop(draw: Draws) -> Shop:
    """Tables that follow every rule."""
    customers = [customer(number, draw) for number in range(1, CUSTOMERS + 1)]
    products = [_product(number, draw) for number in range(1, PRODUCTS + 1)]
    first = MONDAY - timedelta(days=100)
    orders = [
        order(number, first + timedelta(days=number * 100 // ORDERS), customers, products, draw)
        for number in range(1, ORDERS + 1)
    ]
    return Shop(customers, products, orders)


def customer(number: int, draw: Draws) -> Row:
    """An account; the zip code tells the town."""
    name, surname = draw.one_of(FIRST), draw.one_of(LAST)
    country = draw.one_of(tuple(TOWNS))
    towns = TOWNS[country]
    zip_code = draw.below(5 * len(towns))
    return {
        "id": f"C{number:04d}",
        "name": f"{name} {surname}",
        "email": f"{name}.{surname}.{number}@example.org".lower(),
        "country": country,
        "zip": f"{zip_code + 1:02d}{(zip_code * 37) % 100:02d}0",
        "town": towns[zip_code // 5],
    }


def _product(number: int, draw: Draws) -> Row:
    category = draw.one_of(tuple(TAX))
    cost = 200 + draw.below(4000)
    return {
        "id": f"P{number:02d}",
        "name": f"{QUALITY[number % 5]} {THINGS[number % 12]}",
        "category": category,
        "tax": TAX[category],
        "cost": Decimal(cost).scaleb(-2),
        "price": Decimal(cost * (120 + draw.below(60)) // 100).scaleb(-2),
    }


def order(number: int, day: date, customers: list[Row], products: list[Row], draw: Draws) -> Row:
    """An order of one product; shipping grows with the weight, at a price for each country."""
    buyer, product = draw.one_of(customers), draw.one_of(products)
    weight = 1 + draw.below(40)
    country = str(buyer["country"])
    return {
        "id": FIRST_ORDER + number - 1,
        "customer": buyer["id"],
        "product": product["id"],
        "country": country,
        "currency": CURRENCY[country],
        "ordered": day,
        "shipped": day + timedelta(days=1 + draw.below(3)),
        "weight": weight,
        "shipping": shipping(country, weight),
    }


def shipping(country: str, weight: int) -> int:
    """What a parcel costs: a base for the country and a step for every ten kilograms."""
    return 4 + 2 * tuple(TOWNS).index(country) + 3 * (weight // 10)


def spoilt(shop: Shop) -> Shop:
    """The shop with the errors it had before the week: five slips in three tables."""
    customers, products, orders = ([dict(row) for row in rows] for rows in (shop.customers, shop.products, shop.orders))
    for number in (41, 188):
        customers[number - 1]["town"] = _misspelt(str(customers[number - 1]["town"]))
    products[11]["tax"] = 7 if products[11]["tax"] == 19 else 19
    orders[1200 - 1]["product"] = "P77"
    orders[2500 - 1]["shipped"] = date(2025, 1, 14)
    return Shop(customers, products, orders)


def _misspelt(town: str) -> str:
    """Two letters changed places.

    >>> _misspelt("Hamburg")
    'Hmaburg'
    """
    return town[0] + town[2] + town[1] + town[3:]
