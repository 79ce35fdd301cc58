"""The kinds of rules behind one interface: which core finds each, and how the cores follow changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

from holdstrue.discovery.column_kind import ColumnKind
from holdstrue.discovery.found import Died, FoundRule, NearMisses
from holdstrue.discovery.held import Held, SlotChanges
from holdstrue.discovery.inclusion_kind import InclusionKind
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.per_table import ConditionKind, DenialKind, DependencyKind
from holdstrue.discovery.work import Work
from holdstrue.index.checked import Checked
from holdstrue.state.files import Arrays


class Kind(Protocol):
    """Rules of one or two kinds in all tables."""

    kinds: ClassVar[tuple[str, ...]]
    """What `DiscoveryOptions.kinds` calls them."""

    @classmethod
    def load(cls, held: Held, options: DiscoveryOptions, work: Work) -> Kind:
        """Search the rows that are held."""

    @classmethod
    def restore(cls, held: Held, options: DiscoveryOptions, arrays: Checked) -> Kind:
        """As it was left."""

    @property
    def complete(self) -> bool:
        """Whether nothing was left out for want of time."""

    def apply(self, batches: Mapping[str, SlotChanges]) -> Sequence[Died]:
        """Follow a batch; returns the rules that died, with the slots that break them where they are known."""

    def found(self) -> list[FoundRule]:
        """The rules now."""

    def up_to(self) -> Mapping[str, tuple[int, str]]:
        """By what was not found completely: up to which length it was, and what that counts."""

    def near(self, most: int, work: Work) -> NearMisses:
        """Rules that at most so many pairs, rows or values break, by slot."""

    def explain(self) -> str:
        """How the rules are kept, in words."""

    def snapshot(self) -> Arrays:
        """The state as plain arrays."""


FAMILIES: dict[str, type[Kind]] = {
    "columns": ColumnKind,
    "dependencies": DependencyKind,
    "conditions": ConditionKind,
    "inclusions": InclusionKind,
    "denials": DenialKind,
}
"""By the name of its arrays in a state what finds the rules; the quickest come first."""


def families_of(options: DiscoveryOptions) -> dict[str, type[Kind]]:
    """Those that are asked for."""
    return {name: family for name, family in FAMILIES.items() if set(family.kinds) & set(options.kinds)}


def load_kinds(held: Held, options: DiscoveryOptions, work: Work) -> dict[str, Kind]:
    """Search the rows that are held for every kind that is asked for; what one leaves of the time, others may use."""
    wanted = families_of(options)
    found: dict[str, Kind] = {}
    for at, (name, family) in enumerate(wanted.items()):
        share = work.first(1 / (len(wanted) - at)).part(at / len(wanted), 1 / len(wanted))
        found[name] = family.load(held, options, share)
    return found


def restore_kinds(held: Held, options: DiscoveryOptions, arrays: Mapping[str, Checked]) -> dict[str, Kind]:
    """The kinds as a state holds them."""
    return {name: family.restore(held, options, arrays[name]) for name, family in families_of(options).items()}
