"""A relation whose sites are cut into parts: a batch is a few stages over all of them, and then one commit a part.

Where stages run is the runner's: tasks of a cluster, or loops. The driver sees counts and names of files, and keys of
rows only where somebody reads them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import pyarrow as pa

from holdstrue.data.changes import Changes
from holdstrue.errors import ChangeError, HoldstrueError, StateError
from holdstrue.fragments.bundles import bundles_of
from holdstrue.fragments.channel import ChannelError, Traffic
from holdstrue.fragments.fragment_layout import FragmentLayout, Site
from holdstrue.fragments.indexed_rows import keys_by_cfd
from holdstrue.fragments.netting import FITS
from holdstrue.fragments.part_host import PartHost
from holdstrue.fragments.part_scatter import OwnRows, Spread, Starting
from holdstrue.fragments.part_stages import (
    APPLIES,
    CHECKS,
    KEYS,
    LOADS,
    Call,
    PartJob,
    PartStage,
    WholeBatch,
    rounds_of,
)
from holdstrue.fragments.parts import kept_parts, part_state, parts_of, require_parts
from holdstrue.fragments.relation import LOAD, Relation
from holdstrue.fragments.relation_delta import KeysByRule, RelationDelta
from holdstrue.fragments.site_host import SiteHost
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.fragments.site_state import StatePath
from holdstrue.rules.file import RuleSource
from holdstrue.shards.runner import Frame, Runner, Sources
from holdstrue.shards.wire import SUMMARY, Message, raised
from holdstrue.state.files import UncommittedError
from holdstrue.typing import Mask

COMMITTERS = 16
"""Parts that are committed at the same time."""

ROUND_CHANGES = 2000
"""One task does all rounds of a batch of fewer changes for each round that it saves. At ten sites by rows a round that
is a stage took 130 to 160 ms, and 1,000 changes 124 ms, in two tasks as in one: of 8,000 changes 1.47 s and 2.13."""


class KeysWhenRead(Mapping[str, pa.Table]):
    """Keys by rule that are fetched when somebody reads them."""

    def __init__(self, fetch: Callable[[], KeysByRule]) -> None:
        self._fetch = fetch

    @cached_property
    def _found(self) -> KeysByRule:
        return self._fetch()

    def __getitem__(self, rule: str) -> pa.Table:
        return self._found[rule]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


@dataclass(frozen=True)
class PartedDelta(RelationDelta):
    """What a batch did to a relation in parts. Keys are fetched when they are read, before the next batch."""

    changed: int = 0
    """How many rows began or ceased to violate a CFD, each counted once a CFD."""


class PartedRelation(Relation):
    """CFDs over a relation whose sites are cut into parts.

    Parameters
    ----------
    runner
        Where stages run.
    parts
        Into how many parts each site is cut; by default as its states were, else one.
    tasks
        How many tasks share the parts of all sites; by default as many as run at a time.
    """

    def __init__(
        self, runner: Runner, sites: Sequence[Site], rules: RuleSource, key: str | Sequence[str] | None = None, *,
        parts: int | None = None, tasks: int | None = None, **options: Any,
    ) -> None:  # fmt: skip
        self._runner = runner
        for site in sites:
            if site.state is None:
                raise HoldstrueError(
                    f"site {site.name!r} has no state directory", hint="give each site one that all workers reach"
                )
        kept = kept_parts(str(site.state) for site in sites)
        if kept is not None and parts is not None and parts != kept:
            raise StateError(
                f"the states of the sites are cut into {kept} parts each, not {parts}",
                hint="leave parts out, or load the relation anew into empty directories",
            )
        self.parts = kept or (self._fresh_parts(sites) if parts is None else parts)
        require_parts(self.parts, len(sites))
        self._wanted = tasks
        super().__init__(sites, rules, key, host=self._make_host, **options)

    def _fresh_parts(self, sites: Sequence[Site]) -> int:
        """Into how many parts sites are cut where nobody says so and no state was made."""
        return 1

    def _kept_at(self, sites: Sequence[Site]) -> list[StatePath]:
        return [part_state(str(site.state), place, self.parts) for site in sites for place in range(self.parts)]

    def _make_host(self, specs: Mapping[str, SiteSpec], sites: Mapping[str, Site]) -> SiteHost:
        parts = parts_of(specs, sites, self.parts)
        # a worker that may hold little has one part at a time
        most = self._runner.tasks() if self._runner.worker_bytes() is None else len(parts)
        wanted = most if self._wanted is None else self._wanted
        self._sources = {name: site.source for name, site in sites.items()}
        self._work = PartHost(self._runner, parts, max(1, min(len(parts), wanted)))
        return self._work

    @cached_property
    def _cut(self) -> Any:
        return self._work.parts[0].spec.plan

    @cached_property
    def _spread(self) -> Spread:
        fragments = tuple(
            replace(f, sites=tuple(replace(site, source=None, state=None, read={}) for site in f.sites))
            for f in self.layout.fragments
        )
        layout = FragmentLayout(self.layout.key, self.layout.columns, fragments)
        domains = {name: self._domain(name) for name in layout.key}
        return Spread(self._work.parts, self._work.tasks, layout, self.schema, domains)

    # --- batches --------------------------------------------------------------------------------------

    def load(self) -> RelationDelta:
        """Load every site from its own source; the first batch."""
        return self._apply(LOAD, LOADS, self._own_rows, self._spread)

    def _batch(self, batch: str, changes: Any) -> RelationDelta:
        spread = self._spread_for(len(changes))
        return self._apply(batch, APPLIES, lambda: [(self._frame_of([*self._sent(spread, changes)]), None)], spread)

    def apply_files(self, paths: Iterable[Any], batch_id: str | None = None, **read: Any) -> RelationDelta:
        """Apply change files as one batch."""
        return self.apply([*paths], batch_id, **read)

    def _spread_for(self, changes: float | None) -> Spread:
        """Where the rows of a batch go, of which it may be known about how many there are: few of them to one task.

        One task does all rounds, and the parts of all sites are held where it runs: where tasks are as many as may run
        at a time, workers come to hold all of them too, as long as there is room.
        """
        many, tasks = self._spread, self._work.tasks
        if changes is None or self._wanted not in (None, 1):
            return many
        few = changes * (1 - 1 / tasks) < ROUND_CHANGES * (len(self._rounds) - 1) or tasks == 1
        return replace(many, tasks=1, whole=True) if few and self._work.bytes() <= self._work.room() else many

    @cached_property
    def _rounds(self) -> tuple[tuple[Call, ...], ...]:
        agree = bool(bundles_of(self._cut, self._design.cfds))
        return rounds_of(max(part.levels for part in self._cut.fragments), agree=agree)

    def _sent(self, spread: Spread, changes: Changes) -> Iterator[Message]:
        """Changes that are here, as messages to the parts."""
        yield from spread.changed(changes, 0)
        yield from spread.started()

    def _frame_of(self, messages: Sequence[Message]) -> Frame:
        """Messages as a data frame of the runner."""
        raise NotImplementedError

    def _own_rows(self) -> Sources:
        """Every site's source, and something to do for tasks that get no rows of them."""
        found: list[tuple[Frame | None, Any]] = [(None, Starting(self._spread))]
        for name, frame in self._sources.items():
            if frame is None:
                raise HoldstrueError(f"site {name!r} has no source to load", hint="give it one: source=...")
            columns = self._design.specs[name].schema.names
            found.append((self._runner.select(frame, columns), OwnRows(self._spread, name)))
        return found

    def _apply(self, batch: str, does: str, sources: Callable[[], Sources], spread: Spread) -> RelationDelta:
        done = self._work.all("done", batch)
        if all(done.values()):
            return RelationDelta(batch, repeated=True)
        self._refuse_half(batch, done)
        before = self.channel.snapshot()
        told, _ = self._run(batch, does, sources(), spread)
        try:
            self._commit_parts(batch, {part: own for part, own in sorted(told.items()) if not own["repeated"]})
        except (HoldstrueError, OSError) as error:
            why = error.why if isinstance(error, UncommittedError) else getattr(error, "message", str(error))
            raise StateError(
                f"it is not known whether batch {batch!r} was committed at some sites only: {why}",
                hint="apply it again, which finishes it; if that is refused, open the relation again first",
            ) from error
        changed = sum(sum(counts) for own in told.values() for counts in own["changed"].values())
        found = cache(partial(self._listed, batch))
        added, removed = KeysWhenRead(lambda: found()[0]), KeysWhenRead(lambda: found()[1])
        delta = self._delta(batch, added if changed else {}, removed if changed else {}, before, 0.0)
        return PartedDelta(**vars(delta), changed=changed)

    def _commit_parts(self, batch: str, told: Mapping[int, Mapping[str, Any]]) -> None:
        """Commit at all parts, several at a time: each waits for its own disk."""
        with ThreadPoolExecutor(min(COMMITTERS, len(told)) or 1, thread_name_prefix="holdstrue-commit") as pool:
            for done in [pool.submit(self._work.commit, part, batch, own) for part, own in told.items()]:
                done.result()

    def _run(
        self, batch: str, does: str, sources: Sources, spread: Spread
    ) -> tuple[dict[int, dict[str, Any]], list[Message]]:
        """The stages of a batch or a check; nothing is committed yet."""
        parts, rounds, tasks = self._work.parts, self._rounds, spread.tasks
        standing, attempt = self._work.standing(), uuid.uuid4().hex
        job = PartJob(parts, standing, tasks, batch, attempt, does, self.layout.key, rounds, spread.whole)
        stages = [WholeBatch(job, 0)] if job.whole else [PartStage(job, at) for at in range(len(rounds))]
        messages = [*self._runner.run(sources, stages, tasks)]
        raised(messages)
        said = [message.data() for message in messages if message.kind == SUMMARY]
        told = {own["part"]: own for own in said if "part" in own}
        self._compare_parts(told)
        missing = sum(own["wanted"] - own["there"] for own in said if "wanted" in own)
        if missing > 0:
            raise ChangeError(
                f"{missing} row(s) that the batch updates or deletes do not exist; nothing was applied",
                hint=FITS,
            )
        for part, own in told.items():
            self._count(parts[part].site, own["tally"])
        return told, messages

    def _count(self, site: str, tally: Mapping[str, Sequence[int]]) -> None:
        """What left a part of a site for parts of others."""
        for target, counts in tally.items():
            other = self._site_of[target]
            if other != site:
                self.channel.add(site, other, Traffic(*counts))

    @cached_property
    def _site_of(self) -> dict[str, str]:
        return {part.spec.name: part.site for part in self._work.parts}

    def _compare_parts(self, told: Mapping[int, Mapping[str, Any]]) -> None:
        """Nothing is committed unless every part had the same rows as those of its fragment, and all of its mail."""
        prints: dict[tuple[int, int], tuple[str, str]] = {}
        for part in self._work.parts:
            own = told.get(part.number)
            if own is None:
                raise ChannelError(f"part {part.spec.name!r} did not answer", hint="apply the batch again")
            site, seen = prints.setdefault((part.fragment, part.place), (part.site, own["fingerprint"]))
            if seen != own["fingerprint"]:
                raise HoldstrueError(
                    f"sites {site!r} and {part.site!r} do not hold the same rows",
                    hint="sites of one fragment hold columns of the same rows: compare their keys",
                )
            if not own["repeated"]:
                sent = {
                    self._work.parts[other].spec.name: one["sent"][part.spec.name]
                    for other, one in told.items()
                    if part.spec.name in one["sent"]
                }
                if sent != own["got"]:
                    raise ChannelError(f"messages to {part.spec.name!r} were lost", hint="apply the batch again")

    # --- violations -----------------------------------------------------------------------------------

    def _listed(self, batch: str) -> tuple[KeysByRule, KeysByRule]:
        """The keys that a batch changed, out of what the parts remember of their last one."""
        if {*self._work.all("last").values()} != {batch}:
            raise StateError(f"batch {batch!r} is not the last one any more", hint="read its keys before the next one")
        return self._changed(self._work.all("found"))

    def _violates(self, cfd: int, keys: pa.Table) -> Mask:
        return self._any("violates", cfd, keys, sites={part.home(cfd).site for part in self._cut.fragments})

    def share(self, site: str) -> KeysByRule:
        """What the parts of one site know: the violations of the CFDs whose index it keeps."""
        own = [part.spec.name for part in self._work.parts if part.site == site]
        if not own:
            raise HoldstrueError(f"no site is called {site!r}", hint=f"the sites are {', '.join(self._sources)}")
        return self._by_rule(self._work.all("violations", sites=own).values())

    def check(self) -> RelationDelta:
        """Everything from scratch, by the rounds of a first load, of which nothing is kept. Complexity: O(rows).

        Looks at the rows that the parts hold, or at the sources when nothing is loaded.
        """
        self._refuse_between()
        before = self.channel.snapshot()
        sources = [(None, Starting(self._spread))] if self.loaded else self._own_rows()
        _, messages = self._run("check", CHECKS, sources, self._spread)
        found = [keys_by_cfd(message.table()) for message in messages if message.kind == KEYS]
        violating = self._by_rule({cfd: keys.added for cfd, keys in by_cfd.items()} for by_cfd in found)
        return self._delta("check", violating, {}, before, 0.0)

    def sizes(self) -> dict[str, dict[str, int]]:
        """By site its rows, and the bytes of its indexes."""
        found: dict[str, dict[str, int]] = {}
        for part, told in zip(self._work.parts, self._work.all("size").values(), strict=True):
            own = found.setdefault(part.site, dict.fromkeys(told, 0))
            for name, value in told.items():
                own[name] += value
        return found
