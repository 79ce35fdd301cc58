"""Keys and FDs in a process of their own: found from scratch in a file by one competitor, and kept current by us."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from jobs import Job
from measure import Span, peak_rss_mb, search_figures, timed

DESBORDANTE = {"hyfd": ("fd", "HyFD"), "pyro": ("fd", "Pyro"), "hyucc": ("key", "HyUCC"), "pyroucc": ("key", "PyroUCC")}


def scratch(job: Job) -> dict[str, Any]:
    """All minimal keys or FDs of a CSV file, read as text, NULL as a value; reading and search are timed apart.

    Desbordante builds its partitions while it reads, we code columns in the search.
    """
    kind, longest = job.options["kind"], job.options.get("max_lhs")
    reads: list[Span] = []
    searches: list[Span] = []
    found: list[str] = []
    for _ in range(job.options.get("repeats", 1) + job.warm):
        if job.competitor == "holdstrue":
            table, read = timed(partial(_text, job.base))
            found, search = timed(partial(_ours, table, kind, longest))
        else:
            peer, read = timed(partial(_opened, job.competitor, job.base))
            found, search = timed(partial(_theirs, peer, job.competitor, longest))
        reads.append(read)
        searches.append(search)
    reads, searches = reads[job.warm :], searches[job.warm :]
    return search_figures(found, reads, searches)


def _text(path: str) -> pa.Table:
    names = pacsv.open_csv(path).schema.names
    types = pacsv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
    )
    return pacsv.read_csv(path, convert_options=types)


def _said(left: Iterable[str], right: str) -> str:
    return f"{','.join(sorted(left))} -> {right}"


def _ours(table: pa.Table, kind: str, longest: int | None) -> list[str]:
    from holdstrue.discovery.dependencies.dependency_core import DependencyCore
    from holdstrue.discovery.dependencies.ranking import columns_of
    from holdstrue.discovery.options import DiscoveryOptions

    core = DependencyCore.load(
        table, DiscoveryOptions(kinds=(kind,), nulls="equal", max_predicates=longest and longest + (kind == "fd"))
    )
    assert core.complete
    return [_said(left, right or "") for left, right in map(columns_of, core.bodies())]


def _opened(name: str, path: str) -> Any:
    import desbordante

    kind, algorithm = DESBORDANTE[name]
    module = desbordante.fd if kind == "fd" else desbordante.ucc
    peer = getattr(module.algorithms, algorithm)()
    peer.load_data(table=(path, ",", True))
    return peer


def _theirs(peer: Any, name: str, longest: int | None) -> list[str]:
    known = peer.get_possible_options()
    options: dict[str, Any] = {"threads": 2} if "threads" in known else {}
    if "error" in known:
        options["error"] = 0.0
    if longest is not None:
        options["max_lhs"] = longest
    peer.execute(**options)
    if DESBORDANTE[name][0] == "key":
        return [_said(map(str, found.indices), "") for found in peer.get_uccs()]
    return [_said(found.to_name_tuple()[0], found.to_name_tuple()[1]) for found in peer.get_fds()]


def changes(job: Job) -> dict[str, Any]:
    """Batches of inserts, deletes and updates against a base; the last state is compared with a search from scratch."""
    from holdstrue.discovery.dependencies.dependency_core import DependencyCore
    from holdstrue.discovery.options import DiscoveryOptions

    table, size, count = _text(job.base), job.options["batch"], job.options["batches"]
    options = DiscoveryOptions(nulls="equal", max_predicates=job.options.get("max_lhs"))
    spare = size * count * 2
    base = table.slice(0, table.num_rows - spare)
    DependencyCore.load(base.slice(0, 2000), options)
    core, load = timed(partial(DependencyCore.load, base, options))
    size_bytes = core.size_bytes()
    rng, at, slots = np.random.default_rng(1), base.num_rows, np.arange(base.num_rows)
    rows = np.arange(base.num_rows)
    figures: dict[str, Any] = {}
    for kind in ("insert", "delete", "update"):
        spans: list[Span] = []
        for _ in range(count):
            out = rng.choice(slots.size, size, replace=False) if kind != "insert" else np.empty(0, dtype=np.int64)
            new = table.slice(at, size if kind != "delete" else 0)
            born = np.arange(core.codes.next_slot, core.codes.next_slot + new.num_rows)
            _, span = timed(partial(core.apply, slots[out].astype(np.int64), new))
            slots = np.concatenate((np.delete(slots, out), born))
            rows = np.concatenate((np.delete(rows, out), np.arange(at, at + new.num_rows)))
            at += new.num_rows
            spans.append(span)
        figures[kind] = [span.cpu_ms for span in spans]
    again, anew = timed(partial(DependencyCore.load, table.take(rows), options))
    return figures | {
        "rows": base.num_rows,
        "rules": len(core.bodies()),
        "agrees": set(again.bodies()) == set(core.bodies()),
        "load_cpu_ms": load.cpu_ms,
        "scratch_cpu_ms": anew.cpu_ms,
        "bytes_a_row": size_bytes / base.num_rows,
        "peak_rss_mb": peak_rss_mb(),
    }
