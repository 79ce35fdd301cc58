"""Shapes of text: the part of regular expressions that every engine reads alike, and how each of them writes it.

A shape is looked for anywhere in a text; `^` and `$` stand for its very start and end. Letters, digits and blanks
(`\\w`, `\\d`, `\\s`) are those of ASCII, `.` is anything but a line feed, and case matters. What engines disagree about
(looking around, references to groups, lazy repeats, word ends, flags) is refused, so that a rule means the same
in one process (RE2), on Spark (Java), in SQL and in the tests' oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Engine: TypeAlias = Literal["re2", "java", "postgresql", "python"]

_END: dict[Engine, str] = {"re2": r"\z", "java": r"\z", "postgresql": r"\Z", "python": r"\Z"}
_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": r" \t\n\r\f"}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
MOST_REPEATS = 1000
"""The most that RE2 repeats."""


@dataclass(frozen=True)
class ShapeError(ValueError):
    """What of a shape cannot be read: the reason, the place, and what to write instead."""

    message: str
    at: int
    hint: str

    def __str__(self) -> str:
        return self.message


def translated(shape: str, engine: Engine) -> str:
    r"""A shape as an engine writes it.

    Runtime complexity: O(length).

    Examples
    --------
    >>> translated(r"^[A-Z]{2}-\d+$", "re2")
    '^[A-Z]{2}\\-[0-9]+\\z'
    >>> translated(r"(a|b.)?", "python")
    '(?:a|b[^\\n])?'
    >>> translated(r"\bword", "re2")
    Traceback (most recent call last):
    holdstrue.rules.shapes.ShapeError: \b is not read
    """
    return _Reading(shape, engine).all()


class _Reading:
    """A walk over a shape from left to right."""

    def __init__(self, shape: str, engine: Engine) -> None:
        self._shape, self._engine = shape, engine
        self._at = 0
        self._open: list[int] = []

    def all(self) -> str:
        pieces: list[str] = []
        repeatable = False
        while self._at < len(self._shape):
            start, char = self._at, self._shape[self._at]
            repeats = char in "*+?{"
            if repeats and not repeatable:
                raise ShapeError(f"{char} repeats nothing here", start, f"write \\{char} for the character itself")
            pieces.append(self._repeat() if repeats else self._piece())
            repeatable = not repeats and char not in "^$(|"
        if self._open:
            raise ShapeError("this ( is never closed", self._open[-1], r"write \( for the character itself")
        return "".join(pieces)

    def _take(self) -> str:
        if self._at == len(self._shape):
            raise ShapeError("the pattern ends too early", max(0, self._at - 1), r"write \\ for a backslash")
        self._at += 1
        return self._shape[self._at - 1]

    def _piece(self) -> str:
        start, char = self._at, self._take()
        match char:
            case "^" | "|":
                return char
            case "$":
                return _END[self._engine]
            case ".":
                return r"[^\n]"
            case "(":
                return self._group(start)
            case ")":
                if not self._open:
                    raise ShapeError("this ) closes nothing", start, r"write \) for the character itself")
                self._open.pop()
                return ")"
            case "[":
                return self._class(start)
            case "]" | "}":
                raise ShapeError(f"this {char} closes nothing", start, f"write \\{char} for the character itself")
            case "\\":
                return self._escape(start)
        return _literal(char)

    def _group(self, start: int) -> str:
        if self._shape.startswith("?", self._at):
            if not self._shape.startswith("?:", self._at):
                raise ShapeError("(? is not read", start, "groups are written ( ) or (?: )")
            self._at += 2
        self._open.append(start)
        return "(?:"

    def _repeat(self) -> str:
        start, char = self._at, self._take()
        if char == "{":
            end = self._shape.find("}", start)
            inside = self._shape[start + 1 : end] if end >= 0 else ""
            low, comma, high = inside.partition(",")
            sizes = [int(part) for part in (low, high) if part.isascii() and part.isdigit()]
            if len(sizes) != 1 + bool(high) or not low or (high and not comma):
                raise ShapeError(
                    "this is no number of repeats", start, r"write {2}, {2,} or {2,5}, or \{ for the brace"
                )
            if sizes[-1] < sizes[0] or sizes[-1] > MOST_REPEATS:
                raise ShapeError(f"{{{inside}}} cannot be", start, f"from less to more, and at most {MOST_REPEATS:,}")
            self._at = end + 1
            char = "{" + inside + "}"
        following = self._shape[self._at : self._at + 1]
        if following in ("?", "+", "*"):
            raise ShapeError(
                f"{char}{following} is not read", start, "a repeat stands once; whether it is lazy makes no difference"
            )
        return char

    def _escape(self, start: int, *, inside: bool = False) -> str:
        char = self._take()
        if char in _CLASSES:
            return _CLASSES[char] if inside else f"[{_CLASSES[char]}]"
        if char.lower() in _CLASSES and not inside:
            return f"[^{_CLASSES[char.lower()]}]"
        if char in _CONTROLS:
            return f"\\{char}"
        if char.isalnum():
            raise ShapeError(f"\\{char} is not read", start, r"what is read: \d \w \s \D \W \S \n \t \r \f")
        return _literal(char)

    def _class(self, start: int) -> str:
        """What stands between [ and ]."""
        pieces = ["["]
        if self._shape.startswith("^", self._at):
            self._at += 1
            pieces.append("^")
        while not self._shape.startswith("]", self._at):
            if self._at >= len(self._shape):
                raise ShapeError("this [ is never closed", start, r"write \[ for the character itself")
            low, written = self._member()
            if low is None or not self._is_range():
                pieces.append(written)
                continue
            self._at += 1
            at = self._at
            high, other = self._member()
            if high is None or high < low:
                raise ShapeError("this is no range", at, "from less to more, as in [a-z]")
            pieces.append(f"{written}-{other}")
        self._at += 1
        if pieces[-1] in ("[", "^"):
            raise ShapeError("nothing stands between [ and ]", start, r"write \] for the character itself")
        return "".join([*pieces, "]"])

    def _is_range(self) -> bool:
        """Whether a - follows that is not the last in its class."""
        return self._shape.startswith("-", self._at) and not self._shape.startswith("-]", self._at)

    def _member(self) -> tuple[str | None, str]:
        """A character of a class and how it is written; None for a class of its own."""
        start, char = self._at, self._take()
        if char == "[":
            raise ShapeError("a [ inside of [ ]", start, r"write \[ for the character itself")
        if char != "\\":
            return char, _literal(char)
        written = self._escape(start, inside=True)
        escaped = self._shape[self._at - 1]
        return (None if escaped in _CLASSES else _CONTROLS.get(escaped, escaped)), written


def _literal(char: str) -> str:
    """A character that means itself, wherever it stands."""
    for name, control in _CONTROLS.items():
        if char == control:
            return f"\\{name}"
    return f"\\{char}" if char.isascii() and char.isprintable() and not char.isalnum() and char not in "_ " else char
