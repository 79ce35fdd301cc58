"""Weever's configuration: denial constraints as JSON over column indexes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from holdstrue.errors import RuleError
from holdstrue.operators import WEEVER
from holdstrue.rules.model import DC, Column, Predicate, Rule, RuleSet, Source
from holdstrue.rules.tokens import DENIAL

_SHAPE = 'a comparison is {"colIdx1": 7, "colIdx2": 8, "op": "EQUAL"}: column 7 of row t, column 8 of row s'


def parse_weever(text: str, columns: Sequence[str]) -> RuleSet:
    """Read the constraints of a Weever configuration; `columns` are the table's column names in order.

    The configuration's `keyColumns` become the rule set's key. A bare list of constraints serves too.

    Examples
    --------
    >>> text = '{"keyColumns": [0], "constraints": [[{"colIdx1": 1, "colIdx2": 1, "op": "EQUAL"}]]}'
    >>> rules = parse_weever(text, ["id", "phone"])
    >>> rules.key, rules.rules[0].text
    (('id',), 'not(t.phone = s.phone)')
    """
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise RuleError(f"this is not JSON: {error.msg}", text=text, start=error.pos) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, thousands of brackets
        raise RuleError(f"this JSON is no rule file: {error}", hint=_SHAPE) from None
    key: tuple[str, ...] = ()
    if isinstance(content, dict):
        if "constraints" not in content:
            raise RuleError("no 'constraints' in this JSON", hint='Weever\'s file is {"constraints": [[...], ...]}')
        indexes = _list(content.get("keyColumns", []), "keyColumns")
        key = tuple(_name(index, columns, "keyColumns") for index in indexes)
        content = content["constraints"]
    rules: list[Rule] = []
    for number, constraint in enumerate(_list(content, "constraints"), start=1):
        place = f"constraint {number}"
        body = DC(tuple(_predicate(item, columns, place) for item in _list(constraint, place)))
        name = body.text
        rules.append(Rule(body, name, source=Source(name)))
        body.normal(rules[-1].source)
    return RuleSet(tuple(rules), key=key)


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise RuleError(f"{place}: expected a list, got {value!r}", hint=_SHAPE)
    return value


def _predicate(item: Any, columns: Sequence[str], place: str) -> Predicate:
    if not isinstance(item, dict) or not {"colIdx1", "colIdx2", "op"} <= item.keys():
        raise RuleError(f"{place}: expected a comparison, got {item!r}", hint=_SHAPE)
    op = WEEVER.get(str(item["op"]).upper())
    if op is None:
        raise RuleError(f"{place}: unknown operator {item['op']!r}", hint=f"one of {', '.join(WEEVER)}; {DENIAL}")
    left, right = (_name(item[side], columns, place) for side in ("colIdx1", "colIdx2"))
    return Predicate(Column("t", left), op, Column("s", right))


def _name(index: Any, columns: Sequence[str], place: str) -> str:
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(columns):
        raise RuleError(
            f"{place}: no column with index {index!r}",
            hint=f"indexes count from 0 and the table has {len(columns)} columns",
        )
    return columns[index]
