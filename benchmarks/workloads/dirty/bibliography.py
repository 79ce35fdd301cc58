"""Journal articles, as in a reference manager's export."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any, NamedTuple

import pyarrow as pa

from workloads.dirty.dice import Dice
from workloads.dirty.kinds import (
    digit_slip,
    digits_turned,
    mapped,
    mojibake,
    plus,
    recase,
    replaced,
    spaces,
    truncate,
    typo,
    word_for_nothing,
)
from workloads.dirty.planting import Kinds, Planted, Planting
from workloads.dirty.words import MEN, SURNAMES, WOMEN, words

SCHEMA = pa.schema(
    [
        ("article_id", pa.int64()),
        ("title", pa.string()),
        ("language", pa.string()),
        ("journal_title", pa.string()),
        ("journal_abbr", pa.string()),
        ("issn", pa.string()),
        ("volume", pa.string()),
        ("issue", pa.string()),
        ("pages", pa.string()),
        ("year", pa.int64()),
        ("created", pa.string()),
        ("authors", pa.string()),
        ("doi", pa.string()),
    ]
)
LANGUAGE_VARIANTS = {"eng": ["en", "English", "ENG"], "ger": ["deu", "de"], "fre": ["fra", "French"], "spa": ["es"]}
FIELDS = [
    ("Cardiology", "Cardiol"),
    ("Clinical Nutrition", "Clin Nutr"),
    ("Surgery", "Surg"),
    ("Pediatrics", "Pediatr"),
    ("Oncology", "Oncol"),
    ("Neurology", "Neurol"),
    ("Public Health", "Public Health"),
    ("Epidemiology", "Epidemiol"),
    ("Infectious Diseases", "Infect Dis"),
    ("Medicine", "Med"),
    ("Pharmacology", "Pharmacol"),
    ("Urology", "Urol"),
    ("Gastroenterology", "Gastroenterol"),
    ("Psychiatry", "Psychiatry"),
]
HEADS = [
    ("Journal of", "J"),
    ("International Journal of", "Int J"),
    ("European Journal of", "Eur J"),
    ("American Journal of", "Am J"),
    ("Annals of", "Ann"),
    ("Archives of", "Arch"),
    ("British Journal of", "Br J"),
    ("Scandinavian Journal of", "Scand J"),
]
OTHER_JOURNALS = [
    ("The Lancet", "Lancet", "eng"),
    ("BMJ (Clinical research ed.)", "BMJ", "eng"),
    ("PLoS ONE", "PLoS One", "eng"),
    ("Deutsche medizinische Wochenschrift", "Dtsch Med Wochenschr", "ger"),
    ("La Presse médicale", "Presse Med", "fre"),
    ("Gaceta médica de México", "Gac Med Mex", "spa"),
    ("Ugeskrift for læger", "Ugeskr Laeger", "dan"),
    ("Medicina clínica", "Med Clin (Barc)", "spa"),
]
TOPICS = words("""aspirin statins vitamin_D exercise screening vaccination metformin breastfeeding
obesity smoking_cessation hypertension probiotics sepsis dialysis stroke asthma depression
malaria HIV_infection knee_replacement""")
GROUPS = words("""children older_adults pregnant_women primary_care rural_China hospital_staff
men_with_diabetes preterm_infants intensive_care low-income_countries""")
SHAPES = [
    "Effect of {} on {} in {}",
    "{} and {} in {}: a randomised controlled trial",
    "{} versus {} for {}: a systematic review",
    "Association between {} and {} in {}",
    "Long-term outcomes of {} after {} in {}",
    "[{} and {} in {}]",
]

MONTHS = words("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec")


class Journal(NamedTuple):
    """A journal; `start` is the year before its first volume."""

    title: str
    short: str
    language: str
    issn: str
    start: int


def bibliography(seed: int) -> Planted:
    """Journal articles, as in a reference manager's export.

    Honest oddities: journals with nearly the same title, supplement issues, electronic page
    numbers, shortened last pages, rare languages, a journal that changed its ISSN, one-author
    and group-author papers, papers without issue or DOI, non-ASCII names.
    """
    dice = Dice(seed, 102)
    errors = Planting(dice, SCHEMA, _rows(dice))
    return errors.plant(dice.real(0.08, 0.115), _kinds(errors))


def _rows(dice: Dice) -> list[tuple[Any, ...]]:
    journals = _journals(dice)
    return [_article(dice, number, journals) for number in range(1500)]


def _journals(dice: Dice) -> list[Journal]:
    named = [
        (f"{head} {field}", f"{short} {brief}", "eng")
        for head, short in HEADS
        for field, brief in FIELDS
        if dice.chance(0.65)
    ]
    return [
        Journal(
            *names,
            issn=f"{dice.whole(1, 2999):04d}-{dice.digits(3)}{dice.pick('0123456789X')}",
            start=dice.whole(1900, 1995),
        )
        for names in dice.shuffled(named + OTHER_JOURNALS)
    ]


def _article(dice: Dice, at: int, journals: list[Journal]) -> tuple[Any, ...]:
    journal = dice.skewed(journals, 0.8)
    language = journal.language if dice.chance(0.97) else dice.pick(["fre", "ger", "spa", "chi", "jpn", "pol"])
    year = min(2014, 1975 + int(39 * math.sqrt(dice.real())))
    issn = journal.issn
    if journal is journals[2] and year < 1990:
        issn = "0021-9X0" + issn[-1]  # honest: this journal had another ISSN before
    volume = str(max(1, (year - journal.start) * (1 if journal.start % 2 else 2)))
    issues = [*(str(number) for number in range(1, 13)), "Suppl 1", "5 Pt 1", "7-8", None]
    issue = dice.weighted(issues, [8] * 12 + [4, 3, 2, 9])
    pages = _pages(dice, electronic=journal.short == "PLoS One")
    many = 1 + min(9, int(dice.lognormal(1.1, 0.5)))
    authors = "; ".join(f"{surname}, {dice.pick(WOMEN + MEN)[0]}." for surname in dice.some(SURNAMES, many))
    if dice.chance(0.01):
        authors = dice.pick(["WHO Collaborative Study Group", "The EURODIAB Consortium"])
    title = _title(dice, language)
    made = dice.day(dt.date(year, 1, 1), dt.date(year, 12, 28))
    created = f"{made.month}/{made.day}/{made.year % 100:02d}"
    doi = f"10.{1000 + journal.start}/{issn[:4].lower()}.{year}.{dice.digits(5)}"
    number = 10000 + 3 * at + dice.whole(0, 2)
    shown = doi if year > 1998 and dice.chance(0.9) else None
    names = journal.title, journal.short, issn
    return number, title, language, *names, volume, issue, pages, year, created, authors, shown


def _pages(dice: Dice, electronic: bool) -> str | None:
    first = dice.whole(1, 1900)
    last = first + dice.whole(1, 14)
    pages = f"{first}-{last}"
    if dice.chance(0.5):  # the short form of the last page: 1234-9
        start, end = str(first), str(last)
        same = 0
        while len(start) == len(end) and same < len(start) - 1 and start[same] == end[same]:
            same += 1
        pages = f"{start}-{end[same:]}"
    if electronic or dice.chance(0.03):
        pages = f"e{dice.whole(1000, 99999)}"
    return None if dice.chance(0.03) else pages


def _title(dice: Dice, language: str) -> str:
    about = [*dice.some(TOPICS, 2), dice.pick(GROUPS)]
    title = dice.pick(SHAPES).format(*about)
    if language == "eng":
        title = title.strip("[]")
    return title[0].upper() + title[1:]


def _pages_as_date(dice: Dice, pages: str) -> str:
    """A short page range read as a date by a spreadsheet."""
    parts = pages.split("-")
    if len(parts) == 2 and parts[1].isdigit() and 1 <= int(parts[1]) <= 12:
        return f"{MONTHS[int(parts[1]) - 1]}-{parts[0][-2:]}"
    return pages


def _other_date(dice: Dice, text: str) -> str:
    month, day, short = (int(part) for part in text.split("/"))
    year = (1900 if short > 30 else 2000) + short
    return dice.pick([f"{year}-{month:02d}-{day:02d}", f"{day}.{month}.{year}", f"{MONTHS[month - 1]} {day}, {year}"])


def _day_first(dice: Dice, text: str) -> str:
    month, day, year = text.split("/")
    return f"{day}/{month}/{year}"


def _kinds(errors: Planting) -> Kinds:
    true = errors.true
    return [
        (2, errors.cell("pages", _pages_as_date)),
        (1, errors.cell("pages", truncate)),
        (1.5, errors.cell("issn", replaced("-", ""))),
        (1, errors.cell("issn", lambda dice, issn: issn.replace("-", "").lstrip("0"))),
        (1, errors.cell("issn", digit_slip)),
        (2, errors.cell("created", _other_date)),
        (1.5, errors.cell("created", _day_first)),
        (2, errors.cell("journal_title", typo)),
        (1.5, errors.rowwise("journal_title", lambda row: true["journal_abbr"][row])),
        (1, errors.cell("journal_title", recase)),
        (1.5, errors.blank("journal_abbr")),
        (1, errors.other("journal_abbr")),
        (1, errors.cell("language", mapped(LANGUAGE_VARIANTS))),
        (1, errors.other("language")),
        (2, errors.cell("authors", mojibake)),
        (1, errors.cell("authors", replaced("; ", ", "))),
        (1, errors.cell("title", truncate)),
        (1, errors.cell("title", spaces)),
        (1, errors.swap("volume", "issue")),
        (1, errors.cell("year", digits_turned)),
        (1, errors.cell("year", plus(-1, 1, 2))),
        (1, errors.cell("volume", word_for_nothing)),
        (0.5, errors.cell("doi", lambda dice, doi: dice.pick(["doi:", "https://doi.org/"]) + doi)),
        (0.6, errors.shift(["journal_title", "journal_abbr", "issn", "volume", "issue"])),
    ]
