"""The kinds of rules behind one interface: which core finds each, and how the cores follow changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from holdstrue.discovery.denial_kind import DenialKind
from holdstrue.discovery.denials.counting import Within
from holdstrue.discovery.dependency_kind import ConditionKind, DependencyKind
from holdstrue.discovery.held import Held
from holdstrue.discovery.inclusion_kind import InclusionKind
from holdstrue.discovery.kind import Arrays, Kind, Work
from holdstrue.discovery.options import Options

Progress: TypeAlias = Callable[[float, str], None]

FAMILIES: dict[str, tuple[type[Kind], tuple[str, ...]]] = {
    "dependencies": (DependencyKind, ("fd", "key")),
    "conditions": (ConditionKind, ("cfd",)),
    "inclusions": (InclusionKind, ("ind",)),
    "denials": (DenialKind, ("dc",)),
}
"""By the name of its arrays in a state: what finds the rules, and their kinds; the quickest come first."""


def load_kinds(
    held: Held, options: Options, progress: Progress | None, within: Within | None = None
) -> dict[str, Kind]:
    """Search the rows that are held for every kind that is asked for; what one leaves of the time, others may use."""
    end = None if options.budget is None else time.monotonic() + options.budget
    wanted = _wanted(options)
    found: dict[str, Kind] = {}
    for at, (name, family) in enumerate(wanted.items()):
        left = None if end is None else (end - time.monotonic()) / (len(wanted) - at)
        deadline = None if left is None else time.monotonic() + left
        found[name] = family.load(held, options, Work(deadline, _part(progress, at, len(wanted)), within))
    return found


def restore_kinds(held: Held, options: Options, arrays: Mapping[str, Arrays]) -> dict[str, Kind]:
    """The kinds as a state holds them."""
    return {name: family.restore(held, options, arrays[name]) for name, family in _wanted(options).items()}


def _wanted(options: Options) -> dict[str, type[Kind]]:
    return {name: family for name, (family, kinds) in FAMILIES.items() if set(kinds) & set(options.kinds)}


def _part(progress: Progress | None, at: int, of: int) -> Progress | None:
    """Progress of one kind among several, each counted alike."""
    if progress is None:
        return None
    return lambda share, what: progress((at + share) / of, what)
