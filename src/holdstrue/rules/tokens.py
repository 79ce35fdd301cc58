"""Rule text cut into tokens, names and strings written so that they can be cut again, and a cursor over the tokens.

The cursor has the pieces that every grammar here is made of: names, operators, literals.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Literal, NoReturn, TypeAlias

from holdstrue import operators
from holdstrue.errors import RuleError, brief
from holdstrue.operators import Op
from holdstrue.rules.terms import Constant, Scalar, number_as_written

TokenKind: TypeAlias = Literal["name", "quoted", "double", "string", "number", "symbol", "end"]

# Words that mean something in some position; a name that is one of them is printed in backticks.
KEYWORDS = frozenset(
    ("_", "and", "between", "false", "forall", "in", "is", "key", "matches", "not", "null", "or", "true", "with")
)

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


DENIAL = "a denial constraint lists what must never hold together"

_HINT = "names with spaces or other unusual characters go in backticks, `like this`"

LONGEST = 1_000_000
"""Characters of a rule: a pattern tableau of some ten thousand rows."""

# Far beyond any real rule, and far from Python's own limit on recursion and on the digits of a number.
_DEEPEST = 100
_MOST_DIGITS = 1000

# The types that are named before a literal, each with an example of one.
_TYPED = {"date": "2024-01-31", "timestamp": "2024-01-31 12:30:00", "decimal": "1.50", "float": "inf"}


class Cursor:
    """Reads tokens from left to right; every complaint underlines its place in `text`."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise RuleError(f"a rule of {len(text):,} characters", hint=f"at most {LONGEST:,} are read")
        self.text = text
        self._tokens = tokenize(text)
        self._at = 0
        self._check_bounds()

    def peek(self, ahead: int = 0) -> Token:
        """The token `ahead` of the current one, without taking it."""
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def take(self) -> Token:
        """The current token, and one step on."""
        token = self.peek()
        self._at += 1
        return token

    @property
    def last(self) -> Token:
        """The token taken last."""
        return self._tokens[max(0, self._at - 1)]

    def sees(self, *words: str) -> bool:
        """Whether the next tokens are exactly these symbols and keywords."""
        return all(self.peek(i).word == word for i, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Take the next tokens if they are exactly these symbols and keywords."""
        found = self.sees(*words)
        if found:
            self._at += len(words)
        return found

    def expect(self, word: str, why: str, hint: str | None = None) -> Token:
        """Take this symbol, or complain with what it was needed for."""
        if not self.sees(word):
            self.fail(f"expected {word!r} {why}", hint=hint)
        return self.take()

    def holds(self, word: str) -> bool:
        """Whether a symbol or keyword occurs anywhere in the text."""
        return any(token.word == word for token in self._tokens)

    def wrapped(self) -> bool:
        """Whether the bracket at the current place closes at the very end of the text."""
        depth = 0
        for token in self._tokens[self._at : -1]:
            if token.kind == "symbol":
                depth += (token.word == "(") - (token.word == ")")
            if depth == 0:
                return token is self._tokens[-2]
        return False

    def finish(self) -> None:
        """Complain about anything left over."""
        if self.peek().kind != "end":
            self.fail("the rule should end here", hint="one text holds one rule")

    def fail(
        self, message: str, *, at: Token | None = None, end: Token | None = None, hint: str | None = None
    ) -> NoReturn:
        """Raise a RuleError that underlines `at` (by default the current token) up to `end`."""
        first = at or self.peek()
        if at is None:
            message += ", but the text ends" if first.kind == "end" else f", got {self.written(first)}"
        raise RuleError(message, text=self.text, start=first.start, end=(end or first).end, hint=hint or _HINT)

    def written(self, token: Token) -> str:
        """A token as the user wrote it."""
        return self.text[token.start : token.end]

    def name(self, what: str, hint: str | None = None) -> Token:
        """Take a column or table name: bare, in backticks or in double quotes."""
        token = self.peek()
        if token.kind not in ("name", "quoted", "double"):
            note = "put text in backticks, `like this`, to use it as a name"
            self.fail(f"expected {what}", hint=hint or (note if token.kind in ("string", "number") else None))
        return self.take()

    def operator(self, hint: str | None = None) -> Op:
        """Take a comparison operator."""
        token = self.peek()
        if token.kind != "symbol" or token.word not in operators.SYMBOLS:
            self.fail(f"expected a comparison: {' '.join(Op)}", hint=hint)
        return operators.SYMBOLS[self.take().word]

    def sees_constant(self) -> bool:
        """Whether a literal starts here."""
        token, after = self.peek(), self.peek(1)
        if token.kind == "name":
            return token.word in ("true", "false") or (token.word in _TYPED and after.kind == "string")
        if token.kind == "double":
            return not (after.kind == "symbol" and after.word == ".")
        return token.kind in ("string", "number")

    def constant(self, hint: str) -> Constant:
        """Take a literal: number, text, true, false, date '…', timestamp '…', decimal '…', float '…'."""
        if self.sees("null"):
            self.fail(
                "NULL cannot be compared",
                at=self.peek(),
                hint="comparing with NULL is unknown and never violates; write not null(column) to forbid it",
            )
        if not self.sees_constant():
            self.fail("expected a constant", hint=hint)
        token = self.take()
        if token.kind == "number":
            return number_as_written(self._number(token), token.value)
        if token.kind in ("string", "double"):
            return Constant(token.value)
        if token.word in ("true", "false"):
            return Constant(token.word == "true")
        return Constant(self._typed(token, self.take()))

    def _check_bounds(self) -> None:
        """Refuse what is nested too deeply, or a number that nobody wrote."""
        nots, outer = 0, [0]  # nots in a row, and levels outside of each open bracket
        for token in self._tokens:
            if token.kind == "number" and len(token.value) > _MOST_DIGITS:
                self.fail(f"a number of {len(token.value):,} characters", at=token, hint=f"at most {_MOST_DIGITS:,}")
            if token.word == "not":
                nots += 1
            elif token.word == "(":
                outer.append(outer[-1] + nots + 1)
                nots = 0
            else:
                nots = 0
                if token.word == ")" and len(outer) > 1:
                    outer.pop()
            if outer[-1] + nots > _DEEPEST:
                self.fail(
                    "brackets or nots are nested too deeply", at=token, hint=f"at most {_DEEPEST} levels are read"
                )

    def _typed(self, kind: Token, literal: Token) -> Scalar:
        try:
            if kind.word == "date":
                return dt.date.fromisoformat(literal.value)
            if kind.word == "timestamp":
                return dt.datetime.fromisoformat(literal.value)
            if kind.word == "float":
                return float(literal.value)
            # one NaN of decimals raises wherever it is compared
            small = len(literal.value) <= _MOST_DIGITS and not Decimal(literal.value).is_snan()
            return Decimal(literal.value if small else "")
        except (ValueError, InvalidOperation):
            self.fail(
                f"{brief(literal.value)} is not a {kind.word}",
                at=literal,
                hint=f"for example {kind.word} '{_TYPED[kind.word]}'",
            )

    def _number(self, token: Token) -> Scalar:
        # A float only where it prints back as the same number; 1.00000000000000000001 stays exact.
        try:
            if not any(char in ".eE" for char in token.value):
                return int(token.value)
            exact, near = Decimal(token.value), float(token.value)
            return near if Decimal(repr(near)) == exact else exact
        except (ValueError, InvalidOperation):
            self.fail("this number is out of range", at=token)
