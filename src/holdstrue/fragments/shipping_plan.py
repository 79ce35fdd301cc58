"""Where indexes live and which ids are shipped, as plain data that prints itself (paper 000, Section 5).

An id is one of an attribute set; a shipment (attribute set, source, target) serves every CFD that needs it and
counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from functools import cached_property
from typing import Any

from holdstrue.fragments.normal_cfds import GUARD, NormalCFD


@dataclass(frozen=True)
class Shipment:
    """Ids of `attrs` from one site to another, put together from own columns and from what came before.

    `level` is the round in which it goes; `cfds` are the CFDs that need it. A shipment without attributes
    tells only which rows may still violate: those that fulfil what a CFD asks of rows.
    """

    number: int
    attrs: tuple[str, ...]
    source: str
    target: str
    level: int
    own: tuple[str, ...]
    received: tuple[int, ...]
    cfds: tuple[int, ...]

    @property
    def what(self) -> str:
        """The attribute set as people write it."""
        return "rows" if not self.attrs else ", ".join(name.removeprefix(GUARD) for name in self.attrs)


@dataclass(frozen=True)
class Home:
    """Where a CFD's index lives, and how its left and right side are put together there."""

    cfd: int
    site: str
    x_own: tuple[str, ...] = ()
    x_received: tuple[int, ...] = ()
    b_own: bool = True
    b_received: tuple[int, ...] = ()


COPIES = "copies"
"""All that a CFD reads goes to one site: the plan of the batch algorithms."""
_WHOLE = frozenset({"chains", "optVer", "exact", COPIES})
"""Ways of planning in which constants and filters are attributes like others."""


@dataclass(frozen=True)
class FragmentPlan:
    """The plan of one fragment."""

    fragment: str
    homes: tuple[Home, ...]
    shipments: tuple[Shipment, ...]
    how: str = "optVer"
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    """By site what it holds."""
    cost: float = 0.0
    """Expected bytes for a changed row."""
    bits: int = 0
    """Bits for a changed row."""
    bound: float | None = None
    """Bytes below which no plan goes, where that is known."""
    proven: bool = False
    """Whether no plan is better."""

    @property
    def ids(self) -> int:
        """Ids shipped for one changed row, at most (row numbers for constant CFDs apart)."""
        return sum(1 for shipment in self.shipments if shipment.attrs)

    @property
    def title(self) -> str:
        """What it ships for a changed row, at most, and what is expected of it."""
        bits = f" and {self.bits} bit{'s' * (self.bits != 1)}" if self.bits else ""
        return f"{self.ids} id{'s' * (self.ids != 1)}{bits} a changed row"

    @property
    def judged(self) -> str:
        """How it was found, what it costs, and how far from the best it may be."""
        if self.bound is None:
            known = ""
        elif self.proven and self.bound >= self.cost - 1e-6:
            known = ", the fewest there are"
        else:
            known = f", at least {self.bound:.1f} in any plan over the ids that were looked at"
        return f"{self.how}: {self.cost:.1f} bytes expected{known}"

    @property
    def levels(self) -> int:
        """Rounds of shipments."""
        return max((shipment.level + 1 for shipment in self.shipments), default=0)

    def home(self, cfd: int) -> Home:
        """The home of a CFD."""
        return self.homes[cfd]

    def left_side(self, cfd: NormalCFD) -> tuple[str, ...]:
        """The columns whose ids name a group of a CFD: all, as the paper has it, or those that its pattern leaves open.

        CFDs can only share an index of groups where these are the same.
        """
        return tuple(sorted(cfd.x if self.how in _WHOLE else cfd.free))


