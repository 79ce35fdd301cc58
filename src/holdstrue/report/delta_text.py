"""What a batch added and removed, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from holdstrue.detect.delta import Delta, Violation
from holdstrue.monitor.report import Report
from holdstrue.report.answers import BatchLine
from holdstrue.report.lookup import Lookup, ReportLookup
from holdstrue.report.typeset import Cell, Ink, Style, Tone, aligned, heads, key_word, plural, printable, shorten
from holdstrue.report.violation_text import DENIAL, EXAMPLES, Example, example_lines, more_line
from holdstrue.rules.model import DC, Rule

NAME_WIDTH = 72


def delta_text(delta: Delta, style: Style) -> Iterator[str]:
    """What a batch did, rule by rule; where the style finds the rows after it, new violations show theirs."""
    ink = style.ink
    lookup = ReportLookup(style.rows) if isinstance(style.rows, Report) else style.rows
    steps = delta.counts
    sides = ("added", "removed", "open")
    added, removed, still = (sum(getattr(step, side) for step in steps.values()) for side in sides)
    batch = printable(delta.batch)
    if delta.duplicate:
        yield f"batch {batch} was applied before, nothing was done; {still:,} open\n"
        return
    if delta.changed is not None and not any(delta.changed.values()):
        yield f"nothing differs from the rows there are; {still:,} open\n"
        return
    if delta.changed is not None:
        yield f"rows: {changed_text(delta.changed)}\n"
    yield f"batch {batch}: +{added:,} new, -{removed:,} resolved, {still:,} open\n"
    table = [heads("rule", "new", "resolved", "open", right=("new", "resolved", "open"))]
    for name, step in steps.items():
        table.append(
            [
                Cell(shorten(printable(name), NAME_WIDTH), "bad" if step.added else "plain"),
                Cell(f"+{step.added:,}", right=True),
                Cell(f"-{step.removed:,}", right=True),
                Cell(f"{step.open:,}", right=True),
            ]
        )
    yield "\n"
    yield from aligned(table, ink)
    rules = {} if lookup is None else {rule.name: rule for rule in lookup.rules}
    most = EXAMPLES if style.limit is None else style.limit
    told = False
    for name, step in steps.items():
        rule = rules.get(name)
        if most == 0 or not (step.added or step.removed):
            continue
        if name in delta.measured:
            tone: Tone = "bad" if step.added else "good"
            sign = "+" if step.added else "-"
            yield f"\n  {ink.paint(tone, f'{sign} {printable(name)}')}: {printable(delta.measured[name])}\n"
            continue
        if step.added:
            yield f"\n  {ink.paint('bad', f'+ {printable(name)}')}: {plural(step.added, 'new violation')}\n"
            if rule is not None and isinstance(rule.body, DC) and not told:
                told = True
                yield f"    {ink.paint('faint', f'({DENIAL})')}\n"
            yield from _listed([v for v in delta.added if v.rule == name], step.added, most, ink, rule, lookup)
        if step.removed:
            yield f"\n  {ink.paint('good', f'- {printable(name)}')}: {plural(step.removed, 'resolved violation')}\n"
            names = () if rule is None or lookup is None else lookup.key_columns(rule)
            gone = [v for v in delta.removed if v.rule == name][:most]
            yield from _keys(gone, names, ink)
            yield from more_line(step.removed - len(gone), ink)


def changed_text(changed: Mapping[str, int]) -> str:
    """How many rows a snapshot changed.

    >>> changed_text({"insert": 1200, "update": 0, "delete": 1})
    '1,200 inserted, 0 updated, 1 deleted'
    """
    return ", ".join(f"{count:,} {name}{'d' if name.endswith('e') else 'ed'}" for name, count in changed.items())


def batch_text(line: BatchLine, _: Style) -> Iterator[str]:
    """What a batch of a stream did, in one line that begins with the local time."""
    label = printable(", ".join(line.files) or line.delta.batch)
    time = line.time.astimezone().replace(tzinfo=None).isoformat(timespec="seconds")
    yield f"{time} {line_of(replace(line.delta, batch=label))}\n"


def line_of(delta: Delta) -> str:
    """A batch in one line; it ends with the rules that held so far.

    >>> from holdstrue.detect.delta import Step
    >>> line_of(Delta("7", (), (), {"a": Step(2, 1, 14)}))
    '7: +2 new, -1 resolved, 14 open'
    >>> line_of(Delta("8", (), (), {"zip -> city": Step(2, 0, 2)}))
    "8: +2 new, -0 resolved, 2 open; no longer holds: 'zip -> city'"
    """
    added, removed, still = (
        sum(getattr(step, side) for step in delta.counts.values()) for side in ("added", "removed", "open")
    )
    stopped = ", ".join(repr(rule) for rule in delta.stopped_holding)
    ended = f"; no longer holds: {stopped}" if stopped else ""
    return f"{delta.batch}: +{added:,} new, -{removed:,} resolved, {still:,} open{ended}"


def _listed(
    violations: list[Violation], total: int, most: int, ink: Ink, rule: Rule | None, lookup: Lookup | None
) -> Iterator[str]:
    """Violations with their rows where these can be looked up, else with their keys."""
    shown = violations[:most]
    unseen = shown
    names: tuple[str, ...] = ()
    if rule is not None and lookup is not None:
        rows = iter(lookup.rows_of(rule, [key for v in shown for key in ((v.t, v.s) if v.pair else (v.t,))]))
        examples: list[Example] = []
        unseen, names = [], lookup.key_columns(rule)
        for violation in shown:
            own = [next(rows) for _ in range(2 if violation.pair else 1)]
            known = [row for row in own if row is not None]
            if len(known) == len(own):
                examples.append((violation, known))
            else:
                unseen.append(violation)
        yield from example_lines(rule, examples, names, ink)
    yield from _keys(unseen, names, ink)
    yield from more_line(total - len(shown), ink)


def _keys(violations: Sequence[Violation], names: Sequence[str], ink: Ink) -> Iterator[str]:
    """Violations by key, a line each: single rows under the names of their key, pairs under t and s."""
    if not violations:
        return
    tone: Tone = "faint"
    if any(v.pair for v in violations):
        head = [Cell("t", tone), Cell("s", tone)]
    else:
        own = ", ".join(map(printable, names)) or "t"
        head = [Cell(f"({own})" if len(names) > 1 else own, tone)]
    rows = [[Cell(shorten(key_word(key))) for key in ((v.t, v.s) if v.pair else (v.t,))] for v in violations]
    yield from aligned([head, *rows], ink, "    ")
