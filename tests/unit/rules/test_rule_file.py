"""Rule files of every kind are read; mistakes in them are named with file and entry."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdstrue.errors import RuleError
from holdstrue.rules import Rule, RuleSet, Tolerance, dump_rules, load_rules, parse_rule, parse_weever, yaml_text
from holdstrue.rules.file import dump_first_rules, parse_tolerance
from unit.rules.strategies import conditions, named_t, small_bodies

YAML = """\
table: people
key: [area_code, phone]
nulls: equal
rules:
  - name: zips
    rule: zip -> city
    severity: warn
    where: state = 'CA'
    tolerance: 1%
    description: One city for each zip.
  - rule: "[CC=44, zip] -> [street]"
    tolerance: 5
  - key(id)
"""

WEEVER = """{"csvPath": "x.csv", "keyColumns": [0], "constraints": [
  [{"colIdx1": 1, "colIdx2": 1, "op": "EQUAL"}, {"colIdx1": 2, "colIdx2": 2, "op": "GREATER"},
   {"colIdx1": 2, "colIdx2": 1, "op": "LESS_EQUAL"}]]}"""


def write(folder: Path, name: str, text: str) -> Path:
    """A file with that text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_yaml(tmp_path: Path) -> None:
    rules = load_rules(write(tmp_path, "rules.yaml", YAML))
    assert (rules.table, rules.key, rules.nulls, len(rules)) == ("people", ("area_code", "phone"), "equal", 3)
    first, second, third = rules
    assert first == parse_rule(
        "zip -> city", name="zips", severity="warn", where="state = 'CA'",
        tolerance=Tolerance(share=Decimal("0.01")), description="One city for each zip.",
    )  # fmt: skip
    assert (second.name, second.tolerance) == ("[CC=44, zip] -> [street]", Tolerance(count=5))
    assert third.kind == "key"
    assert load_rules(YAML) == rules == load_rules(str(tmp_path / "rules.yaml"))
    assert len(load_rules(write(tmp_path, "list.yml", "- key(a)\n- rule: a -> b"))) == 2
    assert load_rules("key: id\nrules: [key(id)]").key == ("id",)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("rules: []", "no rules", "- rule:"),
        ("table: x", "expected a list under 'rules:'", "- rule:"),
        ("rules: [key(a)]\nkeys: a", "unknown field 'keys'", "rules, table, key, nulls"),
        ("rules: [{rule: key(a), sevrity: warn}]", "rule 1: unknown field 'sevrity'", "severity"),
        ("rules: [{name: x}]", "rule 1 (x): no rule text", "rule:"),
        ("rules: [{name: 3, rule: key(a)}]", "rule 1: name must be text, got 3", "quotes"),
        ("rules: [{name: x, rule: 3}]", "rule 1 (x): rule must be text, got 3", "quotes"),
        ("rules: [{rule: key(a), severity: fatal}]", "rule 1: severity 'fatal'", "error or warn"),
        ("rules: [{rule: key(a), severity: [warn]}]", "severity ['warn']", "error or warn"),
        ("rules: [{rule: key(a), tolerance: 1.5}]", "rule 1: tolerance 1.5", "1%"),
        ("rules: [{rule: key(a), tolerance: -1}]", "tolerance -1", "1%"),
        ("rules: [{rule: key(a), tolerance: yes}]", "tolerance True", "1%"),
        ("rules: [{rule: key(a), tolerance: 200%}]", "tolerance '200%'", "1%"),
        ("rules: [{rule: key(a), where: 3}]", "where must be text", "quotes"),
        ("rules: [key(a), [CC=44] ]", "rule 2: expected a rule, got ['CC=44']", "quotes"),
        ("rules: [3]", "rule 1: expected a rule, got 3", "quotes"),
        ("rules:\n  - rule: [CC=44, zip] -> [street]", "line 2: this is not YAML", "quotes"),
        ("rules:\n  - rule: !(t.a = s.a)", "line 2: this is not YAML", "quotes"),
        ("rules: [{name: x, rule: a->b}, {name: x, rule: key(b)}]", "called 'x': numbers 1 and 2", "own"),
        ("rules: [key(a)]\nrules: [key(b)]", "line 2: field 'rules' is given twice", "keep one"),
        ("rules: [key(a)]\nkey: 3", "key 3", "a column"),
        ("rules: [key(a)]\nkey: [a, a]", "names a column twice", ""),
        ("rules: [key(a)]\nnulls: maybe", "nulls 'maybe'", "unknown or equal"),
        ("rules: [key(a)]\ntable: 3", "table must be text", "quotes"),
        ("rules: key(a)", "expected a list under 'rules:'", ""),
        ("rules: [{name: x, rule: zip -> }]", "(x): expected a column name, but the text ends", ""),
        ("rules: [{name: x, rule: zip -> }]", "\n  zip ->\n        ^", ""),
        ("rules:\n  - {name: x, rule: key(a), where: 'b ='}", "(x): expected a constant or a column", ""),
        ("rules:\n  - {rule: key(a), name: !!python/object:os.system x}", "this is not YAML", ""),
    ],
)  # fmt: skip
def test_mistakes_in_yaml(tmp_path: Path, text: str, message: str, hint: str) -> None:
    path = write(tmp_path, "bad.yaml", text)
    with pytest.raises(RuleError) as caught:
        load_rules(path)
    assert caught.value.message.startswith(str(path))
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_one_rule_a_line(tmp_path: Path) -> None:
    text = "# rules\n\nkey(id)\nzips := zip -> city  # comment\n'my rule' := not(t.a < 0)\nkey(id)\n"
    rules = load_rules(write(tmp_path, "rules.txt", text))
    assert [rule.name for rule in rules] == ["key(id)", "zips", "my rule", "key(id) #2"]
    assert load_rules(text) == rules


