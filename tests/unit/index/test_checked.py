"""Arrays out of a state: what is missing, of another type or shape, out of bounds or circular is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdstrue.errors import StateError
from holdstrue.index.arrays import Numbering, all_true
from holdstrue.index.checked import Checked
from holdstrue.index.grouping import Grouping
from holdstrue.index.rows import Rows
from holdstrue.index.run import Run
from holdstrue.kernels import bounds


def ints(*values: int) -> Any:
    return np.array(values, dtype=np.int32)


ARRAYS: dict[str, Any] = {
    "part.slots": ints(3, 1, 2, -1, -1),
    "part.lines": np.array([[1, 2], [3, 4]], dtype=np.int32),
    "part.flags": np.array([True, False]),
    "part.odd": np.array([1, 7], dtype=np.uint8).view(np.bool_),
    "part.sets": np.array([[5], [8]], dtype=np.uint64),
    "part.counts": np.array([2, 3]),
}


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda part: part.array("other", np.int32, (5,)), "it has no array 'part.other'"),
        (
            lambda part: part.array("slots", np.int64, (5,)),
            "'part.slots' holds int32 in the shape (5,), not int64 in (5)",
        ),
        (
            lambda part: part.array("slots", np.int32, (4,)),
            "'part.slots' holds int32 in the shape (5,), not int32 in (4)",
        ),
        (lambda part: part.array("slots", np.int32, (6,), grows=0), "not int32 in (6 or more)"),
        (lambda part: part.array("lines", np.int32, (4,)), "in the shape (2, 2)"),
        (lambda part: part.array("lines", np.int32, (2, 1), grows=0), "not int32 in (2 or more, 1)"),
        (lambda part: part.array("slots", np.int32, (2,), grows=0, fill=-1), "'part.slots' holds 2 at 2"),
        (lambda part: part.array("odd", np.bool_, (2,)), "'part.odd' holds 7 at 1, which is not from 0 to 1"),
        (lambda part: part.index("slots", -1, 2, 5), "'part.slots' holds 3 at 0, which is not from -1 to 2"),
        (lambda part: part.index("slots", 0, 3, 4), "'part.slots' holds -1 at 3, which is not from 0 to 3"),
        (lambda part: part.few("counts", 0, 2, 2), "'part.counts' holds 3 at 1"),
        (lambda part: part.few("counts", 0, 9, 1), "'part.counts' holds int64 in the shape (2,)"),
        (lambda part: part.flags("odd", 2), "'part.odd' holds 7 at 1"),
        (lambda part: part.sets("sets", np.array([7], dtype=np.uint64)), "part: 'sets' has members that there are not"),
        (lambda part: part.require(False, "no"), "the arrays are damaged: part: no"),
    ],
)
def test_what_does_not_fit_is_refused(read: Callable[[Checked], Any], said: str) -> None:
    with pytest.raises(StateError) as caught:
        read(Checked(ARRAYS).part("part"))
    assert said in caught.value.message


def test_what_fits_is_given_as_it_is() -> None:
    part = Checked(ARRAYS).part("part")
    assert part.index("slots", 1, 3, 3, fill=-1) is ARRAYS["part.slots"]
    assert part.array("lines", np.int32, (1, 2), grows=0) is ARRAYS["part.lines"]
    assert part.few("counts", 0, 3, 2) == [2, 3]
    assert part.flags("flags", 2).tolist() == [True, False]
    assert part.sets("sets", np.array([13], dtype=np.uint64)) is ARRAYS["part.sets"]
    assert part.sets("sets", np.array([7], dtype=np.uint64), used=1) is ARRAYS["part.sets"]
    assert "slots" in part
    assert "more" not in part


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_bounds_of_long_arrays(dtype: Any) -> None:
    values = np.full(10_000, 5, dtype=dtype)
    assert bounds.outside(values, 5, 5) == -1
    for at in (0, 4095, 4096, 9999):
        for wrong in (4, 6):
            values[at] = wrong
            assert bounds.outside(values, 5, 5) == at
        values[at] = 5


def test_order_of_long_arrays() -> None:
    values = np.arange(10_000, dtype=np.int32)
    assert bounds.unsorted(values, True) == bounds.unsorted(values[:1], True) == bounds.unsorted(values[:0], True) == -1
    for at in (1, 4096, 4097, 9999):
        before = values[at]
        values[at] = values[at - 1]
        assert bounds.unsorted(values, True) == at
        assert bounds.unsorted(values, False) == -1
        values[at] -= 1
        assert bounds.unsorted(values, False) == at
        values[at] = before


def numbering() -> Numbering:
    numbers = Numbering()
    numbers.assign(np.zeros(40, dtype=np.uint64), np.arange(40, dtype=np.uint64), all_true(40))
    return numbers


def refused(part: Any, arrays: dict[str, Any], *more: Any) -> str:
    with pytest.raises(StateError) as caught:
        part.restore(Checked(arrays), *more)
    return str(caught.value.message)


def test_a_table_of_numbers_has_free_cells_and_known_numbers() -> None:
    whole = numbering().snapshot()
    again = Numbering()
    again.restore(Checked(whole))
    assert again.find(np.zeros(2, np.uint64), np.array([7, 99], np.uint64), all_true(2)).tolist() == [7, -1]
    full = np.full_like(whole["cells"], 1 << 32)
    beyond = np.where(whole["cells"] == 0, whole["cells"], np.uint64(41 << 32))
    nobody = whole["cells"].copy()
    nobody[np.flatnonzero(nobody == 0)[0]] = 7
    for cells in (full, beyond, nobody, np.zeros_like(full)):
        assert "its cells do not hold the numbers below 40" in refused(Numbering(), whole | {"cells": cells})
    assert "96 cells for 40 keys" in refused(Numbering(), whole | {"cells": np.resize(whole["cells"], 96)})
    assert "64 cells for 49 keys" in refused(Numbering(), whole | {"used": np.array([49])})
    assert "'used' holds -1" in refused(Numbering(), whole | {"used": np.array([-1])})


def test_groups_are_those_there_are() -> None:
    grouping = Grouping()
    grouping.insert(0, (np.zeros(3, np.uint64), np.array([7, 9, 7], np.uint64), all_true(3)))
    whole = grouping.snapshot(3)
    again = Grouping()
    again.restore(Checked(whole), 3)
    assert again.t_groups[:3].tolist() == [0, 1, 0]
    assert "'t' holds 2 at 1, which is not from -1 to 1" in refused(Grouping(), whole | {"t": ints(0, 2, 1)}, 3)
    assert "'t' holds int32 in the shape (2,)" in refused(Grouping(), whole | {"t": ints(0, 1)}, 3)


def test_rows_are_alive_and_found_once() -> None:
    schema, values = pa.schema([("id", pa.int64())]), pa.table({"id": [1, 2, 3]})
    rows = Rows(schema, keyed=True)
    rows.append(values, (np.zeros(3, np.uint64), np.array([1, 2, 3], np.uint64)), [])
    rows.remove(ints(1), (np.zeros(1, np.uint64), np.array([2], np.uint64)))
    whole = rows.snapshot()
    again = Rows(schema, keyed=True)
    again.restore(Checked(whole), values)
    assert (again.size, again.living, again.living_slots().tolist()) == (3, 2, [0, 2])

    def told(values: pa.Table = values, **arrays: Any) -> str:
        return refused(Rows(schema, keyed=True), whole | arrays, values)

    def places(*slots: int) -> Any:
        return np.concatenate([ints(*slots), whole["current"][3:]])

    assert "3 rows, and the values of 2" in told(values.slice(0, 2))
    assert "not 3 of its rows are alive" in told(counts=np.array([3, 3]))
    assert "'alive' holds 2 at 0" in told(alive=np.array([2, 0, 1], dtype=np.uint8))
    for wrong in (places(0, 0, 2), places(0, 1, 2), places(2, -1, 2), places(0, -1, -1)):
        assert "its keys are not those of 2 living rows" in told(current=wrong)
    assert "'current' holds 3 at 2" in told(current=places(0, -1, 3))


def test_runs_lie_group_by_group() -> None:
    group, slots = ints(0, 0, 1, 0, 1), np.arange(5, dtype=np.int32)
    run = Run.build(group, np.array([3, 1, 1, 2, 2]), np.array([30, 10, 10, 20, 20]), slots, rising=True)
    whole = run.snapshot()

    def told(**arrays: Any) -> str:
        with pytest.raises(StateError) as caught:
            Run.restore(Checked(whole | arrays), 5, 5, rising=True)
        return str(caught.value.message)

    assert Run.restore(Checked(whole), 5, 5, rising=True).starts.tolist() == [0, 3, 5]
    apart = "its groups do not lie one after the other"
    assert (
        apart in told(starts=ints(0, 4, 4)) and apart in told(starts=ints(1, 3, 5)) and apart in told(groups=ints(1, 0))
    )
    assert apart in told(splits=ints(4, 5)) and apart in told(starts=ints(0, 5), groups=ints(0), splits=ints(0, 3))
    assert "'slots' holds 5 at 4" in told(slots=ints(0, 1, 2, 3, 5))
    assert "6 rows instead of 5" in told(slots=ints(0, 1, 2, 3, 4, 4))
    assert "its chains run the other way" in told(rising=np.array([0]))
    assert "'fence_low' holds int64 in the shape (0,)" in told(fence_low=whole["fence_low"][:0])
