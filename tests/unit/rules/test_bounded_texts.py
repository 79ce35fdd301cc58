"""Rule files and rule texts that would take minutes, or all memory, or end in Python's own errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdstrue.errors import HoldstrueError, RuleError
from holdstrue.fragments.declaration import load_declaration
from holdstrue.rules import load_rules
from holdstrue.rules.normal import MOST_COMPARISONS
from holdstrue.rules.yaml_text import read_yaml
from unit.cli.runs import run, write

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 9)}]\n" for before, after in zip("abcdefgh", "bcdefghi")
)

YAML = [
    (LAUGHS + "rules: *i\n", "line 6: this value stands for more than 100,000 values"),
    ("rules:\n- &r {rule: key(a), where: *r}\n", "line 2: this value holds itself"),
    ("rules: &a [*a]\n", "line 1: this value holds itself"),
    ("rules:\n- !!int\n", "line 2: '' is not int"),
    ("rules: [!!int '']\n", "line 1: '' is not int"),
    ("rules: [!!bool perhaps]\n", "line 1: 'perhaps' is not bool"),
    ("rules: [!!timestamp x]\n", "line 1: 'x' is not timestamp"),
    ("rules: [2024-13-45]\n", "line 1: '2024-13-45' is not timestamp"),
    ("rules: [0x_]\n", "line 1: '0x_' is not int"),
    (f"rules: [{'9' * 5000}]\n", "is not int"),
    ('rules: ["\\U99999999"]\n', "this is not YAML"),
    ("rules: [!!set {a, b}]\n", "which has no tags: !!set"),
    ("rules: " + "[" * 3000 + "\n", "more than 20 lists"),
    ("rules: " + "[" * 3000 + "]" * 3000 + "\n", "more than 20 lists"),
    ("rules: " + "{a: " * 3000 + "\n", "more than 20 lists"),
    ("rules:\n? [a]\n: b\n", "line 2: the name of a field must be text"),
    ("rules: [key(a)]\nkey: [*b]\n", "line 2: this is not YAML: found undefined alias"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), YAML)
def test_yaml_is_bounded(text: str, said: str, tmp_path: Path) -> None:
    path = write(tmp_path / "rules.yaml", text)
    for read in (load_rules, load_declaration):
        with pytest.raises(HoldstrueError) as caught:
            read(path)
        assert said in caught.value.message, caught.value
        assert caught.value.hint
        assert len(str(caught.value)) < 5000
    data = write(tmp_path / "t.csv", "a\n1\n")
    assert run("check", data, "--rules", path).exit_code == 2
    assert run("fragments", "plan", path).exit_code == 2


def test_anchors_that_people_use() -> None:
    text = (
        "rules:\n- &base {rule: key(a), severity: warn}\n- {<<: *base, rule: key(b)}\n"
        "- <<: [*base, {where: c = 1}]\n  rule: key(d)\n"
    )
    rules = load_rules(text).rules
    assert [(rule.text, rule.severity) for rule in rules] == [
        ("key(a)", "warn"),
        ("key(b)", "warn"),
        ("key(d)", "warn"),
    ]
    assert rules[2].where is not None


def test_a_file_of_many_values_is_no_bomb() -> None:
    assert len(load_rules("rules:\n" + "- key(a)\n" * 3000)) == 3000


def test_size() -> None:
    with pytest.raises(RuleError, match="more than a rule file may have"):
        read_yaml("rules: [key(a)]" + " " * (5 << 20), "")
    with pytest.raises(RuleError, match="more than a rule file may have"):
        load_rules("key(a)\n" + "\n" * (17 << 20))
    with pytest.raises(RuleError, match="2,000,005 characters"):
        load_rules(f"key({'a' * 2_000_000})")


def conjunction(*terms: str) -> str:
    return f"not({' and '.join(terms)})"


@pytest.mark.parametrize("count", [100, MOST_COMPARISONS])
def test_many_comparisons(count: int) -> None:
    numbers = range(count)
    assert len(load_rules(conjunction(*(f"t.c{i} < s.c{i}" for i in numbers)))) == 1
    assert len(load_rules(conjunction(*(f"t.a != {i}" for i in numbers)))) == 1
    assert len(load_rules(conjunction(*(f"t.c{i} <= t.c{i + 1}" for i in numbers)))) == 1
    [rule] = load_rules(conjunction(*(f"t.a < {i}" for i in numbers))).rules
    from holdstrue.rules.normal import normalise

    assert normalise(rule).text == "not(t.a < 0)"
    with pytest.raises(RuleError, match="can never be violated"):
        load_rules(conjunction(*(f"t.c{i} < t.c{(i + 1) % count}" for i in numbers)))


def test_too_many_comparisons_are_refused_by_name() -> None:
    with pytest.raises(RuleError, match="a denial constraint of 1,001 comparisons"):
        load_rules(conjunction(*(f"t.c{i} < s.c{i}" for i in range(MOST_COMPARISONS + 1))))


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (f"not(t.a = {'9' * 5000})", "a number of 5,000 characters"),
        (f"not(t.a = 0.{'9' * 5000})", "a number of 5,002 characters"),
        (f"not{'(' * 5000}t.a = 1{')' * 5000}", "nested too deeply"),
        ("a" + " " * 100_000 + "b -> c", "expected '->'"),
        ("[DC: " + "x" * 100_000 + " ]", "expected a comparison"),
    ],
)
def test_rule_text_is_bounded(rule: str, said: str) -> None:
    with pytest.raises(RuleError) as caught:
        load_rules([rule])
    assert said in caught.value.message
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    "where", ["(" * 5000 + "a = 1" + ")" * 5000, "not " * 5000 + "a = 1", "not (" * 60 + "a = 1" + ")" * 60]
)
def test_filters_are_bounded_in_depth(where: str) -> None:
    with pytest.raises(RuleError, match="nested too deeply"):
        load_rules([{"rule": "key(a)", "where": where}])


def test_many_nots_beside_each_other_are_not_deep() -> None:
    where = " and ".join(f"not (a = {i})" for i in range(500))
    assert load_rules([{"rule": "key(a)", "where": where}]).rules[0].where is not None


def test_a_tableau_of_many_rows() -> None:
    from holdstrue.rules.normal import normalise

    rows = ", ".join(f"({i}, _ || _), ({i}, {i} || _)" for i in range(3000))
    [rule] = load_rules(f"[a, b] -> [c] with {rows}").rules
    assert normalise(rule).text.count("||") == 3000


def test_json_that_is_nested_without_end(tmp_path: Path) -> None:
    for text in ("[" * 100_000, '{"constraints": ' + "[" * 100_000, '{"constraints": [' + "9" * 5000 + "]}"):
        path = write(tmp_path / "rules.json", text)
        with pytest.raises(RuleError):
            load_rules(path, columns=["a"])
