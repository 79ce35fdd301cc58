"""Where sites live: each behind a door that lets verbs and plain data through, nothing else.

`SiteHost` keeps all sites in one process. Other hosts may put each into a process or a cluster of its own: what
passes the door are Arrow tables of the site's own columns, arrays, messages and names.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from holdstrue.fragments.channel import Channel, SiteMessage
from holdstrue.fragments.from_scratch import WholeWork
from holdstrue.fragments.site_work import SiteWork


class Door:
    """The one way to a site: lets it work on a batch, or check everything from scratch beside it."""

    def __init__(self, work: SiteWork) -> None:
        self._work = work
        self._check: WholeWork | None = None

    def ask(self, verb: str, *args: Any) -> Any:
        """Let the site do something."""
        if verb == "open_check":
            self._check = WholeWork(args[0], self._work.current_rows)
            self._check.begin("check")
            return None
        if verb == "close_check":
            self._check = None
            return None
        return getattr(self._check or self._work, verb)(*args)


class SiteHost:
    """Sites in this process, one after the other.

    `elapsed` is the processor time that the same work takes when all sites work at once: in every round that of
    the slowest site.
    """

    def __init__(self, works: Mapping[str, SiteWork]) -> None:
        self._doors = {name: Door(work) for name, work in works.items()}
        self.elapsed = 0.0

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites."""
        return tuple(self._doors)

    def ask(self, site: str, verb: str, *args: Any) -> Any:
        """Let one site do something."""
        return self._doors[site].ask(verb, *args)

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
        spent = dict.fromkeys(self.sites, 0.0)
        for message in sent:
            for arrived in channel.carry(message):
                start = time.process_time()
                self.ask(arrived.target, "receive", arrived)
                spent[arrived.target] += time.process_time() - start
        self.elapsed += max(spent.values(), default=0.0)

    def close(self) -> None:
        """Let all sites go."""
        for site in self.sites:
            self.ask(site, "close")
