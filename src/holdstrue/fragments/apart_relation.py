"""A relation whose sites are processes of their own, as the site that brings a batch to all of them sees it.

Changes arise at the sites: each takes up what it was offered under the batch's id. A batch that some sites have
committed and others have not, because whoever brought it died in between, is finished before anything else is done:
those who have it answer from their records, the others take up again what they were offered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

import pyarrow as pa

from holdstrue.data.seed import Seed
from holdstrue.errors import HoldstrueError, StateError
from holdstrue.fragments.channel import Channel, Traffic
from holdstrue.fragments.declaration import Declaration
from holdstrue.fragments.design import RelationDesign, designed
from holdstrue.fragments.relation import LOAD, Relation, named
from holdstrue.fragments.relation_delta import RelationDelta
from holdstrue.fragments.remote_host import RemoteHost
from holdstrue.fragments.shipping_plan import ShippingPlan
from holdstrue.state.schema_text import schema_of

KNOWN = ":all"
"""What stands for the batch where all violations are asked for."""

CountsByRule = Mapping[str, list[int]]


class SiteFacts(TypedDict):
    """What a site brings to the design of the relation."""

    schema: str
    seed: dict[str, Any] | None
    plan: dict[str, Any] | None


class Greeting(TypedDict):
    """What a site says when it is entered; where nothing is open, only that the print is empty."""

    print: str
    last: str | None
    done: bool


@dataclass(frozen=True)
class ApartDelta(RelationDelta):
    """What a batch did: keys of the rows that the asked site's fragment holds, and how many there are elsewhere."""

    elsewhere: Mapping[str, CountsByRule] = field(default_factory=dict)
    """By site of other fragments, and rule: rows that began and that ceased to violate it."""

    def head(self) -> dict[str, Any]:
        """All but the keys, as JSON data; of these how many there are, rule by rule, in the order of `keys`."""
        shipped = [[*pair, t.messages, t.ids, t.bytes] for pair, t in self.shipped.items()]
        told = {"batch": self.batch, "repeated": self.repeated, "shipped": shipped, "elsewhere": self.elsewhere}
        return {"kind": "delta", **told, "listed": [[*name, rows.num_rows] for name, rows in self._listed()]}

    def _listed(self) -> Iterator[tuple[tuple[str, bool], pa.Table]]:
        """Keys by rule, and whether they are of rows that ceased to violate it."""
        for removed, side in ((False, self.added), (True, self.removed)):
            for rule, rows in side.items():
                yield (rule, removed), rows

    def keys(self, key: tuple[str, ...]) -> pa.Table:
        """The keys as one table, which may be as long as the relation: nothing stands beside each."""
        parts = [rows.select(list(key)) for _, rows in self._listed()]
        return pa.concat_tables(parts, promote_options="default") if parts else pa.table({})

    @staticmethod
    def of(head: Mapping[str, Any], table: pa.Table) -> ApartDelta:
        """Back from `head` and `keys`."""
        sides: tuple[dict[str, pa.Table], dict[str, pa.Table]] = ({}, {})
        start = 0
        for rule, removed, rows in head["listed"]:
            sides[bool(removed)][rule] = table.slice(start, rows)
            start += rows
        shipped = {(source, target): Traffic(*counts) for source, target, *counts in head["shipped"]}
        return ApartDelta(head["batch"], *sides, shipped, bool(head["repeated"]), elsewhere=dict(head["elsewhere"]))

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {**super().to_dict(), "elsewhere": {site: dict(rules) for site, rules in self.elsewhere.items()}}


@dataclass(frozen=True)
class KnownDesign:
    """What all sites agreed on, and what tells it from others."""

    design: RelationDesign
    print: str


