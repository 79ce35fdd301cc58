"""YAML as people write rules in it: bounded in size, depth and expansion, every mistake named with its line."""

from __future__ import annotations

from typing import Any

import yaml

from holdstrue.errors import HoldstrueError, RuleError, brief

LONGEST = 4 << 20
"""Characters of a text: some 40,000 rules. A megabyte takes 3 s to read."""

DEEPEST = 20
"""Lists and fields inside each other; a rule file has three."""

MOST = 100_000
"""Values of a text with every alias written out. Without a bound, nine aliases of nine aliases ... fill any memory."""

_PREFIX = "tag:yaml.org,2002:"
_TAGS = frozenset(
    _PREFIX + name for name in ("str", "int", "float", "bool", "null", "timestamp", "seq", "map", "merge")
)
_HINT = "put a rule's text in quotes where it holds ': ' or starts with [ ! ` & or {"
_QUOTES = "put it in quotes if it is text"


def read_yaml(text: str, file: str, error: type[HoldstrueError] = RuleError) -> Any:
    """The plain values of a YAML text; `file` starts every message, and may be empty.

    A field given twice is refused (YAML would silently keep the last), and so are tags: they say how a
    value is to be made, and a rule file holds texts and numbers.

    Runtime complexity: O(length), and O(values) with aliases written out, both bounded.

    Examples
    --------
    >>> read_yaml("rules: [{rule: zip -> city, tolerance: 5}]", "")
    {'rules': [{'rule': 'zip -> city', 'tolerance': 5}]}
    >>> read_yaml("a: &a [*a]", "rules.yaml")
    Traceback (most recent call last):
    holdstrue.errors.RuleError: rules.yaml: line 1: this value holds itself
      a: &a [*a]
         ^^^^^^^
    hint: write out what the alias stands for
    """
    reading = _Reading(text, f"{file}: " if file else "", error)
    if len(text) > LONGEST:
        raise error(
            f"{reading.prefix}{len(text):,} characters are more than a rule file may have ({LONGEST:,})",
            hint="is it a rule file? if so, split it",
        )
    node = reading.composed()
    if node is None:
        return None
    reading.require_small(node)
    return reading.value(node)


class _Loader(yaml.SafeLoader):
    """Composes nodes no deeper than allowed: the composer calls itself for every level."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        try:
            if self.depth > DEEPEST:
                mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
                raise yaml.MarkedYAMLError(
                    problem=f"more than {DEEPEST} lists or fields inside each other", problem_mark=mark
                )
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


class _Reading:
    def __init__(self, text: str, prefix: str, error: type[HoldstrueError]) -> None:
        self.text, self.prefix, self._error = text, prefix, error
        self._loader: _Loader | None = None
        self._sizes: dict[int, int] = {}

    def composed(self) -> yaml.Node | None:
        """The nodes of the text."""
        try:
            self._loader = _Loader(self.text)
            return self._loader.get_single_node()
        except yaml.MarkedYAMLError as error:
            said = error.problem or error.context or "it cannot be read"
            raise self._fail(f"this is not YAML: {said}", error.problem_mark, hint=_HINT) from None
        except (yaml.YAMLError, ValueError, LookupError, ArithmeticError) as error:
            # characters that YAML does not allow, numbers of escapes and directives that are none
            raise self._error(f"{self.prefix}this is not YAML: {error}", hint=_HINT) from None

    def require_small(self, node: yaml.Node) -> int:
        """How many values a node stands for; refuses too many, and a value that is inside itself."""
        known = self._sizes.get(id(node))
        if known is not None:
            if known == 0:
                raise self._fail("this value holds itself", node, hint="write out what the alias stands for")
            return known
        self._sizes[id(node)] = 0  # until it is counted
        children = node.value if isinstance(node, yaml.CollectionNode) else ()
        if isinstance(node, yaml.MappingNode):
            children = [part for pair in children for part in pair]
        count = 1 + sum(map(self.require_small, children))
        if count > MOST:
            raise self._fail(
                f"this value stands for more than {MOST:,} values, its aliases written out",
                node,
                hint="write out what the aliases stand for",
            )
        self._sizes[id(node)] = count
        return count

    def value(self, node: yaml.Node) -> Any:
        """The plain value of a node."""
        if node.tag not in _TAGS:
            tag = node.tag.replace(_PREFIX, "!!")
            raise self._fail(f"this is not YAML of a rule file, which has no tags: {tag}", node, hint=_HINT)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item) for item in node.value]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node)
        assert self._loader is not None
        try:
            return self._loader.construct_object(node)
        except (yaml.YAMLError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            # what PyYAML raises for a scalar that is not what its tag or its look says: !!int '', 2024-13-45
            kind = node.tag.removeprefix(_PREFIX)
            raise self._fail(f"{brief(node.value)} is not {kind}", node, hint=_QUOTES) from error

    def _mapping(self, node: yaml.MappingNode) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        merged: dict[Any, Any] = {}
        for field, value in node.value:
            if field.tag == f"{_PREFIX}merge":
                merged = self._merged(value) | merged
                continue
            if not isinstance(field, yaml.ScalarNode):
                raise self._fail("the name of a field must be text", field, hint="write name: value")
            name = self.value(field)
            if name in found:
                raise self._fail(f"field {brief(name)} is given twice", field, hint="keep one of the two")
            found[name] = self.value(value)
        return merged | found

    def _merged(self, node: yaml.Node) -> dict[Any, Any]:
        """The fields that `<<` brings, of which those named first go before."""
        several = node.value if isinstance(node, yaml.SequenceNode) else [node]
        found: dict[Any, Any] = {}
        for one in several:
            if not isinstance(one, yaml.MappingNode):
                raise self._fail("<< brings the fields of something that has none", one, hint="name fields by an alias")
            found = self._mapping(one) | found
        return found

    def _fail(self, message: str, at: yaml.Node | yaml.Mark | None, *, hint: str) -> HoldstrueError:
        """The error, with the place underlined where the kind of error can do so."""
        start = at.start_mark if isinstance(at, yaml.Node) else at
        if start is None:
            return self._error(f"{self.prefix}{message}", hint=hint)
        message = f"{self.prefix}line {start.line + 1}: {message}"
        if not issubclass(self._error, RuleError):
            return self._error(message, hint=hint)
        begin = min(start.index, len(self.text))
        end = at.end_mark.index if isinstance(at, yaml.Node) else begin + 1
        return self._error(message, text=self.text, start=begin, end=end, hint=hint)
