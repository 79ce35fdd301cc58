"""A relation declared in YAML: sites with columns, filters, sources and states, rules, key.

```yaml
key: id
state: state            # sites without a state of their own get state/NAME; may be s3://bucket/folder
rules: rules.yaml       # or a list of rules
sites:
  - name: S2
    columns: [street, zip]
    where: grade = 'A'  # a horizontal fragment; sites with the same filter split its columns
    source: s2.parquet
```
Paths are relative to the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdstrue.errors import HoldstrueError, brief
from holdstrue.fragments.fragment_layout import Site
from holdstrue.fragments.integer_plan import SECONDS
from holdstrue.fragments.opt_ver import BEAM
from holdstrue.fragments.planning import HOWS, How, PlanOptions
from holdstrue.fragments.relation import Relation
from holdstrue.location import local_path, nearby_hint
from holdstrue.rules.file import load_rules
from holdstrue.rules.model import RuleSet
from holdstrue.rules.terms import condition_columns
from holdstrue.rules.yaml_text import read_yaml
from holdstrue.state.object_url import ObjectUrl, is_object_url

_TOP = ("key", "nulls", "rules", "sites", "state", "plan", "k", "seconds", "shares", "recall")
_SITE = ("name", "columns", "where", "source", "state", "address", "encoding", "format", "delimiter", "null_values")
_READ = ("encoding", "format", "delimiter", "null_values")


@dataclass(frozen=True)
class Declaration:
    """What a file says."""

    sites: tuple[Site, ...]
    rules: RuleSet
    key: tuple[str, ...]
    plan: How = "auto"
    k: int = BEAM
    seconds: float = SECONDS
    shares: Mapping[str, float] = field(default_factory=dict)
    recall: bool = False
    addresses: Mapping[str, str] = field(default_factory=dict)
    """By site where its process listens: HOST:PORT."""

    @property
    def options(self) -> PlanOptions:
        """How to plan."""
        return PlanOptions(self.plan, self.k, self.seconds, self.shares)

    @property
    def columns(self) -> frozenset[str]:
        """Those that the file speaks of."""
        named = {*self.key, *(name for site in self.sites for name in site.columns or ())}
        named |= {name for rule in self.rules for name in rule.columns}
        filters = [site.condition for site in self.sites if site.condition is not None]
        return frozenset(named | {name for where in filters for name in condition_columns(where)})

    def relation(self, **options: Any) -> Relation:
        """Open it."""
        return Relation(
            self.sites, self.rules, self.key, plan=self.plan, k=self.k, seconds=self.seconds, shares=self.shares,
            recall=self.recall, **options,
        )  # fmt: skip


def load_declaration(path: str | os.PathLike[str]) -> Declaration:
    """Read a file; what is wrong in it is named with its place."""
    file = Path(local_path(path, "rules"))
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise HoldstrueError(f"no file {str(file)!r}", hint=nearby_hint(file)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise HoldstrueError(f"cannot read {str(file)!r}: {error}") from None
    content = read_yaml(text, str(file), HoldstrueError)
    if not isinstance(content, dict):
        raise HoldstrueError(f"{file}: expected fields {', '.join(_TOP)}", hint="see holdstrue fragments --help")
    _refuse_unknown(content, _TOP, str(file))
    sites = content.get("sites")
    if not isinstance(sites, list) or not sites:
        raise HoldstrueError(f"{file}: expected a list under 'sites:'", hint="sites:\n  - name: S1\n    source: s1.csv")
    rules = _rules(content, file)
    key = _names(content.get("key", list(rules.key)), f"{file}: key")
    if not key:
        raise HoldstrueError(f"{file}: no key", hint="key: id names the columns that every site has")
    return Declaration(
        tuple(_site(item, f"{file}: site {i}", file.parent, content) for i, item in enumerate(sites, start=1)),
        rules,
        key,
        _one_of(content.get("plan", "auto"), HOWS, f"{file}: plan"),
        _number(content.get("k", BEAM), f"{file}: k"),
        _above_0(content.get("seconds", SECONDS), f"{file}: seconds"),
        _shares(content.get("shares", {}), f"{file}: shares"),
        _one_of(content.get("recall", False), (True, False), f"{file}: recall"),
        {
            item["name"]: _text(item["address"], f"{file}: {item['name']}: address")
            for item in sites
            if "address" in item
        },
    )


def _refuse_unknown(fields: Mapping[Any, Any], known: Sequence[str], place: str) -> None:
    for name in fields:
        if name not in known:
            raise HoldstrueError(f"{place}: unknown field {brief(name)}", hint=f"the fields are {', '.join(known)}")


def _rules(content: Mapping[str, Any], file: Path) -> RuleSet:
    given = content.get("rules")
    if isinstance(given, str):
        rules = load_rules(file.parent / local_path(given, "rules"))
    elif isinstance(given, list) and given:
        rules = load_rules(given)
    else:
        raise HoldstrueError(f"{file}: expected a list or a file under 'rules:'", hint="rules:\n  - zip -> city")
    nulls = _one_of(content.get("nulls", rules.nulls), ("unknown", "equal"), f"{file}: nulls")
    return RuleSet(rules.rules, rules.table, rules.key, nulls)


def _site(item: Any, place: str, folder: Path, content: Mapping[str, Any]) -> Site:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"]:
        raise HoldstrueError(f"{place}: expected a site with a name, got {brief(item)}", hint="- name: S1")
    place = f"{place} ({item['name']})"
    _refuse_unknown(item, _SITE, place)
    columns = None if "columns" not in item else _names(item["columns"], f"{place}: columns")
    texts = {name: item.get(name) for name in ("where", "source", "state")}
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise HoldstrueError(f"{place}: {name} {brief(value)} is not text", hint="put it in quotes")
    own, base = texts["state"], content.get("state")
    if base is not None and not isinstance(base, str):
        raise HoldstrueError(f"state {brief(base)} is not a directory's name", hint="state: state")
    read = {name: item[name] for name in _READ if name in item}
    try:
        state = _state(own, base, item["name"], folder)
        source = None if texts["source"] is None else str(folder / local_path(texts["source"]))
        site = Site(item["name"], columns, texts["where"], source, state, read)
        _ = site.condition
    except HoldstrueError as error:
        raise HoldstrueError(f"{place}: {error.message}", hint=error.hint) from None
    return site


def _state(own: str | None, base: str | None, site: str, folder: Path) -> str | Path | None:
    """Where a site keeps its state: a place of its own, or one below that of the relation."""
    kept = base if own is None else own
    if kept is None:
        return None
    if is_object_url(kept):
        place = ObjectUrl.of(kept)
        return place.url if own is not None else ObjectUrl.of(f"{place.url}/{site}").url
    path = folder / local_path(kept, "state")
    return path if own is not None else path / site


def _names(value: Any, place: str) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise HoldstrueError(f"{place} {brief(value)}", hint="a column or a list of them: [street, zip]")
    return tuple(names)


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise HoldstrueError(f"{place} {brief(value)} is not text", hint="put it in quotes")
    return value


def _number(value: Any, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise HoldstrueError(f"{place} {brief(value)}", hint="a number from 1 on")
    return value


def _above_0(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise HoldstrueError(f"{place} {brief(value)}", hint="a number above 0")
    return float(value)


def _shares(value: Any, place: str) -> dict[str, float]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise HoldstrueError(f"{place} {brief(value)}", hint="a share by column: {CC: 0.4}")
    return {name: _above_0(share, f"{place}: {name}") for name, share in value.items()}


def _one_of(value: Any, known: Sequence[Any], place: str) -> Any:
    if value not in known:
        raise HoldstrueError(
            f"{place} {brief(value)}",
            hint=f"one of {', '.join(str(word).lower() if isinstance(word, bool) else word for word in known)}",
        )
    return value
