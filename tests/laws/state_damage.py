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
from holdstrue.state import few_rows
from holdstrue.state.files import streams
from laws.kept_states import STATES
from laws.lying_states import Lying, is_entry, is_joint, kind_of, read_arrays, read_tables, roots

PAGE = 4096
BYTES = ("zeros", "ones", "random", "word", "cut", "longer", "empty")
MOST_MEMORY = 24 << 30
"""What a process may ask for: a number from a damaged file must not be taken for a size."""

# --- damage --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One damage: what it is called, what it does to a copy of the state, and whether nothing could tell."""

    label: str
    damage: Callable[[Path], None]
    repaired: bool
    remove: Callable[[Path], None] | None = None
    """Takes the damaged file away, if it is one that can be missing."""


def pages(data: bytes, how: str, where: str, chance: random.Random) -> bytes:
    """A page overwritten, or the file cut, prolonged or emptied; never as it was."""
    changed = _pages(data, how, where, chance)
    # zeros may be in the place of zeros
    return changed if changed != data else bytes([data[0] ^ 1]) + data[1:]


def _pages(data: bytes, how: str, where: str, chance: random.Random) -> bytes:
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
    names = Lying(root).names()
    for number, name in enumerate(names):
        kind = f"{at}: {kind_of(name)} {number}"

        def remove(copy: Path, name: str = name) -> None:
            Lying(roots(copy)[at]).remove(name)

        gone = None if is_entry(name) else remove
        if gone is not None:
            yield Case(f"{kind}: missing", gone, repaired=False, remove=gone)
        for how, where, repaired in product(BYTES, ("first", "middle", "last"), (False, True)):

            def damage(copy: Path, name: str = name, how: str = how, where: str = where, fix: bool = repaired) -> None:
                state = Lying(roots(copy)[at])
                state.write(name, pages(state.read(name), how, where, random.Random(f"{how} {where}")))
                (state.repair if fix else state.save)()

            yield Case(f"{kind}: {how} {where}{', repaired' if repaired else ''}", damage, repaired, gone)
        for other, repaired in product(names, (False, True)):
            if other != name and (names.index(other) + number) % 3 == 0:

                def swap(copy: Path, name: str = name, other: str = other, fix: bool = repaired) -> None:
                    state = Lying(roots(copy)[at])
                    one, two = state.read(name), state.read(other)
                    state.write(name, two)
                    state.write(other, one)
                    (state.repair if fix else state.save)()

                def both(copy: Path, name: str = name, other: str = other) -> None:
                    state = Lying(roots(copy)[at])
                    state.remove(name)
                    state.remove(other)

                said = f"{kind}: swapped with {kind_of(other)}{', repaired' if repaired else ''}"
                yield Case(said, swap, repaired, None if is_entry(name) or is_entry(other) else both)


def log_cases(root: Path, at: int) -> Iterator[Case]:
    """Damage to the bytes of the log itself."""
    for number, path in enumerate(Lying(root).logs()):
        for how, where in product(BYTES, ("first", "middle", "last")):

            def damage(copy: Path, name: str = path.name, how: str = how, where: str = where) -> None:
                log = roots(copy)[at] / "log" / name
                log.write_bytes(pages(log.read_bytes(), how, where, random.Random(f"log {how} {where}")))

            # what follows the last entry counts as if a crash had cut it short
            yield Case(f"{at}: log {number}: {how} {where}", damage, repaired=how == "longer")


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
    whole = Lying(root)
    for number, name in enumerate(whole.names()):
        arrays, kind = read_arrays(whole.read(name)), f"{at}: {kind_of(name)} {number}"
        for key, how in product(arrays or (), ARRAY_DAMAGE):

            def damage(copy: Path, name: str = name, key: str = key, how: str = how) -> None:
                state = Lying(roots(copy)[at])
                held = read_arrays(state.read(name)) or {}
                changed = ARRAY_DAMAGE[how](held.pop(key), random.Random(f"{key} {how}"))
                state.write(name, state.as_run(held if changed is None else {**held, key: changed}))
                state.repair()

            yield Case(f"{kind}: {key} {how}", damage, repaired=True)
        if arrays is not None:

            def more(copy: Path, name: str = name) -> None:
                state = Lying(roots(copy)[at])
                held = read_arrays(state.read(name)) or {}
                state.write(name, state.as_run({**held, "more": np.arange(5), "level0.attributes": np.arange(3)}))
                state.repair()

            yield Case(f"{kind}: more arrays", more, repaired=True)


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


