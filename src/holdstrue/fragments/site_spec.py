"""What one site knows of the whole: its columns, the CFDs, the plan. Nothing of other sites' rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import cached_property

import pyarrow as pa

from holdstrue.data.coding import Domain
from holdstrue.data.seed import PROCESS, Seed
from holdstrue.fragments.bundles import Bundle, bundles_of
from holdstrue.fragments.normal_cfds import GUARD, NormalCFD, answerable
from holdstrue.fragments.shipping_plan import Home, Shipment, ShippingPlan
from holdstrue.rules.model import Condition

SHAPE = 4
"""Of the state of a site: 3 since CFDs share indexes and groups have owners, 4 since keys are known by 96 bits."""


@dataclass(frozen=True)
class AskedOfRows:
    """What a CFD asks of rows at a site."""

    tests: tuple[tuple[str, Condition], ...]
    """Conditions with their texts."""
    known: frozenset[str]
    """Columns that must have a value."""

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The texts alone, which tell conditions apart."""
        return tuple(text for text, _ in self.tests)


@dataclass(frozen=True)
class SiteSpec:
    """A site's part of a relation.

    `schema` holds the columns that are kept: the key, and what CFDs read of the site's columns.
    """

    name: str
    fragment: int
    key: tuple[str, ...]
    schema: pa.Schema
    domains: Mapping[str, Domain]
    cfds: tuple[NormalCFD, ...]
    plan: ShippingPlan
    where: Condition | None
    nulls_equal: bool = False
    recall: bool = False
    declared: pa.Schema | None = None
    """All columns of the site's source, so that a state can be opened without it."""
    elsewhere: tuple[Condition, ...] = ()
    """The filters of the other fragments."""
    seed: Seed = PROCESS
    """Of ids; the same at all sites."""
    how: str = "auto"
    """How the plan was asked for."""
    whole: ShippingPlan | None = None
    """The plan before sites were cut into parts, where they are."""

    @cached_property
    def held(self) -> set[str]:
        """The site's columns, and the parts of filters that it can answer."""
        return answerable(self.schema.names, self.cfds)

    @cached_property
    def asked(self) -> dict[int, AskedOfRows]:
        """By CFD what it asks of rows, as far as the site can answer."""
        return {cfd.number: self._asked(cfd) for cfd in self.cfds}

    def _asked(self, cfd: NormalCFD) -> AskedOfRows:
        own, names = self.held, frozenset[str]()
        tests = tuple((text, guard) for attr, text, guard in cfd.tests if attr in own)
        if cfd.unwanted is not None:
            tests += (cfd.unwanted,) if cfd.b in own else ()
        elif not self.nulls_equal:
            names = frozenset(attr for attr in (*cfd.x, cfd.b) if attr in own and not attr.startswith(GUARD))
        return AskedOfRows(tests, names)

    def kept(self, rows: pa.Table) -> pa.Table:
        """The columns that are kept, in their types."""
        found = rows.select(self.schema.names)
        return found if found.schema.equals(self.schema) else found.cast(self.schema)

    def kept_packed(self, rows: pa.Table) -> pa.Table:
        """The same, text by its distinct values where it is so."""
        found = rows.select(self.schema.names)
        for at, field in enumerate(self.schema):
            type_ = found.schema.field(at).type
            if type_ != field.type and not (pa.types.is_dictionary(type_) and type_.value_type == field.type):
                found = found.set_column(at, field, found.column(at).cast(field.type))
        return found

    @cached_property
    def shipments(self) -> tuple[Shipment, ...]:
        """Those that start or end here."""
        return tuple(s for s in self.plan.fragments[self.fragment].shipments if self.name in (s.source, s.target))

    @property
    def levels(self) -> int:
        """Rounds of shipments in the fragment."""
        return self.plan.fragments[self.fragment].levels

    @cached_property
    def own_cfds(self) -> tuple[NormalCFD, ...]:
        """The CFDs whose index is here."""
        part = self.plan.fragments[self.fragment]
        return tuple(cfd for cfd in self.cfds if part.home(cfd.number).site == self.name)

    def home(self, cfd: NormalCFD) -> Home:
        """The home of a CFD in this fragment."""
        return self.plan.fragments[self.fragment].home(cfd.number)

    def peers(self, cfd: NormalCFD) -> tuple[tuple[int, str], ...]:
        """The homes of a CFD in the other fragments that must agree on it."""
        return self.plan.peers(self.fragment, cfd.number)

    @cached_property
    def bundles(self) -> tuple[Bundle, ...]:
        """The CFDs that this site must agree on with others, by left side."""
        return tuple(bundle for bundle in bundles_of(self.plan, self.cfds) if self.name in bundle.sites)

    @cached_property
    def bundle_count(self) -> int:
        """How many bundles there are at all sites."""
        return len(bundles_of(self.plan, self.cfds))

    @cached_property
    def shipment_count(self) -> int:
        """Above the numbers of all shipments of the fragment."""
        return 1 + max((s.number for s in self.plan.fragments[self.fragment].shipments), default=0)

    def fingerprint(self) -> str:
        """What a state must have been written for to be opened with this."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        plan = self.plan
        homes = [[astuple(home) for home in part.homes] for part in plan.fragments]
        shipments = [[astuple(shipment) for shipment in part.shipments] for part in plan.fragments]
        told = {
            "site": [self.name, self.fragment, self.nulls_equal, self.recall],
            "schema": [[field.name, str(field.type)] for field in self.schema],
            "domains": {name: repr(domain) for name, domain in sorted(self.domains.items())},
            "cfds": [plan.names, plan.rules, plan.participants],
            "shape": SHAPE,
            "plan": [[[part.fragment, part.how] for part in plan.fragments], homes, shipments],
        }
        return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=16).hexdigest()
