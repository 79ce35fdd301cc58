"""The renderers as Python users call them."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from importlib import import_module
from typing import Any

import pyarrow as pa
import pytest

import holdstrue
from holdstrue.cli.options import FormatOf
from holdstrue.errors import HoldstrueError
from holdstrue.monitor.monitor import Monitor
from holdstrue.monitor.report import Report
from holdstrue.report import Groups, OpenViolations, forms, html_of, render
from holdstrue.report.typeset import json_text, key_word, plural, printable, shorten, shorten_together, word


def report(columns: dict[str, list[Any]], *rules: str, **options: Any) -> Report:
    """A check of a small table."""
    return holdstrue.check(pa.table(columns), list(rules), **options)


CITIES = {"zip": ["1", "1", "2"], "city": ["Bonn", "Ulm", "Kiel"]}


def test_json_is_the_reports_own() -> None:
    made = report(CITIES, "zip -> city")
    assert json.loads(render(made, "json")) == made.to_dict()


def test_unknown_formats_are_refused() -> None:
    made = report(CITIES, "zip -> city")
    with pytest.raises(HoldstrueError, match="no format 'xml'"):
        render(made, "xml")
    with pytest.raises(HoldstrueError, match="no format 'junit'"):
        render(OpenViolations(made, {"zip -> city": 1}), "junit")


def test_clean_text() -> None:
    text = render(report(CITIES, "key(city)"))
    assert text.splitlines()[0] == "3 rows of data: 1 rule, no violations"
    assert "✗" not in text


def test_wide_values_keep_their_difference_in_sight() -> None:
    long = "x" * 500
    for rule in ("not(t.k = s.k and t.v != s.v)", "k -> v"):
        text = render(report({"k": [1, 1], "v": [long + "a", long + "b"]}, rule))
        assert max(map(len, text.splitlines())) < 120
        assert "…xxxxxxxxa" in text
        assert "…xxxxxxxxb" in text


def test_values_cannot_steer_a_terminal_or_break_a_line() -> None:
    text = render(report({"k": [1, 1], "v": ["\x1b]0;x\x07", "a\nb"]}, "k -> v"))
    assert "\x1b" not in text
    assert "\\x1b]0;x\\x07" in text
    assert "a\\nb" in text


def test_unicode_is_aligned_by_cells() -> None:
    text = render(report({"id": [1, 2], "v": ["東京", "Bonn"], "w": [1, 1]}, "not(t.w > 0 and t.v != '')"))
    tokyo, bonn = (line for line in text.splitlines() if line.startswith("    ") and ("東京" in line or "Bonn" in line))
    assert tokyo == "    0     1   東京"
    assert bonn == "    1     1   Bonn"


def test_marks_only_where_the_rule_compares_a_column_with_itself() -> None:
    rule = "not(t.origin = s.dest and t.day < s.day)"
    text = render(report({"origin": ["A", "B"], "dest": ["C", "A"], "day": [1, 2]}, rule))
    assert text.endswith(
        "        row   origin   dest   day\n"
        "    t   0     A        C      1\n"
        "    s   1     B        A      2\n"
        "                              ^\n"
    )


def test_a_cfd_shows_groups_and_single_rows() -> None:
    columns: dict[str, list[Any]] = {"cc": [44, 44, 1], "zip": ["a", "a", "b"]}
    columns |= {"street": ["x", "y", "z"], "city": ["q", "q", "r"]}
    text = render(report(columns, "[cc=44, zip] -> [street, city='q']", "[cc=1] -> [city='q']"))
    assert "cc 44, zip a: 2 rows, 2 different" in text
    single = render(report(columns, "[cc, zip] -> [street, city] with (44, _ || _, 'p')"))
    assert "2 different" in single
    assert "row   cc   zip   street   city" in single


def test_many_sides_and_groups_are_cut() -> None:
    columns = {"k": [i // 10 for i in range(100)], "v": list(range(100))}
    text = render(report(columns, "k -> v"))
    assert "… 5 more\n" in text
    assert "… 5 more groups (--limit to see more)" in text
    assert render(report(columns, "k -> v"), limit=10).count("10 different") == 10


def test_keys_without_a_number_in_json() -> None:
    made = report({"k": [float("nan"), 1.5], "v": [-1, -2]}, "not(t.v < 0)", key="k")
    assert [v["t"] for v in json.loads(render(made, "json"))["violations"]] == ["nan", 1.5]
    assert json.loads(render(made, "jsonl").splitlines()[0])["t"] == "nan"


def test_a_pair_with_a_null_key_still_shows_both_rows() -> None:
    text = render(report({"id": [None, 1], "k": [1, 1], "v": [1, 2]}, "not(t.k = s.k and t.v < s.v)", key="id"))
    assert "t   NULL   1   1\n" in text
    assert "s   1      1   2\n" in text


def test_colour_is_only_paint() -> None:
    made = report(CITIES, "zip -> city", "key(zip)")
    painted = render(made, color=True)
    assert "\x1b[" in painted
    assert re.sub("\x1b\\[[0-9;]*m", "", painted) == render(made)


def test_junit_tells_warnings_apart() -> None:
    rules = [{"name": "w", "rule": "zip -> city", "severity": "warn"}, {"name": "e", "rule": "key(zip)"}]
    suite = ET.fromstring(render(holdstrue.check(pa.table(CITIES), rules), "junit").encode()).find("testsuite")
    assert suite is not None
    warned, failed = suite.findall("testcase")
    assert warned.find("failure") is None
    assert (warned.findtext("system-out") or "").startswith("warning: 1 violation in 2 rows")
    assert failed.find("failure") is not None
    assert suite.attrib["failures"] == "1"


def test_html_is_escaped_and_whole() -> None:
    html = html_of(report({"k": ["<b>", "<b>"], "v": [1, 2]}, "k -> v", key="k"))
    assert "<b>" not in html
    assert "&lt;b&gt;" in html
    ET.fromstring(html)
    many = html_of(report({"a": [-1] * 50}, "not(t.a < 0)"))
    assert "… 47 more violations" in many


def test_deltas() -> None:
    monitor = Monitor(["zip -> city", "neg := not(t.id < 0)"], key="id")
    delta = monitor.apply(pa.table({"id": [1, 2, -3], "zip": ["1", "1", "2"], "city": ["Bonn", "Ulm", "Kiel"]}))
    text = render(delta, report=monitor.report())
    assert text.startswith("batch #1: +2 new, -0 resolved, 2 open\n")
    assert "    t   1    1     Bonn\n    s   2    1     Ulm\n                   ^^^^\n" in text
    assert "+ neg: 1 new violation" in text
    bare = render(delta)
    assert "^" not in bare
    assert "    1   2\n" in bare
    assert render(delta, "csv") == "change,rule,t,s\nadded,zip -> city,1,2\nadded,neg,-3,\n"


def test_rows_that_are_gone_are_named_by_key() -> None:
    monitor = Monitor("zip -> city", key="id")
    delta = monitor.apply(pa.table({"id": [1, 2], "zip": ["1", "1"], "city": ["Bonn", "Ulm"]}))
    monitor.apply(pa.table({"id": [1], "op": ["delete"]}))
    assert "    1   2\n" in render(delta, report=monitor.report())


def test_groups_of_keys_and_limits() -> None:
    made = report({"k": [1, 1, 1, 2, 2], "v": [1, 2, 3, 4, 5]}, "key(k)", "k -> v")
    whole = Groups(made).to_dict()
    assert [(group["rule"], group["rows"], len(group["sides"])) for group in whole["groups"]] == [
        ("key(k)", 3, 1), ("key(k)", 2, 1), ("k -> v", 3, 3), ("k -> v", 2, 2),
    ]  # fmt: skip
    cut = Groups(made, limit=3).to_dict()
    assert (len(cut["groups"]), cut["truncated"]) == (3, True)
    assert "k 1: 3 rows: 0, 1, 2" in render(Groups(made))


def test_words() -> None:
    assert plural(0, "group") == "0 groups"
    assert word(b"\x01\xff") == "0x01ff"
    assert word(" x") == "' x'"
    assert key_word(("a\tb", None)) == "(a\\tb, NULL)"
    assert printable("\u202eabc") == "\\u202eabc"
    assert shorten("abc", 3) == "abc"
    assert shorten_together(["same", "same"]) == ["same", "same"]
    assert json_text([float("inf"), {"a": (1, 2)}]) == '["inf", {"a": [1, 2]}]'


def test_every_answer_and_format_of_the_tables_is_there() -> None:
    for writers in forms.ANSWERS.values():
        for name in filter(None, vars(writers).values()):
            module, function = name.split(".")
            assert callable(getattr(import_module(f"holdstrue.report.{module}"), function))
    for format_ in forms.FORMATS.values():
        assert set(format_.answers) <= set(forms.ANSWERS)


def test_a_new_format_is_one_line_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    shouted = forms.Format(lambda answer, _: iter([str(answer.total), "!"]), ("Findings",))
    monkeypatch.setattr(forms, "FORMATS", {**forms.FORMATS, "shout": shouted})
    assert render(report(CITIES, "zip -> city"), "shout") == "1!"
    assert FormatOf("Findings").option().__origin__.__args__[-1] == "shout"


def test_discoveries_have_the_same_door() -> None:
    found = holdstrue.discover(pa.table(CITIES), kinds=("fd",))
    assert json.loads(render(found, "json"))["rules"] == found.to_dict()["rules"]
    assert "zip" in render(found, "rules")
    with pytest.raises(HoldstrueError, match="no format 'csv'"):
        render(found, "csv")
    with pytest.raises(HoldstrueError, match="Table is no answer"):
        render(pa.table(CITIES))


def test_an_fd_written_as_a_denial_is_shown_as_groups() -> None:
    denial = render(report(CITIES, "not(t.zip = s.zip and t.city != s.city)"))
    groups = render(report(CITIES, "zip -> city"))
    assert denial.endswith(groups[groups.index("    zip 1: 2 rows, 2 different\n") :])


def test_every_rule_of_a_batch_has_its_share_of_the_lists() -> None:
    rows = pa.table({"id": range(60), "zip": ["1"] * 60, "city": [str(n) for n in range(60)]})
    monitor = Monitor(["zip -> city", "low := not(t.id < 2)", "high := not(t.id > 50)"], key="id")
    delta = monitor.apply(rows, limit=20)
    assert {name: step.added for name, step in delta.counts.items()} == {"zip -> city": 1770, "low": 2, "high": 9}
    assert Counter(v.rule for v in delta.added) == {"zip -> city": 9, "low": 2, "high": 9}
    text = render(delta, report=monitor.report())
    assert text.count("t   ") >= 5
    assert "… 4 more" in text


def test_csv_holds_no_formulas() -> None:
    """What spreadsheets would run starts with an apostrophe; numbers stay numbers, and texts are had again."""
    import csv
    import io

    import holdstrue
    from holdstrue.report.forms import render

    names = ["=1+1", "+cmd", "-x", "@x", "\tx", "\rx", "'=1", "''=1", "-5", "+4.5e3", "'tis", "plain", "", "-", "＝1"]
    report = holdstrue.check([{"n": name, "x": 1} for name in names], ["not(t.x > 0)"], key="n")

    def cells(form: str) -> list[str]:
        return [row[1] for row in csv.reader(io.StringIO(render(report, form), newline=""))][1:]

    def had_again(cell: str) -> str:
        number = cell.lstrip("+-").replace(".", "").replace("e", "").isdecimal()
        rest = cell.lstrip("'")
        return cell[1:] if cell != rest and rest[:1] and rest[0] in "=+-@\t\r＝" and not number else cell

    assert cells("raw-csv") == names
    shown = cells("csv")
    assert not any(cell[:1] and cell[0] in "=@\t\r＝" for cell in shown)
    assert [cell for cell in shown if cell[:1] in ("+", "-")] == ["-5", "+4.5e3"]
    assert [had_again(cell) for cell in shown] == names
