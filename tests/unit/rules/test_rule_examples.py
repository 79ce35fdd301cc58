"""The rules of the five papers and of the public data sets are read as they are written there."""

from __future__ import annotations

from pathlib import Path

import pytest

import lookalikes
from holdstrue.rules import RuleSet, fingerprint, load_rules, normalise, parse_rule, review

PAPERS = [
    ("([CC=44, zip] -> [street])", "[CC=44, zip] -> [street]"),
    ("([CC=44, AC=131] -> [city='EDI'])", "[AC=131, CC=44] -> [city='EDI']"),
    ("A, B, C -> E", "A, B, C -> E"),
    ("A,I,J->K", "A, I, J -> K"),
    ("not(t.A > s.B and t.C < s.D)", "not(t.C < s.D and t.A > s.B)"),
    ("not(t.TXA > s.TXA and t.SAL < s.SAL)", "not(t.SAL < s.SAL and t.TXA > s.TXA)"),
    ("Dept,Title->BP, (1,2 || 2000)", "[Dept=1, Title=2] -> [BP=2000]"),
    ("Dept,Title->BP, (_, _ || _)", "Dept, Title -> BP"),
    ("Dept,Title,AT->TP", "AT, Dept, Title -> TP"),
    ("(IL->AT, (10 || 20))", "[IL=10] -> [AT=20]"),
    ("not(AT>20 and IL>=10)", "not(t.AT > 20 and t.IL >= 10)"),
    ("not(Title>=2 and BP>=2000)", "not(t.BP >= 2000 and t.Title >= 2)"),
    ("not(t.AT>s.AT and t.IL>s.IL)", "not(t.AT > s.AT and t.IL > s.IL)"),
    ("not(t.H>=s.H and t.T>s.T and t.P=s.P)", "not(t.P = s.P and t.T > s.T and t.H >= s.H)"),
    ("key(code)", "key(code)"),
    (
        "not(t.origin=s.destination and t.destination=s.origin and t.distance!=s.distance)",
        "not(t.destination = s.origin and t.origin = s.destination and t.distance != s.distance)",
    ),
    (
        "not(t.distance=s.distance and t.volume<s.volume and t.postage>s.postage)",
        "not(t.distance = s.distance and t.volume < s.volume and t.postage > s.postage)",
    ),
    ("r.A in r.B", "r.A in r.B"),
    ("flights.carrier in airlines.carrier", "flights.carrier in airlines.carrier"),
    ("key(area_code, phone)", "key(area_code, phone)"),
    ("state, has_child -> child_exemp", "has_child, state -> child_exemp"),
    (
        "not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)",
        "not(t.state = s.state and t.rate < s.rate and t.salary > s.salary)",
    ),
]


@pytest.mark.parametrize(("text", "normal"), PAPERS)
def test_rules_of_the_papers(text: str, normal: str) -> None:
    rule = normalise(parse_rule(text))
    assert rule.text == normal
    assert normalise(parse_rule(normal)) == normalise(parse_rule(rule.text))


def test_two_exchanged_rules_are_one() -> None:
    there = parse_rule("not(t.origin=s.destination and t.distance!=s.distance)")
    back = parse_rule("not(s.origin=t.destination and s.distance!=t.distance)")
    assert fingerprint(there) == fingerprint(back)


def assert_columns(rules: RuleSet, columns: set[str]) -> None:
    for rule in rules:
        assert rule.source is not None
        assert {n.partition(".")[2] for n, _, _ in rule.source.spans if " " not in n} <= columns


def header(path: Path, encoding: str = "utf-8") -> set[str]:
    with path.open(encoding=encoding) as file:
        return set(file.readline().strip().split(","))


def test_constraints_in_holocleans_syntax(tmp_path: Path) -> None:
    path = tmp_path / "constraints.txt"
    path.write_text(lookalikes.HOSPITAL_TEXT)
    rules = load_rules(path)
    assert len(rules) == 15
    assert_columns(rules, set(lookalikes.hospital().true.column_names))
    assert rules.rules[0].text == "not(t.town = s.town and t.county != s.county)"
    for rule, (left, right) in zip(rules, lookalikes.HOSPITAL_RULES, strict=True):
        assert fingerprint(rule) == fingerprint(parse_rule(f"{', '.join(left)} -> {right}"))
    assert review(rules) == ()


def test_hospital_constraints(whole_data: Path) -> None:
    folder = whole_data / "hospital"
    rules = load_rules(folder / "constraints.txt")
    assert len(rules) == 15
    assert rules.rules[11].text == "not(t.City = s.City and t.CountyName != s.CountyName)"
    assert_columns(rules, header(folder / "hospital.csv"))
    assert review(rules) == ()
    same = parse_rule("City -> CountyName")
    assert fingerprint(same) == fingerprint(rules.rules[11])


def test_airport_list(whole_data: Path) -> None:
    folder = whole_data / "airport"
    rules = load_rules(folder / "DC_airport_example.txt")
    assert len(rules) == 31
    assert len({fingerprint(rule) for rule in rules}) == 31
    assert "not(t.`ident(String)` = s.`gps_code(String)`)" in {rule.text for rule in rules}
    assert_columns(rules, header(folder / "airport_original.csv", "latin-1"))
    # The list is minimal: no DC in it follows from another.
    assert review(rules) == ()
