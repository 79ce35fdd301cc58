"""The options that commands share, and the small grammars in their values."""

from __future__ import annotations

import csv
import datetime as dt
import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdstrue.errors import HoldstrueError
from holdstrue.report.forms import formats_of
from holdstrue.state.moment import At, at_of, seconds

if TYPE_CHECKING:
    from holdstrue.rules import RuleSet

DEFAULT_LIMIT = 1000
"""Violations listed in json, jsonl and csv unless --limit says otherwise."""


@dataclass(frozen=True)
class FormatOf:
    """In the type of a parameter: the option that chooses among the formats of an answer (see `guarded`)."""

    answer: str
    said: str = "Form of the output."

    def option(self) -> Any:
        """As typer takes it."""
        return Annotated[Literal[formats_of(self.answer)], typer.Option("--format", "-f", help=self.said)]


AsReport = Annotated[str, FormatOf("Findings")]
AsDelta = Annotated[str, FormatOf("Delta")]
AsList = Annotated[str, FormatOf("OpenViolations")]
AsStatus = Annotated[str, FormatOf("Status")]
AsLine = Annotated[str, FormatOf("BatchLine", "One line a batch: for people, or JSON.")]
AsReview = Annotated[str, FormatOf("RulesReview")]
AsVacuumed = Annotated[str, FormatOf("Vacuumed")]
AsVerified = Annotated[str, FormatOf("Verified")]
AsFound = Annotated[str, FormatOf("Discovery")]
AsSuspects = Annotated[
    str, FormatOf("Suspects", "Form of the output; a patch is CSV that `apply` reads. FILE.parquet is Parquet.")
]
AsOverview = Annotated[str, FormatOf("Overview")]

DATA_HELP = (
    "CSV, Parquet, Arrow or JSON lines: files, a quoted pattern, or - for standard input; https://..., s3://..., "
    "gs://..., az://...; a table: duckdb:FILE?table=NAME, sqlite:FILE?table=NAME, postgresql://HOST/DB?table=NAME, "
    "a directory of Delta Lake or Iceberg, iceberg:CATALOG.DB.TABLE."
)
"""Where data comes from, for the commands that take it."""

_reading = partial(typer.Option, rich_help_panel="Reading files")
_spark = partial(typer.Option, rich_help_panel="Spark")

LOCAL = "local[*]"
"""Spark inside this machine, with all its cores."""

LONGEST = 30 * 24 * 3600
"""Seconds between two looks at most: more is a slip of the keyboard."""
LONGEST_KEPT = 100 * 365 * 24 * 3600
"""Seconds for which versions are kept at most."""

State = Annotated[
    str, typer.Argument(metavar="STATE", help="The state: a directory, or a URL such as s3://BUCKET/FOLDER.")
]
AtVersion = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="VERSION|TIME",
        help="As it was: a version that is still kept, or a time: 12, 2026-03-01, 2026-03-01T14:30 (here, unless it "
        "says its zone: ...Z, +01:00), '2h ago'.",
    ),
]
Rules = Annotated[
    str | None,
    typer.Option("--rules", "-r", metavar="FILE", help="A rule file: YAML, or one rule a line; - for standard input."),
]
RuleTexts = Annotated[
    list[str] | None,
    typer.Option("--rule", metavar="TEXT", help="A rule as text, such as 'zip -> city'; may be repeated."),
]
Tables = Annotated[
    list[str] | None,
    typer.Option("--table", metavar="NAME=PATH", help="A further table that rules refer to; may be repeated."),
]
Limit = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="How many violations are listed (1000; in text 5 of each rule). Counts are always exact.",
    ),
]
AcceptedFile = Annotated[
    str | None,
    typer.Option(
        "--accepted",
        metavar="FILE",
        help="What `holdstrue accept` wrote: such violations are counted, and do not fail.",
    ),
]
OutputFile = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to a file, which appears whole or not at all."),
]
Index = Annotated[Literal["blocks", "lt_tree", "chains"], typer.Option("--index", help="How pairs of rows are found.")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, metavar="N", help="Threads that check; as many as cores unless given.")
]
Encoding = Annotated[str, _reading(help="Encoding of CSV and JSON files.")]
Delimiter = Annotated[
    str | None, _reading(metavar="CHAR", help="What separates the cells of a CSV file; 'tab' for a tab.")
]
NullValues = Annotated[
    list[str] | None,
    _reading(
        "--null-value", metavar="TEXT", help="A CSV cell that means NULL, beside the empty cell; may be repeated."
    ),
]
ColumnTypes = Annotated[
    list[str] | None,
    _reading(
        "--type",
        metavar="COL=TYPE",
        help="What a column holds: text, integer, number, decimal, decimal(comma), decimal(12,2), boolean, date, "
        "'date(%d.%m.%Y)', time, timestamp; TABLE.COL for a further table; may be repeated.",
    ),
]
InputFormat = Annotated[
    str | None, _reading(metavar="FORMAT", help="csv, tsv, parquet, arrow or json, where a file's name does not tell.")
]
EngineKind = Annotated[
    Literal["process", "spark"], _spark("--engine", help="Where the work is done: in this one process, or on Spark.")
]
Master = Annotated[
    str | None,
    _spark(
        "--master",
        metavar="URL",
        help=f"Where Spark runs, {LOCAL} unless given: local[N], spark://HOST:PORT, yarn, k8s://..., sc://HOST:PORT.",
    ),
]
Conf = Annotated[list[str] | None, _spark("--conf", metavar="NAME=VALUE", help="A setting of Spark; may be repeated.")]
FeedKind = Annotated[
    Literal["auto", "append", "ops", "debezium", "delta", "iceberg"],
    typer.Option("--feed", help="How the changes are written; auto tells it by their columns."),
]
OpColumn = Annotated[
    str | None, typer.Option("--op-column", metavar="COL", help="The column that says insert, update or delete.")
]
Units = Annotated[
    list[str] | None,
    typer.Option(
        "--unit",
        metavar="COL=UNIT",
        help="What numbers count in a column of times of Debezium's events without schema blocks: ms, us or ns "
        "since midnight or since 1970 in UTC; may be repeated.",
    ),
]
OnConflict = Annotated[
    Literal["error", "upsert", "ignore"],
    typer.Option(
        "--on-conflict",
        help="Inserts of rows that exist, updates and deletes of rows that do not: "
        "refuse the batch, make them fit, or skip them.",
    ),
]

