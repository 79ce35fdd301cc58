"""Any text is a rule set or an error of ours: rule texts, rule files and declarations, changed at random."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdstrue.errors import HoldstrueError
from holdstrue.fragments.declaration import load_declaration
from holdstrue.rules import load_rules
from holdstrue.rules.condition import parse_condition
from holdstrue.rules.fingerprint import fingerprint
from holdstrue.rules.implication import review

RULES = (
    "key(a, `b c`)", "a, b -> c", "[CC=44, zip] -> [street]", "[a, b] -> [c] with (1, _ || _), (_, 'x' || 'y')",
    "not(t.a = s.a and t.b > s.b and t.c != 'x')", "not(t.a < 0)", "not null(a, b)", "r.a in q.b",
    "r.(a, b) in q.(c, d)",
    "t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)", "[DC: t0.a(String) == t1.b(String)  ]", "∀t,s: ¬(t.a = s.a)",
    "!(t.x == date '2024-01-31' and t.y <= timestamp '2024-01-31 12:30:00')", "not(t.a = decimal '1.50')", "zip > 0",
    "count() > 1000", "r.sum(a) = q.sum(`b c`)", "fresh(a) < 2 days", "count(*) between 1 and 10", "5 < max(r.a)",
    "my rule := a -> b", "unique(zip)", "zip in (10, 11)",
)  # fmt: skip
FILTERS = ("a = 1 and (b > 'x' or not c is null)", "a in (1, 2.5, 'x')", "not a between 1 and 5", "vip", "t.a != true")
FILES = (
    "table: t\nkey: [id, n]\nnulls: equal\nrules:\n- rule: key(a)\n"
    "- {name: n, rule: a -> b, tolerance: 1%, severity: warn}\n",
    "rules:\n- &x {rule: 'not(t.a < 0)', where: b = 1}\n- {<<: *x, name: y}\n"
    "# comment\n- [1, 2.5, true, null, 2024-01-01]\n",
    '{"keyColumns": [0], "constraints": [[{"colIdx1": 1, "colIdx2": 1, "op": "EQUAL"}]]}',
    "key: id\nstate: s\nrules: [a -> b]\nsites:\n"
    "- {name: S, columns: [a, b], where: g = 1}\n- {name: T, columns: [g]}\n",
)  # fmt: skip
PIECES = (
    "(", ")", "[", "]", "{", "}", "'",
    '"', "`", "\\", ",", ".", ":", ": ", ":=", "=", "<", ">=", "!=", "->", "||", "_", "#",
    "not ", "and ", " or ", " in ", "null", "forall ", "key(", "t.", "s.", "\n", "\n- ", "  ", "\t", "- ", "? ", "& ",
    "&a ", "*a",
    "<<: *x", "!!int ", "!!binary ", "!x ", "|\n", ">\n", "%", "@", "---\n", "0x_", "0b_", "1e999", "-1e-999",
    "9" * 30, "1" * 1100,
    "1_000", "1:2:3", "2024-13-45", ".inf", ".nan", "true", "\0", "\x85", "\u2028", "\ufeff", "\ud800", "é",
    "\U0001f600", "\\u{110000}",
    "decimal 'sNaN'", "decimal '1e999999999'", "float 'nan'", "date '0000-00-00'", "[" * 40, "(" * 150, "not " * 150,
    "'" * 7,
)  # fmt: skip


def changed(text: str, chance: random.Random) -> str:
    """The text with some pieces put in, cut out or doubled."""
    for _ in range(chance.choice((0, 1, 1, 2, 3, 5))):
        at = chance.randint(0, len(text))
        end = min(len(text), at + chance.randint(0, 6))
        match chance.randrange(4):
            case 0 | 1:
                text = text[:at] + chance.choice(PIECES) + text[chance.choice((at, end)) :]
            case 2:
                text = text[:at] + text[end:]
            case _:
                text = text[:end] + text[at:]
    return text


def accepted(read: Callable[[], object]) -> bool:
    """Whether a text is taken; anything but an error of ours fails the test."""
    try:
        read()
    except HoldstrueError as error:
        assert str(error)
        return False
    return True


def judge(seed: int, folder: Path) -> bool:
    """Read one changed text in every way in which it may be read."""
    chance = random.Random(seed)
    kind = chance.randrange(4)
    if kind == 0:
        text = changed(chance.choice(FILTERS), chance)
        return accepted(lambda: parse_condition(text))
    if kind == 1:
        text = changed(chance.choice(RULES), chance)

        def understood() -> None:
            rules = load_rules([text])
            _ = [fingerprint(rule) for rule in rules], review([*rules, *load_rules(["not(t.a < 0 and t.b = 1)"])])

        return accepted(understood)
    text = changed(chance.choice(FILES), chance)
    if kind == 2:
        return accepted(lambda: load_rules(text + "\n", columns=["a", "b"]))
    path = folder / chance.choice(("r.yaml", "r.txt", "r.json"))
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    taken = accepted(lambda: load_rules(path, columns=["a", "b"]))
    return accepted(lambda: load_declaration(path)) or taken


@given(st.integers(0, 2**32))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    judge(seed, tmp_path_factory.getbasetemp())


@given(st.text(max_size=60))
def test_any_text_at_all(text: str) -> None:
    accepted(lambda: load_rules([text]))
    accepted(lambda: load_rules(text + "\n"))
    accepted(lambda: load_rules("rules:\n- " + text))
    accepted(lambda: parse_condition(text))


@pytest.mark.soak
def test_many(tmp_path: Path) -> None:
    for seed in range(300_000):
        judge(seed, tmp_path)
