"""Checks whose answer follows from that of another: where a key holds, no group of more columns has two rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdstrue.plan.checks import Check, GroupCheck


def set_apart(
    checks: Mapping[int, Check], keys: Mapping[str, Sequence[str]]
) -> tuple[dict[int, Check], dict[int, int | None]]:
    """Checks that are run in any case, and by number those that hold if another check does.

    None in its place is the key of the table, of which it is also asked whether it tells rows apart.

    >>> id_, wide = (GroupCheck(0, "t", lhs, (), False) for lhs in (("id",), ("id", "a")))
    >>> fd = GroupCheck(0, "t", ("id",), ("b",), False, asked=(None,))
    >>> first, implied = set_apart({0: wide, 1: id_, 2: fd}, {})
    >>> list(first), implied
    ([1], {0: 1, 2: 1})
    >>> set_apart({0: wide, 1: id_}, {"t": ("id",)})[1]
    {0: None, 1: None}
    """
    implied: dict[int, int | None] = {}
    plain = {n: c for n, c in checks.items() if isinstance(c, GroupCheck) and not c.rhs and c.member is None}
    # of keys with the same columns the first one is run, of others the narrowest: what follows leads to one that is run
    order = sorted(plain, key=lambda n: (len({*plain[n].lhs}), n))
    for number, check in checks.items():
        if not isinstance(check, GroupCheck):
            continue
        columns = {*check.lhs}
        if check.table in keys and columns >= {*keys[check.table]}:
            implied[number] = None
            continue
        for other in order:
            if other == number:
                break
            key = plain[other]
            if key.table == check.table and key.nulls_equal == check.nulls_equal and columns >= {*key.lhs}:
                implied[number] = other
                break
    return {n: check for n, check in checks.items() if n not in implied}, implied
