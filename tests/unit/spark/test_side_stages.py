"""Left sides counted by stages are what their groups are, however rows are cut into blocks, batches and tasks."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from holdstrue.data.seed import Seed
from holdstrue.kernels.side_rows import APART, PLACE
from holdstrue.shards.wire import receive, send
from holdstrue.spark.discovering import packed_lanes, waiting_rows
from holdstrue.spark.discovering.packed_lanes import BlockReader, PackedLanes, RowsAt
from holdstrue.spark.discovering.side_stages import FACTS, SideShape, TalliedSides, WrittenSides

COLUMNS = (("a0", None), ("a1", "b1"), ("a2", None), ("a3", "b3"))
READER = BlockReader(COLUMNS)
Value = tuple[int, ...] | None


def drawn(rows: int, most: int, seed: int) -> list[tuple[Value, ...]]:
    """Rows of four columns, of which the last two may be unknown and every second value has two lanes."""
    draw = random.Random(seed)
    made: list[tuple[Value, ...]] = []
    for _ in range(rows):
        key, other = draw.randrange(most) - 2, draw.randrange(3)
        odd = None if draw.random() < 0.2 else (abs(key) % 3,)
        made.append(((key,), (other, key % 2), odd, None if draw.random() < 0.1 else (draw.randrange(2), 7)))
    return made


def batches(rows: list[tuple[Value, ...]], size: int) -> list[pa.RecordBatch]:
    lanes = {name: [] for name in READER.names}  # type: dict[str, list[int | None]]
    for row in rows:
        for own, value in zip(COLUMNS, row, strict=True):
            for at, name in enumerate(own):
                if name is not None:
                    lanes[name].append(None if value is None else value[at])
    table = pa.table({name: pa.array(own, pa.int64()) for name, own in lanes.items()})
    return table.to_batches(max_chunksize=size)


@pytest.mark.parametrize(("rows", "most", "part"), [(700, 5, 1), (700, 2000, 1), (500, 40, 3), (3, 2, 1)])
@pytest.mark.parametrize("waiting", [1 << 4, 1 << 10])
def test_groups_are_counted(rows: int, most: int, part: int, waiting: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_lanes, "BLOCK", 64)
    monkeypatch.setattr(waiting_rows, "MOST_WAITING", waiting)
    monkeypatch.setattr(waiting_rows, "LEAST_WAITING", waiting)
    monkeypatch.setattr(waiting_rows, "SENT", 4096)
    table = drawn(rows, most, seed=rows + most)
    blocks = list(PackedLanes(tuple(READER.names))(batches(table, 100)))
    places = [first + at for batch in blocks for first in batch.column(0).to_pylist() for at in range(64)]
    # blocks are not always full, so that a place is not the number of a row
    held = {place: row for row, place in zip(table, _used(blocks, places), strict=True)}
    asked = [((0,), [1], [2, 3], False), ((1,), [0], [], True), ((0, 1), [], [3], False), ((), [0], [2], False)]
    shapes = tuple(SideShape.of(READER, *one) for one in asked)
    parts = 3
    messages = list(receive(WrittenSides(READER, shapes, Seed(b"0" * 16).keys, part, parts)(blocks)))
    told = defaultdict(list)
    for number in range(parts):
        for batch in TalliedSides(shapes)(send([one for one in messages if one.task == number])):
            for line in batch.to_pylist():
                told[line["side"]].append(line)
    for side, (left, together, apart, key) in enumerate(asked):
        groups: defaultdict[tuple[Value, ...], list[tuple[Value, ...]]] = defaultdict(list)
        for row in table:
            if all(row[column] is not None for column in left):
                groups[tuple(row[column] for column in left)].append(row)
        facts = [sum(line[name] for line in told[side]) for name in FACTS[:4]]
        sizes = [len(own) for own in groups.values()]
        if part == 1:
            several = [size for size in sizes if size > 1]
            assert facts == [sum(several), len(several), len(sizes), sum(sizes)]
            assert max((line["most"] for line in told[side]), default=0) == max(sizes, default=0)
        else:
            assert facts[2] <= len(sizes) and facts[3] <= sum(sizes)
        found = defaultdict(list)
        for line in told[side]:
            for word, t, s in np.frombuffer(line["pairs"], np.int64).reshape(-1, 3).tolist():
                found[word].append((held[t], held[s]))
                assert t != s and [held[t][column] for column in left] == [held[s][column] for column in left]
        for at, column in enumerate(apart):
            broken = any(len({row[column] for row in own} - {None}) > 1 for own in groups.values())
            assert bool(found[APART + at]) == broken or (part > 1 and broken)
            assert all(None not in (t[column], s[column]) and t[column] != s[column] for t, s in found[APART + at])
        if part == 1:
            assert bool(found[PLACE]) == (key and any(size > 1 for size in sizes))
            if together:
                broken = any(len({tuple(row[c] for c in together) for row in own}) > 1 for own in groups.values())
                assert bool(found[4]) == broken
    picked = sorted(held)[::7]
    rows_at = [row for batch in RowsAt(READER, np.array(picked))(blocks) for row in batch.to_pylist()]
    assert [row["place"] for row in rows_at] == picked
    assert [row["a0"] for row in rows_at] == [held[place][0][0] for place in picked]  # type: ignore[index]


def _used(blocks: list[pa.RecordBatch], places: list[int]) -> list[int]:
    sizes = [block.rows for block in READER.read(blocks)]
    return [places[64 * at + row] for at, size in enumerate(sizes) for row in range(size)]
