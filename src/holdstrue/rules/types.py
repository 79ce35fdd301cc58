"""The types that people declare for columns, such as `date(%d.%m.%Y)` or `decimal(12,2,comma)`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from holdstrue.errors import RuleError
from holdstrue.rules.model import RuleSet

WORDS = ("text", "integer", "number", "decimal", "boolean", "date", "time", "timestamp")

EXAMPLES = "text, integer, number, decimal, decimal(12,2), decimal(comma), boolean, date(%d.%m.%Y), time, timestamp"

MOST_DIGITS = 38

_TYPE = re.compile(r"\s*([A-Za-z]+)\s*(?:\((.*)\)\s*)?", re.DOTALL)
_DAY, _MONTH, _YEAR, _HOUR = frozenset("dj"), frozenset("mbBj"), frozenset("Yy"), frozenset("HI")
_OF_DAYS = frozenset("dmYybBjaA")
_OF_TIMES = frozenset("HIMSfp")
_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)

Types = tuple[tuple[str, str], ...]
"""Declared types as they are written: pairs of a column (or `table.column`) and a TYPE."""


@dataclass(frozen=True)
class Declared:
    """A declared type.

    Parameters
    ----------
    word
        text, integer, number, decimal, boolean, date, time or timestamp.
    format
        How dates and times are written, with the directives of Python's `strptime`; ISO 8601 where it is None.
    digits, scale
        Of a decimal: digits in all and behind the point; None where the first values tell.
    comma
        Whether a comma stands before the fraction.
    tight
        Whether a decimal gets no more digits than its values need, for parts of a file that are put together later.

    Examples
    --------
    >>> Declared.of("decimal( 12, 2, comma )").text, Declared.of("date(%d.%m.%Y)").format
    ('decimal(12,2,comma)', '%d.%m.%Y')
    """

    word: str
    format: str | None = None
    digits: int | None = None
    scale: int | None = None
    comma: bool = False
    tight: bool = field(default=False, compare=False)

    @staticmethod
    def of(text: object, column: str = "") -> Declared:
        """The type that a text declares, or a `RuleError` that says how types are written."""
        said = f"type {text!r}" + (f" of column {column!r}" if column else "")
        found = _TYPE.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise RuleError(f"{said} is not the name of a type", hint=f"write {EXAMPLES}")
        word, inner = found[1].lower(), found[2]
        if word not in WORDS:
            near = difflib.get_close_matches(word, WORDS, n=1)
            meant = f"did you mean {near[0]!r}? " if near else ""
            raise RuleError(f"{said} is not known", hint=f"{meant}write {EXAMPLES}")
        if inner is None:
            return Declared(word)
        if word in ("date", "time", "timestamp"):
            return Declared(word, format=_format(word, inner, said))
        if word in ("decimal", "number"):
            return _number(word, inner, said)
        raise RuleError(f"{said}: {word} takes nothing in brackets", hint=f"write {word}")

    @property
    def text(self) -> str:
        """As it is written."""
        inner = [self.format] if self.format is not None else []
        if self.digits is not None:
            inner += [str(self.digits), str(self.scale)]
        if self.comma:
            inner.append("comma")
        return f"{self.word}({','.join(inner)})" if inner else self.word

    def __str__(self) -> str:
        return self.text


def _format(word: str, inner: str, said: str) -> str:
    text = inner.strip()
    directives = [letter for letter in _DIRECTIVE.findall(text) if letter != "%"]
    used = set(directives)
    if len(used) < len(directives):
        twice = next(letter for letter in directives if directives.count(letter) > 1)
        raise RuleError(f"{said}: %{twice} stands twice in the format", hint="keep one of the two")
    if odd := sorted(used - _OF_DAYS - _OF_TIMES - {"z"}):
        raise RuleError(
            f"{said}: %{odd[0]} is not known in a format",
            hint="use %d %m %Y %y %b %B %j %a %A for days, %H %I %p %M %S %f for times, %z for a zone",
        )
    whole_day = all(used & part for part in (_DAY, _MONTH, _YEAR))
    if word != "time" and not whole_day:
        raise RuleError(f"{said}: the format names no day", hint=f"for example {word}(%d.%m.%Y)")
    if word == "date" and (extra := used & (_OF_TIMES | {"z"})):
        raise RuleError(f"{said}: %{min(extra)} is not about days", hint=f"declare timestamp({text})")
    if word == "time" and (not used & _HOUR or used & (_OF_DAYS | {"z"})):
        raise RuleError(f"{said}: the format of a time has an hour and no day", hint="for example time(%H:%M)")
    if ("I" in used) != ("p" in used):
        raise RuleError(f"{said}: %I and %p go together", hint="write %H for hours up to 23, or %I with %p")
    return text


def _number(word: str, inner: str, said: str) -> Declared:
    parts = [part.strip().lower() for part in inner.split(",")]
    comma = parts[-1] == "comma"
    sizes = parts[:-1] if comma else parts
    if word == "number" and sizes:
        raise RuleError(f"{said}: number has no digits", hint="write number, number(comma) or decimal(12,2)")
    if not sizes:
        return Declared(word, comma=comma)
    if len(sizes) > 2 or not all(size.isascii() and size.isdigit() for size in sizes):
        raise RuleError(
            f"{said} is not the size of a decimal", hint="write decimal(12,2): 12 digits in all, 2 of them a fraction"
        )
    digits, scale = int(sizes[0]), int(sizes[1]) if len(sizes) > 1 else 0
    if not (1 <= digits <= MOST_DIGITS and scale <= digits):
        raise RuleError(
            f"{said} has {digits} digits, {scale} of them a fraction",
            hint=f"a decimal has 1 to {MOST_DIGITS} digits in all, of which some may be a fraction",
        )
    return Declared(word, digits=digits, scale=scale, comma=comma)


def checked_types(entries: Iterable[tuple[str, object]], place: str = "") -> Types:
    """Declared types in normal form; the same column may be declared twice only in the same way.

    >>> checked_types([("born", "date( %d.%m.%Y)"), ("zip", "TEXT")])
    (('born', 'date(%d.%m.%Y)'), ('zip', 'text'))
    """
    found: dict[str, str] = {}
    for column, text in entries:
        try:
            declared = Declared.of(text, column).text
        except RuleError as error:
            raise RuleError(f"{place}{error.message}", hint=error.hint) from None
        if found.setdefault(column, declared) != declared:
            raise RuleError(
                f"{place}column {column!r} is declared as {found[column]} and as {declared}", hint="keep one of the two"
            )
    return tuple(found.items())


def types_of_table(types: Types, table: str, main: str, tables: Iterable[str]) -> dict[str, Declared]:
    """What is declared of the columns of one table: `column` for the main one, `table.column` for any.

    >>> types_of_table((("born", "date"), ("orders.day", "date")), "orders", "people", ["people", "orders"])
    {'day': Declared(word='date', format=None, digits=None, scale=None, comma=False, tight=False)}
    """
    known = set(tables)
    found: dict[str, Declared] = {}
    for name, text in types:
        before, dot, after = name.partition(".")
        own, column = (before, after) if dot and after and before in known else (main, name)
        if own != table:
            continue
        declared = Declared.of(text, column)
        if found.setdefault(column, declared) != declared:
            raise RuleError(
                f"column {column!r} of {table!r} is declared as {found[column]} and as {declared}",
                hint="keep one of the two",
            )
    return found


def with_types(rules: RuleSet, types: Mapping[str, object] | None) -> RuleSet:
    """The rules with further declared types, which must not contradict those of the rule file."""
    if types is None or not types:
        return rules
    if not isinstance(types, Mapping):
        raise RuleError(f"types {types!r}", hint="give a mapping: types={'born': 'date(%d.%m.%Y)'}")
    return replace(rules, types=checked_types([*rules.types, *types.items()]))
