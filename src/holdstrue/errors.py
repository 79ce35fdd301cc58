"""The errors that reach a user: each says what was met, what was expected and what to do."""

from __future__ import annotations

import reprlib

_WIDEST = 500
"""Characters of a line that are shown of a text: some lines of a terminal."""

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


class HoldstrueError(Exception):
    """Base of every error raised on purpose.

    Parameters
    ----------
    message
        What is wrong, with the value and the place.
    hint
        What to do about it.

    Examples
    --------
    >>> print(HoldstrueError("no column 'zipp'", hint="did you mean 'zip'?"))
    no column 'zipp'
    hint: did you mean 'zip'?
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        self.passing = False
        """Whether who raised it knows that it may pass by itself (see `sources/passing.py`)."""
        super().__init__(message if hint is None else f"{message}\nhint: {hint}")


class RuleError(HoldstrueError):
    """A rule that cannot be read, cannot be meant, or does not fit its table.

    The place is underlined in the rule's own text.

    Examples
    --------
    >>> print(RuleError("unknown column 'zipp'", text="zipp -> city", start=0, end=4, hint="did you mean 'zip'?"))
    unknown column 'zipp'
      zipp -> city
      ^^^^
    hint: did you mean 'zip'?
    """

    def __init__(
        self,
        message: str,
        *,
        text: str | None = None,
        start: int = 0,
        end: int | None = None,
        hint: str | None = None,
    ) -> None:
        self.text, self.start, self.end = text, start, end
        super().__init__(message if text is None else f"{message}\n{underline(text, start, end)}", hint=hint)


class DataError(HoldstrueError):
    """A table that cannot be read, or whose values do not fit what the rules need."""


class ChangeError(DataError):
    """A change that does not fit the table it is applied to; nothing of its batch was applied."""


class StateError(HoldstrueError):
    """A state directory that is missing, damaged, in use or of another format."""


def brief(value: object) -> str:
    """A value as a message shows it, cut where it is long.

    >>> brief("zip"), brief([[["a", "b"], 2], *range(100)])
    ("'zip'", "[[['a', 'b'], 2], 0, 1, 2, 3, 4, ...]")
    """
    return _SHORT.repr(value)


def underline(text: str, start: int, end: int | None = None) -> str:
    """Show the line of `text` that holds `start`, with the characters from `start` to `end` marked below it.

    Of a very long line only the surroundings are shown.
    """
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line = text[line_start:] if line_end < 0 else text[line_start:line_end]
    offset = start - line_start
    if len(line) > _WIDEST:
        cut = max(0, offset - _WIDEST // 3)
        line, offset = line[cut : cut + _WIDEST], offset - cut
    width = max(1, min(len(line) - offset, (start + 1 if end is None else end) - start))
    return f"  {line}\n  {' ' * offset}{'^' * width}"