@dataclass(frozen=True)
class ShippingPlan:
    """The plan of a relation: one for each fragment, and for each CFD the fragments that must agree on it."""

    fragments: tuple[FragmentPlan, ...]
    participants: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    """By CFD: its text."""
    rules: tuple[int, ...]
    """By CFD: the number of its rule."""
    parts: int = 1
    """Into how many parts every fragment is cut by the keys of its rows (`parts.py`): so many follow each other."""

    def agreements(self, cfd: NormalCFD) -> tuple[tuple[int, ...], ...]:
        """The fragments that must agree on a CFD; several lists where only the parts of a fragment must."""
        taking = self.participants[cfd.number]
        together = (taking,) if taking else ()
        if self.parts == 1 or cfd.is_constant:
            return together
        # a fragment that needs no other still has parts that need each other
        firsts = (first for first in range(0, len(self.fragments), self.parts) if first not in taking)
        return (*together, *(tuple(range(first, first + self.parts)) for first in firsts))

    @property
    def ids(self) -> int:
        """Ids shipped inside fragments for one changed row, at most."""
        return max(part.ids for part in self.fragments)

    @cached_property
    def fragment_of(self) -> dict[str, int]:
        """By site with an index the number of its fragment."""
        return {home.site: i for i, part in enumerate(self.fragments) for home in part.homes}

    def peers(self, fragment: int, cfd: int) -> tuple[tuple[int, str], ...]:
        """The homes of a CFD in the other fragments that take part."""
        if fragment not in self.participants[cfd]:
            return ()
        return tuple((i, self.fragments[i].home(cfd).site) for i in self.participants[cfd] if i != fragment)

    def to_fact(self) -> dict[str, Any]:
        """As JSON data from which `of_fact` makes the same plan."""
        parts = [
            [p.fragment, [astuple(h) for h in p.homes], [astuple(s) for s in p.shipments], p.how,
             {site: [*own] for site, own in p.columns.items()}, p.cost, p.bits, p.bound, p.proven]
            for p in self.fragments
        ]  # fmt: skip
        return {"fragments": parts, "participants": self.participants, "names": self.names, "rules": self.rules}

    @staticmethod
    def of_fact(fact: Mapping[str, Any]) -> ShippingPlan:
        """Back from `to_fact`."""
        parts = []
        for name, homes, shipments, how, columns, cost, bits, bound, proven in fact["fragments"]:
            found_homes = tuple(Home(*(_frozen(value) for value in home)) for home in homes)
            found = tuple(Shipment(*(_frozen(value) for value in shipment)) for shipment in shipments)
            held = {site: tuple(own) for site, own in columns.items()}
            parts.append(FragmentPlan(name, found_homes, found, how, held, cost, bits, bound, proven))
        taking = tuple(tuple(some) for some in fact["participants"])
        return ShippingPlan(tuple(parts), taking, tuple(fact["names"]), tuple(fact["rules"]))

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data, CFDs by their texts."""
        return {"ids": self.ids, "fragments": [self._fragment_dict(number) for number in range(len(self.fragments))]}

    def _fragment_dict(self, number: int) -> dict[str, Any]:
        part = self.fragments[number]
        return {
            "fragment": part.fragment,
            "how": part.how,
            "ids": part.ids,
            "bits": part.bits,
            "bytes": part.cost,
            "at_least": part.bound,
            "indexes": [
                {
                    "cfd": self.names[home.cfd],
                    "site": home.site,
                    "agrees_with": [site for _, site in self.peers(number, home.cfd)],
                }
                for home in part.homes
            ],
            "shipments": [
                {
                    "source": s.source,
                    "target": s.target,
                    "attributes": [*s.attrs],
                    "round": s.level + 1,
                    "cfds": [self.names[cfd] for cfd in s.cfds],
                }
                for s in part.shipments
            ],
        }

    def lines(self) -> Iterable[str]:
        """What goes where, a line each."""
        for number, part in enumerate(self.fragments):
            yield f"fragment {part.fragment}: {part.title} ({part.judged})"
            by_site: dict[str, list[str]] = {}
            for home in part.homes:
                others = len(self.peers(number, home.cfd))
                shared = f" (agrees with {others} other fragments)" if others else ""
                by_site.setdefault(home.site, []).append(self.names[home.cfd] + shared)
            for site, names in by_site.items():
                yield from (f"  at {site}: index of {name}" for name in names)
            for shipment in part.shipments:
                yield f"  {shipment.source} -> {shipment.target}: {_what(shipment)} for {_some(shipment, self.names)}"

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _what(shipment: Shipment) -> str:
    return f"id of ({shipment.what})" if shipment.attrs else "bits of rows that may violate"


def _some(shipment: Shipment, names: tuple[str, ...], most: int = 3) -> str:
    shown = "; ".join(names[cfd] for cfd in shipment.cfds[:most])
    more = len(shipment.cfds) - most
    return shown if more <= 0 else f"{shown}; and {more} more"
