"""Files in any dialect, with declared types: `check` and a monitor answer what the Python values say."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue import Monitor, check, load_rules
from laws.test_detection import assert_counts, found, nonempty
from translate import expected

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
NULL = "n/a"


@dataclass(frozen=True)
class Column:
    """A declared type, values of it, and how one of them is written."""

    type: str
    values: st.SearchStrategy[Any]
    written: Callable[[Any], str]


def strftime(format_: str) -> Callable[[Any], str]:
    return lambda value: value.strftime(format_)


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(lambda n: Decimal(f"{n}e-{scale}"))


def plain(value: Decimal) -> str:
    return f"{value:f}"


def comma(value: Any) -> str:
    return (plain(value) if isinstance(value, Decimal) else repr(value)).replace(".", ",")


DAYS = st.dates(dt.date(1000, 1, 1))
NEAR = st.dates(dt.date(1969, 1, 1), dt.date(2068, 12, 31))
TIMES = st.times().map(lambda t: t.replace(tzinfo=None))
MOMENTS = st.datetimes(dt.datetime(1000, 1, 1))
MINUTES = MOMENTS.map(lambda m: m.replace(second=0, microsecond=0))
ZONED = st.builds(
    lambda moment, hours: moment.replace(tzinfo=dt.timezone(dt.timedelta(hours=hours))),
    st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)).map(lambda m: m.replace(second=0, microsecond=0)),
    st.integers(-11, 11),
)
WORDS = st.text(st.sampled_from("ab,;|\t\"'é1\n .-"), max_size=4)

COLUMNS = [
    Column("text", WORDS, str),
    Column("text", st.sampled_from(["007", "7", "1,5", NULL, ""]), str),
    Column("integer", st.integers(-(2**63), 2**63 - 1), str),
    Column("integer", st.integers(-3, 3), lambda n: f"{n:+04d}"),
    Column("number", st.floats(), repr),
    Column("number(comma)", st.floats(allow_nan=False), comma),
    Column("decimal", decimals(6, 2), plain),
    Column("decimal", decimals(30, 5), plain),
    Column("decimal(comma)", decimals(3, 1), comma),
    Column("decimal(12,2)", decimals(12, 2), plain),
    Column("decimal(38,20,comma)", decimals(38, 20), comma),
    Column("boolean", st.booleans(), lambda b: str(b).lower()),
    Column("boolean", st.booleans(), lambda b: "1" if b else "0"),
    Column("date", DAYS, dt.date.isoformat),
    Column("date(%d.%m.%Y)", DAYS, strftime("%d.%m.%Y")),
    Column("date(%m/%d/%Y)", DAYS, lambda d: f"{d.month}/{d.day}/{d.year}"),
    Column("date(%y%m%d)", NEAR, strftime("%y%m%d")),
    Column("date(%d %b %Y)", DAYS, strftime("%d %b %Y")),
    Column("date(%j, %Y)", DAYS, strftime("%j, %Y")),
    Column("time", TIMES, dt.time.isoformat),
    Column("time(%H:%M:%S.%f)", TIMES, strftime("%H:%M:%S.%f")),
    Column("time(%I:%M %p)", TIMES.map(lambda t: t.replace(second=0, microsecond=0)), strftime("%I:%M %p")),
    Column("timestamp", MOMENTS, lambda m: m.isoformat(sep=" ", timespec="microseconds")),
    Column("timestamp(%d/%m/%Y %H:%M)", MINUTES, strftime("%d/%m/%Y %H:%M")),
    Column("timestamp(%d.%m.%Y %H:%M %z)", ZONED, strftime("%d.%m.%Y %H:%M %z")),
]

RULES = (
    "key(a)", "a -> b", "not(t.a < s.a and t.b > s.b)", "not(t.a >= s.a and t.id < s.id)", "not null(a)",
    "not(t.a = s.a and t.b != s.b and t.c <= s.c)",
)  # fmt: skip


@dataclass(frozen=True)
class Dialect:
    """How a file is written."""

    delimiter: str
    encoding: str
    mark: bool
    all_quoted: bool
    told: bool
    """Whether the delimiter is given rather than found."""
    end: str

    def csv(self, names: list[str], columns: dict[str, Column], rows: list[dict[str, Any]], nulls: list[bool]) -> bytes:
        """The rows as CSV; text is always quoted, so that no text is taken for NULL."""
        lines = [self.delimiter.join(names)]
        for number, row in enumerate(rows):
            cells = []
            for name in names:
                column, value = columns[name], row[name]
                if value is None:
                    empty = '""' if self.all_quoted and column.type != "text" else ""
                    cells.append(NULL if nulls[number] else empty)
                    continue
                cell = column.written(value)
                quoted = self.all_quoted or column.type == "text" or any(c in cell for c in (self.delimiter, '"'))
                cells.append('"' + cell.replace('"', '""') + '"' if quoted else cell)
            lines.append(self.delimiter.join(cells))
        text = ("\ufeff" if self.mark else "") + self.end.join(lines) + self.end
        return text.encode(self.encoding)

    def options(self) -> dict[str, Any]:
        told = {"delimiter": self.delimiter} if self.told else {}
        return {"encoding": self.encoding, "null_values": [NULL], **told}


DIALECTS = st.builds(
    Dialect,
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["utf-8", "utf-8", "utf-16-le"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
)


def json_cell(column: Column, value: Any) -> str:
    """A value as JSON: numbers as numbers where they are written so, the rest as text."""
    cell = column.written(value)
    word = column.type.partition("(")[0]
    numeric = word in ("integer", "number", "decimal") and "comma" not in column.type
    try:
        bare = numeric and json.dumps(json.loads(cell)) not in ("NaN", "Infinity", "-Infinity") and "+" not in cell[:1]
    except ValueError:
        bare = False
    return cell if bare or (word == "boolean" and cell in ("true", "false")) else json.dumps(cell)


@st.composite
def worlds(draw: Any) -> tuple[dict[str, Column], list[dict[str, Any]]]:
    number = Column("integer", st.integers(), str)
    columns = {"id": number, **{name: draw(st.sampled_from(COLUMNS)) for name in "abc"}}
    pools = {name: draw(st.lists(columns[name].values, min_size=1, max_size=3)) for name in "abc"}
    rows = []
    for i in range(draw(st.integers(1, 7))):
        rows.append({"id": i, **{n: draw(st.none() | st.sampled_from(pools[n])) for n in "abc"}})
    return columns, rows


def values(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as the oracle compares them: moments with a zone by their instant."""
    return [
        {n: v.astimezone(dt.UTC) if isinstance(v, dt.datetime) and v.tzinfo else v for n, v in row.items()}
        for row in rows
    ]


