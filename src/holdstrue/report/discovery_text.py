"""Discovered rules and what a batch did to them, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from holdstrue.discovery.discovery import Discovery
from holdstrue.discovery.found import Died, FoundRule, NearMiss, RuleChanges
from holdstrue.report.answer_text import moment_line
from holdstrue.report.typeset import Cell, Ink, Style, aligned, heads, key_word, plural, printable, shorten, word
from holdstrue.rules.file import dump_first_rules
from holdstrue.rules.model import Inclusion

TOP = 20
"""Rules that text shows unless told otherwise: a window full."""
MISSES = 10
"""Near misses that text shows."""
EXAMPLES = 5
KIND_WORDS = {"column": "column rule"}
"""What kinds are called where they are counted, if not by their names."""
RULE_WIDTH = 100
STOPPED = "there may be more: --budget, --max-predicates, --columns"


def discovery_data(found: Discovery, style: Style) -> dict[str, Any]:
    """The rules and the near misses as plain JSON data."""
    misses = found.near_misses()
    near = [miss.to_dict() for miss in misses]
    return found.to_dict(style.limit) | {"near_misses": near, "near_misses_not_looked_for": list(misses.unlooked)}


def rule_file(found: Discovery, style: Style) -> Iterator[str]:
    """The rules that no others imply, as `check` and `init` read them."""
    rules = found.ruleset(style.limit, nearly=True)
    text, kept = dump_first_rules(rules)
    if kept < len(rules):
        yield f"# the first {kept:,} of {len(rules):,} rules, the best: a rule file has no room for more (--top N)\n"
    yield text


def discovery_text(found: Discovery, style: Style) -> Iterator[str]:
    """The rules, best first, each with its words; then the near misses."""
    ink, misses = style.ink, found.near_misses()
    counts = ", ".join(f"{printable(name)} {plural(n, 'row')}" for name, n in found.counts().items())
    rules = found.best
    kinds = (
        ", ".join(plural(n, KIND_WORDS.get(kind, kind)) for kind, n in Counter(rule.kind for rule in rules).items())
        or "no rules"
    )
    broken = sum(bool(rule.measures.get("error")) for rule in rules)
    kinds += f", of which {broken:,} nearly hold" if broken else ""
    implied = sum(rule.implied for rule in found.rules)
    kinds += f" (and {implied:,} that these imply)" if implied else ""
    partly = "" if found.complete else f" ({_up_to(found)}; {STOPPED})"
    yield from moment_line(found.moment)
    yield f"{counts}: {kinds}{partly}\n"
    most = TOP if style.limit is None else style.limit
    if rules:
        yield "\n"
        errors = ("broken",) if broken else ()
        table = [heads("score", *errors, "kind", "rule", right=("score", "broken"))]
        for rule in rules[:most]:
            share = [Cell(_share(rule.measures.get("error", 0.0)), right=True)] if broken else []
            score = Cell(f"{rule.score:.2f}", right=True)
            table.append([score, *share, Cell(rule.kind), Cell(_said(rule, ink), "strong")])
            words = Cell(_cut(rule.body.words, ink), "faint")
            table.append([Cell(""), *(Cell("") for _ in share), Cell(""), words])
        yield from aligned(table, ink)
        left = len(rules) - most
        if left > 0:
            yield f"  {ink.paint('faint', f'… {left:,} more (--top to see more)')}\n"
    if misses:
        yield f"\n{ink.paint('strong', 'nearly true')}: rules that a few rows break, which may be errors in the data\n"
        for miss in misses[:MISSES]:
            yield from miss_lines(miss, ink)
        if len(misses) > MISSES:
            yield f"  {ink.paint('faint', f'… {len(misses) - MISSES:,} more')}\n"
    if misses.unlooked:
        yield f"\n{ink.paint('faint', 'nearly true rules that were not looked for:')}\n"
    for what in misses.unlooked:
        yield f"  {ink.paint('faint', printable(what))}\n"


def _up_to(found: Discovery) -> str:
    """What a search that was stopped is complete in."""
    said = [f"{what} up to {k} {counted}" for what, (k, counted) in found.complete_up_to.items()]
    return f"stopped for want of time or room, complete: {', '.join(said)}"


def miss_lines(miss: NearMiss, ink: Ink) -> Iterator[str]:
    """A near miss and who breaks it."""
    where = f"{printable(miss.table)}: " if miss.table and not isinstance(miss.body, Inclusion) else ""
    yield f"  {where}{ink.paint('note', _cut(miss.text, ink))}\n"
    if isinstance(miss.body, Inclusion):
        missing = int(miss.measures.get("missing", len(miss.values)))
        shown = ", ".join(shorten(word(value)) for value in miss.values[:EXAMPLES])
        more = ", …" if missing > EXAMPLES else ""
        rows = f"{plural(miss.violations, 'row')} ({100 * miss.error:.2g}%)"
        yield f"    {plural(missing, 'value')} in {rows} not found: {shown}{more}\n"
        return
    noun = "pair" if miss.rows and len(miss.rows[0]) == 2 else "row"
    shown = ", ".join("-".join(shorten(key_word(key)) for key in row) for row in miss.rows[:EXAMPLES])
    yield f"    broken by {plural(miss.violations, noun)}: {shown}{', …' if miss.violations > EXAMPLES else ''}\n"


def rule_changes_text(changes: RuleChanges, style: Style) -> Iterator[str]:
    """What a batch did to the rules."""
    ink = style.ink
    batch = printable(changes.batch)
    if changes.duplicate:
        yield f"batch {batch} was applied before, nothing was done; {plural(changes.rules, 'rule')}\n"
        return
    died = f"-{len(changes.died):,} died{_folded(changes.died_from)}"
    born = f"+{len(changes.born):,} born{_folded(changes.born_from)}"
    yield f"batch {batch}: {died}, {born}, {plural(changes.rules, 'rule')}\n"
    for at, one in enumerate(changes.died):
        if not changes.died_from[at]:
            yield f"  {ink.paint('bad', '- ' + _said(one, ink))}{_witness(one)}\n"
            yield from _followers(at, changes.died, changes.died_from, ink)
    for at, found in enumerate(changes.born):
        if not changes.born_from[at]:
            yield f"  {ink.paint('good', '+ ' + _said(found, ink))}\n"
            yield from _followers(at, changes.born, changes.born_from, ink)
    for line in changes.how.splitlines():
        yield f"  {ink.paint('faint', line)}\n"


def _folded(impliers: Sequence[tuple[int, ...]]) -> str:
    """How many rules follow from how many others of the batch."""
    count, roots = sum(map(bool, impliers)), len({others[0] for others in impliers if others})
    return f" ({count:,} {'follows' if count == 1 else 'follow'} from {roots:,} of them)" if count else ""


def _followers(
    at: int, rules: Sequence[Died | FoundRule], impliers: Sequence[tuple[int, ...]], ink: Ink
) -> Iterator[str]:
    """The rules that are told under one that implies them (the first, of several that do so together)."""
    under = [other for other, others in enumerate(impliers) if others and others[0] == at]
    if under:
        alone = all(len(impliers[other]) == 1 for other in under)
        source = "it" if alone else "it, or from it and others"
        shown = "; ".join(_cut(rules[other].text, ink) for other in under[:EXAMPLES])
        more = "; …" if len(under) > EXAMPLES else ""
        said = f"and {len(under):,} that {'follows' if len(under) == 1 else 'follow'} from {source}: {shown}{more}"
        yield f"      {ink.paint('faint', said)}\n"


def _witness(one: Died) -> str:
    if one.values:
        named = f"{'value' if one.missing == 1 else 'values'} {_some(one.values, one.missing)}"
        return f": broken by {named} in {'row' if len(one.rows) == 1 else 'rows'} {_some(one.rows)}"
    if not one.rows:
        return f": {one.why}"
    return f": broken by {'row' if len(one.rows) == 1 else 'rows'} {', '.join(key_word(key) for key in one.rows)}"


def _some(values: Sequence[Any], count: int | None = None) -> str:
    """The first few of some values, or keys, of which there are so many."""
    shown = ", ".join(shorten(key_word(value)) for value in values[:EXAMPLES])
    return f"{shown}, …" if (len(values) if count is None else count) > EXAMPLES else shown


def _said(found: FoundRule | Died, ink: Ink) -> str:
    where = f"{printable(found.table)}: " if found.table and not isinstance(found.body, Inclusion) else ""
    return where + _cut(found.text, ink)


def _cut(text: str, ink: Ink) -> str:
    """Long rules are cut on a terminal, and nowhere else."""
    return shorten(printable(text), RULE_WIDTH) if ink.color else printable(text)


def _share(error: float) -> str:
    return f"{100 * error:.2g}%" if error else ""
