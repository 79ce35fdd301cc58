"""Rule text cut into tokens, and names and strings written so that they can be cut again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from holdstrue import operators
from holdstrue.errors import RuleError

TokenKind: TypeAlias = Literal["name", "quoted", "double", "string", "number", "symbol", "end"]

# Words that mean something in some position; a name that is one of them is printed in backticks.
KEYWORDS = frozenset(("_", "and", "between", "false", "forall", "in", "is", "key", "not", "null", "or", "true", "with"))

# Every spelling of a symbol and the one the parser sees.
SYMBOLS = {
    **{symbol: str(op) for symbol, op in operators.SYMBOLS.items()},
    "->": "->", "→": "->",
    "&&": "and", "&": "and", "∧": "and", "^": "and", "!": "not", "¬": "not", "~": "not",
    "∀": "forall", "∈": "in", "⊆": "in", "||": "||", "|": "||", "‖": "||", "∥": "||",
    "(": "(", ")": ")", "[": "[", "]": "]", "{": "{", "}": "}", ",": ",", ".": ".", ":": ":",
}  # fmt: skip

_BARE = re.compile(r"[^\W\d]\w*")
_TOKEN = re.compile(
    r"""
    (?P<space>\s+|\#[^\n]*)
    |(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
    |(?P<name>[^\W\d]\w*(?:['′](?=[.:∈]))?)   # t' of the papers, where nothing else can be meant
    |(?P<string>'(?:[^'\\]|''|\\.)*')
    |(?P<double>"(?:[^"\\]|""|\\.)*")
    |(?P<quoted>`(?:[^`\\]|``|\\.)*`)
    |(?P<symbol>"""
    + "|".join(re.escape(symbol) for symbol in sorted(SYMBOLS, key=len, reverse=True))
    + r")",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """A piece of rule text.

    `word` is what the grammar compares: a symbol's one spelling, a bare name in lower case. `value`
    is what was meant: the name as written, or a quoted text without its quotes.
    """

    kind: TokenKind
    word: str
    value: str
    start: int
    end: int


def tokenize(text: str) -> tuple[Token, ...]:
    """Cut `text` into tokens, the last of kind "end". `#` starts a comment to the end of the line.

    Runtime complexity: O(length).

    Examples
    --------
    >>> [token.word for token in tokenize("t.age ≠ -3 ∧ `zip code`")]
    ['t', '.', 'age', '!=', '-3', 'and', '', '']
    """
    tokens: list[Token] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise _unreadable(text, place)
        kind, raw, end = match.lastgroup, match.group(), match.end()
        if kind == "symbol":
            tokens.append(Token("symbol", SYMBOLS[raw], raw, place, end))
        elif kind == "name":
            tokens.append(Token("name", raw.lower(), raw, place, end))
        elif kind == "number":
            tokens.append(Token("number", raw, raw, place, end))
        elif kind == "string":
            tokens.append(Token("string", "", _unquote(raw, text, place), place, end))
        elif kind == "double":
            tokens.append(Token("double", "", _unquote(raw, text, place), place, end))
        elif kind == "quoted":
            tokens.append(Token("quoted", "", _unquote(raw, text, place), place, end))
        place = end
    tokens.append(Token("end", "", "", len(text.rstrip()), len(text.rstrip()) + 1))
    return tuple(tokens)


def name_text(name: str) -> str:
    """A column or table name as rule text: bare where possible, otherwise in backticks.

    Examples
    --------
    >>> name_text("zip"), name_text("zip code"), name_text("key")
    ('zip', '`zip code`', '`key`')
    """
    return name if _BARE.fullmatch(name) and name.lower() not in KEYWORDS else quote(name, "`")


def quote(text: str, mark: str = "'") -> str:
    r"""`text` between quotation marks; what does not print is written as `\u{hex}`.

    Examples
    --------
    >>> print(quote("it's"), quote("a\nb"))
    'it''s' 'a\u{a}b'
    """
    pieces = []
    for char in text:
        if char == "\\":
            pieces.append("\\\\")
        elif char == mark:
            pieces.append(mark * 2)
        else:
            pieces.append(char if char.isprintable() else f"\\u{{{ord(char):x}}}")
    return f"{mark}{''.join(pieces)}{mark}"


def _unquote(raw: str, text: str, place: int) -> str:
    mark = raw[0]

    def meant(match: re.Match[str]) -> str:
        if match.group(1) is None:
            return mark if match.group() == mark * 2 else match.group()[1:]
        if int(match.group(1), 16) > 0x10FFFF:
            start = place + 1 + match.start()
            raise RuleError(
                "no such character",
                text=text,
                start=start,
                end=start + len(match.group()),
                hint="the largest code point is \\u{10FFFF}",
            )
        return chr(int(match.group(1), 16))

    return re.sub(rf"\\u\{{([0-9A-Fa-f]{{1,8}})\}}|\\[\\'\"`]|{mark}{mark}", meant, raw[1:-1])


def _unreadable(text: str, place: int) -> RuleError:
    char = text[place]
    if char in "'\"`":
        return RuleError(
            f"this {char} is never closed",
            text=text,
            start=place,
            end=len(text),
            hint=f"end it with {char}; inside, write {char}{char} for {char} and \\\\ for a backslash",
        )
    end = place + 1
    while end < len(text) and (text[end].isalnum() or text[end] in "_."):
        end += 1
    what = "a name that starts with a digit" if char.isdigit() else f"{char!r}"
    return RuleError(
        f"cannot read {what} here",
        text=text,
        start=place,
        end=end,
        hint="put names with unusual characters in backticks, `like this`, and text in 'quotes'",
    )
