"""Changes of few keys, many times in one batch: what they come to is what following them one by one comes to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdstrue.data.changes import DELETE, INSERT, UPDATE, UPSERT, Changes
from holdstrue.detect.engine import Incoming
from holdstrue.detect.resolve import OnConflict, net, resolve
from holdstrue.errors import ChangeError
from holdstrue.index.rows import Rows
from holdstrue.kernels import netting
from holdstrue.typing import U64

STEPS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([INSERT, UPDATE, DELETE, UPSERT])), max_size=12)
THERE = st.sets(st.integers(0, 4))


def followed(steps: list[tuple[int, int]], there: set[int], on_conflict: str) -> dict[int, int | None] | int:
    """By key its last image (a position, or None where it is gone), or the place of the first misfit that is an error.

    Keys that nothing happened to, and those that came and went within the batch, are left out.
    """
    now: dict[int, int | str] = dict.fromkeys(there, "stored")
    for at, (key, op) in enumerate(steps):
        fits = op == UPSERT or (key in now) == (op != INSERT)
        if not fits and on_conflict == "error":
            return at
        if not fits and (on_conflict == "ignore" or op == DELETE):
            continue
        if op == DELETE:
            del now[key]
        else:
            now[key] = at
    keys = {key for key, _ in steps} & (there | now.keys())
    found = {key: now.get(key) for key in keys if now.get(key) != "stored"}
    return {key: image if isinstance(image, int) else None for key, image in found.items()}


@given(steps=STEPS, there=THERE, on_conflict=st.sampled_from(["error", "upsert", "ignore"]))
def test_net(steps: list[tuple[int, int]], there: set[int], on_conflict: OnConflict) -> None:
    keys = [key for key, _ in steps]
    rows = pa.table({"id": pa.array(keys, pa.int64())})
    changes = Changes(rows, np.array([op for _, op in steps], dtype=np.uint8))
    slots = np.array([100 + key if key in there else -1 for key in keys], dtype=np.int32)
    number = np.array([list(dict.fromkeys(keys)).index(key) for key in keys], dtype=np.int32)
    wanted = followed(steps, there, on_conflict)
    if isinstance(wanted, int):
        with pytest.raises(ChangeError, match=f"id={keys[wanted]}"):
            net(changes, rows, ["id"], slots, number, on_conflict)
        return
    found = net(changes, rows, ["id"], slots, number, on_conflict)
    assert {keys[at]: None if image < 0 else image for _, image, at in found.tolist()} == wanted
    assert all(slot == (100 + keys[at] if keys[at] in there else -1) for slot, _, at in found.tolist())


@given(steps=STEPS, there=THERE, on_conflict=st.sampled_from(["error", "upsert", "ignore"]))
def test_net_once(steps: list[tuple[int, int]], there: set[int], on_conflict: OnConflict) -> None:
    """Where every key changes once, a batch is resolved by a kernel: to the rows, slots and numbers that `net` has."""
    once = list({key: (key, op) for key, op in steps}.values())
    rows = Rows(pa.schema({"id": pa.int64()}), keyed=True)

    def words(keys: list[int]) -> tuple[U64, U64]:
        return np.zeros(len(keys), np.uint64), np.array(keys, np.uint64)

    known = sorted(there)
    rows.append(pa.table({"id": pa.array(known, pa.int64())}), words(known), [])
    changes = Changes(
        pa.table({"id": pa.array([key for key, _ in once], pa.int64())}), np.array([op for _, op in once], np.uint8)
    )
    wanted = followed(once, there, on_conflict)

    def resolved() -> Incoming:
        return resolve(changes, rows, ["id"], lambda table: words(table.column("id").to_pylist()), on_conflict)

    if isinstance(wanted, int):
        with pytest.raises(ChangeError, match=f"id={once[wanted][0]}"):
            resolved()
        return
    part = resolved()
    came = [once[at][0] for at in range(len(once)) if wanted.get(once[at][0]) == at]
    assert part.values.column("id").to_pylist() == came
    assert part.old.tolist() == sorted(known.index(key) for key in wanted if key in there)
    assert part.updates.tolist() == [known.index(key) if key in there else -1 for key in came]
    assert part.numbers is not None and part.numbers.tolist() == part.updates.tolist()
    assert part.old_numbers is None or part.old_numbers.tolist() == part.old.tolist()


def test_operations_have_the_numbers_that_the_kernel_knows() -> None:
    assert (netting.INSERT, netting.UPDATE, netting.DELETE, netting.UPSERT) == (INSERT, UPDATE, DELETE, UPSERT)
