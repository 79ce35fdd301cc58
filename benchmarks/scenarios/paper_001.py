"""Paper 001's experiments on generated taxes: rules kept after inserts by |r|, |delta r| and |P|, and its indexes.

`--sizes` are the rows of the sweeps over |r|; the smallest is the table of the other sweeps. Every batch is compared
with a search over the same rows from scratch, one thread each, CPU seconds. Published for IncDC on other tables and
six cores (Table 10, +10%): 3.7 to 28 s for 105,000 to 780,000 rows, where Hydra takes 28 to 359 s.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from holdstrue.discovery.denials.candidate_pairs import CandidatePairs
from holdstrue.discovery.denials.choose_space import choose_space
from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.denial_core import DenialCore
from holdstrue.discovery.work import Work
from scenarios.discover_changes import COLUMNS, OPTIONS, timed
from scenarios.setting import Outcome, Setting, Table, ratio
from workloads.tax import tax

ORDER = ("salary", "rate", "state", "zip", "single_exemp", "child_exemp", "city", "marital_status", "has_child")
"""Columns in which predicates are added."""
SHARES = (0.15, 0.2, 0.25, 0.3, 0.4)
DEFAULT_SHARE = 0.2
ONE = Work(threads=1)
INDEXED_ROWS = 30_000
"""Rows of the tables that indexes are made on: chains of generated taxes are many."""


def run(setting: Setting) -> Outcome:
    """The sweeps, then the indexes."""
    outcome = Outcome()
    base = min(setting.sizes)
    by_rows = [(rows, DEFAULT_SHARE, list(COLUMNS)) for rows in setting.sizes]
    by_share = [(base, share, list(COLUMNS)) for share in SHARES]
    by_predicates = [(base, DEFAULT_SHARE, list(ORDER[:count])) for count in range(3, len(ORDER) + 1, 2)]
    for title, cases in (("rows", by_rows), ("new rows", by_share), ("predicates", by_predicates)):
        table = Table(
            f"taxes by {title}, CPU s (one thread)",
            ("rows", "new rows", "predicates", "rules", "after", "kept", "from scratch", "of starting over"),
        )
        for case in cases:
            _batch(*case, table, outcome)
        outcome.tables.append(table)
    outcome.tables.append(_indexes([min(INDEXED_ROWS, rows) for rows in (base // 2, base)], outcome))
    return outcome


def _batch(rows: int, share: float, columns: list[str], table: Table, outcome: Outcome) -> None:
    more = int(rows * share)
    data = tax(rows + more).select(columns)
    space = choose_space(data.slice(0, rows), OPTIONS)
    core = DenialCore.load(data.slice(0, rows), OPTIONS, ONE, space=space)
    before = len(core.bodies())
    _, kept = timed(lambda: core.apply(np.empty(0, dtype=np.int64), data.slice(rows), ONE))
    anew, scratch = timed(lambda: DenialCore.load(data, OPTIONS, ONE, space=space))
    same = set(anew.bodies()) == set(core.bodies())
    outcome.records.append(
        {"rows": rows, "new": more, "predicates": space.predicates, "cpu_s": kept, "scratch_cpu_s": scratch,
         "agrees": same}
    )  # fmt: skip
    of = ratio(kept, scratch) if same else "OTHER ANSWER"
    table.rows.append((rows, more, space.predicates, before, len(anew.bodies()), kept, scratch, of))


def _indexes(sizes: list[int], outcome: Outcome) -> Table:
    """Exp-2 and Exp-3: the indexes that SelectIndex chooses, what they hold, and how their ranks grow."""
    table = Table(
        "indexes that SelectIndex chooses for the rules (Exp-2, Exp-3)",
        ("rows", "rules", "indexes", "rows MB", "indexes MB", "made in s", "mean rank", "after +30%", "made anew"),
    )
    for rows in dict.fromkeys(sizes):
        data = tax(rows + 3 * rows // 10).select(COLUMNS)
        core = DenialCore.load(data.slice(0, rows), OPTIONS, ONE)
        sets = np.stack([core.space.parse(body) for body in core.bodies()])
        coded = CodedRows(core.space)
        slots = coded.insert(data.slice(0, rows))
        probes = CandidatePairs(coded)
        _, made = timed(partial(probes.serve, sets, slots))
        size, rank = probes.size_bytes(), _mean(probes)
        probes.insert(coded.insert(data.slice(rows)))
        grown = _mean(probes)
        again = CandidatePairs(coded)
        again.serve(sets, coded.live())
        best = _mean(again)
        outcome.records.append({"rows": rows, "indexes": len(probes.ranks()), "bytes": size, "cpu_s": made})
        data_mb = pa.Table.from_batches(data.slice(0, rows).to_batches()).nbytes / 1e6
        table.rows.append(
            (rows, sets.shape[0], len(probes.ranks()), data_mb, size / 1e6, made, rank, grown, best)
        )  # fmt: skip
    return table


def _mean(probes: CandidatePairs) -> float:
    ranks = [rank for rank in probes.ranks() if rank]
    return float(np.mean(ranks)) if ranks else 0.0
