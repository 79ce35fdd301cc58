"""Rule files read and written: YAML, one rule a line, HoloClean's, DC lists, Weever's JSON.

An entry is checked field by field, so that a mistake is named where it stands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeAlias

from holdstrue.errors import RuleError, brief, underline
from holdstrue.location import local_path, nearby_hint
from holdstrue.rules.model import Rule, RuleSet, Severity, Tolerance
from holdstrue.rules.parser import parse_rule
from holdstrue.rules.text import condition_text
from holdstrue.rules.types import Types, checked_types
from holdstrue.rules.weever import parse_weever

RuleSource: TypeAlias = "str | os.PathLike[str] | RuleSet | Rule | Iterable[str | Rule | Mapping[str, Any]]"

LONGEST_FILE = 16 << 20
"""Characters of a rule file: a hundred thousand rules, one a line. YAML, which is slower to read, has its own bound."""

_TOP = ("rules", "table", "key", "nulls", "types")
_QUOTED_NAME = re.compile(r"""\s*(?:"([^"]+)"|'([^']+)')\s*:=""")
_NO_NAME = re.compile(r"""[:='"`()\[\]#]""")
_YAML = re.compile(r"\s*(?:#.*\n\s*)*(?:rules|table|key|nulls|types)\s*:(?!=)")
_JSON = re.compile(r'\s*(?:\{\s*"|\[\s*(?:\[\s*\{|\{))')
_PATH = re.compile(
    r"[^\s()=<>\[\]]+\.(?:ya?ml|json|txt|rules|dcs?|conf|cfg|csv)|(?:\.{0,2}/|~)[^()=<>]*", re.IGNORECASE
)


def load_rules(source: RuleSource, *, columns: Sequence[str] | None = None) -> RuleSet:
    """Read rules from a file, a text or Python objects.

    Parameters
    ----------
    source
        A path to a rule file (YAML, or one rule a line in any known syntax, with an optional `name :=` in
        front, or Weever's JSON); or rule text, one rule a line, or YAML text; or rules, rule texts and
        mappings with the fields of a rule file; or a rule set.
    columns
        The table's column names, needed for Weever's column indexes.

    Examples
    --------
    >>> rules = load_rules("key(id)")
    >>> len(rules), rules.rules[0].kind
    (1, 'key')
    >>> [rule.name for rule in load_rules(["zip -> city", {"name": "adults", "rule": "not(t.age < 18)"}])]
    ['zip -> city', 'adults']
    """
    if isinstance(source, Rule):
        source = RuleSet((source,))
    if isinstance(source, RuleSet):
        if not source.rules:
            raise RuleError("no rules", hint="give at least one, for example 'zip -> city'")
        for rule in source:
            rule.body.normal(rule.source)
        return replace(source, rules=_unique(list(source), ""))
    if isinstance(source, str):
        return _load_text_or_path(source, columns)
    if isinstance(source, os.PathLike):
        return _load_file(Path(local_path(source, "rules")), columns)
    if not isinstance(source, Iterable):
        raise RuleError(f"rules cannot be read from {source!r}", hint="give a file, rule texts or rules")
    rules = []
    for number, item in enumerate(source, start=1):
        rules.append(_load_item(item, f"rule {number}"))
    if not rules:
        raise RuleError("no rules", hint="give at least one, for example 'zip -> city'")
    return RuleSet(_unique(rules, ""))


def dump_rules(rules: RuleSet) -> str:
    """The rule set as YAML that `load_rules` reads back as the same rules.

    Examples
    --------
    >>> print(dump_rules(load_rules(["zip -> city"])), end="")
    rules:
    - name: zip -> city
      rule: zip -> city
    """
    import yaml

    content: dict[str, Any] = {}
    if rules.table is not None:
        content["table"] = rules.table
    if rules.key:
        content["key"] = list(rules.key)
    if rules.nulls != "unknown":
        content["nulls"] = rules.nulls
    if rules.types:
        content["types"] = dict(rules.types)
    content["rules"] = [_entry(rule) for rule in rules]
    # PyYAML writes odd line breaks such as U+0085 unescaped and reads them back as spaces.
    values = [value for entry in (content, dict(rules.types), *content["rules"]) for value in entry.values()]
    values += [name for name, _ in rules.types]
    plain = all(value.replace("\n", "").isprintable() for value in values if isinstance(value, str))
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=plain, width=1000)