class ApartRelation(Relation):
    """A relation over processes, for one thing to be done with it."""

    def __init__(self, design: RelationDesign, here: str, host: RemoteHost) -> None:
        self.rules = design.rules
        self._design = design
        self.channel = Channel()
        self._host: Any = host
        self._greeted: dict[str, Greeting] = {}
        """What sites said when they were entered, as long as nothing was done since."""
        self._taken: list[list[int]] = []
        self._asked = ""
        """The batch that they were asked about."""
        number = design.specs[here].fragment
        self._near = tuple(site.name for site in design.layout.fragments[number].sites)
        self._far = tuple(site.name for site in design.layout.sites if site.name not in self._near)

    @staticmethod
    def opened(
        declared: Declaration, here: str, host: RemoteHost, known: KnownDesign | None, batch: str
    ) -> ApartRelation:
        """Enter all sites, in an order that all keep to, and have them agree on the design.

        `known` is the one of the last time: where all sites have it open still, nothing of it is told again. `batch` is
        what is to be done then.
        """
        greeted: dict[str, Greeting] = {site: host.enter(site, batch) for site in sorted(host.sites)}
        for site, said in greeted.items():
            if not isinstance(said, dict):
                raise HoldstrueError(f"site {site!r} runs another version", hint="run the same one at all sites")
        if known is not None and known.print and {said["print"] for said in greeted.values()} == {known.print}:
            relation = ApartRelation(known.design, here, host)
            relation._greeted, relation._asked = greeted, batch
        else:
            relation = ApartRelation(ApartRelation._agreed(declared, host), here, host)
        relation._finish_half()
        return relation

    @staticmethod
    def _agreed(declared: Declaration, host: RemoteHost) -> RelationDesign:
        facts: dict[str, SiteFacts] = host.all("hello")
        seeds = {name: Seed.of(fact["seed"]) for name, fact in facts.items() if fact["seed"] is not None}
        if len(set(seeds.values())) > 1:
            raise StateError(
                f"the states of the sites {', '.join(seeds)} were not made together: their ids differ",
                hint="bring back the states that belong together, or load the relation anew into empty directories",
            )
        plans = [fact["plan"] for fact in facts.values() if fact["plan"] is not None]
        design = designed(
            declared.sites, declared.rules, declared.key,
            {name: schema_of(fact["schema"]) for name, fact in facts.items()}, declared.options,
            seed=next(iter(seeds.values()), Seed.new()), recall=declared.recall,
            kept=ShippingPlan.of_fact(plans[0]) if plans else None,
        )  # fmt: skip
        told = {
            "schemas": {name: fact["schema"] for name, fact in facts.items()},
            "seed": design.seed.to_dict(),
            "plan": design.plan.to_fact(),
        }
        host.all("open", told)
        return design

    @property
    def design(self) -> RelationDesign:
        """What all sites agreed on."""
        return self._design

    def _finish_half(self) -> None:
        """Bring a batch to its end that only some sites have."""
        last = {*self._last().values()}
        if len(last) > 1:
            self._refuse_lost()
            for name in last:
                if name is not None and not all(self._host.all("done", name).values()):
                    self._bring(name)

    def _last(self) -> dict[str, str | None]:
        if self._greeted:
            return {site: said["last"] for site, said in self._greeted.items()}
        return super()._last()

    def _done(self, batch: str) -> dict[str, bool]:
        if self._greeted and batch == self._asked:
            return {site: said["done"] for site, said in self._greeted.items()}
        return super()._done(batch)

    def take_up(self, batch: str) -> ApartDelta:
        """Apply what the sites were offered under a batch's id, everywhere or nowhere."""
        return self._bring(named(batch))

    def load(self) -> ApartDelta:
        """Load every site from its own source."""
        return self._bring(LOAD)

    def _bring(self, batch: str) -> ApartDelta:
        self._elsewhere: dict[str, CountsByRule] = {}
        delta = self._batch(batch, None)
        told = {name: getattr(delta, name) for name in ("batch", "added", "removed", "shipped", "repeated", "elapsed")}
        return ApartDelta(**told, elsewhere=self._elsewhere)

    def _begin(self, batch: str, changes: Any) -> None:
        self._greeted = {}  # from here on it may not be so
        if batch == LOAD:
            self._compare_entries(self._host.all("begin_load", batch))
            return
        taken: dict[str, list[Any]] = self._host.all("take_up", batch)
        if not any(one[0] for one in taken.values()):
            raise HoldstrueError(
                f"no site was offered changes for batch {batch!r}",
                hint="holdstrue site offer FILE CHANGES --name SITE --batch-id ID; site status says what was offered",
            )
        self._taken = [one[2:] for one in taken.values()]
        self._compare_entries({site: one[1] for site, one in taken.items()})

    def _weights(self) -> list[list[int]]:
        return self._taken  # said with what they took up

    def _findings(self) -> dict[str, Any]:
        counts = self._host.all("finish_counts", sites=self._far)
        self._elsewhere = {site: rules for site, rules in counts.items() if rules}
        found: dict[str, Any] = self._host.all("finish", sites=self._near)
        return found

    def _violates(self, cfd: int, keys: pa.Table) -> Any:
        sites = {part.home(cfd).site for part in self._design.plan.fragments} & {*self._near}
        return self._any("violates", cfd, keys, sites=sites)

    def known(self) -> ApartDelta:
        """All violations, as added ones: keys of rows that the fragment here holds, and how many are elsewhere."""
        self._refuse_unloaded(self._last().values())
        listed = self._host.all("violations", sites=self._near).values()
        found = self._by_rule({cfd: keys.added for cfd, keys in by_cfd.items()} for by_cfd in listed)
        counts = self._host.all("violation_counts", sites=self._far)
        return ApartDelta(KNOWN, found, elsewhere={site: rules for site, rules in counts.items() if rules})
