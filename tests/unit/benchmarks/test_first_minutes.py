"""The page of the first minutes adds up what it measured."""

from __future__ import annotations

from first_minutes import table

ROWS = [
    ("clone", 1.0, ""),
    ("environment", 2.0, ""),
    ("packages", 10.0, "pip"),
    ("first `check`", 4.0, "compiling"),
    ("`demo` as the very first command", 30.0, "compiling"),
]


def test_the_sums_are_those_of_the_steps() -> None:
    text = table(ROWS, [("check orders.csv", 17.0, 1.4)])
    assert "first answer 17 s, of which 13 s are clone, environment and packages" in text
    assert "as the very first command 43 s" in text
    assert "| packages | 10.0 | pip |" in text
    assert "| `check orders.csv` | 17.0 | 1.4 |" in text
