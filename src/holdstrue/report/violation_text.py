"""The violations of one rule as text: groups as lines, pairs as two rows with what differs marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len

from holdstrue.detect.delta import RuleResult, Violation
from holdstrue.monitor.report import Findings, Report
from holdstrue.report.lookup import ConflictingGroup, groups_of
from holdstrue.report.typeset import Cell, Ink, aligned, key_word, plural, printable, shorten, shorten_together, word
from holdstrue.rules.model import Rule

EXAMPLES = 5
"""Violations a rule shows in text unless a limit is given."""
SIDES = 5
"""Right sides of a group, and keys of each, that are shown."""
DIFFERS = "^"
"""Stands under values that differ, as compilers mark a place; a sign before them would be read as a part of them."""
DENIAL = "a denial constraint lists what must never hold together"

Example = tuple[Violation, Sequence[Mapping[str, Any]]]


def rule_lines(report: Findings, result: RuleResult, limit: int | None, ink: Ink) -> Iterator[str]:
    """The first violations of a rule, and how many more there are."""
    limit = EXAMPLES if limit is None else limit
    if limit == 0 or result.measured is not None:  # no row breaks a rule about a whole table
        return
    counts, known = result.counts, bool(result.accepted)
    # where the rows are spread over many machines, pairs are at hand but not their groups
    if not counts.groups or not isinstance(report, Report):
        examples = report.examples(result, limit)
        yield from example_lines(result.rule, examples, report.key_columns(result.rule), ink)
        yield from more_line(result.new - len(examples), ink)
        return
    # how many groups are accepted is not counted, so that one more is looked for
    groups = list(groups_of(report, result, limit=limit + known, keys=SIDES))
    for group in groups[:limit]:
        yield from group_lines(group, ink)
    if known and len(groups) > limit:
        yield f"    {ink.paint('faint', '… more groups (--limit to see more)')}\n"
    elif not known:
        yield from more_line(counts.groups - len(groups), ink, "group")
    single = counts.open - counts.pairs
    if single:
        # a CFD whose pattern fixes a right side is broken by single rows too; these come first
        examples = [example for example in report.examples(result, limit) if len(example[1]) == 1]
        yield from example_lines(result.rule, examples, report.key_columns(result.rule), ink)
        if not known:
            yield from more_line(single - len(examples), ink)


def group_lines(group: ConflictingGroup, ink: Ink) -> Iterator[str]:
    """A group: its left side, then each right side with its number of rows and first keys."""
    left = ", ".join(f"{printable(name)} {shorten(word(value))}" for name, value in group.values.items())
    if len(group.sides) == 1:
        side = group.sides[0]
        yield f"    {ink.paint('strong', left)}: {plural(side.rows, 'row')}: {_keys(side.keys, side.rows)}\n"
        return
    yield f"    {ink.paint('strong', left)}: {plural(group.rows, 'row')}, {len(group.sides):,} different\n"
    sides = group.sides[:SIDES]
    columns = [
        [
            Cell(f"{printable(name)} {text}", "mark")
            for text in shorten_together([word(side.values[name]) for side in sides])
        ]
        for name in sides[0].values
    ]
    rows = [
        [*values, Cell(f"{plural(side.rows, 'row')}: {_keys(side.keys, side.rows)}")]
        for side, *values in zip(sides, *columns, strict=True)
    ]
    yield from aligned(rows, ink, "      ")
    if len(group.sides) > SIDES:
        yield f"      {ink.paint('faint', f'… {len(group.sides) - SIDES:,} more')}\n"


def example_lines(rule: Rule, examples: Sequence[Example], keys: Sequence[str], ink: Ink) -> Iterator[str]:
    """Violations as a table of their rows; the rows of a pair are t and s."""
    # a CFD has violations of one row and of two: each has its own table
    for pairs in (False, True):
        own = [example for example in examples if example[0].pair == pairs]
        if not own:
            continue
        names = list(own[0][1][0])
        # rows are numbered where there is no key, and the number is not among their values
        numbered = not keys
        head = [*([""] if pairs else []), *(["row"] if numbered else []), *map(printable, names)]
        table: list[list[Cell]] = [[Cell(shorten(name), "faint") for name in head]]
        for violation, rows in own:
            if pairs and len(table) > 1:
                table.append([])
            words = _marked(rule, names, rows) if pairs else [[Cell(shorten(word(rows[0][name]))) for name in names]]
            for label, key, row in zip(("t", "s", ""), (violation.t, violation.s, ""), words, strict=False):
                number = [Cell(shorten(key_word(key)) if label or not pairs else "")] if numbered else []
                table.append([*([Cell(label, "faint")] if pairs else []), *number, *row])
        yield from aligned(table, ink, "    ")


def more_line(count: int, ink: Ink, noun: str = "") -> Iterator[str]:
    """How many violations a list leaves out."""
    if count > 0:
        said = plural(count, f"more {noun}") if noun else f"{count:,} more"
        yield f"    {ink.paint('faint', f'… {said} (--limit to see more)')}\n"


def _marked(rule: Rule, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[list[Cell]]:
    """The two rows of a pair, and a line of marks under what differs where the rule compares a column with itself."""
    compared = rule.body.compared
    lines: list[list[Cell]] = [[], [], []]
    for name in names:
        words = [word(row[name]) for row in rows]
        differ = name in compared and rows[0][name] != rows[1][name]
        words = shorten_together(words) if differ else [shorten(text) for text in words]
        for line, text in zip(lines, words, strict=False):
            line.append(Cell(text, "mark" if differ else "plain"))
        lines[2].append(Cell(DIFFERS * max(map(cell_len, words)) if differ else "", "mark"))
    return lines if any(cell.text for cell in lines[2]) else lines[:2]


def _keys(keys: Sequence[Any], rows: int) -> str:
    shown = ", ".join(shorten(key_word(key)) for key in keys[:SIDES])
    return f"{shown}, …" if rows > min(len(keys), SIDES) else shown