SequenceBy = Annotated[
    list[str] | None,
    typer.Option(
        "--sequence-by",
        metavar="[TABLE=]COLUMN",
        help="A column that grows with every change of a row: late changes that are older lose. Remembered.",
    ),
]


def sequences_of(given: list[str] | None, main: str) -> dict[str, str]:
    """By table the column that orders its changes.

    >>> sequences_of(["at", "lines=n"], "orders")
    {'orders': 'at', 'lines': 'n'}
    """
    found: dict[str, str] = {}
    for text in given or ():
        table, equals, column = text.rpartition("=")
        name = table if equals else main
        if not column or not name or name in found:
            raise HoldstrueError(
                f"--sequence-by {text!r} names no column, or one of a table that has one",
                hint="give COLUMN, or TABLE=COLUMN for a further table, once a table",
            )
        found[name] = column
    return found


@dataclass(frozen=True)
class RuleOptions:
    """Which rules there are."""

    rules: Rules = None
    rule: RuleTexts = None

    @property
    def given(self) -> bool:
        """Whether there are any."""
        return self.rules is not None or bool(self.rule)

    def ruleset(self, data: list[str] | None, reading: TypedFileOptions) -> RuleSet:
        """The rules of the file and of the texts, with the types declared; `data` names columns that JSON counts."""
        from holdstrue.cli.ruleset import rules_in, schema_names
        from holdstrue.rules import load_rules
        from holdstrue.rules.types import with_types

        types, texts = reading.types(), list(self.rule or ())
        if self.rules == "-" and "-" in (data or ()):
            raise HoldstrueError("rules and data are both to come from standard input", hint="give one of them a file")
        if self.rules is None and not texts:
            from holdstrue.sources.datafiles import refuse_state

            for one in data or ():
                refuse_state(Path(one))
            hint = "name a file with --rules FILE, or write --rule 'zip -> city'"
            raise HoldstrueError("no rules are given", hint=hint)
        if self.rules is None:
            return with_types(load_rules(texts), types)
        rules = rules_in(self.rules, lambda: schema_names(data or (), reading.options()))
        if texts:
            rules = load_rules(replace(rules, rules=(*rules.rules, *load_rules(texts).rules)))
        return with_types(rules, types)


@dataclass(frozen=True)
class FileOptions:
    """How files are read."""

    encoding: Encoding = "utf8"
    delimiter: Delimiter = None
    null_value: NullValues = None
    input_format: InputFormat = None

    def options(self) -> dict[str, Any]:
        """As options of `read_table`, those that were given."""
        named = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
        options: dict[str, Any] = {"encoding": self.encoding}
        if self.delimiter is not None:
            options["delimiter"] = named.get(self.delimiter, self.delimiter)
        if self.null_value:
            options["null_values"] = tuple(self.null_value)
        if self.input_format is not None:
            options["format"] = self.input_format
        return options


@dataclass(frozen=True)
class TypedFileOptions(FileOptions):
    """How files are read, and what their columns hold."""

    type_: ColumnTypes = None

    def types(self) -> dict[str, str]:
        """The declared types by column, from COL=TYPE entries.

        >>> TypedFileOptions(type_=["born=date(%d.%m.%Y)", "orders.day=date"]).types()
        {'born': 'date(%d.%m.%Y)', 'orders.day': 'date'}
        """
        from holdstrue.rules.types import checked_types

        hint = "write --type COL=TYPE, for example --type 'born=date(%d.%m.%Y)'"
        pairs = _pairs(self.type_, "--type {} does not say what a column holds", hint)
        return dict(checked_types(pairs, "--type: "))


