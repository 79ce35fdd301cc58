"""No rows move around the channel: what reaches a site is its own part of the changes, and messages of ids."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Iterable, Mapping
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa
import pytest

from holdstrue.fragments import Channel, Relation, Site
from holdstrue.fragments.channel import SiteMessage
from holdstrue.fragments.site_host import SiteHost, open_site
from holdstrue.fragments.site_spec import SiteSpec

COLUMNS = ("a", "b", "c", "d")
RULES = [
    {"name": "one", "rule": "a, b -> c"},
    {"name": "two", "rule": "[a, c] -> [d] with (_, _ || _)"},
    {"name": "three", "rule": "[a='a-1'] -> [d='d-1']"},
]


def value(column: str, row: int) -> str:
    """Long enough that no digest holds it by chance; rows 0, 3, 6, ... agree on a."""
    return f"{column}-{row % 3 if column in ('a', 'b') else row}" if row % 3 == 1 else f"canary:{column}:{row % 5}"


def rows(*numbers: int) -> pa.Table:
    columns: dict[str, Any] = {"id": list(numbers)}
    for column in COLUMNS:
        columns[column] = [value(column, row) for row in numbers]
    return pa.table({**columns, "part": [row % 2 for row in numbers]})


class WireHost(SiteHost):
    """Everything that passes a site's door is turned to bytes and back, and kept."""

    def __init__(self, specs: Mapping[str, SiteSpec], sites: Mapping[str, Site]) -> None:
        super().__init__({name: open_site(spec, sites[name]) for name, spec in specs.items()})
        self.reached: dict[str, list[bytes]] = {name: [] for name in specs}

    def ask(self, site: str, verb: str, *args: Any) -> Any:
        sent = pickle.dumps(args)
        self.reached[site].append(sent)
        return pickle.loads(pickle.dumps(super().ask(site, verb, *pickle.loads(sent))))


def split(shape: str) -> list[Site]:
    everything = rows(*range(20))
    if shape == "vertical":
        return [Site(f"s{c}", (c,), source=everything.select(["id", c])) for c in COLUMNS]
    sites = []
    for part in (0, 1):
        own = everything.filter(pa.compute.field("part") == part)
        if shape == "horizontal":
            sites.append(Site(f"p{part}", where=f"part = {part}", source=own))
        else:
            sites += [
                Site(f"p{part}{i}", columns, where=f"part = {part}", source=own.select(["id", *columns]))
                for i, columns in enumerate((("a", "c", "part"), ("b", "d")))
            ]
    return sites


@pytest.mark.parametrize("shape", ["vertical", "horizontal", "mixed"])
def test_no_value_reaches_a_site_that_does_not_hold_it(shape: str) -> None:
    hosts: list[WireHost] = []

    def wire(specs: Mapping[str, SiteSpec], sites: Mapping[str, Site]) -> SiteHost:
        hosts.append(WireHost(specs, sites))
        return hosts[0]

    sites = split(shape)
    relation = Relation(sites, RULES, key="id", host=wire)
    assert relation.load().traffic.ids > 0
    changes = rows(*range(20, 30)).append_column("op", pa.array(["i"] * 10))
    relation.apply(changes)
    relation.apply(pa.table({"op": ["d", "d"], "id": [3, 21]}))
    relation.check()
    assert relation.violations()
    for site in sites:
        part = None if site.where is None else int(str(site.where)[-1])
        told = b"".join(hosts[0].reached[site.name])
        for column in COLUMNS:
            for row in range(30):
                held = column in (site.columns or COLUMNS) and part in (None, row % 2)
                canary = value(column, row)
                others = {value(column, r) for r in range(30) if part in (None, r % 2)}
                foreign = not held and (column not in (site.columns or COLUMNS) or canary not in others)
                if foreign and canary.startswith("canary"):
                    assert canary.encode() not in told, (site.name, canary)


class Nothing(Channel):
    """Refuses to carry anything."""

    def carry(self, sent: SiteMessage) -> Iterable[SiteMessage]:
        raise AssertionError("something was sent")


def test_sites_that_need_each_other_do_nothing_without_the_channel() -> None:
    with pytest.raises(AssertionError, match="something was sent"):
        Relation(split("vertical"), RULES, key="id", channel=Nothing()).load()


def serve(pipe: Connection, spec: SiteSpec, site: Site) -> None:
    """A site in a process of its own."""
    work = open_site(spec, site)
    while True:
        verb, args = pipe.recv()
        if verb == "close":
            pipe.send(None)
            return
        pipe.send(work.ask(verb, *args))


class ProcessHost(SiteHost):
    """Each site in a process of its own, reached by a pipe: memory cannot be shared."""

    def __init__(self, specs: Mapping[str, SiteSpec], sites: Mapping[str, Site]) -> None:
        super().__init__({})
        context = multiprocessing.get_context("spawn")
        self.pipes: dict[str, Connection] = {}
        for name, spec in specs.items():
            mine, theirs = context.Pipe()
            context.Process(target=serve, args=(theirs, spec, sites[name]), daemon=True).start()
            self.pipes[name] = mine

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(self.pipes)

    def ask(self, site: str, verb: str, *args: Any) -> Any:
        self.pipes[site].send((verb, args))
        return self.pipes[site].recv()


def test_sites_in_processes_of_their_own_find_the_same() -> None:
    sites = [Site(f"s{c}", c, source=rows(*range(20)).select(["id", *c])) for c in (("a", "c"), ("b", "d"))]
    changes = rows(*range(20, 30))
    found = []
    for host in (None, ProcessHost):
        with Relation(sites, RULES, key="id", host=host) as relation:
            relation.load()
            delta = relation.apply(changes, feed="append")
            found.append((delta.to_dict()["added"], delta.shipped, relation.counts()))
    assert found[0] == found[1]
