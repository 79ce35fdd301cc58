"""Denial constraints in a process of their own: found from scratch by one competitor, and kept current by us."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from jobs import Job
from measure import Span, median, search_figures, timed

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SPELLED = {"==": "=", "<>": "!="}
_PREDICATE = re.compile(r"t\.(.+?) (==|!=|<=|>=|<|>) s\.(.+?) (?=∧|})")

Predicate = tuple[str, str, str]


def scratch(job: Job) -> dict[str, Any]:
    """All minimal denial constraints of a CSV file; reading and search are timed apart."""
    reads: list[Span] = []
    searches: list[Span] = []
    found: list[str] = []
    run = {"holdstrue": _ours, "fastadc": _theirs}[job.competitor]
    for _ in range(job.options.get("repeats", 1) + job.warm):
        opened, read = timed(partial(_table if job.competitor == "holdstrue" else _opened, job.base))
        found, search = timed(partial(run, opened, job.options))
        reads.append(read)
        searches.append(search)
    reads, searches = reads[job.warm :], searches[job.warm :]
    return search_figures(found, reads, searches)


def changes(job: Job) -> dict[str, Any]:
    """Rows of a second file inserted in batches and deleted again, both ways, against from scratch on all rows."""
    from holdstrue.discovery.denials.denial_core import DenialCore
    from holdstrue.discovery.work import Work

    base, more = _table(job.base), _table(job.batches[0])
    more = more.cast(base.schema)
    work = Work(threads=job.options["threads"])
    rows = job.options["batch"]
    figures: dict[str, Any] = {"agrees": True}
    none = np.zeros(0, dtype=np.int64)
    for method in ("evidence", "index"):
        warm = DenialCore.load(base.slice(0, 2000), work=work, method=method)
        warm.apply(none, more.slice(0, 100))
        core, load = timed(partial(DenialCore.load, base, work=work, method=method))
        inserts, deletes, counts = [], [], [len(core.rules())]
        for start in range(0, rows * job.options["batches"], rows):
            _, span = timed(partial(core.apply, none, more.slice(start, rows)))
            inserts.append(span)
            counts.append(len(core.rules()))
            whole, again = timed(
                partial(DenialCore.load, pa.concat_tables([base, more.slice(0, start + rows)]), work=work)
            )
            figures.setdefault("scratch_cpu_ms", []).append(again.cpu_ms)
            figures.setdefault("scratch_wall_ms", []).append(again.wall_ms)
            figures["agrees"] &= {r.body for r in whole.rules()} == {r.body for r in core.rules()}
        figures[f"{method}_bytes"] = core.size_bytes()
        for start in reversed(range(0, rows * job.options["batches"], rows)):
            first = base.num_rows + start
            _, span = timed(partial(core.apply, np.arange(first, first + rows), more.slice(0, 0)))
            deletes.append(span)
        figures["agrees"] &= len(core.rules()) == counts[0]
        figures |= {
            f"{method}_load_cpu_ms": load.cpu_ms,
            f"{method}_insert_cpu_ms": [span.cpu_ms for span in inserts],
            f"{method}_insert_wall_ms": [span.wall_ms for span in inserts],
            f"{method}_delete_cpu_ms": [span.cpu_ms for span in deletes],
            "rules": counts,
        }
    return figures


def pair_rate(job: Job) -> dict[str, Any]:
    """Evidence pairs a second with one and two threads."""
    from holdstrue.discovery.denials.choose_space import choose_space
    from holdstrue.discovery.denials.coded_rows import CodedRows
    from holdstrue.discovery.denials.evidence import evidence_within
    from holdstrue.discovery.options import DiscoveryOptions
    from holdstrue.discovery.work import Work

    table = _table(job.base)
    space = choose_space(table, DiscoveryOptions())
    rows = CodedRows(space)
    slots = rows.insert(table)
    pairs = slots.size * (slots.size - 1) // 2
    evidence_within(space, rows.codes, rows.known, slots[:500], Work(threads=1))
    figures: dict[str, Any] = {"predicates": space.predicates, "pairs": pairs}
    for threads in (1, 2):
        count = partial(evidence_within, space, rows.codes, rows.known, slots, Work(threads=threads))
        spans = [timed(count)[1] for _ in range(job.options.get("repeats", 3))]
        figures[f"cpu_ms_{threads}"] = median([span.cpu_ms for span in spans])
        figures[f"wall_ms_{threads}"] = median([span.wall_ms for span in spans])
    figures["evidences"] = count().counts.size
    return figures


def _table(path: str) -> pa.Table:
    return pacsv.read_csv(path, read_options=pacsv.ReadOptions(encoding="latin-1"))


def _ours(table: pa.Table, options: dict[str, Any]) -> list[str]:
    from holdstrue.discovery.denials.denial_core import DenialCore
    from holdstrue.discovery.options import DiscoveryOptions
    from holdstrue.discovery.work import Work
    from holdstrue.rules.model import Column

    wanted = DiscoveryOptions(cross=options["cross"])
    core = DenialCore.load(table, wanted, Work(threads=options["threads"]))
    return [
        _said((p.left.name, str(p.op), p.right.name) for p in body.predicates if isinstance(p.right, Column))
        for body in core.bodies()
    ]


def _opened(path: str) -> Any:
    import desbordante

    algorithm = desbordante.dc.algorithms.FastADC()
    algorithm.load_data(table=(path, ",", True))
    return algorithm


def _theirs(algorithm: Any, options: dict[str, Any]) -> list[str]:
    algorithm.execute(
        evidence_threshold=0.0,
        minimum_shared_value=0.3,
        comparable_threshold=0.1,
        allow_cross_columns=options["cross"],
        threads=options["threads"],
    )
    return [
        _said((left, _SPELLED.get(op, op), right) for left, op, right in _PREDICATE.findall(str(found)))
        for found in algorithm.get_dcs()
    ]


def _said(predicates: Iterable[Predicate]) -> str:
    """A constraint as text, of the two orders of its rows the smaller one; across columns by name."""
    given = list(predicates)
    texts = []
    for exchanged in (False, True):
        words = []
        for left, op, right in given:
            one, sign, other = (right, _FLIPPED.get(op, op), left) if exchanged else (left, op, right)
            words.append(f"{one} {sign} {other}")
        texts.append(" & ".join(sorted(words)))
    return min(texts)
