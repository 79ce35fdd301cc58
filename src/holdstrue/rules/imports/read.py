"""A file of another tool, recognised and read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdstrue.errors import HoldstrueError, RuleError, brief
from holdstrue.rules.imports.collected import Collected
from holdstrue.rules.imports.dbt import read_dbt
from holdstrue.rules.imports.great_expectations import read_suite
from holdstrue.rules.imports.pandera import read_pandera
from holdstrue.rules.imports.soda import read_soda
from holdstrue.rules.yaml_text import LONGEST, read_yaml


@dataclass(frozen=True)
class Tool:
    """A tool whose files are read: its name for people, how they are recognised, and what reads them."""

    title: str
    recognises: Callable[[Mapping[Any, Any]], bool]
    read: Callable[[Mapping[Any, Any], Collected], None]


def _checks_tables(content: Mapping[Any, Any]) -> bool:
    return any(isinstance(title, str) and title.startswith(("checks for ", "filter ")) for title in content)


TOOLS: Mapping[str, Tool] = {
    "dbt": Tool(
        "dbt", lambda content: any(name in content for name in ("models", "sources", "seeds", "snapshots")), read_dbt
    ),
    "gx": Tool("Great Expectations", lambda content: "expectations" in content, read_suite),
    "soda": Tool("Soda", _checks_tables, read_soda),
    "pandera": Tool(
        "pandera", lambda content: "schema_type" in content or isinstance(content.get("columns"), dict), read_pandera
    ),
}
"""Every tool by the name that --from takes. Another tool is a module and a line."""


def import_rules(text: str, tool: str | None = None, file: str = "") -> Collected:
    """The rules of another tool's file, and what did not map.

    Parameters
    ----------
    text
        What is in the file: YAML or JSON.
    tool
        dbt, gx, soda or pandera; told by the content where it is None.
    file
        Starts every message.

    Examples
    --------
    >>> found = import_rules("models: [{name: people, columns: [{name: id, tests: [unique, fancy]}]}]")
    >>> [rule.text for rule in found.rules], [str(miss) for miss in found.unmapped]
    (['key(id)'], ['people.id: fancy: no rule here says this'])
    """
    if tool is not None and tool not in TOOLS:
        raise HoldstrueError(f"no tool {brief(tool)}", hint=f"one of {', '.join(TOOLS)}")
    content = _content(text, file)
    at = f"{file}: " if file else ""
    if not isinstance(content, dict):
        raise RuleError(f"{at}expected fields, got {brief(content)}", hint=_KNOWN)
    if tool is None:
        fitting = [name for name, one in TOOLS.items() if one.recognises(content)]
        if not fitting:
            raise RuleError(f"{at}this is a file of no tool that is known here", hint=_KNOWN)
        tool = fitting[0]
    elif not TOOLS[tool].recognises(content):
        raise RuleError(f"{at}this is no file of {TOOLS[tool].title}", hint=_KNOWN)
    into = Collected(tool)
    TOOLS[tool].read(content, into)
    return into


_KNOWN = (
    "files that are read: dbt's schema.yml, expectation suites of Great Expectations (JSON), checks of Soda, "
    "schemas of pandera (schema.to_yaml())"
)


def _content(text: str, file: str) -> Any:
    at = f"{file}: " if file else ""
    if not text.lstrip().startswith("{"):
        return read_yaml(text, file)
    if len(text) > LONGEST:
        raise RuleError(f"{at}{len(text):,} characters are more than is read ({LONGEST:,})", hint="split the file")
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        # YAML may begin with a bracket as well
        return read_yaml(text, file)
    except RecursionError:
        raise RuleError(f"{at}lists inside lists without end", hint=_KNOWN) from None
