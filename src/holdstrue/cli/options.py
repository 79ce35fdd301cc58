"""The options that commands share, and the small grammars in their values."""

from __future__ import annotations

import csv
import re
from enum import StrEnum
from typing import Annotated, Any

import typer

from holdstrue.errors import HoldstrueError

DEFAULT_LIMIT = 1000
"""Violations listed in json, jsonl and csv unless --limit says otherwise."""


class ReportFormat(StrEnum):
    """Forms of a check."""

    text = "text"
    json = "json"
    jsonl = "jsonl"
    csv = "csv"
    junit = "junit"


class ListFormat(StrEnum):
    """Forms of everything else."""

    text = "text"
    json = "json"
    jsonl = "jsonl"
    csv = "csv"


class LineFormat(StrEnum):
    """Forms of what goes on, a line at a time."""

    text = "text"
    jsonl = "jsonl"


class RulesFormat(StrEnum):
    """Forms of a rule file."""

    text = "text"
    json = "json"
    yaml = "yaml"


class Index(StrEnum):
    """How pairs of rows are found."""

    blocks = "blocks"
    lt_tree = "lt_tree"
    chains = "chains"


class Feed(StrEnum):
    """How changes are written."""

    auto = "auto"
    append = "append"
    ops = "ops"
    debezium = "debezium"
    delta = "delta"
    iceberg = "iceberg"


class Conflict(StrEnum):
    """What to do about changes that do not fit."""

    error = "error"
    upsert = "upsert"
    ignore = "ignore"


class Engine(StrEnum):
    """Where the work is done."""

    process = "process"
    spark = "spark"


_READING = "Reading files"
_SPARK = "Spark"

LOCAL = "local[*]"
"""Spark inside this machine, with all its cores."""

LONGEST = 30 * 24 * 3600
"""Seconds between two looks at most: more is a slip of the keyboard."""

State = Annotated[str, typer.Argument(metavar="STATE", help="The state directory.")]
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
OutputFile = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to a file, which appears whole or not at all."),
]
AsReport = Annotated[ReportFormat, typer.Option("--format", "-f", help="Form of the output.")]
AsList = Annotated[ListFormat, typer.Option("--format", "-f", help="Form of the output.")]
IndexKind = Annotated[Index, typer.Option("--index", help="How pairs of rows are found.")]
Encoding = Annotated[str, typer.Option(help="Encoding of CSV and JSON files.", rich_help_panel=_READING)]
Delimiter = Annotated[
    str | None,
    typer.Option(
        metavar="CHAR", help="What separates the cells of a CSV file; 'tab' for a tab.", rich_help_panel=_READING
    ),
]
NullValues = Annotated[
    list[str] | None,
    typer.Option(
        "--null-value",
        metavar="TEXT",
        rich_help_panel=_READING,
        help="A CSV cell that means NULL, beside the empty cell; may be repeated.",
    ),
]
ColumnTypes = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="COL=TYPE",
        rich_help_panel=_READING,
        help="What a column holds: text, integer, number, decimal, decimal(comma), decimal(12,2), boolean, date, "
        "'date(%d.%m.%Y)', time, timestamp; TABLE.COL for a further table; may be repeated.",
    ),
]
InputFormat = Annotated[
    str | None,
    typer.Option(
        metavar="FORMAT",
        rich_help_panel=_READING,
        help="csv, tsv, parquet, arrow or json, where a file's name does not tell.",
    ),
]
EngineKind = Annotated[
    Engine,
    typer.Option("--engine", help="Where the work is done: in this one process, or on Spark.", rich_help_panel=_SPARK),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        rich_help_panel=_SPARK,
        help=f"Where Spark runs, {LOCAL} unless given: local[N], spark://HOST:PORT, yarn, k8s://..., sc://HOST:PORT.",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", rich_help_panel=_SPARK, help="A setting of Spark; may be repeated."),
]
FeedKind = Annotated[Feed, typer.Option("--feed", help="How the changes are written; auto tells it by their columns.")]
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
    Conflict,
    typer.Option(
        "--on-conflict",
        help="Inserts of rows that exist, updates and deletes of rows that do not: "
        "refuse the batch, make them fit, or skip them.",
    ),
]


def reading(
    encoding: str, delimiter: str | None, null_values: list[str] | None, input_format: str | None
) -> dict[str, Any]:
    """The options of `read_table` that were given."""
    named = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
    options: dict[str, Any] = {"encoding": encoding}
    if delimiter is not None:
        options["delimiter"] = named.get(delimiter, delimiter)
    if null_values:
        options["null_values"] = tuple(null_values)
    if input_format is not None:
        options["format"] = input_format
    return options


def units_of(texts: list[str] | None) -> dict[str, dict[str, str]]:
    """The units that were given for columns, as an option of `read_changes`.

    >>> units_of(["created=us"]), units_of(None)
    ({'units': {'created': 'us'}}, {})
    """
    units = {}
    for text in texts or ():
        name, sign, unit = text.rpartition("=")
        if not sign or not name:
            raise HoldstrueError(f"--unit {text!r} names no column and unit", hint="write --unit created=us")
        units[name] = unit
    return {"units": units} if units else {}


def column_types(entries: list[str] | None) -> dict[str, str]:
    """COL=TYPE entries by column.

    >>> column_types(["born=date(%d.%m.%Y)", "orders.day=date"])
    {'born': 'date(%d.%m.%Y)', 'orders.day': 'date'}
    """
    pairs = []
    for entry in entries or ():
        name, equals, text = entry.partition("=")
        if not (name.strip() and equals and text.strip()):
            raise HoldstrueError(
                f"--type {entry!r} does not say what a column holds",
                hint="write --type COL=TYPE, for example --type 'born=date(%d.%m.%Y)'",
            )
        pairs.append((name.strip(), text))
    from holdstrue.rules.types import checked_types

    return dict(checked_types(pairs, "--type: "))


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
    for entry in entries or ():
        name, equals, value = entry.partition("=")
        if not (name.strip() and equals and value):
            raise HoldstrueError(
                f"{option} {entry!r} does not name a table",
                hint=f"write {option} NAME=VALUE, for example {option} customers=customers.csv",
            )
        found.setdefault(name.strip(), []).append(value)
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
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text.strip())
    seconds = float(found[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[found[2]] if found else 0.0
    if not 0 < seconds <= LONGEST:
        raise HoldstrueError(f"{option} {text!r} is not a time", hint=f"for example {option} 5s, 500ms, 1m or 2h")
    return seconds
