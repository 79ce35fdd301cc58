"""Customers of an insurer, with census-like columns about the person."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa

from workloads.dirty.dice import Dice
from workloads.dirty.kinds import (
    day_month_swapped,
    days_off,
    digit_slip,
    ended,
    fixed,
    flipped,
    mapped,
    mojibake,
    negative,
    no_leading_zeros,
    recase,
    times,
    typo,
    word_for_nothing,
    years_off,
)
from workloads.dirty.planting import Kinds, Planted, Planting
from workloads.dirty.words import person

SCHEMA = pa.schema(
    [
        ("customer_no", pa.string()),
        ("gender", pa.string()),
        ("first_name", pa.string()),
        ("last_name", pa.string()),
        ("birth_date", pa.date32()),
        ("marital_status", pa.string()),
        ("occupation", pa.string()),
        ("phone", pa.string()),
        ("iban", pa.string()),
        ("bank", pa.string()),
        ("postcode", pa.string()),
        ("city", pa.string()),
        ("policy", pa.string()),
        ("annual_premium", pa.decimal128(12, 2)),
        ("smoker", pa.bool_()),
        ("start_date", pa.date32()),
    ]
)
GENDER_VARIANTS = {"F": ["female", "f", "W"], "M": ["male", "m", "N"]}
OTHER_GENDER = {"F": ["M"], "M": ["F"]}
MARITAL_STATUS_VARIANTS = {
    "single": ["Single", "singel", "S"],
    "married": ["maried", "MARRIED", "m."],
    "divorced": ["div.", "divorcd"],
}
BANK_VARIANTS = {
    "Commerzbank": ["Commerzbank AG", "Comerzbank"],
    "ING-DiBa": ["ING", "INGDiba"],
    "Deutsche Kreditbank": ["DKB"],
    "Postbank": ["Post Bank"],
}
CITY_VARIANTS = {
    "Frankfurt am Main": ["Frankfurt/M.", "Frankfurt"],
    "München": ["Munich"],
    "Köln": ["Koeln", "Cologne"],
}
CITIES = [
    ("Berlin", ["10115", "10405", "12043"], "030"),
    ("Hamburg", ["20095", "22765"], "040"),
    ("München", ["80331", "81541"], "089"),
    ("Köln", ["50667", "50823"], "0221"),
    ("Frankfurt am Main", ["60311", "60594"], "069"),
    ("Frankfurt (Oder)", ["15230"], "0335"),
    ("Düsseldorf", ["40213"], "0211"),
    ("Leipzig", ["04109", "04229"], "0341"),
    ("Dresden", ["01067", "01127"], "0351"),
    ("Halle (Saale)", ["06108"], "0345"),
    ("Nürnberg", ["90402"], "0911"),
    ("Lübeck", ["23552"], "0451"),
    ("Jena", ["07743"], "03641"),
    ("Gera", ["07545"], "0365"),
    ("Münster", ["48143"], "0251"),
    ("Zittau", ["02763"], "03583"),
    ("Helgoland", ["27498"], "04725"),
]
BANKS = [
    ("37040044", "Commerzbank"),
    ("50010517", "ING-DiBa"),
    ("10050000", "Berliner Sparkasse"),
    ("70150000", "Stadtsparkasse München"),
    ("20050550", "Hamburger Sparkasse"),
    ("12030000", "Deutsche Kreditbank"),
    ("10010010", "Postbank"),
    ("86055592", "Sparkasse Leipzig"),
    ("85050300", "Ostsächsische Sparkasse Dresden"),
    ("43060967", "GLS Gemeinschaftsbank"),
]
JOBS = [
    "Clerk",
    "Teacher",
    "Nurse",
    "Engineer",
    "Sales assistant",
    "Driver",
    "Electrician",
    "Software developer",
    "Physician",
    "Lawyer",
    "Cook",
    "Carpenter",
    "Civil servant",
    "Farmer",
    "Journalist",
    "Beekeeper",
    "Piano tuner",
    "Lighthouse keeper",
]
PREMIUMS = {"Liability": 68, "Household": 120, "Car": 540, "Legal": 260, "Life": 900, "Health": 4200}


def insurance(seed: int) -> Planted:
    """Customers of an insurer, with census-like columns about the person.

    Honest oddities: postcodes and numbers with leading zeros, foreign account numbers, couples
    who share account and surname, twins, children as customers (single, no occupation),
    missing phones, a handful of very high premiums, names spelled in several honest ways,
    cities of the same name, rare jobs, very old people.
    """
    dice = Dice(seed, 108)
    errors = Planting(dice, SCHEMA, _rows(dice))
    return errors.plant(dice.real(0.07, 0.11), _kinds(errors))


def _rows(dice: Dice) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    number = 3100
    previous: tuple[str, tuple[str, str, str, str], str] | None = None
    for _ in range(3000):
        number += dice.whole(1, 30)
        gender, first, surname = person(dice)
        start = dice.day(dt.date(1998, 1, 1), dt.date(2023, 6, 1))
        start = start.replace(day=dice.weighted([1, 15, min(start.day, 28)], [7, 1, 2]))
        age = _age(dice)
        birth = dice.day(dt.date(start.year - age - 1, 1, 1), dt.date(start.year - age - 1, 12, 31))
        city, codes, area = dice.skewed(CITIES, 0.8)
        postcode = dice.pick(codes)
        iban, bank = _account(dice)
        home = iban, bank, postcode, city
        states = ["single", "married", "divorced", "widowed", "registered partnership"]
        marital: str = dice.weighted(states, [34, 46, 12, 7, 1])
        job: str | None = dice.skewed(JOBS, 0.7)
        if age < 16:
            marital, job = "single", None
        if previous and dice.chance(0.05):  # honest: the other half of a couple
            surname, home, area = previous
            marital = "married" if age > 18 else marital
        previous = surname, home, area
        policy, premium, smoker = _policy(dice, age)
        who = f"{number:08d}", gender, first, surname, birth, marital, job, _phone(dice, area)
        rows.append((*who, *home, policy, premium, smoker, start))
    return dice.shuffled(rows)


def _age(dice: Dice) -> int:
    age = min(93, max(18, int(dice.normal(41, 13))))
    return dice.whole(0, 12) if dice.chance(0.02) else age


def _account(dice: Dice) -> tuple[str, str]:
    """An IBAN and the name of its bank, some of them abroad."""
    code, bank = dice.skewed(BANKS, 0.5)
    iban = _with_check("DE", code + dice.digits(10))
    if not dice.chance(0.025):
        return iban, bank
    if dice.pick(["AT", "NL"]) == "AT":
        return _with_check("AT", "20111" + dice.digits(11)), "Erste Bank"
    return _with_check("NL", "ABNA" + dice.digits(10)), "ABN AMRO"


def _with_check(country: str, account: str) -> str:
    """An IBAN with the right check digits."""
    number = int("".join(str(int(letter, 36)) for letter in f"{account}{country}00"))
    return f"{country}{98 - number % 97:02d}{account}"


def _policy(dice: Dice, age: int) -> tuple[str, Decimal, bool]:
    policy = dice.weighted(list(PREMIUMS), [30, 22, 26, 9, 9, 4])
    smoker = dice.chance(0.22) if age > 16 else False
    premium = PREMIUMS[policy] * dice.lognormal(0, 0.25)
    if policy in ("Life", "Health"):
        premium *= 1 + max(0, age - 30) * 0.015 + 0.5 * smoker
    if dice.chance(0.004):
        premium *= dice.real(8, 20)
    return policy, Decimal(f"{premium:.2f}"), smoker


def _phone(dice: Dice, area: str) -> str | None:
    if not dice.chance(0.85):
        return None
    if dice.chance(0.65):
        return f"+49 {dice.pick(['151', '160', '170', '172', '176'])} {dice.digits(7)}"
    return f"+49 {area[1:]} {dice.whole(1000, 9999999)}"


def _phone_slip(dice: Dice, phone: str) -> str:
    return dice.pick(["0" + phone[4:], phone.replace("+49 ", "0049"), phone[:-4], phone.replace(" ", "/")])


def _in_fours(dice: Dice, iban: str) -> str:
    return " ".join(iban[at : at + 4] for at in range(0, len(iban), 4))


def _kinds(errors: Planting) -> Kinds:
    true = errors.true
    return [
        (1.5, errors.cell("customer_no", no_leading_zeros)),
        (1, errors.cell("customer_no", ended(".0"))),
        (1.5, errors.cell("gender", mapped(GENDER_VARIANTS))),
        (1, errors.cell("gender", mapped(OTHER_GENDER))),
        (1, errors.swap("first_name", "last_name")),
        (1, errors.cell("first_name", lambda dice, value: value[0] + ".")),
        (1.5, errors.cell("last_name", mojibake)),
        (1, errors.cell("last_name", recase)),
        (1, errors.cell("last_name", typo)),
        (1.5, errors.cell("birth_date", years_off(-100, 100))),
        (1, errors.cell("birth_date", fixed(dt.date(1900, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)))),
        (1, errors.cell("birth_date", day_month_swapped)),
        (1, errors.rowwise("birth_date", lambda row: true["start_date"][row])),
        (1, errors.cell("start_date", years_off(30, 80, -60))),
        (1, errors.cell("start_date", days_off(3, 25))),
        (1.5, errors.cell("marital_status", mapped(MARITAL_STATUS_VARIANTS))),
        (1, errors.other("marital_status")),
        (1, errors.cell("occupation", word_for_nothing)),
        (1, errors.cell("occupation", typo)),
        (1.5, errors.cell("phone", _phone_slip)),
        (1, errors.cell("phone", fixed("000000", "n/a", "+49 123 456789", "call office"))),
        (1.5, errors.cell("iban", digit_slip)),
        (1, errors.cell("iban", lambda dice, value: value[:-2])),
        (1, errors.cell("iban", _in_fours)),
        (1, errors.rowwise("iban", lambda row: true["phone"][row])),
        (1, errors.other("bank")),
        (1, errors.cell("bank", mapped(BANK_VARIANTS))),
        (1.5, errors.cell("postcode", no_leading_zeros)),
        (1, errors.cell("postcode", digit_slip)),
        (1.5, errors.cell("city", mojibake)),
        (1, errors.cell("city", typo)),
        (1, errors.swap("postcode", "city")),
        (0.7, errors.cell("city", mapped(CITY_VARIANTS))),
        (1, errors.other("policy")),
        (2, errors.cell("annual_premium", times(100, 10, 0.01))),
        (1, errors.cell("annual_premium", negative)),
        (1, errors.cell("smoker", flipped)),
        (0.7, errors.blank("iban")),
        (0.7, errors.blank("phone")),
    ]
