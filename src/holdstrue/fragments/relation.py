"""A relation that is split over sites: its violations, kept current by batches of changes.

The relation hands every site its part of the changes, lets sites work in rounds, brings their messages through
the channel, and commits in two steps. It holds no rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.closing import Closing
from holdstrue.data.coding import Domain
from holdstrue.detect.resolve import fitted
from holdstrue.errors import HoldstrueError, StateError
from holdstrue.fragments.batch_record import ANEW
from holdstrue.fragments.bundles import bundles_of
from holdstrue.fragments.channel import Channel, TrafficByPair, since
from holdstrue.fragments.design import designed
from holdstrue.fragments.fragment_layout import FragmentLayout, Site
from holdstrue.fragments.ids import Ids, common_domain, key_ids
from holdstrue.fragments.indexed_rows import ChangedKeys
from holdstrue.fragments.integer_plan import SECONDS
from holdstrue.fragments.netting import contents_of, netted, routed
from holdstrue.fragments.opt_ver import BEAM
from holdstrue.fragments.planning import How, PlanOptions, copy_plan
from holdstrue.fragments.relation_delta import KeysByRule, RelationDelta, changed_keys, counted, listed_by_cfd
from holdstrue.fragments.shipping_plan import ShippingPlan
from holdstrue.fragments.site_host import MakeHost, local_host
from holdstrue.fragments.site_state import SiteState, StatePath, kept_plan, shared_seed, site_schema
from holdstrue.rules.file import RuleSource, load_rules
from holdstrue.sources.feeds import read_changes
from holdstrue.state.files import UncommittedError
from holdstrue.typing import Mask

LOAD = "load"
"""The batch id of the first load."""
ANEW_FROM = 1 << 16
"""Images of rows, of all sites, from which on a batch may start over: fewer take less than its rounds. Chosen, not
tuned."""
ANEW_SHARE = 1.0
"""A batch starts over that brings and removes more images of rows than so many times the rows that are there after it.
At 200K rows and ten sites, the CPU time of counting changes in over that of starting over, by columns and by rows, at
this ratio: 0.82: 0.86, 0.94 (mostly new rows); 1.0: 0.86, 1.17 (half of the rows updated) and 0.97, 0.73 (half
deleted); 1.6: 1.30, 1.63; 2.0: 1.47, 1.92 (all updated); 4.0: 1.72, 1.44 (most deleted)."""


LOAD_FIRST = (
    "load it first: holdstrue site load FILE --name SITE (holdstrue fragments init FILE, where one process holds all "
    "sites; in Python relation.load())"
)


def named(batch: str) -> str:
    """The name of a batch, which must be text, and not the one of the first load."""
    if not isinstance(batch, str) or not batch.strip() or batch == LOAD:
        raise HoldstrueError(f"a batch cannot be called {batch!r}", hint="give it a name of its own")
    return batch


class UnloadedError(HoldstrueError):
    """A relation whose sites have sources that nothing was loaded from yet."""


class Relation(Closing):
    """CFDs over a relation whose fragments live at different sites.

    Parameters
    ----------
    sites
        Who holds which columns of which rows.
    rules
        FDs and CFDs, in any form that `holdstrue.load_rules` reads.
    key
        The columns that every site has and that tell rows apart; by default the rule file's key.
    plan
        How to place indexes: auto, integer, optVer, exact, chains (see `holdstrue.fragments.planning`). Sites that
        have a state keep the plan that it was made with.
    k
        Plans that optVer keeps.
    seconds
        How long the integer program may take.
    shares
        By column the share of rows that has the constant a pattern asks for, where that is known.
    recall
        Whether the home of a CFD finds the class of a removed row by its key, so that removals ship nothing;
        False ships the ids of removed rows, as the paper does.
    schema
        Types of columns, for sites that have neither a source nor a state; or by site.
    channel
        What carries and counts messages.
    host
        Where sites live; by default in this process.

    Examples
    --------
    >>> a = Site("a", ("zip",), source=pa.table({"id": [1, 2], "zip": ["EH4", "EH4"]}))
    >>> b = Site("b", ("street",), source=pa.table({"id": [1, 2], "street": ["High", "Low"]}))
    >>> relation = Relation([a, b], ["zip -> street"], key="id")
    >>> relation.load().added_keys("zip -> street"), relation.counts()
    ({1, 2}, {'zip -> street': 2})
    >>> print(relation.plan())
    fragment all: 1 id a changed row (integer: 16.0 bytes expected, the fewest there are)
      at a: index of [zip] -> [street]
      b -> a: id of (street) for [zip] -> [street]
    >>> changes = {"op": ["d", "i"], "id": [2, 3], "zip": [None, "EH5"], "street": [None, "Low"]}
    >>> delta = relation.apply(pa.table(changes))
    >>> delta.removed_keys("zip -> street"), delta.traffic.ids
    ({1, 2}, 2)
    """

    def __init__(
        self,
        sites: Sequence[Site],
        rules: RuleSource,
        key: str | Sequence[str] | None = None,
        *,
        plan: How = "auto",
        k: int = BEAM,
        seconds: float = SECONDS,
        shares: Mapping[str, float] | None = None,
        recall: bool = False,
        schema: pa.Schema | Mapping[str, pa.Schema] | None = None,
        channel: Channel | None = None,
        host: MakeHost | None = None,
    ) -> None:
        self.rules = load_rules(rules)
        own = self.rules.key if key is None else key
        names = (own,) if isinstance(own, str) else tuple(own)
        schemas = {site.name: site_schema(site, schema) for site in sites}
        states = self._kept_at(sites)
        self._design = designed(
            sites, self.rules, names, schemas, PlanOptions(plan, k, seconds, shares or {}),
            seed=shared_seed(states), kept=kept_plan(states, plan), recall=recall,
        )  # fmt: skip
        self.channel = Channel() if channel is None else channel
        placed = {site.name: site for site in self._design.layout.sites}
        self._host = (host or local_host)(self._design.specs, placed)

    def _kept_at(self, sites: Sequence[Site]) -> list[StatePath]:
        """Where states may be that tell the seed of ids and the plan."""
        for site in sites:
            if site.state is not None and SiteState.exists(f"{site.state}/part-0"):
                raise StateError(
                    f"the state of site {site.name!r} is cut into parts, as Spark does where sites are large",
                    hint="open it with holdstrue.spark.relation, or add --engine spark",
                )
        return [site.state for site in sites if site.state is not None]

    @property
    def layout(self) -> FragmentLayout:
        """Who holds what."""
        return self._design.layout

    @property
    def schema(self) -> pa.Schema:
        """The columns that matter."""
        return self._design.schema

    @cached_property
    def _bundles(self) -> list[int]:
        return [bundle.number for bundle in bundles_of(self._design.plan, self._design.cfds)]

    def close(self) -> None:
        """Let all sites go."""
        self._host.close()

    def plan(self) -> ShippingPlan:
        """Where indexes live and what is shipped."""
        return self._design.plan

    @property
    def loaded(self) -> bool:
        """Whether a batch was committed at every site."""
        return None not in self._host.all("last").values()

    # --- batches --------------------------------------------------------------------------------------

    def load(self) -> RelationDelta:
        """Load every site from its own source; the first batch. Complexity: O(rows)."""
        return self._batch(LOAD, None)

    def apply(self, changes: Any, batch_id: str | None = None, **read: Any) -> RelationDelta:
        """Apply one batch of changes, whole or not at all (incVer, incHor).

        Parameters
        ----------
        changes
            Whatever `holdstrue.sources.feeds.read_changes` reads: rows with an operation column, or new rows.
        batch_id
            Names the batch: applied a second time, it does nothing; applied again after a failure, it is
            finished.
        read
            Options of `read_changes`.

        Runtime complexity: O(changes + changed violations); shipped are at most as many ids a changed row as
        the plan says, and three a group, fragment and CFD across fragments.
        """
        batch = self._batch_name(batch_id)
        found = read_changes(changes, key=self.layout.key, schema=self.schema, extra="ignore", **read)
        return self._batch(batch, found)

    def _batch_name(self, batch_id: str | None) -> str:
        return uuid.uuid4().hex if batch_id is None else named(batch_id)

    def _batch(self, batch: str, changes: Any) -> RelationDelta:
        done = self._done(batch)
        if all(done.values()):
            return RelationDelta(batch, repeated=True)
        self._refuse_half(batch, done)
        before, started = self.channel.snapshot(), self._host.elapsed
        self._host.sent.clear()
        try:
            self._begin(batch, changes)
            found = self._worked_out(batch)
            self._host.each("prepare", self._counts())
        except BaseException:
            self._abort()
            raise
        self._commit(batch)
        self._host.release(batch)
        return self._delta(batch, *self._changed(found), before, started)

    def _done(self, batch: str) -> dict[str, bool]:
        """By site whether it has committed a batch."""
        return self._host.all("done", batch)

    def _last(self) -> dict[str, str | None]:
        """By site the last batch that it committed."""
        return self._host.all("last")

    def _worked_out(self, batch: str) -> dict[str, Any]:
        """The rounds of a batch; what the sites found."""
        try:
            if batch == LOAD:
                self._load_portions()
            elif self._starts_over():
                self._compare_entries(self._host.all("start_over"))
                self._load_portions()
            else:
                self._ship(self._design.plan)
                if self._bundles:
                    self._agree()
            return self._findings()
        except StateError:
            # ids that do not fit an index may be those of a lost message, and then say so
            self._compare()
            raise

    def _starts_over(self) -> bool:
        """Whether a batch is so large that new indexes of all rows are cheaper than to count its changes in."""
        weights = self._weights()
        known = {how for *_, how in weights if how}
        if known:
            return known == {ANEW}  # as those did who have it
        images, rows = sum(one[0] for one in weights), sum(one[1] for one in weights)
        return images >= ANEW_FROM and images > rows * ANEW_SHARE

    def _weights(self) -> list[list[int]]:
        """By site what `SiteWork.weigh` says of the batch."""
        return [*self._host.all("weigh").values()]

    def _load_portions(self) -> None:
        """A first load is much: a portion of the rows at a time, then a slice of a bundle's groups at a time."""
        for portion in range(max(self._host.all("portions").values())):
            self._ship(self._design.plan, portion)
            self._host.all("settle", portion)
        if not self._bundles:
            return
        slices = dict.fromkeys(self._bundles, 0)
        for told in self._host.all("slices").values():
            slices |= {number: max(parts, slices[number]) for number, parts in told}
        for number, parts in slices.items():
            for part in range(parts):
                self._agree(number, part, parts)

    def _agree(self, *some: int) -> None:
        """Fragments agree on groups: on all that changed, or on some of a first load."""
        for verb in ("announce", "reply", "verdict", "conclude"):
            self._host.round(self.channel, verb, *some)

    def _findings(self) -> dict[str, Any]:
        """By site what it found of the batch."""
        return self._host.all("finish")

    def _delta(
        self, batch: str, added: KeysByRule, removed: KeysByRule, before: TrafficByPair, started: float
    ) -> RelationDelta:
        """What a batch did, with what was shipped and spent since it started."""
        shipped = since(before, self.channel.snapshot())
        return RelationDelta(batch, added, removed, shipped, elapsed=self._host.elapsed - started)

    def _refuse_half(self, batch: str, done: Mapping[str, bool]) -> None:
        """A batch that only some sites committed must be finished before another one starts."""
        last = {*self._last().values()}
        if len(last) > 1:
            self._refuse_lost()
        if any(done.values()):
            return
        if len(last) > 1:
            ahead = next(name for name in last if name is not None and not all(self._host.all("done", name).values()))
            raise StateError(f"batch {ahead!r} was committed at some sites only", hint="apply it again; then go on")
        if batch != LOAD:
            self._refuse_unloaded(last)

    def _refuse_unloaded(self, last: Collection[str | None]) -> None:
        """Sites that have rows to begin with must have taken them in; `last` are their last batches."""
        if None in last and any(site.source is not None for site in self.layout.sites):
            raise UnloadedError("the relation is not loaded", hint=LOAD_FIRST)

    def _refuse_lost(self) -> None:
        """A site that lacks more than the last batch cannot catch up."""
        counts = self._host.all("count")
        most = max(counts.values())
        for site, count in counts.items():
            if count < most - 1:
                raise StateError(
                    f"site {site!r} has {count} of {most} batches: its state was lost or is an old copy",
                    hint="bring its state directory back, or load the relation anew into empty directories",
                )

    def _begin(self, batch: str, changes: Any) -> None:
        loads = changes is None
        self._compare_entries(self._host.all("begin_load", batch) if loads else self._hand_out(batch, changes))

    def _compare_entries(self, prints: Mapping[str, str]) -> None:
        """Sites of one fragment have the same entries of a batch, in one order."""
        for fragment in self.layout.fragments:
            names = [site.name for site in fragment.sites]
            told = {name: prints[name] for name in names}
            if len(set(told.values())) > 1:
                # their sources may have the same rows in different orders
                told = self._host.all("align", sites=names)
            for name in names[1:]:
                if told[name] != told[names[0]]:
                    raise HoldstrueError(
                        f"sites {names[0]!r} and {name!r} do not hold the same rows",
                        hint="sites of one fragment hold columns of the same rows: compare their keys; "
                        "each must be given its own part of a batch",
                    )

    def _hand_out(self, batch: str, changes: Any) -> dict[str, Any]:
        """Every site gets its columns of the rows that concern its fragment: those that it has or that come to it."""
        first = [fragment.sites[0].name for fragment in self.layout.fragments]
        there: dict[str, Mask] = {}

        def presence(keys: pa.Table) -> Mask:
            there.update(self._host.all("presence", batch, keys, sites=first))
            return np.logical_or.reduce([*there.values()])

        rows = fitted(changes, self.schema, self.layout.key)
        net = netted(replace(changes, rows=rows), self.layout.key, self._key_ids(rows), presence)
        others = {name: self._domain(name) for name in self.schema.names if name not in self.layout.key}
        contents = contents_of(net, self._key_ids(net.rows), others)
        handed = {}
        for name, fragment, now in zip(first, self.layout.fragments, routed(net, self.layout), strict=True):
            own = now | there[name][net.key]
            part, stays = (net.rows, now) if own.all() else (net.rows.filter(pa.array(own)), now[own])
            for site in fragment.sites:
                handed[site.name] = batch, part.select(self._design.specs[site.name].schema.names), stays, contents
        return self._host.each("begin", handed)

    def _key_ids(self, rows: pa.Table) -> Ids:
        return key_ids(rows, self.layout.key, {name: self._domain(name) for name in self.layout.key})

    def _domain(self, name: str) -> Domain:
        """How a column is coded at all sites."""
        return common_domain(name, self._design.types[name], self._design.seed)

    def _any(self, verb: str, *args: Any, sites: Iterable[str]) -> Mask:
        """Where one of some sites says yes."""
        return np.logical_or.reduce([*self._host.all(verb, *args, sites=sites).values()])

    def _ship(self, plan: ShippingPlan, *portion: int) -> None:
        """The rounds inside fragments, after which every site has what its indexes need; of a portion, or of all."""
        for level in range(max(part.levels for part in plan.fragments)):
            self._host.round(self.channel, "ship", level, *portion)

    def _judge(self) -> None:
        """Fragments agree on every CFD by being compared at one of them, CFD by CFD."""
        for cfd, taking in enumerate(self._design.plan.participants):
            if taking:
                self._host.round(self.channel, "gather", cfd)
                self._host.round(self.channel, "judge", cfd)
                self._host.all("take_verdicts", cfd)

    def _compare(self) -> None:
        """No site goes on when a message to it was lost."""
        self._host.each("compare", self._counts())

    def _counts(self) -> dict[str, tuple[dict[str, int]]]:
        """By site how many messages others have sent it."""
        return {site: (self._host.sent.get(site, {}),) for site in self._host.sites}

    def _abort(self) -> None:
        for site in self._host.sites:
            try:
                self._host.ask(site, "abort")
            except (HoldstrueError, OSError):
                # a site that is down forgets the batch by itself, or when the next one begins
                continue

    def _commit(self, batch: str) -> None:
        try:
            self._host.all("commit")
        except (HoldstrueError, OSError) as error:
            why = error.why if isinstance(error, UncommittedError) else getattr(error, "message", str(error))
            raise StateError(
                f"it is not known whether batch {batch!r} was committed at some sites only: {why}",
                hint="apply it again, which finishes it; if it is refused, open the relation or start the sites again",
            ) from error

    # --- violations -----------------------------------------------------------------------------------

    def _changed(self, found: Mapping[str, Mapping[int, ChangedKeys]]) -> tuple[KeysByRule, KeysByRule]:
        """By rule the keys of rows that began and ceased to violate it, out of what the sites found of CFDs."""
        lists = listed_by_cfd(found.values())
        added: dict[str, pa.Table] = {}
        removed: dict[str, pa.Table] = {}
        for number, rule in enumerate(self.rules):
            cfds = [cfd.number for cfd in self._design.cfds if cfd.rule == number]
            if any(cfd in lists for cfd in cfds):
                keys = changed_keys(cfds, lists, self._key_ids, self._violates)
                added |= {rule.name: keys.added} if keys.added.num_rows else {}
                removed |= {rule.name: keys.removed} if keys.removed.num_rows else {}
        return added, removed

    def _violates(self, cfd: int, keys: pa.Table) -> Mask:
        return self._any("violates", cfd, keys, sites={part.home(cfd).site for part in self._design.plan.fragments})

    def violations(self) -> KeysByRule:
        """By rule the keys of the rows that violate it. Complexity: O(violations + groups)."""
        self._refuse_between()
        return self._by_rule(self._host.all("violations").values())

    def share(self, site: str) -> KeysByRule:
        """What one site knows: the violations of the CFDs whose index it keeps."""
        if site not in self._host.sites:
            raise HoldstrueError(f"no site is called {site!r}", hint=f"the sites are {', '.join(self._host.sites)}")
        return self._by_rule([self._host.ask(site, "violations")])

    def _by_rule(self, parts: Iterable[Mapping[int, pa.Table]]) -> dict[str, pa.Table]:
        found: dict[str, list[pa.Table]] = {}
        for by_cfd in parts:
            for number, keys in by_cfd.items():
                found.setdefault(self.rules.rules[self._design.cfds[number].rule].name, []).append(keys)
        names = list(self.layout.key)
        return {
            rule: tables[0]
            if len(tables) == 1
            else pa.concat_tables(tables).group_by(names).aggregate([]).select(names)
            for rule, tables in found.items()
        }

    def counts(self) -> dict[str, int]:
        """By rule how many rows violate it, rules without violations included."""
        return counted(self.rules, self.violations())

    def check(self) -> RelationDelta:
        """Everything from scratch (batVer, batHor); `added` holds all violations. Complexity: O(rows).

        Looks at the rows that the sites hold, or at their sources when nothing is loaded; changes nothing.
        """
        self._refuse_between()
        plan = copy_plan(self.layout, self._design.cfds, self._design.plan)
        before, started = self.channel.snapshot(), self._host.elapsed
        self._host.sent.clear()
        self._host.each("open_check", {site.name: (self._design.spec(site, plan, True),) for site in self.layout.sites})
        try:
            self._ship(plan)
            self._judge()
            self._compare()
            found = self._host.all("finish").values()
        finally:
            self._host.all("close_check")
        violating = self._by_rule({cfd: keys.added for cfd, keys in by_cfd.items()} for by_cfd in found)
        return self._delta("check", violating, {}, before, started)

    def _refuse_between(self) -> None:
        """While some sites have a batch that others lack, there are no violations to speak of."""
        if len(set(self._last().values())) > 1:
            self._refuse_lost()
            raise StateError("the last batch was committed at some sites only", hint="apply it again first")

    def sizes(self) -> dict[str, dict[str, int]]:
        """By site its rows, and the bytes of its indexes."""
        return self._host.all("size")
