"""A report as JUnit XML, which build servers show: one test case a rule."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from holdstrue.detect.delta import RuleResult
from holdstrue.monitor.report import Findings
from holdstrue.report.typeset import Ink, Style, plural
from holdstrue.report.violation_text import DENIAL, rule_lines

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_text(report: Findings, style: Style) -> Iterator[str]:
    """The report as a test suite; rules of severity error that are violated are its failures.

    Warnings and tolerated violations pass, with what was found as their output, so that the suite
    fails exactly when `holdstrue check` does.
    """
    failed = sum(_fails(result) for result in report.results)
    counts = {"tests": str(len(report.results)), "failures": str(failed), "errors": "0", "skipped": "0"}
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": "holdstrue", **counts})
    for result in report.results:
        case = ET.SubElement(
            suite, "testcase", {"classname": f"holdstrue.{result.rule.kind}", "name": xml_safe(result.rule.name)}
        )
        if result.counts.open == 0:
            continue
        said = f"{plural(result.counts.open, 'violation')} in {plural(result.counts.rows, 'row')}"
        if result.measured is not None:
            said = xml_safe(result.measured)
        note = f"({DENIAL})\n" if result.rule.kind == "dc" else ""
        body = xml_safe(f"{result.text}\n{note}{''.join(rule_lines(report, result, style.limit, Ink()))}")
        if _fails(result):
            failure = ET.SubElement(case, "failure", {"type": "violated", "message": said})
            failure.text = body
        else:
            output = ET.SubElement(case, "system-out")
            output.text = f"{'warning' if result.status == 'violated' else result.status}: {said}\n{body}"
    ET.indent(suites)
    yield '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _fails(result: RuleResult) -> bool:
    return result.status == "violated" and result.rule.severity == "error"


def xml_safe(text: str) -> str:
    r"""Text without the characters XML cannot hold; they are written as escapes.

    >>> xml_safe("a\x00b")
    'a\\x00b'
    """
    return _NOT_XML.sub(lambda found: found.group().encode("unicode_escape").decode(), text)
