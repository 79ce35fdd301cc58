"""Answers as text for people: a table of the rules, then what breaks them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from holdstrue.detect.delta import Batched, RuleResult
from holdstrue.monitor.known import AcceptedEntry
from holdstrue.monitor.report import Findings
from holdstrue.report.answers import Explanation, Groups, OpenViolations, Status, Worst
from holdstrue.report.overview import Overview
from holdstrue.report.suspects_text import suspects_text
from holdstrue.report.typeset import Cell, Ink, Style, Tone, aligned, heads, key_word, plural, printable, shorten
from holdstrue.report.violation_text import DENIAL, group_lines, more_line, rule_lines
from holdstrue.rules.model import DC
from holdstrue.state.moment import Moment

NAME_WIDTH = 72
"""Terminal cells of a rule's name in a table: a rule without a name is called by its text."""

MEASURED_WIDTH = 100
"""Terminal cells of what was measured in a table; it is told in full of rules that are violated."""


def report_text(report: Findings, style: Style, rule: str | None = None) -> Iterator[str]:
    """How each rule stands, then the first violations of each violated one; of one rule if it is named."""
    ink = style.ink
    results = [result for result in report.results if rule in (None, result.rule.name)]
    yield summary_line(results, report.rows)
    yield "\n"
    yield from rule_table(results, ink)
    told = False
    for result in results:
        if result.new == 0:
            continue
        yield "\n"
        mark, tone, _ = mark_of(result)
        said = result_words(result)
        if result.accepted:
            said += f", {result.new:,} of them new"
        yield f"  {ink.paint(tone, f'{mark} {printable(result.rule.name)}')}: {said}\n"
        if result.rule.description:
            yield f"    {printable(result.rule.description)}\n"
        if result.rule.name != result.text:
            yield f"    {ink.paint('faint', printable(result.text))}\n"
        if isinstance(result.rule.body, DC) and not told:
            told = True
            yield f"    {ink.paint('faint', f'({DENIAL})')}\n"
        yield from rule_lines(report, result, style.limit, ink)
    yield from _accepted_lines([entry for entry in report.accepted if rule in (None, entry.acceptance.rule)], ink)


def _accepted_lines(entries: Sequence[AcceptedEntry], ink: Ink) -> Iterator[str]:
    """What is accepted, why and until when."""
    if not entries:
        return
    yield "\n  accepted\n"
    table = [heads("rule", "violations", "until", "reason", right=("violations",))]
    for entry in entries:
        about = entry.acceptance
        until = "" if about.until is None else about.until.isoformat()
        said = " (expired: they count again)" if entry.expired else " (none is left)" if not entry.violations else ""
        said = " (the rule says something else now: they count again)" if entry.changed else said
        table.append(
            [
                Cell(shorten(printable(about.rule), NAME_WIDTH)),
                Cell(f"{entry.violations:,}", right=True),
                Cell(until),
                Cell(shorten(printable(about.reason), NAME_WIDTH) + said, "note" if said else "plain"),
            ]
        )
    yield from aligned(table, ink)


def summary_line(results: Sequence[RuleResult], rows: Any) -> str:
    """One line: rows, rules and violations."""
    read = " and ".join(f"{plural(count, 'row')} of {printable(name)}" for name, count in rows.items())
    broken = sum(result.status == "violated" for result in results)
    total, new = sum(result.counts.open for result in results), sum(result.new for result in results)
    if total == 0:
        return f"{read}: {plural(len(results), 'rule')}, no violations\n"
    known = "" if new == total else f", {total - new:,} of them accepted"
    return f"{read}: {plural(len(results), 'rule')}, {broken:,} violated, {plural(total, 'violation')}{known}\n"


def rule_table(results: Iterable[RuleResult], ink: Ink) -> Iterator[str]:
    """A line for each rule: mark, name, violations, rows and groups."""
    table = [heads("", "rule", "violations", "rows", "groups", "", right=("violations", "rows", "groups"))]
    for result in results:
        mark, tone, said = mark_of(result)
        counts = result.counts
        groups = f"{counts.groups:,}" if counts.groups or result.rule.kind in ("key", "fd", "cfd") else ""
        table.append(
            [
                Cell(mark, tone),
                Cell(shorten(printable(result.rule.name), NAME_WIDTH), tone if counts.open else "plain"),
                Cell(f"{counts.open:,}", right=True),
                Cell(f"{counts.rows:,}" if result.measured is None else "", right=True),
                Cell(groups, right=True),
                Cell(_told(said, result.measured), "faint"),
            ]
        )
    yield from aligned(table, ink)


def _told(said: str, measured: str | None) -> str:
    """The last cell of a rule's line: a word about its status, and what was measured."""
    return ": ".join(part for part in (said, shorten(printable(measured or ""), MEASURED_WIDTH)) if part)


def result_words(result: RuleResult) -> str:
    """How many violations of how many rows there are; of a rule about a whole table what was measured."""
    if result.measured is not None:
        return printable(result.measured)
    return f"{plural(result.counts.open, 'violation')}, {plural(result.counts.rows, 'row')}"


