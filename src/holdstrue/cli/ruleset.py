"""The rule set that a command's options name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdstrue.errors import HoldstrueError, RuleError
from holdstrue.location import local_path
from holdstrue.rules import RuleSet, load_rules
from holdstrue.rules.file import located

Names = Callable[[], Sequence[str] | None]


def rules_in(file: str, columns: Names) -> RuleSet:
    """The rules of a file, of a pipe, or of standard input (`-`); JSON asks for the names of the columns."""
    file = local_path(file, "rules")
    if file != "-" and (Path(file).is_file() or Path(file).is_dir() or not Path(file).exists()):
        try:
            with Path(file).open(encoding="utf-8-sig") as start:
                json = start.read(200).lstrip()[:1] in ("{", "[") or file.endswith(".json")
        except (OSError, UnicodeDecodeError):
            json = False  # reading the rules will say what is wrong
        return load_rules(Path(file), columns=columns() if json else None)
    # What a pipe gives can be read once only, so its text is loaded in place of its path.
    name = "standard input" if file == "-" else file
    text = _read_once(file, name)
    try:
        # The line end keeps a text of one line from being taken for a path.
        return load_rules(text + "\n", columns=columns() if text.lstrip()[:1] in ("{", "[") else None)
    except RuleError as error:
        raise located(error, name) from None


def text_in(file: str) -> tuple[str, str]:
    """The text of a file or of standard input (`-`), and what messages call it."""
    file = local_path(file, "rules")
    name = "standard input" if file == "-" else file
    return _read_once(file, name), name


def require_tables(names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a table that no rule mentions: its name is mostly misspelt."""
    known = list(known)
    for name in names:
        if name not in known:
            raise HoldstrueError(f"no rule speaks of table {name!r}", hint=f"the rules speak of {', '.join(known)}")


def _read_once(file: str, name: str) -> str:
    try:
        if file != "-":
            return Path(file).read_text(encoding="utf-8-sig")
        return "" if sys.stdin is None else sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RuleError(f"{name} is not UTF-8: {error.reason} at byte {error.start}", hint="send it as UTF-8") from None
    except OSError as error:
        raise RuleError(f"cannot read rules from {name}: {error.strerror}") from None


def schema_names(data: Sequence[str], read: Mapping[str, Any]) -> list[str] | None:
    """The columns of the data, for rules in JSON, which speaks of columns by number."""
    if not data:
        return None
    from holdstrue.sources.read import schema_of

    names: list[str] = schema_of(list(data), **{k: v for k, v in read.items() if k != "null_values"}).names
    return names