def test_foreign_files(tmp_path: Path) -> None:
    holoclean = 't1&t2&EQ(t1.a,t2.a)&IQ(t1.b,t2.b)\nt1&EQ(t1.a,"x")\n'
    assert [r.text for r in load_rules(write(tmp_path, "c.txt", holoclean))] == [
        "not(t.a = s.a and t.b != s.b)",
        "not(t.a = 'x')",
    ]
    listed = "[DC: t0.a(String) == t1.a(String)  ]\n[DC: t0.a(String) == t1.b(String)  ]\n"
    assert load_rules(write(tmp_path, "dcs.txt", listed)).rules[1].text == "not(t.`a(String)` = s.`b(String)`)"


def test_weever(tmp_path: Path) -> None:
    path = write(tmp_path, "config.json", WEEVER)
    rules = load_rules(path, columns=["id", "state", "salary"])
    assert rules.key == ("id",)
    assert rules.rules[0].text == "not(t.state = s.state and t.salary > s.salary and t.salary <= s.state)"
    with pytest.raises(RuleError, match="columns by index"):
        load_rules(path)
    with pytest.raises(RuleError, match=r"config.json: constraint 1: no column with index 2"):
        load_rules(path, columns=["id", "state"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "not JSON"),
        ("{}", "no 'constraints'"),
        ('{"constraints": 3}', "constraints: expected a list"),
        ('[[{"colIdx1": 0}]]', "constraint 1: expected a comparison"),
        ('[[{"colIdx1": 0, "colIdx2": 0, "op": "LIKE"}]]', "unknown operator 'LIKE'"),
        ('[[{"colIdx1": true, "colIdx2": 0, "op": "EQUAL"}]]', "no column with index True"),
        ("[[]]", "without comparisons"),
    ],
)
def test_mistakes_in_weever_files(text: str, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        parse_weever(text, ["a"])


def test_weever_operators() -> None:
    names = ["EQUAL", "UNEQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"]
    text = ",".join(f'[{{"colIdx1": 0, "colIdx2": 1, "op": "{name}"}}]' for name in names)
    printed = [rule.text for rule in parse_weever(f"[{text}]", ["a", "b"])]
    assert printed == [f"not(t.a {op} s.b)" for op in ("=", "!=", "<", "<=", ">", ">=")]


def test_python_sources() -> None:
    rule = parse_rule("key(id)")
    assert load_rules(rule).rules == (rule,)
    mixed: list[str | Rule | dict[str, Any]] = [
        rule,
        "zips := zip -> city",
        {"rule": "a -> b", "severity": "warn"},
    ]
    assert [r.severity for r in load_rules(iter(mixed))] == ["error", "error", "warn"]
    rules = load_rules([rule])
    assert load_rules(rules) == rules
    with pytest.raises(RuleError, match="rule 2: expected a rule or its text, got 3"):
        load_rules(["key(a)", 3])  # type: ignore[list-item]
    with pytest.raises(RuleError, match="rule 2: expected a column name"):
        load_rules(["key(a)", "zip ->"])
    with pytest.raises(RuleError, match="two rules are called 'x'"):
        load_rules([parse_rule("key(a)", name="x"), parse_rule("key(b)", name="x")])
    bad = Rule(parse_rule("a -> b").body.__class__(("a",), ("a",)), "bad")  # type: ignore[call-arg, arg-type]
    with pytest.raises(RuleError, match="can never be violated"):
        load_rules([bad])


def test_texts_and_missing_files(tmp_path: Path) -> None:
    assert load_rules("orders.customer_id in customers.id").rules[0].kind == "inclusion"
    for missing in ("rules.yaml", "conf/rules.txt", "./rules", str(tmp_path / "none.yml")):
        with pytest.raises(RuleError, match="no rule file"):
            load_rules(missing)
    with pytest.raises(RuleError, match="no rule file"):
        load_rules(tmp_path / "none")
    with pytest.raises(RuleError, match="cannot read rule file"):
        load_rules(tmp_path)
    with pytest.raises(RuleError) as caught:
        load_rules("zip ->")
    assert caught.value.message.startswith("expected a column name")
    with pytest.raises(RuleError, match="line 2: expected a column name"):
        load_rules("key(a)\nzip ->")
    with pytest.raises(RuleError, match="no rules"):
        load_rules(write(tmp_path, "empty.txt", "# nothing\n"))
    latin = tmp_path / "latin.txt"
    latin.write_bytes("stra\xdfe -> ort".encode("latin-1"))
    with pytest.raises(RuleError, match="is not UTF-8"):
        load_rules(latin)
    with_mark = tmp_path / "bom.txt"
    with_mark.write_bytes(b"\xef\xbb\xbfkey(a)\r\nkey(b)\r\n")
    assert [rule.text for rule in load_rules(with_mark)] == ["key(a)", "key(b)"]


def test_tolerances() -> None:
    assert parse_tolerance(None) is None
    assert [parse_tolerance(v) for v in (5, "5", 0)] == [
        Tolerance(count=5),
        Tolerance(count=5),
        Tolerance(count=0),
    ]
    assert [parse_tolerance(v) for v in (0.01, "1%", "0.5 %", "100%", 0.0)] == [
        Tolerance(share=Decimal(share)) for share in ("0.01", "0.01", "0.005", "1", "0.0")
    ]


_rules = st.builds(
    Rule,
    small_bodies.filter(named_t),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(str.strip),
    st.sampled_from(["", "why", "two\nlines: #"]),
    st.sampled_from(["error", "warn"]),
    st.none() | conditions,
    st.none() | st.builds(Tolerance, st.integers(0, 9)) | st.builds(Tolerance, st.none(), st.decimals(0, 1, places=9)),
    st.none() | st.just("orders"),
)


@given(
    st.lists(_rules, min_size=1, max_size=3, unique_by=lambda rule: rule.name),
    st.none() | st.just("people"),
    st.lists(st.sampled_from("abc"), unique=True, max_size=2),
    st.sampled_from(["unknown", "equal"]),
)
@settings(max_examples=100, deadline=None)
def test_yaml_round_trips(rules: list[Rule], table: str | None, key: list[str], nulls: str) -> None:
    accepted = []
    for rule in rules:
        try:
            accepted.append(parse_rule(rule.text) and rule)
        except RuleError:
            continue
    if accepted:
        whole = RuleSet(tuple(accepted), table, tuple(key), nulls)  # type: ignore[arg-type]
        assert load_rules(dump_rules(whole)) == whole


def test_importing_rules_is_cheap() -> None:
    code = "import sys, holdstrue.rules; assert not {'yaml', 'numpy', 'pyarrow', 'numba'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_empty_where_is_named_once() -> None:
    with pytest.raises(RuleError) as error:
        load_rules("rules: [{name: r, rule: key(a), where: ''}]")
    assert error.value.message == "rule 1 (r): where is empty"


def test_a_rule_set_without_rules_is_refused() -> None:
    with pytest.raises(RuleError, match="no rules"):
        load_rules(RuleSet(()))


def test_no_more_rules_are_written_than_a_file_may_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = load_rules([f"a{i}, `é{i}` -> b{i}" for i in range(300)])
    assert dump_first_rules(rules) == (dump_rules(rules), 300)
    for limit, value in (("MOST", 500), ("LONGEST", 2_000)):
        with monkeypatch.context() as patched:
            patched.setattr(yaml_text, limit, value)
            text, kept = dump_first_rules(rules)
            assert 10 < kept < 300
            assert load_rules(text).rules == rules.rules[:kept]
