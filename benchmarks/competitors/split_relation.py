"""A joined relation over sites: the incremental algorithms of paper 000, and those that start from scratch."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holdstrue.fragments import Relation, Site
from holdstrue.fragments.byte_costs import PlanCost
from holdstrue.fragments.hev_plan import PlanningProblem
from holdstrue.fragments.opt_ver import opt_ver
from holdstrue.fragments.planning import MOST_STARTS, How, PlanOptions, _fewest_bytes, one_home
from measure import peak_rss_mb, rss_mb, timed
from workloads.joined import cfds, horizontal_filters, joined, vertical_columns

INSERTS = 0.8
"""Share of insertions in a batch, as in the paper; the rest are deletions."""


def changes(base: int, count: int) -> pa.Table:
    """A batch: new rows, and deletes spread over the base."""
    inserts = round(count * INSERTS)
    rows = joined(inserts, start=base, scale=base)
    rows = rows.append_column("op", pa.array(["i"] * inserts))
    gone = np.linspace(0, base - 1, count - inserts, dtype=np.int64) if count > inserts else np.empty(0, np.int64)
    deletes = pa.table({"id": np.unique(gone), "op": pa.array(["d"] * np.unique(gone).size, pa.string())})
    return pa.concat_tables([rows, deletes], promote_options="default")


def after(base: int, batch: pa.Table) -> pa.Table:
    """The relation after a batch."""
    gone = batch.filter(pa.compute.equal(batch.column("op"), "d")).column("id")
    old = joined(base)
    kept = old.filter(pa.compute.invert(pa.compute.is_in(old.column("id"), value_set=gone.combine_chunks())))
    new = batch.filter(pa.compute.equal(batch.column("op"), "i")).drop_columns(["op"])
    return pa.concat_tables([kept, new])


def sites_of(shape: str, count: int, rows: pa.Table) -> list[Site]:
    """The relation's sites, each with its own source."""
    if shape == "vertical":
        columns = vertical_columns(count)
        return [Site(f"S{i}", own, source=rows.select(["id", *own])) for i, own in enumerate(columns)]
    return [
        Site(f"S{i}", where=where, source=rows.filter(_holds(where, rows)))
        for i, where in enumerate(horizontal_filters(count))
    ]


def _holds(where: str, rows: pa.Table) -> pa.ChunkedArray:
    wanted = [int(part) for part in where[where.index("(") + 1 : -1].split(",")]
    return pa.compute.is_in(rows.column("warehouse"), value_set=pa.array(wanted))


def answer_of(found: Any) -> dict[str, list[int]]:
    """By rule how many rows violate it and a checksum of their keys."""
    return {
        rule: [table.num_rows, int(np.bitwise_xor.reduce(_spread(table.column("id").to_numpy())))]
        for rule, table in sorted(found.items())
        if table.num_rows
    }


def _spread(keys: Any) -> Any:
    return (keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)


def measured(options: dict[str, Any]) -> dict[str, Any]:
    """One way to know the violations after a batch: `inc`, `bat`, or `ibat` (everything by incremental insertions)."""
    base, count = options["rows"], options["changes"]
    batch = changes(base, count)
    whole = joined(base) if options["way"] == "inc" else after(base, batch)
    sites = sites_of(options["shape"], options["sites"], whole)
    relation = Relation(sites, cfds(options["cfds"]), key="id", plan=options.get("plan", "integer"))
    del whole
    _warm(options)
    if options["way"] == "inc":
        relation.load()
        _grow(relation, base)
        delta, span = timed(lambda: relation.apply(batch))
        answer = answer_of(relation.violations())
        changed = sum(t.num_rows for part in (delta.added, delta.removed) for t in part.values())
    else:
        delta, span = timed(relation.check if options["way"] == "bat" else relation.load)
        answer = answer_of(delta.added)
        changed = sum(t.num_rows for t in delta.added.values())
    return {
        "cpu_ms": span.cpu_ms,
        "elapsed_ms": delta.elapsed * 1e3,
        "ids": delta.traffic.ids,
        "bytes": delta.traffic.bytes,
        "messages": delta.traffic.messages,
        "violations": changed,
        "planned_ids": relation.plan().ids,
        "answer": answer,
        "peak_rss_mb": peak_rss_mb(),
    }


WRITTEN = 500_000
"""Rows that are made and written together."""


def written(options: dict[str, Any]) -> dict[str, Any]:
    """A Parquet file for every site, made in parts, so that who loads them has the memory of the load alone."""
    rows, names = options["rows"], [f"S{i}" for i in range(options["sites"])]
    writers: dict[str, pq.ParquetWriter] = {}
    for start in range(0, rows, WRITTEN):
        part = joined(min(WRITTEN, rows - start), start=start, scale=rows)
        for site in sites_of(options["shape"], len(names), part):
            if site.name not in writers:
                writers[site.name] = pq.ParquetWriter(f"{options['folder']}/{site.name}.parquet", site.source.schema)
            writers[site.name].write_table(site.source)
    for writer in writers.values():
        writer.close()
    return {"rows": rows}


