"""Declared types: how they are written, in which form they are kept, and what is said of slips."""

from __future__ import annotations

import pytest

from holdstrue.errors import RuleError
from holdstrue.rules import load_rules
from holdstrue.rules.file import dump_rules
from holdstrue.rules.types import Declared, checked_types, types_of_table, with_types


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("text", "text"),
        (" Integer ", "integer"),
        ("decimal( 12 , 2 , comma )", "decimal(12,2,comma)"),
        ("decimal(12)", "decimal(12,0)"),
        ("decimal(comma)", "decimal(comma)"),
        ("number(comma)", "number(comma)"),
        ("date(%d.%m.%Y)", "date(%d.%m.%Y)"),
        ("timestamp( %d/%m/%Y %H:%M )", "timestamp(%d/%m/%Y %H:%M)"),
        ("timestamp(%d (%b) %Y %I:%M %p %z)", "timestamp(%d (%b) %Y %I:%M %p %z)"),
        ("time(%H:%M)", "time(%H:%M)"),
    ],
)
def test_a_type_has_one_form(text: str, kept: str) -> None:
    assert Declared.of(text).text == kept
    assert Declared.of(kept) == Declared.of(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not the name of a type"),
        ("decmal", "did you mean 'decimal'"),
        ("varchar(10)", "is not known"),
        ("text(10)", "takes nothing in brackets"),
        ("decimal(39,2)", "1 to 38 digits"),
        ("decimal(2,3)", "1 to 38 digits"),
        ("decimal(a)", "not the size of a decimal"),
        ("number(5)", "number has no digits"),
        ("date(%m.%Y)", "names no day"),
        ("date(%d.%m.%Y %H)", "declare timestamp"),
        ("date(%d.%d.%Y)", "stands twice"),
        ("date(%d.%m.%Q)", "%Q is not known"),
        ("time(%M)", "an hour and no day"),
        ("time(%I:%M)", "%I and %p go together"),
    ],
)
def test_a_slip_is_explained(text: str, said: str) -> None:
    with pytest.raises(RuleError) as error:
        Declared.of(text, "born")
    assert said in str(error.value)
    assert "'born'" in str(error.value)


def test_a_rule_file_declares_types_and_is_written_back() -> None:
    rules = load_rules("types:\n  born: date( %d.%m.%Y )\n  orders.day: date\nrules:\n- zip -> city\n")
    assert rules.types == (("born", "date(%d.%m.%Y)"), ("orders.day", "date"))
    assert load_rules(dump_rules(rules)) == rules
    for text in ("types: [a]\nrules: [zip -> city]\n", "types: {a: 5}\nrules: [zip -> city]\n"):
        with pytest.raises(RuleError, match="types maps columns to types"):
            load_rules(text)
    with pytest.raises(RuleError, match="did you mean 'integer'"):
        load_rules("types: {a: intger}\nrules: [zip -> city]\n")


def test_a_column_has_one_type() -> None:
    rules = load_rules("types: {born: date}\nrules: [zip -> city]\n")
    assert with_types(rules, {"born": " date "}).types == rules.types
    with pytest.raises(RuleError, match="'born' is declared as date and as text"):
        with_types(rules, {"born": "text"})
    both = checked_types([("born", "date"), ("people.born", "text")])
    with pytest.raises(RuleError, match="declared as date and as text"):
        types_of_table(both, "people", "people", ["people"])


def test_a_dot_names_a_table_only_where_there_is_one() -> None:
    types = checked_types([("a.b", "date"), ("orders.day", "text")])
    assert types_of_table(types, "data", "data", ["data", "orders"]) == {"a.b": Declared("date")}
    assert types_of_table(types, "orders", "data", ["data", "orders"]) == {"day": Declared("text")}
