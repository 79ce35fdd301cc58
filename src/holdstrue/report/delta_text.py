"""What a batch added and removed, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdstrue.detect.delta import Delta, Violation
from holdstrue.report.layout import Cell, Ink, Tone, aligned, heads
from holdstrue.report.lookup import Lookup
from holdstrue.report.rule_text import DENIAL, EXAMPLES, Example, example_lines, more_line
from holdstrue.report.words import key_word, plural, printable, shorten
from holdstrue.rules.model import DC, Rule

NAME_WIDTH = 72


def delta_text(
    delta: Delta, *, limit: int | None = None, ink: Ink | None = None, lookup: Lookup | None = None
) -> Iterator[str]:
    """What a batch did, rule by rule; `lookup`, in the state after it, lets the new violations show their rows."""
    ink = ink or Ink()
    steps = delta.counts
    added, removed = (sum(getattr(step, side) for step in steps.values()) for side in ("added", "removed"))
    standing = sum(step.open for step in steps.values())
    batch = printable(delta.batch)
    if delta.duplicate:
        yield f"batch {batch} was applied before, nothing was done; {standing:,} open\n"
        return
    yield f"batch {batch}: +{added:,} new, -{removed:,} resolved, {standing:,} open\n"
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
    most = EXAMPLES if limit is None else limit
    told = False
    for name, step in steps.items():
        rule = rules.get(name)
        if most == 0 or not (step.added or step.removed):
            continue
        if step.added:
            yield f"\n  {ink.paint('bad', f'+ {printable(name)}')}: {plural(step.added, 'new violation')}\n"
            if rule is not None and isinstance(rule.body, DC) and not told:
                told = True
                yield f"    {ink.paint('faint', f'({DENIAL})')}\n"
            yield from _listed(_of(delta.added, name), step.added, most, ink, rule, lookup)
        if step.removed:
            yield f"\n  {ink.paint('good', f'- {printable(name)}')}: {plural(step.removed, 'resolved violation')}\n"
            names = () if rule is None or lookup is None else lookup.key_columns(rule)
            gone = _of(delta.removed, name)
            yield from _keys(gone[:most], names, ink)
            yield from more_line(step.removed - len(gone[:most]), ink)


def _of(violations: Sequence[Violation], rule: str) -> list[Violation]:
    return [violation for violation in violations if violation.rule == rule]


def _listed(
    violations: list[Violation], total: int, most: int, ink: Ink, rule: Rule | None, lookup: Lookup | None
) -> Iterator[str]:
    """Violations with their rows where these can be looked up, else with their keys."""
    shown = violations[:most]
    examples = [] if rule is None or lookup is None else _examples(lookup, rule, shown)
    if rule is not None and lookup is not None:
        yield from example_lines(rule, examples, lookup.key_columns(rule), ink)
    found = {id(violation) for violation, _ in examples}
    names = () if rule is None or lookup is None else lookup.key_columns(rule)
    yield from _keys([violation for violation in shown if id(violation) not in found], names, ink)
    yield from more_line(total - len(shown), ink)


def _examples(lookup: Lookup, rule: Rule, violations: Sequence[Violation]) -> list[Example]:
    keys = [key for v in violations for key in ((v.t, v.s) if v.pair else (v.t,))]
    rows = iter(lookup.rows_of(rule, keys))
    examples: list[Example] = []
    for violation in violations:
        own = [next(rows) for _ in range(2 if violation.pair else 1)]
        known = [row for row in own if row is not None]
        if len(known) == len(own):
            examples.append((violation, known))
    return examples


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