OF_TABLES = {"shorter table", "longer table", "no rows", "no metadata", "other metadata"}


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
    whole = Lying(root)
    for number, name in enumerate(whole.names()):
        data, kind = whole.read(name), f"{at}: {kind_of(name)} {number}"
        if data.startswith((b"ARROW1", few_rows.MARK)) or is_joint(name):
            continue
        for part, held in enumerate(read_tables(data)):
            whole_table = [(held.column_names[0], how) for how in TABLE_DAMAGE if how in OF_TABLES]
            for column, how in [
                *product(held.column_names, [how for how in TABLE_DAMAGE if how not in OF_TABLES]),
                *whole_table,
            ]:

                def damage(
                    copy: Path, name: str = name, part: int = part, column: str = column, how: str = how
                ) -> None:
                    state = Lying(roots(copy)[at])
                    now = read_tables(state.read(name))
                    now[part] = TABLE_DAMAGE[how](now[part], column, random.Random(f"{part} {column} {how}"))
                    state.write(name, streams(now))
                    state.repair()

                yield Case(f"{kind}: table {part}: {column} {how}", damage, repaired=True)


def text_cases(root: Path, at: int) -> Iterator[Case]:
    """Something else, or nothing, in every place of rows that are written as text; checksums repaired."""
    whole = Lying(root)
    for name in whole.names():
        if is_joint(name) or not whole.read(name).startswith(few_rows.MARK):
            continue
        for path, (number, word) in product(places(_rows_in(whole, name)), enumerate(WORDS)):

            def damage(copy: Path, name: str = name, path: tuple[Any, ...] = path, word: Any = word) -> None:
                state = Lying(roots(copy)[at])
                rows = _rows_in(state, name)
                put(rows, path, word)
                state.write(name, few_rows.MARK + json.dumps(rows).encode())
                state.repair()

            yield Case(f"{at}: rows of {name}: {'.'.join(map(str, path))}: {word!r} ({number})", damage, repaired=True)


def _rows_in(state: Lying, name: str) -> Any:
    return json.loads(state.read(name).removeprefix(few_rows.MARK))


def put(body: Any, path: tuple[Any, ...], word: Any) -> None:
    """Let something else stand in a place of plain JSON data, or nothing."""
    for step in path[:-1]:
        body = body[step]
    if word == "missing":
        del body[path[-1]]
    else:
        body[path[-1]] = word


WORDS: tuple[Any, ...] = (None, "", "x", -1, 0, 2**40, 2**70, 1.5, True, [], {"x": 7}, "missing", "\ud800")


def entry_cases(root: Path, at: int) -> Iterator[Case]:
    """Something else, or nothing, in every place of what each version says; the digest repaired."""
    for entry, header in Lying(root).headers.items():
        for path, (number, word) in product(places(header), enumerate(WORDS)):

            def damage(copy: Path, entry: str = entry, path: tuple[Any, ...] = path, word: Any = word) -> None:
                state = Lying(roots(copy)[at])
                put(state.headers[entry], path, word)
                state.save()

            yield Case(f"{at}: {entry}: {'.'.join(map(str, path))}: {word!r} ({number})", damage, repaired=True)


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
        for kind in (file_cases, log_cases, array_cases, table_cases, text_cases, entry_cases):
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


def met(folder: Path, name: str, damage: Callable[[Path], None], seconds: float) -> tuple[str, str]:
    """What becomes of a damaged copy of a state that somebody uses."""
    copy = folder / "damaged"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder / name, copy)
    damage(copy)
    # work is counted, not time: other processes may keep this one waiting
    signal.setitimer(signal.ITIMER_PROF, seconds)
    became = used(name, copy)
    signal.setitimer(signal.ITIMER_PROF, 0)
    return became


def outcome(folder: Path, name: str, number: int, seconds: float) -> dict[str, Any]:
    """Make one damaged copy and use it; `unread` is a file that might as well be missing."""
    case = cases(folder / name)[number]
    became, said = met(folder, name, case.damage, seconds)
    if became == "answered" and not case.repaired and case.remove is not None:
        # whoever uses the state never asked for it: for the highest value while all lower ones stay, say
        became = "unread" if met(folder, name, case.remove, seconds)[0] == "answered" else became
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
