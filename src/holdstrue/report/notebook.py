"""Answers as small self-contained pieces of HTML, for notebooks: a glance; the rest is asked for in Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any

from holdstrue.detect.delta import Delta, RuleResult, Violation
from holdstrue.discovery.discovery import Discovery
from holdstrue.discovery.found import NearMisses, RuleChanges
from holdstrue.discovery.suspects.answer import Suspects
from holdstrue.monitor.monitor import Monitor
from holdstrue.monitor.report import Findings, Report
from holdstrue.monitor.sharded import Sharded
from holdstrue.report.lookup import ConflictingGroup, groups_of
from holdstrue.report.typeset import key_word, plural, shorten, word
from holdstrue.tabular import Tabular

SHOWN = 10
"""Lines of a list that a notebook shows."""
RULES_SHOWN, EXAMPLES = 5, 3
"""Violated rules whose rows are shown, and violations or groups of each."""

_STYLE = (
    "<style>.holdstrue table{border-collapse:collapse;font-size:90%;margin:0.3em 0}"
    ".holdstrue td,.holdstrue th{padding:0.15em 0.8em;text-align:left;border-bottom:1px solid #8884}"
    ".holdstrue mark{background:#f9a82566;color:inherit}</style>"
)
_COLORS = {"ok": "#2e7d32", "tolerated": "#b26a00", "accepted": "#b26a00", "violated": "#c62828"}


def html_of(answer: Tabular) -> str:
    """An answer as HTML; every name and value is escaped.

    Examples
    --------
    >>> import holdstrue, pyarrow as pa
    >>> html_of(holdstrue.check(pa.table({"a": [1, 1]}), "key(a)")).startswith("<div")
    True
    """
    match answer:
        case Findings():
            return _findings(answer)
        case Monitor():
            return _monitor(answer)
        case Delta():
            return _delta(answer)
        case Discovery():
            return _discovery(answer)
        case NearMisses():
            return _near(answer)
        case RuleChanges():
            return _changes(answer)
        case Suspects():
            return _suspects(answer)
    raise TypeError(f"{type(answer).__name__} has no page")


def _findings(report: Findings) -> str:
    """The rules with their counts, then the first violations of each with their values."""
    tables = _rules(report.results)
    broken = [result for result in report.results if result.new]
    for result in broken[:RULES_SHOWN]:
        tables += f"<p><strong>{escape(shorten(result.rule.name, 80))}</strong></p>"
        if result.measured is not None:  # no row breaks a rule about a whole table
            tables += f"<p>{escape(result.measured)}</p>"
            continue
        grouped = bool(result.counts.groups) and isinstance(report, Report)
        if grouped and isinstance(report, Report):
            groups = list(groups_of(report, result, limit=EXAMPLES, keys=EXAMPLES))
            tables += _table(("group", "rows"), "".join(map(_group, groups)))
            tables += _more(0 if result.accepted else result.counts.groups - len(groups), "group")
        # a CFD whose pattern fixes a right side is broken by single rows too
        wanted = EXAMPLES if not grouped or result.counts.open > result.counts.pairs else 0
        examples = [e for e in report.examples(result, wanted) if not (grouped and e[0].pair)] if wanted else []
        if examples:
            tables += _examples(report, result, examples)
            tables += _more(0 if grouped else result.new - len(examples), "violation")
    return _page(report.rows, plural(report.total, "violation"), tables, len(broken) - RULES_SHOWN, "violated rule")


def _rules(results: Iterable[RuleResult]) -> str:
    rows = "".join(
        _row(
            [
                f'<span style="color:{_COLORS.get(result.status, "inherit")}">{escape(result.status)}</span>',
                escape(shorten(result.rule.name, 80)),
                *(f"{count:,}" for count in (result.counts.open, result.counts.rows, result.counts.groups)),
            ]
        )
        for result in results
    )
    return _table(("status", "rule", "violations", "rows", "groups"), rows)


def _group(group: ConflictingGroup) -> str:
    """A group: what its rows agree on, and each right side with its rows."""
    left = ", ".join(f"{name} {shorten(word(value))}" for name, value in group.values.items())
    sides = []
    for side in group.sides[:EXAMPLES]:
        values = ", ".join(f"{name} {shorten(word(value))}" for name, value in side.values.items())
        keys = ", ".join(map(key_word, side.keys)) + ("…" if side.rows > len(side.keys) else "")
        said = f"<mark>{escape(values)}</mark>: " if values else ""
        sides.append(f"{said}{plural(side.rows, 'row')} ({escape(shorten(keys, 80))})")
    more = [f"… {len(group.sides) - EXAMPLES:,} more"] if len(group.sides) > EXAMPLES else []
    return _row([escape(left), "<br/>".join((*sides, *more))])


def _examples(report: Findings, result: RuleResult, examples: Sequence[tuple[Violation, Any]]) -> str:
    """The rows of violations; cells in which the rows of a pair differ are marked."""
    names = list(examples[0][1][0]) if examples[0][1] else []
    numbered = not report.key_columns(result.rule)
    compared = result.rule.body.compared
    lines = []
    for violation, rows in examples:
        differ = {name for name in compared if len(rows) == 2 and rows[0].get(name) != rows[1].get(name)}
        for label, key, row in zip(("t", "s"), (violation.t, violation.s), rows, strict=False):
            cells = [escape(shorten(word(row.get(name)))) for name in names]
            marked = (
                f"<mark>{cell}</mark>" if name in differ else cell for name, cell in zip(names, cells, strict=True)
            )
            number = [escape(key_word(key))] if numbered else []
            lines.append(_row([label if violation.pair else "", *number, *marked]))
    return _table(("", *(["row"] if numbered else []), *map(escape, names)), "".join(lines))


def _monitor(monitor: Monitor) -> str:
    """How a monitor stands; of one in shards the counts, which cost no job."""
    if isinstance(monitor, Sharded) or not any(monitor.rows.values()):
        rules = "".join(
            _row([escape(shorten(name, 80)), *(f"{count:,}" for count in (c.open, c.rows, c.groups))])
            for name, c in monitor.counts().items()
        )
        said = plural(sum(c.open for c in monitor.counts().values()), "violation")
        return _page(monitor.rows, said, _table(("rule", "violations", "rows", "groups"), rules))
    return _findings(monitor.report(limit=0))


def _delta(delta: Delta) -> str:
    """What a batch did to each rule, then the first violations that came and that went."""
    steps = delta.counts.values()
    rules = "".join(
        _row([escape(shorten(name, 80)), f"+{step.added:,}", f"-{step.removed:,}", f"{step.open:,}"])
        for name, step in delta.counts.items()
    )
    listed = "".join(
        _row(
            [
                sign,
                escape(shorten(v.rule, 80)),
                escape(delta.measured.get(v.rule) or shorten(key_word(v.t))),
                _second(v),
            ]
        )
        for sign, violations in (("+", delta.added), ("-", delta.removed))
        for v in violations[:SHOWN]
    )
    added, removed = sum(step.added for step in steps), sum(step.removed for step in steps)
    said = "applied before, nothing was done" if delta.duplicate else f"+{added:,} new, -{removed:,} resolved"
    tables = _table(("rule", "new", "resolved", "open"), rules)
    tables += _table(("", "rule", "t", "s"), listed) if listed else ""
    shown = min(len(delta.added), SHOWN) + min(len(delta.removed), SHOWN)
    return _framed(f"batch {escape(delta.batch)}: {said}", tables, added + removed - shown, "violation")


def _second(violation: Violation) -> str:
    return escape(shorten(key_word(violation.s))) if violation.pair else ""


def _discovery(found: Discovery) -> str:
    """The best rules of a discovery with their scores and words."""
    telling = found.telling
    rules = "".join(
        _row([f"{rule.score:.2f}", *_said(rule.kind, rule.table, rule.text), escape(shorten(rule.body.words, 120))])
        for rule in telling[:SHOWN]
    )
    said = plural(len(telling), "rule") + ("" if found.complete else ", stopped before the end")
    return _page(
        found.counts(), said, _table(("score", "kind", "rule", "in words"), rules), len(telling) - SHOWN, "rule"
    )


def _suspects(found: Suspects) -> str:
    """Cells that are probably wrong."""
    cells = "".join(
        _row(
            [
                f"{suspect.confidence:.2f}",
                escape(key_word(suspect.key)),
                escape(suspect.column),
                escape(shorten(word(suspect.value))),
                "?" if suspect.proposed is None else escape(shorten(word(suspect.proposed))),
                escape(shorten(", ".join(suspect.why), 120)),
            ]
        )
        for suspect in found[:SHOWN]
    )
    table = _table(("sure", "row", "column", "value", "probably", "because of"), cells)
    return _framed(f"{plural(len(found), 'cell')} probably wrong", table, len(found) - SHOWN, "cell")


def _near(misses: NearMisses) -> str:
    """Nearly true rules with what breaks them."""
    rules = "".join(
        _row(
            [
                *_said(miss.kind, miss.table, miss.text),
                f"{miss.violations:,}",
                escape(shorten(", ".join(_broken_by(miss)), 120)),
            ]
        )
        for miss in misses[:SHOWN]
    )
    table = _table(("kind", "rule", "exceptions", "by"), rules)
    return _framed(f"{plural(len(misses), 'rule')} nearly hold", table, len(misses) - SHOWN, "rule")


def _broken_by(miss: Any) -> Iterator[str]:
    """Rows or values that break a rule."""
    for row in islice(miss.rows, EXAMPLES):
        yield " and ".join(key_word(key) for key in row)
    yield from (word(value) for value in islice(miss.values, EXAMPLES))


def _changes(changes: RuleChanges) -> str:
    """Rules that a batch ended and made."""
    lines = [("died", one.kind, one.table, one.text, one.why) for one in changes.died]
    lines += [("born", one.kind, one.table, one.text, "") for one in changes.born]
    rows = "".join(
        _row([sign, *_said(kind, table, text), escape(why)]) for sign, kind, table, text, why in lines[:SHOWN]
    )
    said = f"batch {escape(changes.batch)}: {len(changes.died):,} died, {len(changes.born):,} born"
    return _framed(said, _table(("", "kind", "rule", "why"), rows) if rows else "", len(lines) - SHOWN, "rule")


def _said(kind: str, table: str | None, text: str) -> list[str]:
    return [escape(kind), escape(shorten(f"{table}: {text}" if table else text, 100))]


def _page(counts: Mapping[str, int], said: str, tables: str, more: int = 0, noun: str = "") -> str:
    rows = ", ".join(f"{plural(count, 'row')} of {escape(name)}" for name, count in counts.items())
    return _framed(f"{rows}: {said}", tables, more, noun)


def _framed(said: str, tables: str, more: int, noun: str) -> str:
    return f'<div class="holdstrue">{_STYLE}<p>{said}</p>{tables}{_more(more, noun)}</div>'


def _more(count: int, noun: str) -> str:
    return f"<p>… {plural(count, f'more {noun}')}</p>" if count > 0 else ""


def _row(cells: Iterable[str], tag: str = "td") -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"


def _table(names: Iterable[str], rows: str) -> str:
    return f"<table><thead>{_row(names, 'th')}</thead><tbody>{rows}</tbody></table>"
