"""Every way in which a file of a state can be damaged, and what becomes of a user who meets one.

Run as `python -m laws.state_damage FOLDER SECONDS`: FOLDER holds the states of `kept_states` as they were made. Lines
`STATE NUMBER` come in, and for each the damaged state is used; its outcome goes out as a line of JSON. A line with
`STATE` alone asks how many cases there are. A case that takes more seconds of work than given ends the process.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue import HoldstrueError
from holdstrue.errors import StateError
from holdstrue.state import files as state_files
from holdstrue.state.entry import encode
from holdstrue.state.files import StateFiles
from holdstrue.state.local import LocalStore
from holdstrue.state.manifest import files_of
from laws.kept_states import STATES

PAGE = 4096
MOST_MEMORY = 24 << 30
"""What a process may ask for: a number from a damaged file must not be taken for a size."""

# --- how a state lies in its directory: all that is known here of names, manifests and checksums -------------


def roots(state: Path) -> list[Path]:
    """The directories of a state: one, or one for each site."""
    return [state] if (state / "log").is_dir() else sorted(state.iterdir())


def manifest_path(root: Path) -> Path:
    """The file of the newest version."""
    return max((root / "log").iterdir())


def read_manifest(root: Path) -> dict[str, Any]:
    """What the newest version says, which is whole (see `lay_out`)."""
    with StateFiles(root) as files:
        body = files.manifest()
    return {name: part for name, part in body.items() if name != "since"}


def write_manifest(root: Path, body: Any) -> None:
    """Say something else, with a digest that matches."""
    number = int(manifest_path(root).stem)
    shutil.rmtree(root / "log")
    (root / "lock").unlink(missing_ok=True)
    store = LocalStore(root)
    store.lock()
    store.create(f"log/{number:012d}", encode(body))
    store.close()


def lay_out(root: Path) -> None:
    """The same state with everything in files of its own, and one whole entry."""
    with StateFiles(root) as files:
        body = files.manifest()
        moved = {
            file.name: files.write_tables("batch", body["version"], files.read_tables(file)).to_dict()
            for file in files_of(body)
            if file.name.startswith("log/")
        }
    body["log"] = [moved.get(file["name"], file) for file in body["log"]]
    del body["since"]
    (root / "log" / f"{body['version']:012d}.log").touch()
    write_manifest(root, body)


def entries(body: Any) -> Iterator[dict[str, Any]]:
    """Everything in a manifest that names a file."""
    if isinstance(body, dict):
        if "name" in body and "checksum" in body:
            yield body
        for part in body.values():
            yield from entries(part)
    elif isinstance(body, list):
        for part in body:
            yield from entries(part)


def run_path(root: Path, name: str) -> Path:
    """The file of a run."""
    return root / "runs" / name


def repair(root: Path) -> None:
    """Make sizes and checksums of all files match what they hold now."""
    body = read_manifest(root)
    for entry in entries(body):
        data = run_path(root, entry["name"]).read_bytes()
        if entry.get("start") or entry["name"].startswith("joint"):
            start = entry.get("start", 0)
            entry["bytes"] = max(1, min(entry["bytes"], len(data) - start))
            data = data[start : start + entry["bytes"]]
        else:
            entry["bytes"] = len(data)
        entry["checksum"] = state_files._checksum(bytearray(data)) if data else "0" * 16
    write_manifest(root, body)


def read_arrays(data: bytes) -> dict[str, NDArray[Any]] | None:
    """The arrays of a run, if it holds arrays."""
    if not data.startswith(b"ARROW1"):
        return None
    batch = pa.ipc.open_file(pa.BufferReader(data)).get_batch(0)
    found = {}
    for at, field in enumerate(batch.schema):
        shape = [int(size) for size in field.metadata[b"shape"].decode().split(",") if size]
        flat = batch.column(at).values.to_numpy(zero_copy_only=False)
        found[field.name] = flat.astype(field.metadata[b"dtype"].decode()).reshape(shape)
    return found


def write_arrays(root: Path, name: str, arrays: dict[str, NDArray[Any]]) -> None:
    """Other arrays in the place of those of a run."""
    with StateFiles(root) as place:
        made = place.write_arrays("arrays", 0, arrays)
    run_path(root, made.name).replace(run_path(root, name))


def read_tables(data: bytes) -> list[pa.Table]:
    """The tables of a run."""
    source, tables = pa.BufferReader(data), []
    while source.tell() < len(data):
        tables.append(pa.ipc.open_stream(source).read_all())
    return tables


def write_tables(root: Path, name: str, tables: list[pa.Table]) -> None:
    """Other tables in the place of those of a run."""
    with StateFiles(root) as place:
        made = place.write_tables("tables", 0, tables)
    run_path(root, made.name).replace(run_path(root, name))


# --- damage --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One damage: what it is called, what it does to a copy of the state, and whether nothing could tell."""

    label: str
    damage: Callable[[Path], None]
    repaired: bool


