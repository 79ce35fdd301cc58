"""Where sites live: each is asked by verbs with plain data, nothing else passes.

`SiteHost` keeps all sites in one process. Other hosts may put each into a process or a cluster of its own: what
passes are Arrow tables of the site's own columns, arrays, messages and names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from holdstrue.fragments.channel import Channel, SiteMessage
from holdstrue.fragments.fragment_layout import Site
from holdstrue.fragments.packed_values import is_text
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.fragments.site_state import SiteState
from holdstrue.fragments.site_work import SiteWork
from holdstrue.sources.read import read_table


class SiteHost:
    """Sites in this process, one after the other.

    `elapsed` is the processor time that the same work takes when all sites work at once: in every round that of
    the slowest site.
    """

    def __init__(self, works: Mapping[str, SiteWork]) -> None:
        self._works = dict(works)
        self.elapsed = 0.0
        self.sent: dict[str, dict[str, int]] = {}
        """By target and source how many messages were sent since this was emptied, with which what came is compared."""

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites."""
        return tuple(self._works)

    def ask(self, site: str, verb: str, *args: Any) -> Any:
        """Let one site do something."""
        return self._works[site].ask(verb, *args)

    def all(self, verb: str, *args: Any, sites: Iterable[str] | None = None) -> dict[str, Any]:
        """Let sites do the same thing, in one round."""
        return self.each(verb, dict.fromkeys(self.sites if sites is None else sites, args))

    def each(self, verb: str, args: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
        """The same, each with arguments of its own."""
        slowest, answers = 0.0, {}
        for site, own in args.items():
            start = time.process_time()
            answers[site] = self.ask(site, verb, *own)
            slowest = max(slowest, time.process_time() - start)
        self.elapsed += slowest
        return answers

    def round(self, channel: Channel, verb: str, *args: Any) -> None:
        """Let all sites send, and bring every message through the channel to its site."""
        sent: list[SiteMessage] = []
        for messages in self.all(verb, *args).values():
            sent += messages
        for message in sent:
            self.note(message.source, message.target, 1)
        came: dict[str, list[SiteMessage]] = {}
        for message in sent:
            for arrived in channel.carry(message):
                came.setdefault(arrived.target, []).append(arrived)
        slowest = 0.0
        # by site, not by message: to read the clock of a process with many threads takes up to half a millisecond
        for target, messages in came.items():
            start = time.process_time()
            for arrived in messages:
                self.ask(target, "receive", arrived)
            slowest = max(slowest, time.process_time() - start)
        self.elapsed += slowest

    def note(self, source: str, target: str, messages: int) -> None:
        """Count what was sent."""
        own = self.sent.setdefault(target, {})
        own[source] = own.get(source, 0) + messages

    def release(self, batch: str) -> None:
        """Have sites forget what they keep to answer for a batch, which all of them have."""
        self.all("release", batch)

    def close(self) -> None:
        """Let all sites go."""
        for site in self.sites:
            self.ask(site, "close")


MakeHost = Callable[[Mapping[str, SiteSpec], Mapping[str, Site]], SiteHost]
"""Makes a host for sites, given by name: what each knows of the relation, and where its rows and its state are."""


def local_host(specs: Mapping[str, SiteSpec], sites: Mapping[str, Site]) -> SiteHost:
    """All sites in this process."""
    opened: dict[str, SiteWork] = {}
    try:
        for name, spec in specs.items():
            opened[name] = open_site(spec, sites[name])
    except BaseException:
        for work in opened.values():
            work.close()
        raise
    return SiteHost(opened)


def open_site(spec: SiteSpec, site: Site) -> SiteWork:
    """A site with its source and, where it has one, its state directory."""

    text = [field.name for field in spec.schema if is_text(field.type)]

    def read() -> pa.Table:
        return read_table(site.source, columns=spec.schema.names, schema=spec.schema, dictionaries=text, **site.read)

    state = None if site.state is None else SiteState.at(site.state, spec)
    try:
        return SiteWork(spec, None if site.source is None else read, state)
    except BaseException:
        if state is not None:
            state.close()
        raise
