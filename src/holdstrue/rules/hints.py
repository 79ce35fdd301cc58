"""What people write first, rewritten as the rule it is here, for the hint of an error."""

from __future__ import annotations

import re

_CALL = re.compile(r"\s*((?:is|primary|unique)?[\s_]*[a-z_]+)\s*\(([^()]+)\)\s*", re.IGNORECASE)
_SAID = re.compile(r"\s*([^\s()=<>]+)\s+(?:is\s+)?(unique|not[\s_]null|required|mandatory)\s*", re.IGNORECASE)
_KEY = frozenset(("unique", "isunique", "primarykey", "uniquekey", "pk", "distinct", "nodups", "noduplicates"))
_NOT_NULL = frozenset(("notnull", "isnotnull", "nonnull", "nonempty", "notempty", "required", "mandatory", "notna"))


def rewritten(text: str) -> str | None:
    """The rule that a text most plainly means; None where it is not plain.

    Examples
    --------
    >>> rewritten("unique(zip)"), rewritten("NOT_NULL(zip)"), rewritten("zip is unique")
    ('key(zip)', 'not null(zip)', 'key(zip)')
    """
    call, said = _CALL.fullmatch(text), _SAID.fullmatch(text)
    if call is not None or said is not None:
        word, columns = (call[1], call[2].strip()) if call is not None else (said[2], said[1]) if said else ("", "")
        word = re.sub(r"[\s_]", "", word).lower()
        if word in _KEY:
            return f"key({columns})"
        return f"not null({columns})" if word in _NOT_NULL else None
    return None
