"""What all sites of a relation must agree on: who holds what, in which types, the plan, the seed of ids.

Each site makes the same design out of the declaration and of what the sites say of their columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from holdstrue.data.seed import Seed
from holdstrue.errors import HoldstrueError
from holdstrue.fragments.byte_costs import ID_BYTES, id_width
from holdstrue.fragments.fragment_layout import FragmentLayout, Site, layout_of
from holdstrue.fragments.ids import common_domain
from holdstrue.fragments.normal_cfds import NormalCFD, needed, normal_cfds
from holdstrue.fragments.planning import PlanOptions, fits, plan_of
from holdstrue.fragments.shipping_plan import ShippingPlan
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.fragments.site_state import column_types, widest
from holdstrue.plan.bind import bind
from holdstrue.plan.filter import holds
from holdstrue.rules.model import RuleSet
from holdstrue.rules.terms import condition_columns


@dataclass(frozen=True)
class RelationDesign:
    """A relation over sites, as every site knows it."""

    rules: RuleSet
    layout: FragmentLayout
    cfds: tuple[NormalCFD, ...]
    schemas: Mapping[str, pa.Schema]
    """By site the columns of its source."""
    types: Mapping[str, Sequence[pa.DataType]]
    """By column its types at the sites that hold it."""
    plan: ShippingPlan
    how: str
    seed: Seed
    recall: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns that matter: the key, and what rules and filters read."""
        wanted = needed(self.cfds) | set(self.layout.key)
        wanted |= {c for f in self.layout.fragments for c in condition_columns(f.where)}
        return pa.schema([(c, widest(self.types[c])) for c in self.layout.columns if c in wanted])

    @cached_property
    def specs(self) -> dict[str, SiteSpec]:
        """By site what it knows of the whole."""
        return {site.name: self.spec(site, self.plan, self.recall) for site in self.layout.sites}

    def spec(self, site: Site, plan: ShippingPlan, recall: bool) -> SiteSpec:
        """What a site knows under a plan."""
        number = next(i for i, f in enumerate(self.layout.fragments) if site.name in [s.name for s in f.sites])
        kept = [field for field in self.schema if field.name in (site.columns or ())]
        domains = {field.name: common_domain(field.name, self.types[field.name], self.seed) for field in kept}
        return SiteSpec(
            site.name, number, self.layout.key, pa.schema(kept), domains, self.cfds, plan,
            self.layout.fragments[number].where, self.rules.nulls == "equal", recall, self.schemas[site.name],
            tuple(f.where for i, f in enumerate(self.layout.fragments) if i != number and f.where is not None),
            self.seed, self.how,
        )  # fmt: skip

    def check(self) -> None:
        """Refuse rules and filters that compare what does not compare, before anything is loaded."""
        everything = pa.schema([(name, widest(self.types[name])) for name in self.layout.columns])
        for rule in self.rules:
            bind(rule, "relation", {"relation": everything})
        for fragment in self.layout.fragments:
            holds(fragment.where, lambda name: pa.nulls(0, self.schema.field(name).type), 0)


def designed(
    sites: Sequence[Site],
    rules: RuleSet,
    key: tuple[str, ...],
    schemas: Mapping[str, pa.Schema],
    options: PlanOptions,
    *,
    seed: Seed,
    kept: ShippingPlan | None = None,
    recall: bool = False,
) -> RelationDesign:
    """The design of a relation; `kept` is the plan that states were made with, where there are some."""
    told = [s if s.columns is not None else replace(s, columns=tuple(schemas[s.name].names)) for s in sites]
    layout = layout_of(told, key)
    for site in layout.sites:
        for column in condition_columns(site.condition):
            if column not in layout.columns:
                raise HoldstrueError(
                    f"the filter (where) of site {site.name!r} speaks of a column {column!r} that no site has",
                    hint=f"the columns are {', '.join(layout.columns)}",
                )
    cfds = normal_cfds(rules, layout)
    types = column_types(layout, schemas)
    if kept is not None and fits(kept, layout, rules, cfds):
        plan = kept
    else:
        widths = {name: id_width(some) for name, some in types.items() if id_width(some) < ID_BYTES}
        plan = plan_of(layout, rules, cfds, replace(options, widths=widths))
    found = RelationDesign(rules, layout, cfds, schemas, types, plan, options.how, seed, recall)
    found.check()
    return found