def mark_of(result: RuleResult) -> tuple[str, Tone, str]:
    """The mark and tone of a rule's status, and the word that goes with it where the mark is not enough."""
    if result.status == "ok":
        return "✓", "good", ""
    if result.status == "tolerated":
        return "~", "note", "tolerated"
    if result.status == "accepted":
        return "~", "note", "accepted"
    return ("!", "note", "warning") if result.rule.severity == "warn" else ("✗", "bad", "")


def open_text(listing: OpenViolations, style: Style) -> Iterator[str]:
    """The violations that are open now."""
    yield from moment_line(listing.moment)
    if listing.report is None:
        yield "no data yet, no violations\n"
    else:
        yield from report_text(listing.report, style, listing.rule)


def overview_text(overview: Overview, style: Style) -> Iterator[str]:
    """How each rule stands, and the first violations of each."""
    if overview.report is not None or overview.discovered is None:
        yield from open_text(OpenViolations(overview.report, {}, moment=overview.moment), style)
    if overview.discovered is not None:
        yield from _discovered_lines(overview.discovered, style.ink)
    for table, found in (overview.suspects or {}).items():
        yield f"\nsuspects of {printable(table)}\n"
        yield from suspects_text(found, style)


def _discovered_lines(found: Mapping[str, Any], ink: Ink) -> Iterator[str]:
    """Rules that nearly hold and rules that hold."""
    yield f"\n{plural(found['of_rules'], 'rule')} discovered, {found['of_near']:,} nearly true\n\n"
    near = [heads("nearly true", "exceptions", "by", right=("exceptions",))]
    for miss in found["near"]:
        by = shorten(printable(", ".join(miss["by"])), NAME_WIDTH)
        near.append(
            [Cell(shorten(printable(miss["rule"]), NAME_WIDTH)), Cell(f"{miss['violations']:,}", right=True), Cell(by)]
        )
    yield from aligned(near, ink) if found["near"] else ()
    yield "\n" if found["near"] else ""
    rules = [heads("score", "rule", right=("score",))]
    for rule in found["rules"]:
        rules.append([Cell(f"{rule['score']:.2f}", right=True), Cell(shorten(printable(rule["rule"]), NAME_WIDTH))])
    yield from aligned(rules, ink)


def groups_text(groups: Groups, style: Style) -> Iterator[str]:
    """Violating groups, rule by rule."""
    yield from moment_line(groups.moment)
    ink = style.ink
    rule, shown = None, 0
    for group in groups:
        if group.rule != rule:
            rule = group.rule
            yield f"{'' if shown == 0 else chr(10)}  {ink.paint('bad', printable(rule))}\n"
        yield from group_lines(group, ink)
        shown += 1
    if shown == 0 and groups.total == 0:
        yield "no violating groups\n"
    yield from more_line(groups.total - shown, ink, "group")


def worst_text(worst: Worst, style: Style) -> Iterator[str]:
    """The rows in most violations, with the rules they break."""
    yield from moment_line(worst.moment)
    if not worst.offenders:
        yield "no row is in a violation\n"
        return
    table = [heads("row", "violations", "by rule", right=("violations",))]
    for offender in worst:
        rules = ", ".join(f"{shorten(printable(rule))} {count:,}" for rule, count in offender.by_rule.items())
        table.append([Cell(shorten(key_word(offender.key))), Cell(f"{offender.total:,}", right=True), Cell(rules)])
    yield from aligned(table, style.ink)


def status_text(status: Status, style: Style) -> Iterator[str]:
    """How a state directory stands."""
    ink = style.ink
    last = f", the last is {printable(status.last_batch)}" if status.last_batch and status.batches else ""
    yield (
        f"{printable(status.path)}: {plural(status.batches, 'batch')}{last}; "
        f"{status.moment or f'version {status.version}'}, index {status.index}\n"
    )
    yield summary_line(status.results, status.rows)
    yield "\n"
    yield from rule_table(status.results, ink)
    if status.history is not None:
        yield "\n"
        yield from history_lines(status.history, ink)


def moment_line(moment: Moment | None) -> Iterator[str]:
    """Which earlier version an answer is of, where one was asked for."""
    if moment is not None:
        yield f"{moment}\n"


def explanation_text(explanation: Explanation, _: Style) -> Iterator[str]:
    """How rules are checked."""
    yield explanation.text + "\n"


def history_lines(history: Sequence[Batched], ink: Ink) -> Iterator[str]:
    """A line for each batch and rule."""
    if not history:
        yield "no batch was applied yet\n"
        return
    table = [heads("batch", "time", "rule", "new", "resolved", "open", right=("new", "resolved", "open"))]
    for line in history:
        table.append(
            [
                Cell(shorten(printable(line.batch))),
                Cell(line.time),
                Cell(shorten(printable(line.rule))),
                Cell(f"+{line.added:,}", right=True),
                Cell(f"-{line.removed:,}", right=True),
                Cell(f"{line.open:,}", right=True),
            ]
        )
    yield from aligned(table, ink)
