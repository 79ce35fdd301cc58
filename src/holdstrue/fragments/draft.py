"""A plan in the making: attribute sets as bits, shipments found by need, counted as they come (N_eqid).

`Ground` is what cannot be changed: which site holds what, and what each CFD needs. A `Draft` grows: `obtain`
makes an attribute set available at a site at the least number of new shipments that one greedy look finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

Attrs = int
"""A set of attributes, one bit each."""
Ship = tuple[Attrs, int, int]
"""Attribute set, source, target."""
Helper = tuple[Attrs, int]
"""A non-base HEV: an attribute set that is put together at a site for others to use."""


@dataclass(frozen=True)
class Need:
    """What a variable CFD needs at its home: the ids of its left side and of its right side."""

    x: Attrs
    b: Attrs


@dataclass(frozen=True)
class Ground:
    """Sites and needs of one fragment, as bits."""

    attrs: tuple[str, ...]
    sites: tuple[str, ...]
    holds: tuple[Attrs, ...]
    needs: tuple[Need, ...]

    @staticmethod
    def of(sites: Mapping[str, Iterable[str]], needs: Sequence[tuple[Iterable[str], str]]) -> Ground:
        """From names.

        >>> Ground.of({"S1": "A", "S2": "B"}, [("A", "B")]).needs
        (Need(x=1, b=2),)
        """
        attrs = tuple(dict.fromkeys(name for x, b in needs for name in (*x, b)))
        bit = {name: 1 << i for i, name in enumerate(attrs)}
        holds = tuple(sum(bit.get(name, 0) for name in set(own)) for own in sites.values())
        found = tuple(Need(sum(bit[name] for name in set(x)), bit[b]) for x, b in needs)
        return Ground(attrs, tuple(sites), holds, found)

    def names(self, attrs: Attrs) -> tuple[str, ...]:
        """The attributes of a set."""
        return tuple(name for i, name in enumerate(self.attrs) if attrs >> i & 1)

    @cached_property
    def holders(self) -> dict[Attrs, tuple[int, ...]]:
        """By attribute the sites that hold it."""
        bits = [1 << i for i in range(len(self.attrs))]
        return {bit: tuple(s for s, own in enumerate(self.holds) if own & bit) for bit in bits}


@dataclass
class Draft:
    """Shipments so far, each with how its ids are put together at the source."""

    ground: Ground
    helpers: frozenset[Helper] = frozenset()
    shipped: dict[Ship, tuple[Attrs, tuple[Ship, ...]]] = field(default_factory=dict)
    homes: dict[int, tuple[int, tuple[Attrs, tuple[Ship, ...]], tuple[Attrs, tuple[Ship, ...]]]] = field(
        default_factory=dict
    )

    @property
    def cost(self) -> int:
        """Ids shipped for one changed row."""
        return len(self.shipped)

    def settle(self, need: int, site: int) -> None:
        """Give a CFD its home and ship there what it needs."""
        wanted = self.ground.needs[need]
        self.homes[need] = (site, self.obtain(wanted.x, site), self.obtain(wanted.b, site))

    def obtain(self, wanted: Attrs, site: int) -> tuple[Attrs, tuple[Ship, ...]]:
        """Make a set available at a site; returns which attributes are its own and which shipments it takes.

        Parts are disjoint, so that ids add up.
        """
        parts: list[Ship] = []
        own = self.ground.holds[site]
        rest = wanted
        while rest & ~own:
            ship = self._came(rest, rest & ~own, site)
            if ship is None:
                ship = self._best(rest & ~own, site)
                self._add(ship)
            parts.append(ship)
            rest &= ~ship[0]
        return rest, tuple(parts)

    def _came(self, rest: Attrs, missing: Attrs, site: int) -> Ship | None:
        """The largest set that is shipped to the site anyway and fits into what is left."""
        found = [s for s in self.shipped if s[2] == site and s[0] & ~rest == 0 and s[0] & missing]
        return max(found, key=lambda s: ((s[0] & missing).bit_count(), -s[1]), default=None)

    def _best(self, missing: Attrs, site: int) -> Ship:
        """The shipment that covers most for what it costs."""
        choices: list[tuple[float, int, Ship]] = []
        for attrs, place in self.helpers:
            if attrs & ~missing or place == site:
                continue
            ship = (attrs, place, site)
            cost = 1 + self._extra(attrs, place)
            choices.append((cost / attrs.bit_count(), attrs.bit_count(), ship))
        for bit, holders in self.ground.holders.items():
            if bit & missing:
                choices += [(1.0, 1, (bit, holder, site)) for holder in holders]
        return min(choices)[2]

    def _extra(self, attrs: Attrs, place: int) -> int:
        trial = Draft(self.ground, self._smaller(attrs), dict(self.shipped))
        trial.obtain(attrs, place)
        return trial.cost - self.cost

    def _smaller(self, attrs: Attrs) -> frozenset[Helper]:
        return frozenset(h for h in self.helpers if h[0] & ~attrs == 0 and h[0] != attrs)

    def _add(self, ship: Ship) -> None:
        attrs, source, _ = ship
        inner = Draft(self.ground, self._smaller(attrs), self.shipped)
        made = inner.obtain(attrs, source)
        self.shipped[ship] = made


def drafted(ground: Ground, homes: Sequence[int], helpers: frozenset[Helper] = frozenset()) -> Draft:
    """The shipments that given homes and helpers lead to."""
    draft = Draft(ground, helpers)
    for need, site in enumerate(homes):
        draft.settle(need, site)
    return draft
