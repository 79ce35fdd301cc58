"""Laws of checks from scratch: in pieces, threads and from files with dictionaries they find what the oracle does."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue import check
from holdstrue.detect import by_value, scratch, sift
from laws import worlds
from laws.test_detection import assert_counts, draw_rules, found, nonempty
from translate import expected

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=40)


@SETTINGS
@given(data=st.data())
def test_pieces_and_threads(data: st.DataObject) -> None:
    """Small pieces, few buckets and several threads find what the oracle does, also once groups were let go."""
    rules = draw_rules(data)
    rows = [data.draw(worlds.row(i)) for i in range(data.draw(st.integers(0, 16)))]
    table = pa.Table.from_pylist(rows, schema=worlds.SCHEMA)
    cut = data.draw(st.integers(0, table.num_rows))
    table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    truth = expected(rules, rows, [row["id"] for row in rows])
    with (
        patch.object(sift, "PIECE", data.draw(st.integers(1, 6))),
        patch.object(sift, "_BUCKETS", data.draw(st.sampled_from([1, 8]))),
        patch.object(sift, "_RIGHT_BUCKETS", data.draw(st.sampled_from([1, 32]))),
        patch.object(by_value, "LOOKED_UP_FROM", data.draw(st.sampled_from([1, 16]))),
        patch.object(scratch, "TOGETHER", 1),
        patch.object(scratch, "MOST_HELD", data.draw(st.sampled_from([0, 1 << 20]))),
    ):
        report = check(table, rules, key="id", limit=None, threads=data.draw(st.integers(1, 3)))
        assert_counts({result.rule.name: result.counts for result in report.results}, truth)
        assert nonempty(found(report.listed())) == nonempty(truth)


@SETTINGS
@given(data=st.data())
def test_dictionaries_of_parquet(data: st.DataObject) -> None:
    """A Parquet file whose text is held as dictionaries, in several row groups, is judged as its rows are."""
    rules = draw_rules(data)
    rows = [data.draw(worlds.row(i)) for i in range(data.draw(st.integers(1, 12)))]
    truth = expected(rules, rows, [row["id"] for row in rows])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        table = pa.Table.from_pylist(rows, schema=worlds.SCHEMA)
        pq.write_table(table, path, row_group_size=data.draw(st.integers(1, 12)))
        with patch("holdstrue.sources.columnar._is_dictionary", lambda _: True):
            report: Any = check(path, rules, key="id", limit=None)
        assert_counts({result.rule.name: result.counts for result in report.results}, truth)
        assert nonempty(found(report.listed())) == nonempty(truth)
