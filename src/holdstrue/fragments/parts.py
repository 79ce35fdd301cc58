"""Sites cut into parts by the keys of their rows, so that several tasks share the rows of one site.

A part is to other parts what a fragment is to other fragments: the sites of a fragment have the same rows in parts of
the same number, and what parts must agree on goes through the owners of groups, whether they are of one site or of
two. Only what goes from a part of one site to a part of another is shipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from holdstrue.errors import HoldstrueError
from holdstrue.fragments.fragment_layout import MOST_SITES, Site
from holdstrue.fragments.ids import Ids
from holdstrue.fragments.shipping_plan import FragmentPlan, ShippingPlan
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.fragments.site_state import SiteState
from holdstrue.state.journal import facts_of
from holdstrue.typing import I32


@dataclass(frozen=True)
class SitePart:
    """A part of a site."""

    number: int
    """Among all parts of the relation."""
    site: str
    fragment: int
    """Of the site, before it was cut."""
    place: int
    """Among the parts of its site: that of the keys of its rows."""
    first: bool
    """Whether its site is the first of its fragment."""
    spec: SiteSpec
    state: str
    token: str
    """Tells what is held for this part from what is for another that had its state at the same place."""


def part_name(site: str, place: int, parts: int) -> str:
    """How a part is called in plans and messages; the only part of a site has its name.

    >>> part_name("S1", 0, 1), part_name("S1", 2, 4)
    ('S1', 'S1/2')
    """
    return site if parts == 1 else f"{site}/{place}"


def part_state(state: str, place: int, parts: int) -> str:
    """Where a part keeps its state; the only one of a site where the site would.

    >>> part_state("s3://bucket/S1", 2, 4)
    's3://bucket/S1/part-2'
    """
    return state if parts == 1 else f"{state}/part-{place}"


def place_of(keys: Ids, parts: int) -> I32:
    """By row the place of its part, from the id of its key."""
    found: I32 = (keys.hi % keys.hi.dtype.type(parts)).astype("int32")
    return found


def kept_parts(states: Iterable[str]) -> int | None:
    """Into how many parts the states of sites were cut; None where none was made."""
    for state in states:
        if SiteState.exists(state):
            return 1
        if SiteState.exists(part_state(state, 0, 2)):
            return facts_of(part_state(state, 0, 2), "site", lambda facts: int(facts["parts"]))
    return None


def require_parts(parts: int, sites: int) -> None:
    """Refuse numbers of parts that cannot be."""
    if isinstance(parts, bool) or not isinstance(parts, int) or parts < 1:
        raise HoldstrueError(f"a site cannot be cut into {parts!r} parts", hint="give a number from 1 on")
    if parts * sites > MOST_SITES:
        raise HoldstrueError(f"{sites} sites of {parts} parts each are too many", hint=f"at most {MOST_SITES} in all")


def parts_of(specs: Mapping[str, SiteSpec], sites: Mapping[str, Site], parts: int) -> tuple[SitePart, ...]:
    """All parts of all sites, those of one site one after the other."""
    known: set[int] = set()
    found: list[SitePart] = []
    cut: ShippingPlan | None = None
    for name, spec in specs.items():
        first = spec.fragment not in known
        known.add(spec.fragment)
        for place in range(parts):
            own = spec
            if parts > 1:
                # one plan for all of them, which is written once where they travel together
                cut = cut or cut_plan(spec.plan, parts)
                number = spec.fragment * parts + place
                own = replace(spec, name=part_name(name, place, parts), fragment=number, plan=cut, whole=spec.plan)
            state = part_state(str(sites[name].state), place, parts)
            token = f"{own.seed.to_dict()} {own.fingerprint()}"
            found.append(SitePart(len(found), name, spec.fragment, place, first, own, state, token))
    return tuple(found)


def _cut(plan: FragmentPlan, place: int, parts: int) -> FragmentPlan:
    def name(site: str) -> str:
        return part_name(site, place, parts)

    return replace(
        plan,
        fragment=f"{plan.fragment} ({place + 1} of {parts})",
        homes=tuple(replace(home, site=name(home.site)) for home in plan.homes),
        shipments=tuple(replace(s, source=name(s.source), target=name(s.target)) for s in plan.shipments),
        columns={name(site): own for site, own in plan.columns.items()},
    )


def cut_plan(plan: ShippingPlan, parts: int) -> ShippingPlan:
    """The plan of a relation whose sites are cut into parts: every fragment as so many, one after the other."""
    if parts == 1:
        return plan
    fragments = tuple(_cut(part, place, parts) for part in plan.fragments for place in range(parts))
    taking = tuple(_taking(some, parts) for some in plan.participants)
    return replace(plan, fragments=fragments, participants=taking, parts=parts)


def _taking(fragments: Sequence[int], parts: int) -> tuple[int, ...]:
    return tuple(fragment * parts + place for fragment in fragments for place in range(parts))
