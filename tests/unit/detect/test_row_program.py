"""The compiled call of single rows is told where arrays lie, and a check notices when that is no longer so."""

from __future__ import annotations

import pyarrow as pa
import pytest

from holdstrue import load_rules
from holdstrue.detect.engine import Engine
from holdstrue.detect.one_row import RowProgram
from holdstrue.kernels import one_row as kernels
from holdstrue.plan.compile import compile_rules


def test_arrays_that_were_replaced_unsaid_are_noticed() -> None:
    schema = pa.schema({"id": pa.int64(), "zip": pa.string(), "city": pa.string()})
    engine = Engine(compile_rules(load_rules(["zip -> city"]), "data", {"data": schema}), {"data": schema})
    program = RowProgram(engine, "data", ["id"])
    program.apply(program.write((1, "a", "x")), kernels.INSERT, 10)
    program.check()
    rows = engine.tables["data"].rows
    rows.alive = rows.alive.copy()
    with pytest.raises(AssertionError, match="arrays were replaced"):
        program.check()
    engine.generation += 1
    program.check()