def loaded(options: dict[str, Any]) -> dict[str, Any]:
    """A first load of all sites from their files: time, the most memory, and what indexes and values take after it."""
    sites = [
        replace(site, source=f"{options['folder']}/{site.name}.parquet")
        for site in sites_of(options["shape"], options["sites"], joined(10))
    ]
    _warm(options)
    relation = Relation(sites, cfds(options["cfds"]), key="id", plan="integer")
    delta, span = timed(relation.load)
    figures = {"cpu_ms": span.cpu_ms, "elapsed_ms": delta.elapsed * 1e3, "peak_rss_mb": peak_rss_mb()}
    return figures | {
        "rss_mb": rss_mb(),
        "index_bytes": sum(size["bytes"] for size in relation.sizes().values()),
        "bytes": delta.traffic.bytes,
        "answer": {rule: table.num_rows for rule, table in sorted(delta.added.items())},
    }


def _warm(options: dict[str, Any]) -> None:
    """Let everything be compiled before the clock starts."""
    relation = Relation(sites_of(options["shape"], 2, joined(200)), cfds(25), key="id", plan="chains")
    relation.load()
    relation.apply(changes(200, 50))
    relation.check()


def _grow(relation: Relation, base: int) -> None:
    """Rows that come and go again: arrays that grow by half now and then have just done so, in all runs alike."""
    rows = joined(64, start=16 * base, scale=base)
    relation.apply(rows, feed="append")
    relation.apply(pa.table({"id": rows.column("id"), "op": ["d"] * rows.num_rows}))


def planned(options: dict[str, Any]) -> dict[str, Any]:
    """Ids shipped for a changed row by each way to plan; the integer program with its bits, bytes and bound."""
    sites = sites_of("vertical", options["sites"], joined(10))
    rules = cfds(options["cfds"])
    ways: tuple[How, ...] = ("chains", "optVer", "integer")
    figures: dict[str, Any] = {}
    for way in ways:
        relation, span = timed(partial(Relation, sites, rules, key="id", plan=way))
        [part] = relation.plan().fragments
        figures |= {way: part.ids, f"{way}_ms": span.wall_ms, f"{way}_bytes": part.cost}
    return {**figures, "bits": part.bits, "bound": part.bound, "proven": part.proven}


def random_workloads(options: dict[str, Any]) -> dict[str, Any]:
    """Plans of random CFDs over ten sites and thirty attributes: expected bytes beside one home and optVer."""
    size = options["size"]
    found: list[tuple[float, float, float, float]] = []
    for seed in range(options["count"]):
        problem = random_problem(random.Random(1000 * size + seed), size)
        # optVer takes ten seconds for forty CFDs: it is run beside up to twenty
        other = PlanCost(opt_ver(problem)).bytes if size <= MOST_STARTS else float("nan")
        chosen = _fewest_bytes(problem, PlanOptions("integer", seconds=options["seconds"]))
        costs = PlanCost(one_home(problem)).bytes, other, PlanCost(chosen.plan).bytes, chosen.bound or 0.0
        found.append(costs)
    return {"costs": found}


def random_problem(draw: random.Random, count: int) -> PlanningProblem:
    """CFDs with up to four columns on the left; half of them ask something of the rows."""
    attrs = [f"a{i}" for i in range(30)]
    sites: dict[str, set[str]] = {f"s{i}": set() for i in range(10)}
    for attr in attrs:
        for _ in range(draw.choice((1, 1, 1, 2))):
            sites[f"s{draw.randrange(10)}"].add(attr)
    needs, asked = [], []
    for _ in range(count):
        x = draw.sample(attrs, draw.randint(1, 4))
        needs.append((x, draw.choice([attr for attr in attrs if attr not in x])))
        asked.append((f"{draw.choice(attrs)} = 1",) if draw.random() < 0.5 else ())
    bare = PlanningProblem.of(sites, needs)
    guards = tuple(frozenset(f"{attr} = 1" for attr in own) for own in sites.values())
    with_guards = tuple(replace(need, guards=some) for need, some in zip(bare.needs, asked, strict=True))
    return replace(bare, needs=with_guards, guards=guards)


def central(options: dict[str, Any]) -> dict[str, Any]:
    """The same violations from the engine that has everything in one place: by rule how many rows."""
    from holdstrue import check

    base = options["rows"]
    report = check(after(base, changes(base, base // 100)), cfds(options["cfds"]), key="id", limit=0)
    return {"answer": {r.rule.name: r.counts.rows for r in report.results if r.counts.rows}}
