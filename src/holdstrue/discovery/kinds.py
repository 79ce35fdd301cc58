"""The kinds of rules behind one interface: which core finds each, and how the cores follow changes."""

from __future__ import annotations

from collections.abc import Mapping

from holdstrue.discovery.denial_kind import DenialKind
from holdstrue.discovery.dependency_kind import ConditionKind, DependencyKind
from holdstrue.discovery.held import Held
from holdstrue.discovery.inclusion_kind import InclusionKind
from holdstrue.discovery.kind import Kind
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.work import Work
from holdstrue.state.store import Arrays

FAMILIES: dict[str, type[Kind]] = {
    "dependencies": DependencyKind,
    "conditions": ConditionKind,
    "inclusions": InclusionKind,
    "denials": DenialKind,
}
"""By the name of its arrays in a state what finds the rules; the quickest come first."""


def load_kinds(held: Held, options: DiscoveryOptions, work: Work) -> dict[str, Kind]:
    """Search the rows that are held for every kind that is asked for; what one leaves of the time, others may use."""
    wanted = _wanted(options)
    found: dict[str, Kind] = {}
    for at, (name, family) in enumerate(wanted.items()):
        share = work.first(1 / (len(wanted) - at)).part(at / len(wanted), 1 / len(wanted))
        found[name] = family.load(held, options, share)
    return found


def restore_kinds(held: Held, options: DiscoveryOptions, arrays: Mapping[str, Arrays]) -> dict[str, Kind]:
    """The kinds as a state holds them."""
    return {name: family.restore(held, options, arrays[name]) for name, family in _wanted(options).items()}


def _wanted(options: DiscoveryOptions) -> dict[str, type[Kind]]:
    return {name: family for name, family in FAMILIES.items() if set(family.kinds) & set(options.kinds)}
