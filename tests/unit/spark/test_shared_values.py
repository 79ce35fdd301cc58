"""Values that columns share, counted by stages: what one look at the columns says."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from holdstrue.data.seed import Seed
from holdstrue.shards.wire import receive, send
from holdstrue.spark.discovering import waiting_rows
from holdstrue.spark.discovering.shared_values import SharedValues, WrittenValues


@pytest.mark.parametrize("waiting", [1 << 3, 1 << 12])
def test_what_columns_share_is_counted(waiting: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_rows, "MOST_WAITING", waiting)
    monkeypatch.setattr(waiting_rows, "LEAST_WAITING", waiting)
    monkeypatch.setattr(waiting_rows, "SENT", 2048)
    draw = random.Random(waiting)
    table = pa.table(
        {
            "a": [draw.randrange(9) for _ in range(300)],
            "b": [draw.choice([None, *range(5, 40)]) for _ in range(300)],
            "c": [draw.choice([None, "5", "x"]) for _ in range(300)],
        }
    )
    numbered = ((0, ("a",)), (1, ("b",)), (2, ("c",)), (3, ("b", "c")))
    written = WrittenValues(numbered, "text", Seed(b"1" * 16), parts=2)
    messages = list(receive(written(table.to_batches(max_chunksize=70))))
    told: Counter[tuple[int, int, str]] = Counter()
    for part in range(2):
        for batch in SharedValues(4)(send([one for one in messages if one.task == part])):
            for line in batch.to_pylist():
                for name in "vrl":
                    told[line["a"], line["b"], name] += line[name]
    columns = [[None if None in row else tuple(map(str, row)) for row in zip(*own, strict=True)] for own in _own(table)]
    counts = [Counter(value for value in own if value is not None) for own in columns]
    for i, one in enumerate(counts):
        for j, other in enumerate(counts):
            both = one.keys() & other.keys()
            assert told[i, j, "v"] == len(both)
            assert told[i, j, "r"] == sum(one[value] for value in both)
            assert told[i, j, "l"] == sum(min(one[value], other[value]) for value in both)


def _own(table: pa.Table) -> list[list[list[object]]]:
    a, b, c = (table.column(name).to_pylist() for name in "abc")
    return [[a], [b], [c], [b, c]]