def holds(path: Path, columns: dict[str, Column], rows: list[dict[str, Any]], rules: Any, **read: Any) -> None:
    """A check of a file, and a monitor that is given it, answer what the oracle says of the values."""
    types = {name: column.type for name, column in columns.items()}
    truth = expected(rules, values(rows), [row["id"] for row in rows])
    report = check(path, rules, key="id", limit=None, types=types, **read)
    assert found(report) == nonempty(truth)
    assert_counts({r.rule.name: r.counts for r in report.results}, truth)
    monitor = Monitor(rules, key="id", data=path, types=types, read=read)
    assert found(monitor.violations()) == nonempty(truth)


@SETTINGS
@given(world=worlds(), dialect=DIALECTS, data=st.data())
def test_csv(world: Any, dialect: Dialect, data: st.DataObject) -> None:
    columns, rows = world
    rules = load_rules([{"name": f"r{i}", "rule": rule} for i, rule in enumerate(RULES)])
    names = data.draw(st.permutations(list(columns)))
    nulls = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_bytes(dialect.csv(names, columns, rows, nulls))
        holds(path, columns, rows, rules, **dialect.options())


@SETTINGS
@given(world=worlds(), mark=st.booleans(), data=st.data())
def test_json_lines(world: Any, mark: bool, data: st.DataObject) -> None:
    columns, rows = world
    rules = load_rules([{"name": f"r{i}", "rule": rule} for i, rule in enumerate(RULES)])
    lines = []
    for number, row in enumerate(rows):
        left_out = number > 0 and data.draw(st.booleans())  # the first object names every column
        cells = {n: "null" if v is None else json_cell(columns[n], v) for n, v in row.items()}
        kept = {n: cell for n, cell in cells.items() if not (left_out and row[n] is None)}
        lines.append("{" + ", ".join(f"{json.dumps(n)}: {cell}" for n, cell in kept.items()) + "}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_text(("\ufeff" if mark else "") + "\n".join(lines) + "\n", encoding="utf-8")
        holds(path, columns, rows, rules)


@SETTINGS
@given(world=worlds(), dialect=DIALECTS, data=st.data())
def test_batches_are_read_as_the_first_rows_were(world: Any, dialect: Dialect, data: st.DataObject) -> None:
    """A state that is opened again reads further files, in other dialects, with the types it remembers."""
    columns, rows = world
    rules = load_rules([{"name": f"r{i}", "rule": rule} for i, rule in enumerate(RULES)])
    types = {name: column.type for name, column in columns.items()}
    with tempfile.TemporaryDirectory() as folder:
        path, state = Path(folder) / "a.csv", Path(folder) / "state"
        path.write_bytes(dialect.csv(list(columns), columns, rows, [False] * len(rows)))
        Monitor.create(state, rules, key="id", data=path, types=types, read=dialect.options()).close()
        more = [{**row, "id": row["id"] + 100} for row in rows]
        other = data.draw(DIALECTS)
        (Path(folder) / "b.csv").write_bytes(other.csv(list(columns), columns, more, [False] * len(rows)))
        with Monitor.open(state) as monitor:
            monitor.apply(Path(folder) / "b.csv", **other.options())
            everything = values([*rows, *more])
            truth = expected(rules, everything, [row["id"] for row in everything])
            assert found(monitor.violations()) == nonempty(truth)