def dump_first_rules(rules: RuleSet) -> tuple[str, int]:
    """As many of the first rules as a file may hold, as `dump_rules` writes them, and how many these are."""
    from holdstrue.rules.yaml_text import LONGEST, MOST

    room, values, kept = LONGEST, MOST - 2 * len(rules.types) - 20, 0
    for rule in rules:
        entry = _entry(rule)
        values -= 2 * len(entry) + 1
        room -= sum(len(str(value)) for value in entry.values())
        if room < 0 or values < 0:
            break
        kept += 1
    text = dump_rules(replace(rules, rules=rules.rules[:kept]))
    # what YAML puts around and into the texts
    while len(text) > LONGEST and kept > 1:
        kept = max(1, min(kept - 1, int(kept * 0.95 * LONGEST / len(text))))
        text = dump_rules(replace(rules, rules=rules.rules[:kept]))
    return text, kept


def _entry(rule: Rule) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": rule.name, "rule": rule.body.text}
    if rule.severity != "error":
        entry["severity"] = rule.severity
    if rule.where is not None:
        entry["where"] = condition_text(rule.where)
    if rule.tolerance is not None:
        entry["tolerance"] = _tolerance_entry(rule.tolerance)
    if rule.description:
        entry["description"] = rule.description
    if rule.table is not None:
        entry["table"] = rule.table
    return entry


def _tolerance_entry(tolerance: Tolerance) -> int | float | str:
    if tolerance.count is not None:
        return tolerance.count
    share = tolerance.share or Decimal(0)
    as_double = float(share)
    return as_double if as_double < 1 and Decimal(repr(as_double)) == share else f"{share.scaleb(2):f}%"


def _load_text_or_path(source: str, columns: Sequence[str] | None) -> RuleSet:
    if "\n" not in source:
        source = local_path(source, "rules")
        if _is_file(source):
            return _load_file(Path(source), columns)
        if _PATH.fullmatch(source.strip()):
            return _load_file(Path(source.strip()), columns)
    return _load_text(source, "", "", columns)


def _is_file(source: str) -> bool:
    try:
        return Path(source).is_file()
    except (OSError, ValueError):  # too long or with characters no path has: rule text
        return False


def _load_file(path: Path, columns: Sequence[str] | None) -> RuleSet:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise RuleError(f"no rule file {str(path)!r}", hint=nearby_hint(path)) from None
    except UnicodeDecodeError as error:
        raise RuleError(f"{path} is not UTF-8: {error.reason} at byte {error.start}", hint="save it as UTF-8") from None
    except OSError as error:
        raise RuleError(f"cannot read rule file {str(path)!r}: {error.strerror}") from None
    return _load_text(text, str(path), path.suffix.lower(), columns)


def _load_text(text: str, file: str, suffix: str, columns: Sequence[str] | None) -> RuleSet:
    if len(text) > LONGEST_FILE:
        raise RuleError(
            f"{_at(file)}{len(text):,} characters are more than a rule file may have ({LONGEST_FILE:,})",
            hint="is it a rule file? if so, split it",
        )
    if suffix in (".yaml", ".yml") or _YAML.match(text):
        return _load_yaml(text, file)
    if suffix == ".json" or _JSON.match(text):
        if columns is None:
            raise RuleError(
                f"{_at(file)}Weever's JSON speaks of columns by index", hint="give their names: columns=[...]"
            )
        try:
            rules = parse_weever(text, columns)
        except RuleError as error:
            raise (located(error, file) if file else error) from None
        return replace(rules, rules=_unique(list(rules), file))
    return _load_lines(text, file)


def _load_lines(text: str, file: str) -> RuleSet:
    rules, named = [], set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, rule_text = _split_name(line)
        try:
            rules.append(parse_rule(rule_text, name=name))
        except RuleError as error:
            several = "\n" in text.strip() or file
            raise (located(error, f"{_at(file)}line {number}") if several else error) from None
        if name is not None:
            named.add(len(rules) - 1)
    if not rules:
        raise RuleError(f"{_at(file)}no rules", hint="write one rule a line, for example zip -> city")
    return RuleSet(_unique(rules, file, named))