def pages(data: bytes, how: str, where: str, chance: random.Random) -> bytes:
    """A page overwritten, or the file cut, prolonged or emptied."""
    at = {"first": 0, "middle": len(data) // 2 // 8 * 8, "last": max(0, len(data) - PAGE)}[where]
    size = min(PAGE, len(data) - at)
    match how:
        case "zeros" | "ones":
            return data[:at] + (b"\0" if how == "zeros" else b"\xff") * size + data[at + size :]
        case "random":
            return data[:at] + chance.randbytes(size) + data[at + size :]
        case "word":
            word = chance.choice((0, 1, -1, 1 << 30, -(1 << 31), 127, 1 << 40)).to_bytes(8, "little", signed=True)
            spot = at + chance.randrange(max(1, size // 8)) * 8
            return data[:spot] + word + data[spot + 8 :]
        case "cut":
            return data[: {"first": 1, "middle": len(data) // 2, "last": len(data) - 1}[where]]
        case "longer":
            return data + chance.randbytes({"first": 1, "middle": 8, "last": PAGE}[where])
    return b""


def file_cases(root: Path, at: int) -> Iterator[Case]:
    """Damage to the bytes of every file, with its checksum as it was and repaired."""
    names = sorted(
        {entry["name"] for entry in entries(read_manifest(root))}, key=lambda name: (name.split("-")[0], name)
    )
    for number, name in enumerate(names):
        for how, where, repaired in product(
            ("zeros", "ones", "random", "word", "cut", "longer", "empty"), ("first", "middle", "last"), (False, True)
        ):
            label = f"{at}: {name.split('-')[0]} {number}: {how} {where}{', repaired' if repaired else ''}"

            def damage(copy: Path, name: str = name, how: str = how, where: str = where, fix: bool = repaired) -> None:
                own = roots(copy)[at]
                path = run_path(own, name)
                path.write_bytes(
                    pages(
                        path.read_bytes(), how, where, random.Random(f"{name.split('-', maxsplit=1)[0]} {how} {where}")
                    )
                )
                if fix:
                    repair(own)

            yield Case(label, damage, repaired)
        for other, repaired in product(names, (False, True)):
            if other != name and (names.index(other) + number) % 3 == 0:

                def swap(copy: Path, name: str = name, other: str = other, fix: bool = repaired) -> None:
                    own = roots(copy)[at]
                    one, two = run_path(own, name).read_bytes(), run_path(own, other).read_bytes()
                    run_path(own, name).write_bytes(two)
                    run_path(own, other).write_bytes(one)
                    if fix:
                        repair(own)

                label = f"{at}: {name.split('-')[0]} {number}: swapped with {other.split('-')[0]}"
                yield Case(label + (", repaired" if repaired else ""), swap, repaired)

        def remove(copy: Path, name: str = name) -> None:
            run_path(roots(copy)[at], name).unlink()

        yield Case(f"{at}: {name.split('-')[0]} {number}: missing", remove, repaired=False)


ARRAY_DAMAGE: dict[str, Callable[[NDArray[Any], random.Random], NDArray[Any] | None]] = {
    "zeros": lambda array, _: np.zeros_like(array),
    "-1": lambda array, _: np.full_like(array, -1 if array.dtype.kind == "i" else np.array(-1).astype(array.dtype)),
    "huge": lambda array, _: np.full_like(array, _most(array.dtype)),
    "one huge": lambda array, chance: _one(array, _most(array.dtype), chance),
    "one -1": lambda array, chance: _one(array, np.array(-1).astype(array.dtype), chance),
    "one less": lambda array, chance: _one(array, None, chance),
    "random": lambda array, chance: np.frombuffer(chance.randbytes(array.nbytes), array.dtype).reshape(array.shape),
    "shuffled": lambda array, chance: np.ascontiguousarray(array[chance.sample(range(len(array)), len(array))]),
    "reversed": lambda array, _: np.ascontiguousarray(array[::-1]),
    "rolled": lambda array, _: np.roll(array, 1),
    "shorter": lambda array, _: array[: max(0, len(array) - 1)],
    "half": lambda array, _: array[: len(array) // 2],
    "longer": lambda array, _: np.concatenate([array, array[-1:], array]),
    "empty": lambda array, _: array[:0],
    "other type": lambda array, _: array.astype(np.int64 if array.dtype != np.int64 else np.int32),
    "floats": lambda array, _: array.astype(np.float64),
    "flat": lambda array, _: array.reshape(-1) if array.ndim > 1 else array.reshape(1, -1),
    "missing": lambda array, _: None,
}  # fmt: skip


def _most(dtype: np.dtype[Any]) -> Any:
    return True if dtype == np.bool_ else np.iinfo(dtype).max


def _one(array: NDArray[Any], value: Any, chance: random.Random) -> NDArray[Any]:
    """One value changed: to the given one, or made less by one."""
    copy = array.copy()
    if copy.size:
        at = chance.randrange(copy.size)
        flat = copy.reshape(-1).view(np.uint8) if copy.dtype == np.bool_ else copy.reshape(-1)
        flat[at] = (
            (flat[at] - (1 if flat[at] else 0) if flat.dtype.kind == "u" else flat[at] - 1) if value is None else value
        )
    return copy


def array_cases(root: Path, at: int) -> Iterator[Case]:
    """Damage to every array of every run of arrays, with checksums repaired."""
    names = sorted(
        {entry["name"] for entry in entries(read_manifest(root))}, key=lambda name: (name.split("-")[0], name)
    )
    for number, name in enumerate(names):
        arrays = read_arrays(run_path(root, name).read_bytes())
        for key, how in product(arrays or (), ARRAY_DAMAGE):

            def damage(copy: Path, name: str = name, key: str = key, how: str = how) -> None:
                own = roots(copy)[at]
                held = read_arrays(run_path(own, name).read_bytes())
                assert held is not None
                changed = ARRAY_DAMAGE[how](held[key], random.Random(f"{key} {how}"))
                held = {other: array for other, array in held.items() if other != key or changed is not None}
                held |= {} if changed is None else {key: changed}
                write_arrays(own, name, held)
                repair(own)

            yield Case(f"{at}: {name.split('-')[0]} {number}: {key} {how}", damage, repaired=True)
        if arrays is not None:

            def more(copy: Path, name: str = name) -> None:
                own = roots(copy)[at]
                held = read_arrays(run_path(own, name).read_bytes()) or {}
                write_arrays(own, name, {**held, "t0.more": np.arange(5), "level0.attributes": np.arange(3)})
                repair(own)

            yield Case(f"{at}: {name.split('-')[0]} {number}: more arrays", more, repaired=True)


TABLE_DAMAGE: dict[str, Callable[[pa.Table, str, random.Random], pa.Table]] = {
    "missing": lambda table, name, _: table.drop_columns([name]),
    "twice": lambda table, name, _: table.append_column(name, table.column(name)),
    "of NULLs": lambda table, name, _: _with(table, name, pa.nulls(len(table), table.schema.field(name).type)),
    "one NULL": lambda table, name, _: _with(table, name, _one_null(table.column(name))),
    "as text": lambda table, name, _: _with(table, name, pa.array([str(v) for v in table.column(name).to_pylist()])),
    "as numbers": lambda table, name, _: _with(table, name, pa.array(range(len(table)), pa.int64())),
    "all alike": lambda table, name, _: _with(table, name, _same(table.column(name))),
    "reversed": lambda table, name, _: _with(table, name, _reversed(table.column(name))),
    "huge": lambda table, name, _: _with(table, name, _filled(table.column(name), 2**31 - 1)),
    "negative": lambda table, name, _: _with(table, name, _filled(table.column(name), -1)),
    "near": lambda table, name, chance: _with(table, name, _near(table.column(name), chance)),
    "lying": lambda table, name, chance: _with(table, name, _lying(table.column(name), chance)),
    "shorter table": lambda table, name, _: table.slice(0, max(0, len(table) - 1)),
    "longer table": lambda table, name, _: pa.concat_tables([table, table.slice(0, 1)]),
    "no rows": lambda table, name, _: table.slice(0, 0),
    "no metadata": lambda table, name, _: table.replace_schema_metadata(None),
    "other metadata": lambda table, name, _: table.replace_schema_metadata(
        dict.fromkeys(table.schema.metadata or {"x": ""}, b"\xff7")
    ),
}  # fmt: skip


def _with(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)


def _reversed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.take(pa.array(np.arange(len(column))[::-1]))


def _one_null(column: pa.ChunkedArray) -> pa.Array:
    values = column.to_pylist()
    return pa.array([None, *values[1:]] if values else [], column.type)


def _same(column: pa.ChunkedArray) -> pa.Array:
    values = column.to_pylist()
    return pa.array(values[:1] * len(values), column.type)


def _filled(column: pa.ChunkedArray, number: int) -> pa.Array:
    if not pa.types.is_integer(column.type):
        return column
    lowest = 0 if pa.types.is_unsigned_integer(column.type) else number
    return pa.array([max(number, lowest) if number > 0 else lowest] * len(column), pa.int64()).cast(
        column.type, safe=False
    )


def _near(column: pa.ChunkedArray, chance: random.Random) -> pa.Array:
    if not pa.types.is_integer(column.type):
        return column
    values = [None if v is None else max(0, v + chance.choice((-1, 0, 1))) for v in column.to_pylist()]
    return pa.array(values, column.type)


def _lying(column: pa.ChunkedArray, chance: random.Random) -> pa.Array:
    """Buffers of text that are no text, or offsets that lead elsewhere."""
    array = column.combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) and array.num_chunks else array
    if not (pa.types.is_string(array.type) or pa.types.is_large_binary(array.type)) or len(array) < 2:
        return column
    nulls, offsets, data = array.buffers()
    wide = np.int32 if pa.types.is_string(array.type) else np.int64
    if chance.random() < 0.5 and data is not None:
        data = pa.py_buffer(bytes([chance.choice((0xFF, 0x80, 0xC0))]) * data.size)
    else:
        changed = np.frombuffer(offsets, dtype=wide).copy()
        changed[chance.randrange(1, len(array))] = chance.choice((1 << 30, -5, np.iinfo(wide).max))
        offsets = pa.py_buffer(changed)
    return pa.Array.from_buffers(array.type, len(array), [nulls, offsets, data])


def table_cases(root: Path, at: int) -> Iterator[Case]:
    """Damage to every column of every table of every run, with checksums repaired."""
    files = {(e["name"], e.get("start", 0), e["bytes"]) for e in entries(read_manifest(root))}
    for number, (name, start, size) in enumerate(sorted(files, key=lambda file: (file[0].split("-")[0], *file))):
        data = run_path(root, name).read_bytes()
        if data.startswith(b"ARROW1") or name.startswith("joint"):
            continue
        tables = read_tables(data[start : start + size])
        for part, held in enumerate(tables):
            for column, how in product(held.column_names, TABLE_DAMAGE):

                def damage(
                    copy: Path, name: str = name, part: int = part, column: str = column, how: str = how
                ) -> None:
                    own = roots(copy)[at]
                    now = read_tables(run_path(own, name).read_bytes())
                    now[part] = TABLE_DAMAGE[how](now[part], column, random.Random(f"{part} {column} {how}"))
                    write_tables(own, name, now)
                    repair(own)

                label = f"{at}: {name.split('-')[0]} {number}: table {part}: {column} {how}"
                yield Case(label, damage, repaired=True)


WORDS: tuple[Any, ...] = (
    None,
    "",
    "x",
    "7",
    -1,
    0,
    1,
    3,
    2**40,
    2**70,
    1.5,
    True,
    [],
    [7],
    {},
    {"x": 7},
    "missing",
    "\ud800",
)


def manifest_cases(root: Path, at: int) -> Iterator[Case]:
    """Something else, or nothing, in every place of the manifest; the checksum repaired."""
    for path in places(read_manifest(root)):
        for number, word in enumerate(WORDS):

            def damage(copy: Path, path: tuple[Any, ...] = path, word: Any = word) -> None:
                own = roots(copy)[at]
                body = read_manifest(own)
                inside = body
                for step in path[:-1]:
                    inside = inside[step]
                if word == "missing":
                    del inside[path[-1]]
                else:
                    inside[path[-1]] = word
                write_manifest(own, body)

            yield Case(f"{at}: manifest {'.'.join(map(str, path))}: {word!r} ({number})", damage, repaired=True)
    for data in (b"", b"null", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"checksum": 7}'):

        def replace(copy: Path, data: bytes = data) -> None:
            manifest_path(roots(copy)[at]).write_bytes(data)

        yield Case(f"{at}: manifest is {data[:20]!r}", replace, repaired=True)


def log_cases(root: Path, at: int) -> Iterator[Case]:
    """Damage to the bytes of the log, of which checksums tell; more of them are what a crash leaves."""
    for how, where in product(("zeros", "ones", "random", "cut", "empty"), ("first", "middle", "last")):

        def damage(copy: Path, how: str = how, where: str = where) -> None:
            path = manifest_path(roots(copy)[at])
            path.write_bytes(pages(path.read_bytes(), how, where, random.Random(f"log {how} {where}")))

        yield Case(f"{at}: log {how} {where}", damage, repaired=False)


def places(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of plain JSON data."""
    steps = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for step, part in steps:
        yield (*path, step)
        yield from places(part, (*path, step))


@cache
def cases(state: Path) -> tuple[Case, ...]:
    """All damage to a state, in a fixed order."""
    found: list[Case] = []
    for at, root in enumerate(roots(state)):
        for kind in (log_cases, file_cases, array_cases, table_cases, manifest_cases):
            found += kind(root, at)
    return tuple(found)


# --- what becomes of it --------------------------------------------------------------------------


def used(name: str, state: Path) -> tuple[str, str]:
    """A state is `answered`, `refused` by an error that names a file, `told` by another error of ours, or `failed`."""
    try:
        STATES[name].use(state)
    except HoldstrueError as error:
        refused = isinstance(error, StateError) and str(state) in error.message
        return ("refused" if refused else "told"), error.message
    except BaseException:  # noqa: BLE001
        return "failed", traceback.format_exc()
    return "answered", ""


def outcome(folder: Path, name: str, number: int, seconds: float) -> dict[str, Any]:
    """Make one damaged copy and use it."""
    case, copy = cases(folder / name)[number], folder / "damaged"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder / name, copy)
    case.damage(copy)
    # work is counted, not time: other processes may keep this one waiting
    signal.setitimer(signal.ITIMER_PROF, seconds)
    became, said = used(name, copy)
    signal.setitimer(signal.ITIMER_PROF, 0)
    return {"label": case.label, "outcome": became, "said": said, "repaired": case.repaired}


def main(folder: Path, seconds: float) -> None:
    """Answer line by line."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    warm: set[str] = set()
    for line in sys.stdin:
        name, _, number = line.strip().rpartition(" ") if line.strip()[-1].isdigit() else (line.strip(), "", "")
        if not number:
            print(json.dumps(len(cases(folder / name))), flush=True)
            continue
        if name not in warm:
            # kernels that a state needs are compiled, and the state is known to be whole
            shutil.rmtree(folder / "damaged", ignore_errors=True)
            shutil.copytree(folder / name, folder / "damaged")
            STATES[name].use(folder / "damaged")
            warm.add(name)
        print(json.dumps(outcome(folder, name, int(number), seconds)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
