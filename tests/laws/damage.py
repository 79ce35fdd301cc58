"""Files that were valid and are damaged: read in a process of its own, so that its death is seen.

Run as `python -m laws.damage FOLDER FIRST LAST`: the damaged files of these seeds are made and read one
after the other; the last line of the output names the one that the process is at, or `done`.
"""

from __future__ import annotations

import datetime as dt
import random
import sys
import traceback
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import holdstrue

RULES = (
    "key(name)", "zip -> city", "not(t.pay > s.pay and t.tax < s.tax)", "not(t.day > s.day and t.due < s.due)",
    "not(t.city = 'Ulm')",
    "[zip='z1'] -> [view]", "not null(blob)",
)  # fmt: skip


def table(rows: int = 24) -> pa.Table:
    """One column of every kind whose memory can lie."""
    numbers = range(rows)
    zips = pa.array([f"z{i % 5}" for i in numbers])
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": pa.array([None if i % 7 == 3 else f"name {i}" for i in numbers]),
            "zip": zips.dictionary_encode(),
            "city": pa.array([f"Straße {i % 5}" for i in numbers], pa.large_string()),
            "view": pa.array([f"a longer text than fits a view {i % 5}" for i in numbers], pa.string_view()),
            "blob": pa.array([bytes([i, i]) for i in numbers], pa.binary()),
            "pay": pa.array([Decimal(i) / 4 for i in numbers], pa.decimal128(9, 2)),
            "tax": pa.array([i * 0.5 for i in numbers]),
            "day": pa.array([dt.date(2024, 1, 1 + i) for i in numbers], pa.date32()),
            "due": pa.array([dt.datetime(2024, 2, 1 + i) for i in numbers], pa.timestamp("us", "Europe/Berlin")),
            "flag": pa.array([i % 2 == 0 for i in numbers]),
        }
    )


def valid(folder: Path) -> dict[str, bytes]:
    """The same table in every binary format, by the ending of its name."""
    rows = table()
    found = {}
    for name, compression in (("plain.arrow", None), ("packed.arrow", "lz4")):
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_file(sink, rows.schema, options=options) as writer:
            writer.write_table(rows, max_chunksize=10)
    with pa.OSFile(str(folder / "s.arrows"), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=10)
    plain = rows.set_column(rows.schema.get_field_index("view"), "view", rows["view"].cast(pa.string()))
    pq.write_table(plain, folder / "t.parquet", compression="none")
    for name in ("plain.arrow", "packed.arrow", "s.arrows", "t.parquet"):
        found[name] = (folder / name).read_bytes()
    return found


def damaged(data: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, a word overwritten, or the end cut off."""
    changed = bytearray(data)
    match chance.randrange(6):
        case 0 | 1:
            for _ in range(chance.randint(1, 4)):
                changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        case 2:
            for _ in range(chance.randint(1, 8)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
        case 3 | 4:  # offsets, indices and lengths are words of four or eight bytes
            size = chance.choice((4, 8))
            at = chance.randrange(len(changed) // size) * size
            word = chance.choice((0, 1, -1, 1 << 30, -(1 << 31), 127, chance.randrange(1 << 31)))
            changed[at : at + size] = word.to_bytes(size, "little", signed=True)
        case _:
            del changed[chance.randrange(len(changed)) :]
    return bytes(changed)


def taken(path: Path) -> str:
    """What becomes of a file: an answer, a refusal of ours, or what should not be."""
    try:
        report = holdstrue.check(path, list(RULES), key="id")
        list(report)
        with_rows = holdstrue.Monitor(list(RULES), key="id", data=path)
        list(with_rows.violations())
        holdstrue.Monitor("zip -> city", key="id").apply(path, on_conflict="upsert")
    except holdstrue.HoldstrueError as error:
        assert error.message
        return "refused"
    except Exception:  # noqa: BLE001
        return "failed: " + traceback.format_exc()
    return "answered"


def main(folder: Path, first: int, last: int) -> int:
    """Go through the seeds; returns 1 where something but an answer or a refusal came."""
    files, outcomes = valid(folder), Counter[str]()
    for name in files:
        assert taken(folder / name) == "answered", name
    for seed in range(first, last):
        chance = random.Random(seed)
        name = chance.choice(sorted(files))
        path = folder / f"damaged-{name}"
        path.write_bytes(damaged(files[name], chance))
        print(f"seed {seed}: {name}", flush=True)
        outcome = taken(path)
        if outcome.startswith("failed"):
            print(f"seed {seed}: {name} {outcome}", file=sys.stderr)
        outcomes[outcome.partition(":")[0]] += 1
    print(f"done: {dict(outcomes)}")
    return int(outcomes["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