def _split_name(line: str) -> tuple[str | None, str]:
    quoted = _QUOTED_NAME.match(line)
    if quoted is not None:
        return (quoted[1] or quoted[2]).strip(), line[quoted.end() :].strip()
    name, mark, rule = line.partition(":=")
    if not mark or not name.strip() or _NO_NAME.search(name):
        return None, line.strip()
    return name.strip(), rule.strip()


def _hint_of(content: Any, file: str) -> str:
    """What to do about a file that has no rules: it may be one of another tool."""
    from holdstrue.rules.imports.read import TOOLS

    known = isinstance(content, dict) and next((tool for tool in TOOLS.values() if tool.recognises(content)), None)
    if not known:
        return "rules:\n  - rule: zip -> city"
    return f"it looks like a file of {known.title}: holdstrue import-rules {file or 'FILE'} > rules.yaml reads it"


def _load_yaml(text: str, file: str) -> RuleSet:
    from holdstrue.rules.yaml_text import read_yaml

    content = read_yaml(text, file)
    if isinstance(content, list):
        content = {"rules": content}
    if isinstance(content, dict) and content.get("rules") == []:
        raise RuleError(f"{_at(file)}no rules", hint="give at least one: rules:\n  - rule: zip -> city")
    if not isinstance(content, dict) or not isinstance(content.get("rules"), list):
        raise RuleError(f"{_at(file)}expected a list under 'rules:'", hint=_hint_of(content, file))
    for field in content:
        if field not in _TOP:
            raise RuleError(
                f"{_at(file)}unknown field {brief(field)}", hint=f"the top of a rule file has {', '.join(_TOP)}"
            )
    rules: list[Rule] = []
    named: set[int] = set()
    for number, item in enumerate(content["rules"], start=1):
        if not isinstance(item, str | dict):
            raise RuleError(
                f"{_at(file)}rule {number}: expected a rule, got {brief(item)}",
                hint="write - rule: 'text', and put texts that start with [ or ! in quotes",
            )
        rules.append(_load_item(item, f"{_at(file)}rule {number}"))
        if isinstance(item, dict) and "name" in item:
            named.add(number - 1)
    table = text_field(content, "table", file or "the rules")
    return RuleSet(_unique(rules, file, named), table, *_head(content, _at(file)))


def _head(content: Mapping[str, Any], at: str) -> tuple[tuple[str, ...], Literal["unknown", "equal"], Types]:
    """Key, nulls and types of a rule file; `at` starts every message."""
    key, nulls, types = content.get("key", []), content.get("nulls", "unknown"), content.get("types", {})
    columns = [key] if isinstance(key, str) else key
    if not isinstance(columns, list) or not all(isinstance(c, str) and c for c in columns) or columns == [""]:
        raise RuleError(f"{at}key {brief(key)}", hint="key is a column or a list of them: key: [area_code, phone]")
    if len(set(columns)) < len(columns):
        raise RuleError(f"{at}key {key!r} names a column twice")
    if nulls not in ("unknown", "equal"):
        raise RuleError(f"{at}nulls {brief(nulls)}", hint="nulls is unknown or equal")
    if not isinstance(types, dict) or not all(isinstance(part, str) for item in types.items() for part in item):
        raise RuleError(f"{at}types {types!r}", hint="types maps columns to types:\ntypes:\n  born: date(%d.%m.%Y)")
    return tuple(columns), nulls, checked_types(types.items(), at)


def _load_item(item: object, place: str) -> Rule:
    if isinstance(item, Rule):
        item.body.normal(item.source)
        return item
    if isinstance(item, Mapping):
        return rule_from_entry(item, place)
    if not isinstance(item, str):
        raise RuleError(f"{place}: expected a rule or its text, got {item!r}")
    name, text = _split_name(item)
    try:
        return parse_rule(text, name=name)
    except RuleError as error:
        raise located(error, place) from None


