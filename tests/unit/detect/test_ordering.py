"""Rules that order text: refused where it looks like something else, said where it does not."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from holdstrue import Monitor, check
from holdstrue.errors import RuleError

ORDER = "not(t.x > s.x and t.id < s.id)"


def table(*values: Any, type_: pa.DataType | None = None) -> pa.Table:
    return pa.table({"id": range(len(values)), "x": pa.array(values, type_ or pa.string())})


@pytest.mark.parametrize(
    ("values", "declare"),
    [
        (("9", "10"), "x=integer"),
        (("9", None, "1.5"), "x=decimal"),
        (("1e5", "7"), "x=number"),
        (("1,5", "10"), "x=decimal(comma)"),
        (("31.12.2023", "01.01.2024"), "x=date(%d.%m.%Y)"),
        (("12/31/2023", "1/1/2024"), "x=date(%m/%d/%Y)"),
        (("1/1/2024", "2/1/2024"), "'x=date(%d/%m/%Y)' or --type 'x=date(%m/%d/%Y)'"),
        (("31.12.2023 10:00:00",), "x=timestamp(%d.%m.%Y %H:%M:%S)"),
        (("9", "10", "n/a", "3"), "x=integer"),
    ],
)
@pytest.mark.parametrize(
    "rule",
    [ORDER, "not(t.x < s.id)", "not(t.x >= 'b')", {"rule": "key(id)", "where": "x < 'b' or id = 1"}],
)
def test_order_of_values_that_are_none_is_refused(values: tuple[Any, ...], declare: str, rule: Any) -> None:
    if rule == "not(t.x < s.id)":
        rule = "not(t.x < s.y)"
    rows = table(*values).append_column("y", pa.array(["a"] * len(values)))
    with pytest.raises(RuleError, match="holds text, whose values look like") as error:
        check(rows, [rule])
    assert declare in str(error.value)
    with pytest.raises(RuleError, match="holds text, whose values look like"):
        Monitor([rule], key="id", data=rows)
    monitor = Monitor([rule], key="id")
    with pytest.raises(RuleError, match="holds text, whose values look like"):
        monitor.apply(rows)
    assert monitor.rows == {"data": 0}
    report = check(rows, [rule], types={"x": "text"})
    ordered = ("x", "y") if "s.y" in str(rule) else ("x",)
    said = f"holds text, which rule {report.results[0].rule.name!r} orders: text is ordered by code point"
    assert report.notes == tuple(f"column {name!r} of 'data' {said}" for name in ordered)


@pytest.mark.parametrize("values", [("a", "b"), ("2024-01-31", "2023-01-31"), ("a1", "12", "b2"), (None, None)])
def test_other_text_is_ordered_with_a_note(values: tuple[Any, ...]) -> None:
    [note] = check(table(*values), ORDER).notes
    assert note == f"column 'x' of 'data' holds text, which rule {ORDER!r} orders: text is ordered by code point"
    assert Monitor(ORDER, key="id", data=table(*values)).notes == (note,)
    dictionary = table(*values).set_column(1, "x", table(*values).column("x").dictionary_encode())
    assert check(dictionary, ORDER).notes == (note,)


def test_what_is_not_ordered_or_not_text_is_not_talked_about() -> None:
    assert check(table("9", "10"), "key(x)").notes == ()
    assert check(table("9", "10"), "not(t.x = s.x and t.id != s.id)").notes == ()
    assert check(table(9, 10, type_=pa.int64()), ORDER).notes == ()


def test_a_declared_type_gives_the_order_of_its_values() -> None:
    days = table("31.12.2023", "01.01.2024")
    report = check(days, ORDER, types={"x": "date(%d.%m.%Y)"})
    assert report.ok
    assert report.notes == ()
    monitor = Monitor(ORDER, key="id", data=days, types={"x": "date(%d.%m.%Y)"})
    delta = monitor.apply(pa.table({"id": [2], "x": ["01.06.2023"]}))
    assert delta.counts[ORDER].added == 2
    assert monitor.apply(pa.table({"id": [3], "x": [dt.date(2025, 1, 1)]})).counts[ORDER].added == 0


def test_a_column_that_was_all_null_is_looked_at_when_it_gets_values() -> None:
    monitor = Monitor(ORDER, key="id", data=pa.table({"id": [1], "x": pa.nulls(1)}))
    with pytest.raises(RuleError, match="look like numbers"):
        monitor.apply(pa.table({"id": [2, 3], "x": ["9", "10"]}))
    assert monitor.rows == {"data": 1}
    assert monitor.apply(pa.table({"id": [2], "x": ["b"]})).notes != ()


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        (["1.234,50", "12,00", "9,99", "2.000,00", "850,00"], "without separators of thousands"),
        (["1,234", "12", "999"], "decimal(comma)' or declare --type v=text"),
        (["2024-1-5", "2024-10-01"], "date(%Y-%m-%d)"),
        (["9:30", "10:00"], "time(%H:%M)"),
    ],
)
def test_numbers_and_dates_as_people_write_them(values: list[str], hint: str) -> None:
    with pytest.raises(RuleError) as refused:
        check(pa.table({"v": values}), "not(t.v > s.v)")
    assert hint in str(refused.value.hint).replace(", or declare", " or declare")


def test_every_batch_says_that_text_is_ordered() -> None:
    monitor = Monitor("not(t.v > s.v)", key="id")
    for number, cell in enumerate(["x10", "9,5"]):
        [note] = monitor.apply(pa.table({"id": [number], "v": [cell]})).notes
        assert "text is ordered by code point" in note