def _pairs(entries: list[str] | None, what: str, hint: str, *, last: bool = False) -> list[tuple[str, str]]:
    """NAME=VALUE entries; the name ends at the first equals sign, or at the last."""
    found = []
    for entry in entries or ():
        name, equals, value = entry.rpartition("=") if last else entry.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise HoldstrueError(what.format(repr(entry)), hint=hint)
        found.append((name.strip(), value))
    return found


def units_of(texts: list[str] | None) -> dict[str, dict[str, str]]:
    """The units that were given for columns, as an option of `read_changes`.

    >>> units_of(["created=us"]), units_of(None)
    ({'units': {'created': 'us'}}, {})
    """
    units = dict(_pairs(texts, "--unit {} names no column and unit", "write --unit created=us", last=True))
    return {"units": units} if units else {}


def column_names(text: str | None, option: str = "--key") -> tuple[str, ...]:
    """Column names separated by commas; a name that holds a comma stands in double quotes.

    >>> column_names('area_code, phone'), column_names('"last, first",id')
    (('area_code', 'phone'), ('last, first', 'id'))
    """
    if text is None:
        return ()
    names = tuple(name.strip() for name in next(csv.reader([text], skipinitialspace=True), []))
    if not names or not all(names) or len(set(names)) < len(names):
        raise HoldstrueError(
            f"{option} {text!r} is not a list of different column names",
            hint=f"separate them by commas: {option} area_code,phone",
        )
    return names


def named_paths(entries: list[str] | None, option: str = "--table") -> dict[str, list[str]]:
    """NAME=PATH entries by name; a name given twice has several files.

    >>> named_paths(["customers=a.csv", "customers=b.csv"])
    {'customers': ['a.csv', 'b.csv']}
    """
    found: dict[str, list[str]] = {}
    hint = f"write {option} NAME=VALUE, for example {option} customers=customers.csv"
    for name, value in _pairs(entries, f"{option} {{}} does not name a table", hint):
        found.setdefault(name, []).append(value)
    return found


def settings(entries: list[str] | None) -> dict[str, str]:
    """NAME=VALUE settings of Spark by name; the last of a name counts.

    >>> settings(["spark.executor.memory=4g", "spark.jars=a=b.jar"])
    {'spark.executor.memory': '4g', 'spark.jars': 'a=b.jar'}
    """
    found: dict[str, str] = {}
    for entry in entries or ():
        name, equals, value = entry.partition("=")
        if not (equals and re.fullmatch(r"spark\.\S+", name)):
            raise HoldstrueError(
                f"--conf {entry!r} is not a setting of Spark",
                hint="write --conf NAME=VALUE, for example --conf spark.executor.memory=4g",
            )
        found[name] = value
    return found


def duration(text: str, option: str = "--every") -> float:
    """Seconds.

    >>> duration("500ms"), duration("5s"), duration("1.5m")
    (0.5, 5.0, 90.0)
    """
    found = seconds(text) or 0.0
    if not 0 < found <= LONGEST:
        raise HoldstrueError(f"{option} {text!r} is not a time", hint=f"for example {option} 5s, 500ms, 1m or 2h")
    return found


def last_day(text: str, today: dt.date) -> dt.date:
    """The day of --until: itself, or so long from today.

    >>> last_day("2027-03-01", dt.date(2026, 11, 16)), last_day("2w", dt.date(2026, 11, 16))
    (datetime.date(2027, 3, 1), datetime.date(2026, 11, 30))
    """
    try:
        found = dt.date.fromisoformat(text)
    except ValueError:
        span = seconds(text)
        if span is None or not 0 < span <= LONGEST_KEPT:
            hint = "give a day, such as 2027-03-01, or a time from now: 90d, 2w"
            raise HoldstrueError(f"--until {text!r} is not a day", hint=hint) from None
        found = today + dt.timedelta(seconds=span)
    if found < today:
        raise HoldstrueError(f"--until {text!r} is over", hint="give a day to come")
    return found


def at_option(text: str | None) -> At | None:
    """The version or the time of --at.

    >>> at_option("12"), at_option(None)
    (12, None)
    """
    return None if text is None else at_of(text, "--at")


def keep_seconds(text: str) -> float:
    """The seconds of --keep, where 0 is a time too.

    >>> keep_seconds("7d"), keep_seconds("0")
    (604800.0, 0.0)
    """
    found = 0.0 if text.strip() == "0" else seconds(text)
    if found is None or found > LONGEST_KEPT:
        raise HoldstrueError(
            f"--keep {text!r} is not a time for which versions could be kept",
            hint="for example --keep 90s, 15m, 12h, 7d or 2w; 0 keeps them no longer than needed",
        )
    return found