def _unique(rules: list[Rule], file: str, named: set[int] | None = None) -> tuple[Rule, ...]:
    """Refuse a name given twice; a name made from the rule's text gets a number instead.

    `named` are the rules whose names people gave; by default those that differ from the text.
    """
    seen: dict[str, int] = {}
    numbers: dict[str, int] = {}
    unique = []
    for i, rule in enumerate(rules):
        given = i in named if named is not None else rule.name != rule.body.text
        if rule.name in seen and given:
            raise RuleError(
                f"{_at(file)}two rules are called {rule.name!r}: numbers {seen[rule.name] + 1} and {i + 1}",
                hint="give each rule its own name",
            )
        name = rule.name
        while name in seen:
            # counted on from the last of this name, so that many equal rules take time for each once
            numbers[rule.name] = numbers.get(rule.name, 1) + 1
            name = f"{rule.name} #{numbers[rule.name]}"
        seen[name] = i
        unique.append(rule if name == rule.name else replace(rule, name=name))
    return tuple(unique)


def _at(file: str) -> str:
    return f"{file}: " if file else ""


FIELDS = ("name", "rule", "severity", "where", "tolerance", "description", "table")


def rule_from_entry(entry: Mapping[Any, Any], place: str) -> Rule:
    """The rule of a mapping with the fields of a rule file; `place` starts every message.

    Examples
    --------
    >>> rule_from_entry({"rule": "key(id)", "severity": "warn", "tolerance": "1%"}, "rule 1").tolerance
    Tolerance(count=None, share=Decimal('0.01'))
    """
    for field in entry:
        if field not in FIELDS:
            raise RuleError(f"{place}: unknown field {brief(field)}", hint=f"a rule has {', '.join(FIELDS)}")
    name = text_field(entry, "name", place)
    if name is not None:
        place = f"{place} ({name})"
    text = text_field(entry, "rule", place)
    if text is None:
        raise RuleError(f"{place}: no rule text", hint="write it as rule: 'zip -> city'")
    severity = entry.get("severity", "error")
    if severity not in ("error", "warn"):
        raise RuleError(f"{place}: severity {brief(severity)}", hint="severity is error or warn")
    allowed: Severity = severity
    description, where, table = (text_field(entry, field, place) for field in ("description", "where", "table"))
    try:
        return parse_rule(
            text.strip(),
            name=name,
            description=description or "",
            severity=allowed,
            where=where,
            tolerance=parse_tolerance(entry.get("tolerance")),
            table=table,
        )
    except RuleError as error:
        raise located(error, place) from None


def text_field(entry: Mapping[Any, Any], field: str, place: str) -> str | None:
    """A field that holds text, or None where it is absent."""
    value = entry.get(field)
    if field == "where" and isinstance(value, str) and not value.strip():
        raise RuleError(f"{place}: where is empty", hint="leave it out, or write a condition: where: state = 'CA'")
    if field in entry and (not isinstance(value, str) or not value.strip()):
        note = "" if value is None or isinstance(value, str) else "; put it in quotes to keep YAML from reading it"
        raise RuleError(f"{place}: {field} must be text, got {brief(value)}", hint=f"write {field}: some text{note}")
    return value


def parse_tolerance(value: object) -> Tolerance | None:
    """A tolerance: a count of rows (`5`), or a share of them (`0.01` or `1%`).

    Examples
    --------
    >>> parse_tolerance(5), parse_tolerance("1%")
    (Tolerance(count=5, share=None), Tolerance(count=None, share=Decimal('0.01')))
    """
    if value is None:
        return None
    if isinstance(value, str):
        percent = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*%\s*", value)
        if percent and Decimal(percent.group(1)) <= 100:
            return Tolerance(share=Decimal(percent.group(1)).scaleb(-2))
        if re.fullmatch(r"\s*[0-9]+\s*", value):
            return Tolerance(count=int(value))
    elif isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return Tolerance(count=value)
    elif isinstance(value, float) and 0 <= value < 1:
        return Tolerance(share=Decimal(repr(value)))
    raise RuleError(
        f"tolerance {brief(value)}", hint="a count of rows such as 5, or a share such as 0.01 or 1% (at most 100%)"
    )


def located(error: RuleError, place: str) -> RuleError:
    """The same error with the place of its rule in front."""
    message = error.message
    if error.text is None:
        return RuleError(f"{place}: {message}", hint=error.hint)
    message = message.removesuffix("\n" + underline(error.text, error.start, error.end))
    return RuleError(f"{place}: {message}", text=error.text, start=error.start, end=error.end, hint=error.hint)
